"""Time as tests have it pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jupyterhub_backendai.service.dropping import Drops
from jupyterhub_backendai.service.idle.clock import Sources
from jupyterhub_backendai.site.clock import utcnow


@dataclass
class Time:
    """Time as a test has it pass."""

    boot: float = 1000.0
    wall: datetime = field(default_factory=utcnow)
    boot_id: str = "one"

    def passes(self, seconds: float) -> None:
        self.boot += seconds
        self.wall += timedelta(seconds=seconds)

    def is_set(self, seconds: float) -> None:
        """Somebody sets the wall's clock."""
        self.wall += timedelta(seconds=seconds)

    @property
    def sources(self) -> Sources:
        return Sources(lambda: self.wall, lambda: self.boot, lambda: self.boot_id)

    @property
    def drops(self) -> Drops:
        """When hibernated sessions are dropped, as a process knows it that has just begun."""
        return Drops(lambda: self.boot, lambda: self.wall)
