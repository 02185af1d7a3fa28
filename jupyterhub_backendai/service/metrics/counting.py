"""What has happened to sessions since counting began, from the changes that the store numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from ...store import Store
from ...store.metrics import Progress

PAGE = 2000  # changes that are read at a time
REMEMBERED = 20_000  # sessions that ended, so that a later change of one counts no second end
# Seconds: a wait may take days, a start with a download some minutes.
WAIT_BOUNDS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
SPAWN_BOUNDS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 900)


@dataclass
class Histogram:
    """How many were how long (seconds), up to each of `bounds`."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """One more; a clock that was set back makes nothing of it."""
        if not self.counts:
            self.counts = [0] * (len(self.bounds) + 1)
        seconds = max(0.0, seconds)
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus has them: each with all that were shorter."""
        sums, found = 0, []
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            sums += count
            found.append(("+Inf" if bound == float("inf") else str(float(bound)), float(sums)))
        return found


class Counting:
    """Waits, starts and ends by resource group or reason. Blocking; one thread at a time."""

    def __init__(self) -> None:
        self.waits: dict[str, Histogram] = {}
        self.spawns: dict[str, Histogram] = {}
        self.ended: Counter[tuple[str, str]] = Counter()
        self._seq: int | None = None
        self._last_end: datetime | None = None
        self._live: dict[str, Progress] = {}
        self._over: dict[str, None] = {}  # in the order of their ends

    def catch_up(self, store: Store) -> None:
        """Takes in what has changed since the last time; the first time is where it begins.
        Raises `Unavailable`."""
        if self._seq is None:
            begin = store.beginning()
            self._seq, self._last_end = begin.seq, begin.ended_at
            self._live = {one.id: one for one in begin.live}
            for group in {one.resource_group for one in begin.live}:
                self.begin_group(group)
            return
        while rows := store.progress_after(self._seq, PAGE):
            self._take(rows)
            self._seq = rows[-1].seq
            if len(rows) < PAGE:
                return

    def begin_group(self, group: str) -> None:
        """A group has its histograms, at zero, before anything happens in it: what is new from
        the first has no rate."""
        for found, bounds in ((self.waits, WAIT_BOUNDS), (self.spawns, SPAWN_BOUNDS)):
            found.setdefault(group, Histogram(bounds, [0] * (len(bounds) + 1)))

    def _take(self, rows: Iterable[Progress]) -> None:
        for now in rows:
            if now.id in self._over or self._ended_before(now):
                continue
            self._compare(self._live.get(now.id), now)
            if now.ended_at is None:
                self._live[now.id] = now
            else:
                self._live.pop(now.id, None)
                self._over[now.id] = None
                self.ended[now.status.value, now.reason_code] += 1
        while len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]

    def _ended_before(self, now: Progress) -> bool:
        """Whether it was over when counting began."""
        if now.ended_at is None or self._last_end is None or now.id in self._live:
            return False
        return now.ended_at <= self._last_end

    def _compare(self, before: Progress | None, now: Progress) -> None:
        self.begin_group(now.resource_group)
        placed, running = now.placed_at, now.running_at
        if placed is not None and (before is None or before.placed_at != placed):
            since = max(now.submitted_at, now.not_before or now.submitted_at)
            self.waits[now.resource_group].add((placed - since).total_seconds())
        if (
            placed is not None
            and running is not None
            and (before is None or before.running_at != running)
        ):
            self.spawns[now.resource_group].add((running - placed).total_seconds())
