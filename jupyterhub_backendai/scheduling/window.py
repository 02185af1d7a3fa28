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
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import floor, inf

BUCKETS = 40
FULL = 100.0  # percent: what time counts as in which nobody looked
HAIR = 1e-6  # seconds, and percent: what sums of floats may differ by
NEWER = 0.4  # how much the newest step counts in the present level

Values = tuple[float | None, ...]  # percent by metric, in the window's order; None: not known
Span = tuple[float, float]  # of time: from, until


class Window:
    """The use of one session over the last `seconds`. Times are seconds of one clock that only
    goes forward; nothing before `since` is counted. Steps come a while after what they tell of:
    for `patience` seconds it is not said that nobody looked."""

    __slots__ = ("_known", "_level", "_newest", "_seen", "_told", "_used",
                 "full_at", "metrics", "patience", "seconds", "since", "span")  # fmt: skip

    def __init__(
        self, metrics: Sequence[str], seconds: float, since: float, patience: float = 0.0
    ) -> None:
        self.patience = patience
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
            if ended <= self.since:
                self._go_on(values)
            return
        first, last = self._number(at), self._number(ended)
        self._move_to(last)
        for number in range(first, last + 1):
            until = ended if number == last else self.since + (number + 1) * self.span
            if until > at:
                self._put(number, until - at, values)
                at = until
        self._told = ended
        self._go_on(values)

    def _go_on(self, values: Sequence[float | None]) -> None:
        for index, value in enumerate(values):
            before = self._level[index]
            if before is not None and value is not None:
                value = before + NEWER * (value - before)
            self._level[index] = value

    def told(self, now: float) -> float:
        """Until when it is known what was used, where that is not long ago; else now."""
        return self._told if 0 <= now - self._told <= self.patience else now

    def judge(self, now: float, limits: Sequence[float]) -> tuple[Values, Iterator[list[Span]]]:
        """`averages` and `below`, with one look at the window."""
        now = self._not_before(self.told(now))
        sums = self._sums(now)
        return self._averages(sums), self._below(now, sums, limits)

    def averages(self, now: float) -> Values:
        """The averages over the window that ends now, of what there is of it while it is young;
        None where less than half is known."""
        return self._averages(self._sums(self._not_before(self.told(now))))

    def _averages(self, sums: _Sums) -> Values:
        return tuple(
            (used + FULL * sums.unseen) / (known + sums.unseen)
            if known > 0 and known >= sums.half
            else None
            for used, known in zip(sums.used, sums.known, strict=True)
        )

    def below(self, now: float, limits: Sequence[float]) -> Iterator[list[Span]]:
        """By metric the spans of time, from now on, in which its average over a whole window will
        be below its limit, if the present level goes on."""
        now = self._not_before(self.told(now))
        return self._below(now, self._sums(now), limits)

    def _below(self, now: float, sums: _Sums, limits: Sequence[float]) -> Iterator[list[Span]]:
        lines = _Lines(self, now)
        unseen = [self._unseen(one, now) for one in lines.numbers] if sums.unseen > HAIR else None
        for level, limit, *of in zip(
            self._level, limits, self._used, self._known, sums.used, sums.known, strict=True
        ):
            # Percent times seconds above the limit: what is in each bucket, and in all of them.
            used, known = lines.in_order(of[0]), lines.in_order(of[1])
            over = [u - limit * k for u, k in zip(used, known, strict=True)]
            above = of[2] - limit * of[3]
            if unseen is not None:
                over = [o + (FULL - limit) * u for o, u in zip(over, unseen, strict=True)]
                above += (FULL - limit) * sums.unseen
            spans = lines.negative(above, over, 0.0 if level is None else level - limit)
            if spans and (level is None or of[3] < self.seconds / 2):
                lacking = self.seconds / 2 - 2 * HAIR - of[3]  # just half is known
                more = 0.0 if level is None else -1.0
                spans = common(spans, lines.negative(lacking, [-k for k in known], more))
            yield spans

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

    def _not_before(self, now: float) -> float:
        """Now, or when somebody told or asked last: what is older is not kept."""
        return max(now, self._told, self.since + self._newest * self.span)

    def _sums(self, now: float) -> _Sums:
        self._move_to(self._number(now))
        last, age = self._newest, now - self.since
        first = last - BUCKETS
        used, known = [sum(one) for one in self._used], [sum(one) for one in self._known]
        inside, begins = sum(self._seen), 0.0
        if first >= 0:  # of the oldest only its part is inside
            begins = age - self.seconds
            place, part = first % len(self._seen), age / self.span - last
            inside -= part * self._seen[place]
            for index in range(len(self.metrics)):
                used[index] -= part * self._used[index][place]
                known[index] -= part * self._known[index][place]
        return _Sums(
            used, known, max(0.0, age - begins - inside), min(age, self.seconds) / 2 - HAIR
        )


@dataclass(frozen=True)
class _Sums:
    """What is in a window: by metric percent times seconds, and seconds known; seconds in which
    nobody looked; and how many must be known."""

    used: list[float]
    known: list[float]
    unseen: float
    half: float


class _Lines:
    """How sums over a window go on, in straight lines from one bucket that leaves to the next."""

    __slots__ = ("_first", "_last", "_part", "_start", "_wait", "_window", "numbers")

    def __init__(self, window: Window, now: float) -> None:
        first, last = max(0, window._newest - BUCKETS), window._newest
        self.numbers, self._window = range(first, last + 1), window
        self._start = max(now, window.full_at)  # nothing leaves before that
        self._wait = self._start - now
        self._first = max(0.0, self._at(1) - self._start)  # seconds that the oldest takes to leave
        self._part = self._first / window.span
        # As the newest leaves, what came to it after now does so, too.
        self._last = (last + 1) * window.span - (now - window.since)

    def in_order(self, values: array[float]) -> array[float]:
        """Of all buckets that are in the window, the oldest first."""
        place = self.numbers[0] % len(values)
        return (values[place:] + values[:place])[: len(self.numbers)]

    def negative(self, total: float, values: Sequence[float], gain: float) -> list[Span]:
        """When a sum of which `values` leave, and to which `gain` comes in each second, is below
        zero over a whole window; in the end it stays as it is."""
        comes = gain * self._window.span
        steps = [comes - value for value in values]
        steps[0] = gain * self._first - values[0] * self._part
        steps[-1] -= gain * self._last
        sums = list(accumulate(steps, initial=total + gain * self._wait))
        if min(sums) >= -HAIR:
            return []
        found: list[Span] = []
        low = self._start if sums[0] < -HAIR else None
        for place, (a, b) in enumerate(pairwise(sums)):
            if (b < -HAIR) == (low is not None):
                continue
            at = self._at(place)
            at += (a + HAIR) / (a - b) * (self._at(place + 1) - at)
            if low is None:
                low = at
            else:
                found.append((low, at))
                low = None
        return found if low is None else [*found, (low, inf)]

    def _at(self, place: int) -> float:
        """When so many buckets have left."""
        leaves = self._window.full_at + (self.numbers[0] + place) * self._window.span
        return max(self._start, leaves) if place else self._start


def common(some: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The spans in which both are."""
    both = [(max(a, c), min(b, d)) for a, b in some for c, d in others]
    return sorted((low, high) for low, high in both if low < high)
