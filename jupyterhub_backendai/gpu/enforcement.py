"""How hard each provider holds a share of a GPU, as far as the driver's documentation goes.

`hard` only where hardware or driver hold it from outside, for the session as a whole. Nothing of
this was shown on a device by these providers themselves: `GpuDevice.verified` says so.
"""

from __future__ import annotations

from types import MappingProxyType

from ..model.gpus import Enforcement, ProviderName

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
