"""GPUs of this machine: what there is, and which container uses how much of it.

`Nvml` is the door. Everything else here runs on its one thread, and never on an event loop.
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
from .nvml import Nvml
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
]
