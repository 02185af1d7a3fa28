"""What there is to know of GPUs, as records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .driver import Absence
from .state import Answer, NotSupported

# Cores (FP32 lanes) in a multiprocessor, by compute capability; NVML tells cores only.
_CORES_OF_MAJOR = {3: 192, 5: 128, 7: 64, 9: 128, 10: 128, 11: 128, 12: 128}
_CORES = {(6, 0): 64, (6, 1): 128, (6, 2): 128, (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128}


class ComputeMode(IntEnum):
    """Who may make contexts on a device; the numbers are NVML's."""

    DEFAULT = 0
    EXCLUSIVE_THREAD = 1
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


@dataclass(frozen=True, slots=True)
class MigMode:
    """Whether the device is divided now, and after its next reset."""

    current: bool
    pending: bool


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A part of a divided device. `profile` is as `1g.10gb`; memory in bytes."""

    uuid: str
    parent: str
    profile: Answer[str]
    total_bytes: Answer[int]
    multiprocessors: Answer[int]
    gpu_instance: Answer[int]
    compute_instance: Answer[int]


@dataclass(frozen=True, slots=True)
class Features:
    """What the driver offers on a device; an `Answer` says also why it does not.

    `memory_limits`: GPU memory limits by cgroup answer for the cgroup of this process.
    `mps_processes`: clients of MPS are listed by themselves.
    `process_utilisation`: the driver samples single processes (there may be no samples now).
    """

    memory_limits: Answer[bool]
    mps_processes: Answer[bool]
    process_utilisation: Answer[bool]


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU. `uuid` is what to know it by: `index` is its place in this reading only, and not
    CUDA's. Memory in bytes; `reserved_bytes` is the driver's own part of `total_bytes`."""

    uuid: str
    index: int
    name: Answer[str]
    total_bytes: Answer[int]
    reserved_bytes: Answer[int]
    multiprocessors: Answer[int]
    compute_capability: Answer[tuple[int, int]]
    compute_mode: Answer[ComputeMode]
    mig: Answer[MigMode]
    mig_devices: tuple[MigDevice, ...]
    features: Features


@dataclass(frozen=True, slots=True)
class LostDevice:
    """A GPU, or a part of one where there is a `parent`, that is or was there and cannot be used.

    `uuid` None is one that never told it; `error` is NVML's name, or `NotListed`.
    """

    uuid: str | None
    index: int
    error: str
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All GPUs of this machine at one moment; `absence` says why there is none.

    `initialisations` grows whenever the driver was initialised anew. `cgroup_v2` and
    `dmem_controller` are of the kernel: what memory limits by cgroup stand on.
    """

    devices: tuple[Device, ...] = ()
    lost: tuple[LostDevice, ...] = ()
    driver_version: Answer[str] = NotSupported("no driver")
    cuda_version: Answer[tuple[int, int]] = NotSupported("no driver")
    absence: Absence | None = None
    initialisations: int = 0
    cgroup_v2: bool = False
    dmem_controller: bool = False

    def device(self, uuid: str) -> Device | None:
        """The device of that UUID, if it can be used."""
        return next((device for device in self.devices if device.uuid == uuid), None)


def cores_per_multiprocessor(capability: tuple[int, int]) -> int | None:
    """FP32 cores in one multiprocessor, None for a generation that is not known here."""
    return _CORES.get(capability) or _CORES_OF_MAJOR.get(capability[0])
