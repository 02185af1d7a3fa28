"""GPUs of this machine: what there is, how sessions are given it, and which container uses it.

`Gpus` is the door for whoever starts sessions, `Nvml` that to the driver alone. What blocks runs on
threads of its own, and never on an event loop.
"""

from .devices import (
    ComputeMode,
    Device,
    Features,
    Inventory,
    LostDevice,
    MigDevice,
    MigMode,
)
from .driver import Absence, Absent
from .errors import GpuError
from .machine import Gpus
from .nvml import Nvml
from .offers import simulated
from .owners import Whose
from .questions import Process
from .state import Answer, Failed, Known, NotSupported, known
from .usage import ContainerUsage, DeviceUsage, PartUsage, Unattributed, Usage, Utilisation

__all__ = [
    "Absence",
    "Absent",
    "Answer",
    "ComputeMode",
    "ContainerUsage",
    "Device",
    "DeviceUsage",
    "Failed",
    "Features",
    "GpuError",
    "Gpus",
    "Inventory",
    "Known",
    "LostDevice",
    "MigDevice",
    "MigMode",
    "NotSupported",
    "Nvml",
    "PartUsage",
    "Process",
    "Unattributed",
    "Usage",
    "Utilisation",
    "Whose",
    "known",
    "simulated",
]
