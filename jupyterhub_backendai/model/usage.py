"""What sessions use of what they were granted: readings of counters, and steps between them.

Units: `cpu` in thousandths of a core, `mem` and `gpu_mem` in bytes, `gpu` in percent of time, and
what goes over disks and networks in bytes: of a step the bytes in it, of a span bytes a second.
What is not known is None, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

FLOWS = ("disk_read", "disk_write", "net_in", "net_out")
METRICS = ("cpu", "mem", *FLOWS, "gpu", "gpu_mem")
SIZES = (15, 300, 3600)  # seconds of stored steps, from the finest on
KEPT = {15: 3600, 300: 2 * 86400, 3600: 60 * 86400}  # seconds that stored steps are kept, by size

Values = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of a container at one moment: `at` by the monotonic clock, in seconds; `cpu` in
    seconds of all cores together, `mem` in bytes (what may be dropped of the page cache left out),
    the others in bytes, all but `mem` since it started. `life` is another one once it was started
    again."""

    at: float
    life: str
    cpu: float | None = None
    mem: int | None = None
    disk_read: int | None = None
    disk_write: int | None = None
    net_in: int | None = None
    net_out: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What a session used between two readings: `at` is the end by the wall clock, in UTC,
    `seconds` the length by the monotonic clock. `cpu` is the mean in thousandths of a core, `mem`
    and `gpu_mem` bytes at the end, `gpu` percent of the time that the granted GPUs were busy (the
    mean over them), the others bytes in the step."""

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


@dataclass(frozen=True, slots=True)
class Span:
    """One or several steps that follow each other, as they are stored: the mean and the peak of
    each metric; those of disks and networks in bytes a second."""

    session_id: str
    at: datetime
    seconds: float
    mean: Values
    peak: Values


@dataclass(frozen=True, slots=True)
class Totals:
    """A session since its first step. Of each metric: `sums` of value times seconds (bytes, for
    those of disks and networks), `seconds` in which it was known, and the `peak`."""

    sums: Values = field(default_factory=dict)
    seconds: Values = field(default_factory=dict)
    peak: Values = field(default_factory=dict)

    def average(self) -> dict[str, float | None]:
        """The mean of each metric over the time in which it was known."""
        found: dict[str, float | None] = {}
        for metric in METRICS:
            total, seconds = self.sums.get(metric), self.seconds.get(metric)
            found[metric] = total / seconds if total is not None and seconds else None
        return found


def percent(used: float | None, of: float | None) -> float | None:
    """What is used of what was granted, in percent; None where either is not known."""
    return None if used is None or not of else 100.0 * used / of


def step_between(
    session_id: str, before: Reading, now: Reading, at: datetime, gpu: Values
) -> Step | None:
    """The step from one reading to the next; None where they are of different starts of the
    container, or at the same moment. `gpu`: values of `gpu` and `gpu_mem`."""
    seconds = now.at - before.at
    if before.life != now.life or seconds <= 0:
        return None
    grown: dict[str, float | None] = {}
    for metric in ("cpu", *FLOWS):
        old, new = getattr(before, metric), getattr(now, metric)
        grown[metric] = None if old is None or new is None else new - old
    if any(value is not None and value < 0 for value in grown.values()):
        return None  # it was started again: what it did before that is not known
    cpu = grown.pop("cpu")
    return Step(
        session_id, at, seconds,
        cpu=None if cpu is None else 1000 * cpu / seconds, mem=now.mem,
        gpu=gpu.get("gpu"), gpu_mem=gpu.get("gpu_mem"), **grown,
    )  # fmt: skip


def rates(step: Step) -> dict[str, float | None]:
    """The metrics of a step, those of disks and networks in bytes a second."""
    found: dict[str, float | None] = {name: getattr(step, name) for name in METRICS}
    for name in FLOWS:
        value = found[name]
        found[name] = None if value is None else value / step.seconds
    return found


def span_of(step: Step) -> Span:
    """A step as it is stored."""
    values = rates(step)
    return Span(step.session_id, step.at, step.seconds, values, values)


def step_of(span: Span) -> Step:
    """A stored step as it was, or several of them as one."""
    values = dict(span.mean)
    for name in FLOWS:
        value = values[name]
        values[name] = None if value is None else value * span.seconds
    return Step(span.session_id, span.at, span.seconds, **values)


def merged(spans: Iterable[Span]) -> Span:
    """Spans of one session, oldest first, as one. Raises `ValueError` for none."""
    spans = list(spans)
    if not spans:
        raise ValueError("there is nothing to be merged")
    totals = totals_of(spans)
    seconds = sum(span.seconds for span in spans)
    return Span(spans[-1].session_id, spans[-1].at, seconds, totals.average(), totals.peak)


def totals_of(spans: Iterable[Span]) -> Totals:
    """What spans of one session come to."""
    sums: dict[str, float | None] = dict.fromkeys(METRICS)
    seconds: dict[str, float | None] = dict.fromkeys(METRICS, 0.0)
    peak: dict[str, float | None] = dict.fromkeys(METRICS)
    for span in spans:
        for metric in METRICS:
            value, high = span.mean.get(metric), span.peak.get(metric)
            if value is not None:
                sums[metric] = (sums[metric] or 0.0) + value * span.seconds
                seconds[metric] = (seconds[metric] or 0.0) + span.seconds
            if high is not None:
                top = peak[metric]
                peak[metric] = high if top is None else max(top, high)
    return Totals(sums, seconds, peak)
