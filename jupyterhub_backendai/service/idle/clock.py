"""A clock that only goes forward, and as fast as time does.

The wall's clock may be set, and nobody's session is to be ended for that. Within one run of the
machine this one goes by the time since the machine was started, the service's own restarts
included. Across a restart of the machine there is only the wall's clock to go by.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from ...site.clock import utcnow
from ...store import ClockRecord

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)  # goes on while the machine sleeps


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except FileNotFoundError:  # no Linux
        return ""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where times come from."""

    wall: Callable[[], datetime] = utcnow
    boot_time: Callable[[], float] = _boot_time
    boot_id: Callable[[], str] = _boot_id


class SteadyClock:
    """Goes on from where `noted` says that it was."""

    def __init__(self, noted: ClockRecord | None, sources: Sources) -> None:
        self._sources = sources
        self._boot_id = self._sources.boot_id()
        boot, wall = self._sources.boot_time(), self._sources.wall().timestamp()
        if noted is None:
            time = wall
        elif noted.boot_id and noted.boot_id == self._boot_id:
            time = noted.time + max(0.0, boot - noted.boot_time)
        else:
            time = noted.time + max(0.0, wall - noted.wall)
        self._ahead = time - boot

    def now(self) -> float:
        """The time in seconds."""
        return self._ahead + self._sources.boot_time()

    @property
    def wall_now(self) -> datetime:
        """What the wall's clock says."""
        return self._sources.wall()

    def wall(self, at: float) -> datetime:
        """What the wall's clock will say at a time, if nobody sets it."""
        return self._sources.wall() + timedelta(seconds=at - self.now())

    def of(self, wall: datetime) -> float:
        """The time at which the wall's clock said this, if nobody has set it since."""
        return self.now() - (self._sources.wall() - wall).total_seconds()

    def record(self) -> ClockRecord:
        """What is to be noted of it."""
        wall = self._sources.wall().timestamp()
        return ClockRecord(self.now(), wall, self._sources.boot_time(), self._boot_id)
