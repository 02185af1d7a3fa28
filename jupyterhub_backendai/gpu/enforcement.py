"""How hard each provider holds a share of a GPU, as far as the driver's documentation goes.

`hard` only where hardware or driver hold it from outside, for the session as a whole. Where that
was shown on a device as well, by `benchmarks/fgpu_enforcement`, it is in `VERIFIED`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType

from ..model.gpus import Enforcement, GpuDevice, ProviderName

HARD = Enforcement(memory="hard", compute="hard", faults="hard")
# An MPS client's own limits: a session of several processes has them several times, and one that
# crashes takes the others on its GPU with it. So much for both interfaces of MPS; what the newer
# one adds is that a session cannot raise its own.
_MPS = Enforcement(memory="soft", compute="soft", faults="none")

ENFORCEMENT = MappingProxyType[ProviderName, Enforcement](
    {
        "whole": HARD,
        "mig": HARD,
        "mps": _MPS,
        "mps2": _MPS,
        # Time slices: equal ones for all processes, whatever their share. Contexts are separate,
        # so that most faults, if not all, stay where they are.
        "memory": Enforcement(memory="hard", compute="none", faults="soft"),
        "advisory": Enforcement(memory="none", compute="none", faults="soft"),
        "simulated": Enforcement(),
    }
)
# With a limit on the cgroup as well, memory is held for the whole container.
MPS_LIMITED = Enforcement(memory="hard", compute="soft", faults="none")

LABELS = MappingProxyType[ProviderName, str](
    {
        "whole": "whole GPU",
        "mig": "MIG device",
        "mps": "MPS",
        "mps2": "cooperative MPS",
        "memory": "memory limit and time slices",
        "advisory": "advice only",
        "simulated": "simulated",
    }
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A run of `benchmarks/fgpu_enforcement` in which the labels stood.

    `model` is a pattern of the driver's name of the GPU, `driver` the release as 615 of 615.71,
    `date` as 2026-11-22. The run's own output is in BENCHMARKS.md; a test looks for it there.
    """

    provider: ProviderName
    model: str
    driver: int
    enforcement: Enforcement
    date: str


VERIFIED: tuple[Shown, ...] = ()


def is_verified(device: GpuDevice, driver: str | None) -> bool:
    """Whether a device's labels were shown on such a GPU, with the release of this driver's
    version (as 615.71.09, None where it is not known).

    A newer one counts for nothing: what one release holds, the next may have a way round.
    """
    release = (driver or "").partition(".")[0]
    return any(
        one.provider == device.provider
        and fnmatchcase(device.name, one.model)
        and str(one.driver) == release
        and not one.enforcement.lacking(device.enforcement)
        for one in VERIFIED
    )
