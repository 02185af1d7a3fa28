"""When a session that waits may start."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from scheduling_cases import NOW, agent, holding, limits, pending, snapshot

from jupyterhub_backendai.scheduling import estimate as module
from jupyterhub_backendai.scheduling.estimate import (
    Outlook,
    estimate,
    expected_length,
    forecast,
)
from jupyterhub_backendai.scheduling.queue import schedule
from jupyterhub_backendai.scheduling.snapshot import Dependency, GroupRule, Holding, Pending


@pytest.mark.parametrize(
    ("limit", "past", "elapsed", "length"),
    [
        (None, [], 0, None), (600, [], 0, 600), (None, [100, 300, 200], 0, 200),
        (150, [100, 300, 200], 0, 150), (None, [100, 300, 200], 200, 300),
        (None, [100, 300], 300, None), (400, [100, 300], 300, 400), (400, [], 500, None),
    ],
)  # fmt: skip
def test_how_long_a_session_will_run(
    limit: float | None, past: list[float], elapsed: float, length: float | None
) -> None:
    assert expected_length(limit, past, elapsed) == length


BUSY = [holding("h1", "a1", 2), holding("h2", "a1", 2)]
ENDS = {"h1": NOW + 100, "h2": NOW + 300}


def test_it_starts_when_enough_has_ended() -> None:
    line = [pending("one", 2, submitted_at=1), pending("two", 2, submitted_at=2),
            pending("three", 4, submitted_at=3)]  # fmt: skip
    outlook = Outlook(snapshot(line, [agent("a1")], BUSY), ENDS, {"one": 50, "two": 1000})
    assert estimate(outlook, "one") == NOW + 100
    assert estimate(outlook, "two") == NOW + 150, "after the one before it"
    assert estimate(outlook, "three") == NOW + 1150
    assert estimate(outlook, "nobody") is None


def test_what_is_not_known_is_unknown() -> None:
    line = [pending("one", 4, submitted_at=1), pending("two", 4, submitted_at=2)]
    snap = snapshot(line, [agent("a1")], BUSY)
    assert estimate(Outlook(snap, {"h1": NOW + 100}, {}), "one") is None
    assert estimate(Outlook(snap, ENDS, {}), "one") == NOW + 300
    assert estimate(Outlook(snap, ENDS, {}), "two") is None, "nobody knows how long one runs"
    overdue = {"h1": NOW - 5, "h2": NOW + 300}
    assert estimate(Outlook(snap, overdue, {}), "one") is None


def test_a_drained_machine_is_not_counted_on() -> None:
    """Neither its room now nor what ends there."""
    held = [holding("h1", "a1", 4), holding("h2", "a2", 4)]
    ends = {"h1": NOW + 100, "h2": NOW + 300}
    line = [pending("one"), pending("chosen", agent="a1")]
    agents = [agent("a1", schedulable=False), agent("a2"), agent("a3", schedulable=False)]
    outlook = Outlook(snapshot(line, agents, held), ends, {})
    assert estimate(outlook, "one") == NOW + 300
    assert estimate(outlook, "chosen") is None
    told = forecast(Outlook(snapshot([], agents[2:]), {}, {}), pending("new", submitted_at=NOW))
    assert (told.code, told.starts_at) == ("waits", None)
    assert "draining its machine" in told.reason


def test_start_times_quotas_and_dependencies_count() -> None:
    line = [
        pending("reserved", 1, not_before=NOW + 500),
        pending("poor", 1, owner="u"),
        pending("late", 1, dependencies=(Dependency("h1", "h1"),)),
        pending("lost", 1, dependencies=(Dependency("elsewhere", "elsewhere"),)),
    ]
    held = [holding("h1", "a1", 2), holding("h2", "a1", 1, owner="u")]
    outlook = Outlook(snapshot(line, [agent("a1")], held, {"u": limits(cpu=1)}), ENDS, {})
    assert estimate(outlook, "reserved") == NOW + 500
    assert estimate(outlook, "poor") == NOW + 300
    assert estimate(outlook, "late") == NOW + 100
    assert estimate(outlook, "lost") is None


def test_one_that_will_be_taken_out_of_line_has_no_start() -> None:
    rules = [GroupRule("default", pending_timeout=200)]
    outlook = Outlook(snapshot([pending("one", 4)], [agent("a1")], BUSY, rules=rules), ENDS, {})
    assert estimate(outlook, "one") is None


def test_what_would_happen_to_a_new_one() -> None:
    line = [pending("one", 2, submitted_at=1)]
    outlook = Outlook(snapshot(line, [agent("a1")], BUSY), ENDS, {"one": 50})
    new = pending("new", 2, submitted_at=NOW)
    waits = forecast(outlook, new, lasts=60)
    assert (waits.code, waits.ahead, waits.starts_at) == ("waits", 1, NOW + 150)
    assert forecast(Outlook(snapshot([], [agent("a1")]), {}, {}), new).starts_at == NOW
    never = forecast(outlook, pending("new", 500, submitted_at=NOW))
    assert (never.code, never.starts_at) == ("never", None)
    assert "Never fits" in never.reason


def _random(seed: int, count: int, held: int) -> tuple[list[Pending], list[Holding], Outlook]:
    random = Random(seed)
    line = [
        pending(f"s{n:03}", random.choice([1, 1, 2, 4]), submitted_at=NOW - 1000 + n,
                not_before=NOW + random.randint(1, 300) if random.random() < 0.2 else None)
        for n in range(count)
    ]  # fmt: skip
    holdings = [holding(f"h{n:03}", f"a{n % 2}", 2) for n in range(held)]
    ends = {one.session_id: NOW + random.randint(1, 500) for one in holdings}
    lasts = {one.id: random.randint(1, 300) for one in line}
    agents = [agent("a0"), agent("a1")]
    rule = GroupRule("default", random.choice(["strict", "backfill"]), 600.0)  # type: ignore[arg-type]
    return line, holdings, Outlook(snapshot(line, agents, holdings, rules=[rule]), ends, lasts)


def _really(outlook: Outlook) -> dict[str, float]:
    """When each does start if all goes as expected and nothing new comes."""
    snap, ends, started = outlook.snapshot, dict(outlook.ends), {}
    line, held, now = list(snap.pending), list(snap.holdings), snap.now
    while line:
        decision = schedule(snapshot(line, snap.agents, held, rules=snap.rules.values(), now=now))
        for placed in decision.placements:
            one = next(one for one in line if one.id == placed.session_id)
            started[one.id], ends[one.id] = now, now + outlook.lasts[one.id]
            held.append(Holding(one.id, one.owner, None, one.group, placed.agent, one.slots))
            line.remove(one)
        times = [*ends.values(), *(one.not_before or 0 for one in line)]
        later = [time for time in times if time > now]
        if not later:
            break
        now = min(later)
        held = [one for one in held if ends[one.session_id] > now]
    return started


@given(st.integers(0, 2**64 - 1), st.integers(1, 10), st.integers(0, 4))
@settings(max_examples=150, deadline=None)
def test_it_comes_true_when_all_goes_as_expected(seed: int, count: int, held: int) -> None:
    """For the last in line: those behind a session may pass it, which an estimate leaves out."""
    line, _, outlook = _random(seed, count, held)
    last = line[-1].id
    assert estimate(outlook, last) == _really(outlook).get(last)
    event("waits" if estimate(outlook, last) != NOW else "starts now")


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None)
def test_with_less_work_it_is_rather_late_than_early(seed: int) -> None:
    held = [holding(f"h{n:03}", "a0", 0.5) for n in range(8)]
    random = Random(seed)
    ends = {one.session_id: NOW + random.randint(1, 500) for one in held}
    outlook = Outlook(snapshot([pending("one", 3)], [agent("a0")], held), ends, {})
    exact = estimate(outlook, "one")
    before, module.BUDGET = module.BUDGET, 9
    try:
        rough = estimate(outlook, "one")
    finally:
        module.BUDGET = before
    assert exact is not None
    assert rough is None or rough >= exact


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []

    def counted(snap: object) -> object:
        looked_at.append(len(snap.pending) + len(snap.agents))  # type: ignore[attr-defined]
        return schedule(snap)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "run_pass", counted)
    line = [pending(f"s{n:04}", 4, submitted_at=n) for n in range(2000)]
    agents = [agent(f"a{n:03}") for n in range(100)]
    held = [holding(f"h{n:03}", f"a{n:03}", 4) for n in range(100)]
    ends = {one.session_id: NOW + n for n, one in enumerate(held, 1)}
    outlook = Outlook(snapshot(line, agents, held), ends, {one.id: 100.0 for one in line})
    assert estimate(outlook, "s1999") is not None
    assert sum(looked_at) < 2 * module.BUDGET
