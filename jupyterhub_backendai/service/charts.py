"""What a session used, as the API tells it: now, on average, at its peak, and over time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from pydantic import Field

from ..model.gpus import Granted
from ..model.usage import FLOWS, KEPT, SIZES, Span, Step, Values, merged, percent, rates
from ..site.clock import utcnow
from ..site.runtime import Site
from ..store import Session
from .schemas import Part
from .usage import GpuUsage


class Amounts(Part):
    """By metric; null: not known. `cpu` in thousandths of a core, `mem` and `gpu_mem` in bytes,
    `gpu` in percent of the time that the GPUs were busy, the others in bytes a second."""

    cpu: float | None
    mem: float | None
    disk_read: float | None
    disk_write: float | None
    net_in: float | None
    net_out: float | None
    gpu: float | None
    gpu_mem: float | None


class Granting(Part):
    """What a session was granted: thousandths of cores, bytes, whether a GPU, bytes of its
    memory."""

    cpu: int
    mem: int
    gpu: bool
    gpu_mem: int | None


class Transferred(Part):
    """Bytes since the session started; null: not known."""

    disk_read: float | None
    disk_write: float | None
    net_in: float | None
    net_out: float | None


class Lines(Part):
    """A list for each metric, as long as that of the times; units as in `now`."""

    cpu: list[float | None]
    mem: list[float | None]
    disk_read: list[float | None]
    disk_write: list[float | None]
    net_in: list[float | None]
    net_out: list[float | None]
    gpu: list[float | None]
    gpu_mem: list[float | None]


class Percents(Part):
    """Percent of what was granted, a list for each metric; null: not known, or nothing granted.
    `gpu` is of the time of the whole GPUs, whatever share of them was granted."""

    cpu: list[float | None]
    mem: list[float | None]
    gpu: list[float | None]
    gpu_mem: list[float | None]


class Series(Part):
    """Steps, oldest first."""

    resolution: int = Field(description="Seconds of one step; the first and last may be shorter.")
    times: list[datetime] = Field(description="When each step ended.")
    mean: Lines
    peak: Lines
    percent: Percents = Field(description="`mean`, of what was granted.")


class SessionUsage(GpuUsage):
    """What a session uses of what it has, and what it used before."""

    has: Granting
    now: Amounts | None = Field(description="In the last step; null where there is none of now.")
    average: Amounts = Field(description="Since the session started.")
    peak: Amounts = Field(description="The highest of all steps, of 15 seconds or longer.")
    totals: Transferred
    series: Series


async def usage_of(
    site: Site,
    session: Session,
    granted: Sequence[Granted],
    gpus: GpuUsage,
    now: Step | None,
    since: datetime | None,
) -> SessionUsage:
    """All that is known of what a session used; `since`: where the series begins, the start of the
    session without."""
    began = session.running_at or session.submitted_at
    first = began if since is None else max(since, began)
    size = size_for(first, session.ended_at or utcnow(), utcnow())
    totals, spans = await asyncio.gather(
        site.db(site.store.usage_totals, session.id), _spans(site, session.id, size, first)
    )
    slots = session.slots
    has = Granting(
        cpu=slots.cpu, mem=slots.mem, gpu=bool(granted),
        gpu_mem=sum(one.memory for one in granted) if granted else None,
    )  # fmt: skip
    return SessionUsage(
        **gpus.model_dump(),
        has=has,
        now=None if now is None else Amounts(**rates(now)),
        average=Amounts(**totals.average()),
        peak=Amounts(**{name: totals.peak.get(name) for name in Amounts.model_fields}),
        totals=Transferred(**{name: totals.sums.get(name) for name in FLOWS}),
        series=Series(
            resolution=size,
            times=[span.at for span in spans],
            mean=_lines([span.mean for span in spans]),
            peak=_lines([span.peak for span in spans]),
            percent=_percents(spans, has),
        ),
    )  # fmt: skip


def whole_of(has: Granting) -> dict[str, float | None]:
    """By metric, what all of it is."""
    gpu = 100.0 if has.gpu else None
    return {"cpu": has.cpu, "mem": has.mem, "gpu": gpu, "gpu_mem": has.gpu_mem}


def size_for(first: datetime, last: datetime, now: datetime) -> int:
    """The finest size of steps that is still kept of all of that time, and makes no more of them
    than one of that size is kept long."""
    for size in SIZES[:-1]:
        room = timedelta(seconds=KEPT[size])
        if now - first <= room and last - first <= room:
            return size
    return SIZES[-1]


async def _spans(site: Site, session_id: str, size: int, first: datetime) -> list[Span]:
    """The steps of a size; at their end those finer ones that no such step was made of yet."""
    found = await site.db(site.store.usage_spans, session_id, size, first)
    finer = SIZES[: SIZES.index(size)][::-1]
    rest: list[Span] = []
    end = found[-1].at if found else first
    for small in finer:
        more = await site.db(site.store.usage_spans, session_id, small, end)
        rest += more
        end = more[-1].at if more else end
    return found + [merged(together) for together in _by_size(rest, size)]


def _by_size(spans: Iterable[Span], size: int) -> list[list[Span]]:
    """Those that end in the same step of a size, together."""
    return [list(group) for _, group in groupby(spans, lambda s: -(-s.at.timestamp() // size))]


def _lines(rows: Sequence[Values]) -> Lines:
    return Lines(**{name: [row.get(name) for row in rows] for name in Lines.model_fields})


def _percents(spans: Sequence[Span], has: Granting) -> Percents:
    of = whole_of(has)
    return Percents(**{
        name: [percent(span.mean.get(name), of[name]) for span in spans]
        for name in Percents.model_fields
    })  # fmt: skip
