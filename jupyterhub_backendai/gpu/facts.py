"""What this machine can do to hold a share of a GPU, and why it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from .devices import Device
from .state import Failed, Known, known

CONTAINED = "the Hub runs in a container and does not see the machine's processes"
NOT_ROOT = "the Hub does not run as root"
NO_CGROUP_V2 = "the machine has no cgroup v2"
NO_LIMITS = "the driver has no memory limits for cgroups, which come with 615 (CUDA 13.4)"
NO_CONTROL = "the program nvidia-cuda-mps-control is not on this machine"
OLD_GPU = "the GPU is older than Volta"
OWN_MEMORY = 580  # the first driver whose older MPS needs nothing of the machine's /dev/shm
OPEN_MEMORY = (
    "by MPS of drivers before 580 sessions have the machine's /dev/shm, and can read, change and "
    "delete each other's shared memory there"
)
NO_RELEASE = "the driver does not tell its release"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A machine, for as far as providers depend on it.

    `root`: the Hub may set limits. `contained`: it does not see the machine's own processes.
    `dmem`: the kernel limits GPU memory. `mps`: the newest protocol of the machine's MPS control
    program, 0 where there is none; `unasked`: why nobody knows. `driver`: the driver's release,
    such as 615. `cuda`: the newest CUDA that it runs, such as (13, 4).
    """

    root: bool = False
    contained: bool = False
    cgroup_v2: bool = False
    dmem: bool = False
    mps: int = 0
    unasked: str = ""
    driver: int | None = None
    cuda: tuple[int, int] | None = None

    def why_no_limits(self, device: Device) -> str:
        """Why the memory of a cgroup on this device cannot be limited; "" where it can."""
        if reason := self._why_nothing():
            return reason
        if not self.cgroup_v2:
            return NO_CGROUP_V2
        answer = device.features.memory_limits
        # Nothing is found where no cgroup has limits of GPU memory yet: ours are the first.
        if isinstance(answer, Known) or (self.dmem and answer == Failed("NotFound")):
            return ""
        if isinstance(answer, Failed):
            return f"the driver does not tell the memory limits of a cgroup ({answer.error})"
        return NO_LIMITS

    def why_no_mps(self, device: Device) -> str:
        """Why MPS cannot be used on this device; "" where it can."""
        if reason := self._why_nothing():
            return reason
        if not self.mps:
            return self.unasked or NO_CONTROL
        capability = known(device.compute_capability)
        return OLD_GPU if capability is not None and capability < (7, 0) else ""

    @property
    def mps_clients(self) -> int:
        """How many programs MPS has on one GPU at most, by NVIDIA's documentation of it."""
        return 60 if self.cuda is not None and self.cuda >= (13, 1) else 48

    def why_open_memory(self) -> str:
        """Why sessions by MPS of older drivers (`mps2`) are at each other's shared memory; ""
        where they are not."""
        if self.driver is None:
            return f"{NO_RELEASE}, and {OPEN_MEMORY}"
        return OPEN_MEMORY if self.driver < OWN_MEMORY else ""

    def _why_nothing(self) -> str:
        if self.contained:
            return CONTAINED
        return "" if self.root else NOT_ROOT
