"""What a session used lately, over a window of time, in a handful of numbers.

The window is cut into buckets by fixed times. Each has, by metric, how much was used in it (percent
times seconds) and for how many seconds that is known. The bucket at the old end counts by the part
of it that is still inside, so that averages go on smoothly and can be told in advance.

Time in which nobody looked (the service or the agent was away) counts as all used: nothing is ended
for what was not seen. A metric that is not known while others are is left out of its own average;
where that is more than half of the window, the average is not known.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

BUCKETS = 40
FULL = 100.0  # percent: what time counts as in which nobody looked
NEWER = 0.4  # how much the newest step counts in the present level

Values = tuple[float | None, ...]  # percent by metric, in the window's order; None: not known


class Window:
    """The use of one session over the last `seconds`. Times are seconds of one clock that only
    goes forward; nothing before `since` is counted."""

    __slots__ = ("_known", "_level", "_newest", "_seen", "_used", "metrics", "seconds", "since")

    def __init__(self, metrics: Sequence[str], seconds: float, since: float) -> None:
        self.metrics = tuple(metrics)
        self.seconds, self.since = float(seconds), since
        zeros = bytes(8 * (BUCKETS + 1))  # the oldest is inside in part only
        self._seen = array("d", zeros)
        self._used = [array("d", zeros) for _ in self.metrics]
        self._known = [array("d", zeros) for _ in self.metrics]
        self._newest = self._number(since)
        self._level: list[float | None] = [None] * len(self.metrics)

    @property
    def span(self) -> float:
        """Seconds of one bucket."""
        return self.seconds / BUCKETS

    @property
    def full_at(self) -> float:
        """When a whole window has been counted for the first time."""
        return self.since + self.seconds

    @property
    def level(self) -> Values:
        """What is used at present, the newest step counting most."""
        return tuple(self._level)

    def add(self, began: float, ended: float, values: Sequence[float | None]) -> None:
        """What was used from `began` to `ended`: percent by metric, in the window's order."""
        at = max(began, self.since, ended - self.seconds)
        if ended <= at:
            return
        self._move_to(self._number(ended))
        for number in range(self._number(at), self._number(ended) + 1):
            until = min(ended, (number + 1) * self.span)
            if until > at:
                self._put(number, until - at, values)
                at = until
        for index, value in enumerate(values):
            before = self._level[index]
            if before is not None and value is not None:
                value = before + NEWER * (value - before)
            self._level[index] = value

    def averages(self, now: float) -> Values:
        """The averages over the window that ends now; of what there is of it while it is young."""
        return self._sums(now).averages()

    def ahead(self, now: float) -> Iterator[tuple[float, Values]]:
        """The averages now, and at each time at which a bucket will have left the window, if the
        present level goes on. Between two of these times they change about evenly."""
        sums = self._sums(now)
        yield now, sums.averages()
        at, first = now, self._number(now - self.seconds)
        for number in range(first, self._number(now) + 1):
            leaves = (number + 1) * self.span + self.seconds
            if leaves <= at:
                continue
            part = (leaves - now) / self.span if number == first else 1.0
            self._take_away(sums, number, min(1.0, part), now)
            sums.go_on(leaves - at, self._level)
            at = leaves
            yield at, sums.averages()

    def _number(self, at: float) -> int:
        return int(at // self.span)

    def _place(self, number: int) -> int | None:
        """Where a bucket is; None for one that is not kept."""
        size = len(self._seen)
        return number % size if self._newest - size < number <= self._newest else None

    def _move_to(self, number: int) -> None:
        """Makes a bucket the newest; what is new of them is empty."""
        size = len(self._seen)
        for one in range(max(self._newest + 1, number - size + 1), number + 1):
            for values in (self._seen, *self._used, *self._known):
                values[one % size] = 0.0
        self._newest = max(self._newest, number)

    def _put(self, number: int, seconds: float, values: Sequence[float | None]) -> None:
        place = self._place(number)
        if place is None:
            return
        # No more than there is time: two steps that tell of the same seconds are not both counted.
        seconds = min(seconds, self.span - self._seen[place])
        if seconds <= 0:
            return
        self._seen[place] += seconds
        for used, known, value in zip(self._used, self._known, values, strict=True):
            if value is not None:
                used[place] += value * seconds
                known[place] += seconds

    def _unseen(self, number: int, now: float) -> float:
        """Seconds of a bucket in which nobody looked."""
        place = self._place(number)
        begins = max(number * self.span, self.since)
        passed = max(0.0, min((number + 1) * self.span, now) - begins)
        return max(0.0, passed - (self._seen[place] if place is not None else 0.0))

    def _sums(self, now: float) -> _Sums:
        start = now - self.seconds
        self._move_to(self._number(now))
        first = self._number(start)
        part = 1.0 - (start / self.span - first)  # of the oldest bucket that is inside
        numbers = range(first + 1, self._number(now) + 1)
        if start < self.since:
            unseen = sum(self._unseen(number, now) for number in numbers)
        else:  # shorter, and the same
            oldest = self._place(first)
            inside = sum(self._seen) - (self._seen[oldest] if oldest is not None else 0.0)
            unseen = max(0.0, now - (first + 1) * self.span - inside)
        used, known = [sum(one) for one in self._used], [sum(one) for one in self._known]
        sums = _Sums(used, known, unseen, now - self.since, self.seconds)
        # All that is kept is summed up already; of the oldest only its part is to be left.
        sums.unseen += self._unseen(first, now)
        self._take_away(sums, first, 1.0 - part, now)
        return sums

    def _take_away(self, sums: _Sums, number: int, part: float, now: float) -> None:
        place = self._place(number)
        sums.unseen -= part * self._unseen(number, now)
        if place is not None:
            for index in range(len(self.metrics)):
                sums.used[index] -= part * self._used[index][place]
                sums.known[index] -= part * self._known[index][place]


class _Sums:
    """What is in a window: percent times seconds, seconds known, seconds in which nobody looked."""

    __slots__ = ("known", "seconds", "unseen", "used", "window")

    def __init__(
        self, used: list[float], known: list[float], unseen: float, age: float, window: float
    ) -> None:
        self.used, self.known, self.unseen = used, known, unseen
        self.seconds, self.window = min(age, window), window

    def go_on(self, seconds: float, level: Sequence[float | None]) -> None:
        """So much longer at this level."""
        self.seconds = min(self.seconds + seconds, self.window)
        for index, value in enumerate(level):
            if value is not None:
                self.used[index] += value * seconds
                self.known[index] += seconds

    def averages(self) -> Values:
        """By metric; None where more than half is not known."""
        unseen = max(0.0, self.unseen)
        found: list[float | None] = []
        for used, known in zip(self.used, self.known, strict=True):
            of = known + unseen
            is_known = known > 0 and of >= self.seconds / 2
            found.append(max(0.0, used + FULL * unseen) / of if is_known else None)
        return tuple(found)
