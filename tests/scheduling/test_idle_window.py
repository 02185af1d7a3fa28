"""Windows of use, beside a plain list of steps of which nothing is thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.scheduling.window import BUCKETS, Window

HAIR = 1e-6

Step = tuple[float, float, tuple[float | None, ...]]


@dataclass
class Plain:
    """The same by its rules alone: every step is kept whole."""

    metrics: int
    seconds: float
    since: float
    steps: list[Step] = field(default_factory=list)

    def add(self, began: float, ended: float, values: Sequence[float | None]) -> None:
        began = max(began, self.since, self.steps[-1][1] if self.steps else self.since)
        if ended > began:
            self.steps.append((began, ended, tuple(values)))

    def sums(self, now: float) -> tuple[float, list[float], list[float]]:
        """Seconds in which nobody looked; by metric what was used and for how long it is known."""
        start = max(self.since, now - self.seconds)
        seen, used, known = 0.0, [0.0] * self.metrics, [0.0] * self.metrics
        for began, ended, values in self.steps:
            inside = min(ended, now) - max(began, start)
            if inside <= 0:
                continue
            seen += inside
            for index, value in enumerate(values):
                if value is not None:
                    used[index] += inside * value
                    known[index] += inside
        return now - start - seen, used, known

    def averages(self, now: float) -> tuple[float | None, ...]:
        unseen, used, known = self.sums(now)
        half = min(self.seconds, now - self.since) / 2
        return tuple(
            (u + 100 * unseen) / (k + unseen) if k > 0 and k >= half - HAIR else None
            for u, k in zip(used, known, strict=True)
        )


percents = st.one_of(st.none(), st.sampled_from([0.0, 5.0, 100.0]), st.floats(0, 100))


@st.composite
def histories(
    draw: st.DrawFn, unit: float = 0.0, metrics: int = 2
) -> list[tuple[float, float, tuple[float | None, ...]]]:
    """Steps in the order of time, with gaps and steps that tell again of what was told. Where there
    is a unit, all begin and end at whole numbers of it."""
    times = st.integers(0, 8).map(lambda n: n * unit) if unit else st.floats(0, 40)
    long = st.sampled_from([0.0, 0.0, 0.0, 0.0, 20.0, 400.0, 1e7])
    steps: list[Step] = []
    at = 0.0
    for _ in range(draw(st.integers(0, 40))):
        began = at + draw(times) * draw(st.sampled_from([-0.0, 0.0, 0.0, -1.0, 1.0]))
        began += (unit or 1.0) * draw(long)
        ended = began + draw(times)
        steps.append((began, ended, tuple(draw(percents) for _ in range(metrics))))
        at = max(at, ended)
    return steps


def end_of(steps: Sequence[Step]) -> float:
    return max((ended for _, ended, _ in steps), default=0.0)


def same(one: Sequence[float | None], other: Sequence[float | None]) -> bool:
    return all(
        (a is None) == (b is None) and (a is None or b is None or abs(a - b) < 1e-4)
        for a, b in zip(one, other, strict=True)
    )


@given(steps=histories(unit=8.0), since=st.integers(0, 20), later=st.integers(0, 60))
def test_steps_that_fill_buckets_give_exactly_what_a_list_of_them_gives(
    steps: list[Step], since: int, later: int
) -> None:
    window, plain = Window("ab", 8.0 * BUCKETS, since * 8.0), Plain(2, 8.0 * BUCKETS, since * 8.0)
    now = since * 8.0
    for step in steps:
        window.add(*step)
        plain.add(*step)
        # Asked in between, too: what moves the window on must not change it.
        now = max(now, step[1], step[0])
        assert same(window.averages(now), plain.averages(now))
    now += later * 8.0
    assert same(window.averages(now), plain.averages(now))


@given(steps=histories(), since=st.floats(0, 100), seconds=st.floats(40, 2000),
       later=st.floats(0, 100))  # fmt: skip
def test_other_steps_differ_by_a_bucket_at_most(
    steps: list[Step], since: float, seconds: float, later: float
) -> None:
    window, plain = Window("ab", seconds, since), Plain(2, seconds, since)
    for step in steps:
        window.add(*step)
        plain.add(*step)
    now = max(end_of(steps), since) + later
    unseen, _, known = plain.sums(now)
    half = min(seconds, now - since) / 2
    found, exact = window.averages(now), plain.averages(now)
    for a, b, k in zip(found, exact, known, strict=True):
        if a is None or b is None:
            assert (a is None and b is None) or abs(k - half) <= window.span + HAIR
        else:  # both are of what half of it is known at least, and differ in one bucket only
            assert abs(a - b) <= 100 * window.span / (k + unseen) * 2 + HAIR
        assert a is None or -HAIR <= a <= 100 + HAIR


def test_time_in_which_nobody_looked_is_used() -> None:
    window = Window("a", 400.0, 0.0)
    window.add(0, 300, [0.0])
    assert window.averages(400.0) == (25.0,)
    window.add(400, 500, [0.0])
    assert window.averages(500.0) == (25.0,)
    window.add(390, 400, [0.0])  # told too late: it stays as it is, which ends nothing
    assert window.averages(500.0) == (25.0,)
    assert window.averages(500.0 + 200.0) == (None,)
    assert window.averages(1e9) == (None,)


def test_what_is_not_known_is_left_out_until_it_is_more_than_half() -> None:
    window = Window("ab", 400.0, 0.0)
    window.add(0, 200, [0.0, 10.0])
    window.add(200, 400, [None, 20.0])
    assert window.averages(400.0) == (0.0, 15.0)
    window.add(400, 410, [None, 20.0])
    assert window.averages(410.0)[0] is None
    assert window.level == (None, pytest.approx(16.4))


def test_what_two_steps_tell_is_counted_once() -> None:
    window = Window("a", 400.0, 0.0)
    for _ in range(5):
        window.add(0, 2, [0.0])
    window.add(8, 10, [0.0])
    assert window.averages(10.0) == (None,)  # six seconds of ten were not seen
    window.add(0, 15, [0.0])
    assert window.averages(15.0) == (pytest.approx(100 * 6 / 15),)


def test_nothing_is_counted_before_it_begins() -> None:
    window = Window("a", 400.0, 1000.0)
    window.add(0, 900, [50.0])
    assert window.averages(900.0) == (None,)
    assert list(window.below(900.0, [5.0])) == [[]]
    window.add(900, 1010, [20.0])
    assert window.averages(1010.0) == (20.0,)
    assert window.full_at == 1400.0
