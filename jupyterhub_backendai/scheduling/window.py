"""What a session used lately, over a window of time, in a handful of numbers.

Time is cut into buckets from the moment on from which it is counted. Each has, by metric, how much
was used in it (percent times seconds) and for how many seconds that is known. The bucket at the old
end counts by the part of it that is still inside, so that averages go on smoothly and can be told
in advance.

Time in which nobody looked (the service or the agent was away) counts as all used: nothing is ended
for what was not seen. A metric that is not known while others are is left out of its own average.
One that was seen for less than half of the window has no average.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from math import floor

BUCKETS = 40
FULL = 100.0  # percent: what time counts as in which nobody looked
HAIR = 1e-6  # seconds, and percent: what sums of floats may differ by
NEWER = 0.4  # how much the newest step counts in the present level

Values = tuple[float | None, ...]  # percent by metric, in the window's order; None: not known


class Window:
    """The use of one session over the last `seconds`. Times are seconds of one clock that only
    goes forward; nothing before `since` is counted. What is asked about now is best asked at the
    end of the newest step: what is after it was not seen."""

    __slots__ = ("_known", "_level", "_newest", "_seen", "_told", "_used",
                 "full_at", "metrics", "seconds", "since", "span")  # fmt: skip

    def __init__(self, metrics: Sequence[str], seconds: float, since: float) -> None:
        self.metrics = tuple(metrics)
        self.seconds, self.since = float(seconds), float(since)
        self.span = self.seconds / BUCKETS  # seconds of one bucket
        self.full_at = self.since + self.seconds  # when a whole window was counted first
        zeros = bytes(8 * (BUCKETS + 1))  # the oldest is inside in part only
        self._seen = array("d", zeros)
        self._used = [array("d", zeros) for _ in self.metrics]
        self._known = [array("d", zeros) for _ in self.metrics]
        self._newest = 0  # the number of the newest bucket; the first begins at `since`
        self._told = self.since  # until when steps have told
        self._level: list[float | None] = [None] * len(self.metrics)

    @property
    def level(self) -> Values:
        """What is used at present, the newest step counting most."""
        return tuple(self._level)

    def add(self, began: float, ended: float, values: Sequence[float | None]) -> None:
        """What was used from `began` to `ended`: percent by metric, in the window's order. Steps
        come in the order of time; what an earlier one has told is not counted again."""
        at = max(began, self._told, ended - self.seconds)
        if ended <= at:
            return
        first, last = self._number(at), self._number(ended)
        self._move_to(last)
        for number in range(first, last + 1):
            until = ended if number == last else self.since + (number + 1) * self.span
            if until > at:
                self._put(number, until - at, values)
                at = until
        self._told = ended
        for index, value in enumerate(values):
            before = self._level[index]
            if before is not None and value is not None:
                value = before + NEWER * (value - before)
            self._level[index] = value

    def averages(self, now: float) -> Values:
        """The averages over the window that ends now; of what there is of it while it is young."""
        return self._sums(now).averages()

    def ahead(self, now: float) -> Iterator[tuple[float, Values]]:
        """The averages now, when the window is first full, and at each time at which a bucket will
        have left it, if the present level goes on. Between two of these times from `full_at` on
        they change about evenly."""
        sums = self._sums(now)
        yield now, sums.averages()
        at, first = now, self._number(now) - BUCKETS
        if now < self.full_at:  # nothing leaves it before that
            at, first = self.full_at, 0
            sums.go_on(at - now, self._level)
            yield at, sums.averages()
        for number in range(first, self._number(now) + 1):
            leaves = self.full_at + (number + 1) * self.span
            if leaves <= at:
                continue
            part = min(1.0, (leaves - at) / self.span)  # what is left of it; 1 but for the first
            self._take_away(sums, number, part, now)
            sums.go_on(leaves - at, self._level)
            at = leaves
            yield at, sums.averages()

    def _number(self, at: float) -> int:
        return floor((at - self.since) / self.span)

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
        self._seen[place] += seconds
        for used, known, value in zip(self._used, self._known, values, strict=True):
            if value is not None:
                used[place] += value * seconds
                known[place] += seconds

    def _unseen(self, number: int, now: float) -> float:
        """Seconds of a bucket in which nobody looked."""
        place = self._place(number)
        passed = min(self.span, now - self.since - number * self.span)
        return max(0.0, passed - (self._seen[place] if place is not None else 0.0))

    def _sums(self, now: float) -> _Sums:
        last = self._number(now)
        self._move_to(last)
        first, age = last - BUCKETS, now - self.since
        oldest = self._place(first) if first >= 0 else None
        inside = sum(self._seen) - (self._seen[oldest] if oldest is not None else 0.0)
        unseen = max(0.0, age - max(0, first + 1) * self.span - inside)
        used, known = [sum(one) for one in self._used], [sum(one) for one in self._known]
        sums = _Sums(used, known, unseen, age, self.seconds)
        if first >= 0:  # all that is kept is summed up; of the oldest only its part is to be left
            sums.unseen += self._unseen(first, now)
            self._take_away(sums, first, age / self.span - last, now)
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
        """By metric; None where less than half is known."""
        unseen = max(0.0, self.unseen)
        found: list[float | None] = []
        for used, known in zip(self.used, self.known, strict=True):
            is_known = known > 0 and known >= self.seconds / 2 - HAIR
            found.append(max(0.0, used + FULL * unseen) / (known + unseen) if is_known else None)
        return tuple(found)
