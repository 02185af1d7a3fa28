"""What sessions use: plain records of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Step:
    """What a session used between two looks. None: not known.

    `at`: its end, by the wall's clock; `seconds`: how long it is, by one that nobody sets. `cpu`:
    thousandths of a core, on average; `mem`: bytes at its end, without what the kernel may drop;
    `disk_read`, `disk_write`, `net_in`, `net_out`: bytes in it; `gpu`: percent of the time in which
    its GPUs were busy, on average over them; `gpu_mem`: bytes at its end.
    """

    session_id: str
    at: datetime
    seconds: float
    cpu: float | None = None
    mem: float | None = None
    disk_read: float | None = None
    disk_write: float | None = None
    net_in: float | None = None
    net_out: float | None = None
    gpu: float | None = None
    gpu_mem: float | None = None
