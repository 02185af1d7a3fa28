"""A GPU of one's own: the device is the limit."""

from __future__ import annotations

from collections.abc import Sequence

from ..devices import ComputeMode
from ..writes import DriverWrites
from .base import Grants, Provider


class TimeSliced(Provider):
    """GPUs on which programs have contexts of their own, as many as they like."""

    def __init__(self, driver: DriverWrites) -> None:
        self._driver = driver

    async def ready(self, devices: Sequence[str]) -> None:
        for uuid in devices:
            await self._driver.set_compute_mode(uuid, ComputeMode.DEFAULT)

    async def prepare(self, session: str, granted: Grants) -> None:
        await self.ready([one.uuid for one in granted])


class Whole(TimeSliced):
    """Whole GPUs."""

    name = "whole"
