"""How much sessions use of their GPUs now, as NVIDIA's driver says, for all who ask. What is not
known is null."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from ..gpu import Usage
from ..model.gpus import Granted
from ..model.status import Status
from ..site.clock import utcnow
from ..site.runtime import Site
from ..store import Kernel, Session
from .schemas import Part

SAME = 2.0  # seconds for which one reading is good enough, for all who ask
NOT_RUNNING = "It does not run."
NO_GPUS = "It has no GPU."
SIMULATED = "Its GPUs are simulated, so there is nothing to be measured."
UNKNOWN = "The driver does not tell whose this is."


class GpuUse(Part):
    """A session on one of its GPUs or MIG devices."""

    uuid: str
    simulated: bool = Field(description="There is no such GPU.")
    memory: int = Field(description="Bytes that it was granted.")
    memory_used: int | None = Field(description="Bytes that it uses; null: not known.")
    busy: int | None = Field(
        description="Percent of the time since the last reading in which something of it ran on "
        "the GPU, as the driver's samples say; null: not known."
    )


class GpuUsage(Part):
    """What a session uses of its GPUs now."""

    gpus: list[GpuUse]
    reason: str | None = Field(description="Why something is not known; null where all is.")
    sampled_at: datetime | None = Field(description="When it was looked; null: it was not.")


class Usages:
    """Readings of the driver, one for all who ask at about the same time: each covers the samples
    since the one before. While sessions are sampled `every` so many seconds, those readings are
    for everybody: one in between would take its samples from the next."""

    def __init__(self) -> None:
        self.every: float | None = None
        self._last: tuple[float, datetime, Usage] | None = None
        self._reading: asyncio.Task[tuple[float, datetime, Usage]] | None = None

    async def of(
        self, site: Site, session: Session, kernels: Sequence[Kernel], granted: Sequence[Granted]
    ) -> GpuUsage:
        """What a session uses now of the GPUs that it was granted."""
        container = next((one.container_id for one in kernels if one.container_id), None)
        if not granted:
            return _nothing(NO_GPUS)
        if session.status is not Status.RUNNING or container is None:
            return _nothing(NOT_RUNNING)
        if all(one.simulated for one in granted):
            return GpuUsage(
                gpus=[_use(one, None, None) for one in granted], reason=SIMULATED, sampled_at=None
            )
        _, at, usage = await self._look(site)
        parts = usage.of(container, [one.uuid for one in granted]).parts
        gpus = [
            _use(one, part.memory_bytes, part.busy)
            for one, part in zip(granted, parts, strict=True)
        ]
        unknown = any(one.memory_used is None or one.busy is None for one in gpus)
        reason = (usage.absence.reason if usage.absence else UNKNOWN) if unknown else None
        return GpuUsage(gpus=gpus, reason=reason, sampled_at=at)

    async def seen(self, site: Site) -> Usage:
        """The last reading, if it is good enough, else one of now."""
        return (await self._look(site))[2]

    async def read(self, site: Site) -> Usage:
        """A reading of now, which is that of all who ask soon."""
        return (await self._read(site))[2]

    async def _look(self, site: Site) -> tuple[float, datetime, Usage]:
        good = SAME if self.every is None else 2 * self.every + SAME
        if self._last is not None and time.monotonic() - self._last[0] < good:
            return self._last
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read(site))
        return await asyncio.shield(self._reading)

    async def _read(self, site: Site) -> tuple[float, datetime, Usage]:
        usage = await site.gpus.usage(await site.db(site.store.live_containers))
        self._last = time.monotonic(), utcnow(), usage
        return self._last


def _use(granted: Granted, memory: int | None, busy: int | None) -> GpuUse:
    return GpuUse(
        uuid=granted.uuid, simulated=granted.simulated, memory=granted.memory, memory_used=memory,
        busy=busy,
    )  # fmt: skip


def _nothing(reason: str) -> GpuUsage:
    return GpuUsage(gpus=[], reason=reason, sampled_at=None)
