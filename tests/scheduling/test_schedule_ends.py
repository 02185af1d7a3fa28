"""Sessions that wait for others, and those that wait no more."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from scheduling_cases import NOW, agent, pending, placed, reason, slots, snapshot, verdict, wait_of

from jupyterhub_backendai.model.status import Result
from jupyterhub_backendai.scheduling.queue import schedule, turn
from jupyterhub_backendai.scheduling.snapshot import (
    Agent,
    Decision,
    Dependency,
    GroupRule,
    Holding,
    Pending,
    Snapshot,
)

IMPATIENT = GroupRule("default", pending_timeout=600)


def after(*names: str, failed: bool = False) -> dict[str, object]:
    return {"dependencies": tuple(Dependency(name, name, failed) for name in names)}


def ended(decision: Decision) -> dict[str, str]:
    """Codes by session."""
    return {one.session_id: one.code for one in decision.endings}


def test_a_session_waits_for_another() -> None:
    snap = snapshot([pending("train", **after("prepare")), pending("other")], [agent("a1")])
    decision = schedule(snap)
    assert placed(decision) == {"other": "a1"}
    wait = wait_of(decision, "train")
    assert (wait.code, wait.result) == ("dependency", Result.SKIPPED)
    assert wait.reason == "Starts when prepare has ended in success."


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("one", "two"), "Starts when one and two have ended in success."),
        (("a", "b", "c"), "Starts when a, b and c have ended in success."),
        (("a", "b", "c", "d"), "Starts when a, b and two others have ended in success."),
    ],
)
def test_several_to_wait_for(names: tuple[str, ...], told: str) -> None:
    assert reason(snapshot([pending("s", **after(*names))], [agent("a1")]), "s") == told


def test_what_waits_for_another_holds_nobody_up() -> None:
    """It is before nobody: not in a strict line, and not when it has waited for long."""
    first = pending("first", 4, submitted_at=0.0, priority=90, **after("prepare"))
    snap = snapshot(
        [first, pending("small")], [agent("a1")], rules=[GroupRule("default", "strict")]
    )
    decision = schedule(snap)
    assert placed(decision) == {"small": "a1"}
    assert wait_of(decision, "first").position == 1


def test_its_time_counts_from_when_it_could_start() -> None:
    late = pending("late", 4, submitted_at=0.0, ready_at=NOW - 10)
    old = replace(late, id="old", ready_at=None)
    rules = [GroupRule("default", max_bypass=900)]
    busy = [Holding("h", "x", None, "default", "a1", slots(2))]
    others = [pending("small", 1)]
    agents = [agent("a1")]
    assert placed(schedule(snapshot([late, *others], agents, busy, rules=rules))) == {"small": "a1"}
    assert not placed(schedule(snapshot([old, *others], agents, busy, rules=rules)))


def test_one_that_failed_ends_all_that_follow() -> None:
    chain = [
        pending("one", **after("broken", failed=True)),
        pending("two", **after("one")),
        pending("three", **after("two", "elsewhere")),
        pending("free", **after("elsewhere")),
    ]
    decision = schedule(snapshot(chain, [agent("a1")]))
    assert ended(decision) == dict.fromkeys(("one", "two", "three"), "dependency_failed")
    assert [wait.session_id for wait in decision.waits] == ["free"]
    assert decision.endings[1].reason == (
        "one has not ended in success, and this session was to start only after that."
    )


def test_what_waited_too_long_is_ended() -> None:
    waits = [
        pending("long", 8, submitted_at=NOW - 600),
        pending("follows", **after("long")),
        pending("shorter", 8, submitted_at=NOW - 599),
        pending("tomorrow", submitted_at=NOW - 9000, not_before=NOW + 60),
        pending("reserved", 8, submitted_at=NOW - 9000, not_before=NOW - 60),
        pending("again", 8, submitted_at=NOW - 9000, pending_since=NOW - 60),
        pending("dependent", submitted_at=NOW - 9000, **after("elsewhere")),
        pending("never", 500, submitted_at=NOW - 9000),
        pending("fits", 1, submitted_at=NOW - 9000),
    ]
    busy = [Holding("h", "x", None, "default", "a1", slots(4))]
    rule = replace(IMPATIENT, max_bypass=math.inf)
    decision = schedule(snapshot(waits, [agent("a1", 8)], busy, rules=[rule]))
    assert ended(decision) == {
        "long": "pending_timeout",
        "follows": "dependency_failed",
        "never": "pending_timeout",
    }
    assert placed(decision) == {"fits": "a1"}, "what can start now does, however long it waited"
    assert decision.endings[0].reason == (
        "It did not start within 10 minutes, the longest that a session waits in default. "
        "Ask for less, or start it again later."
    )


def test_one_that_is_ended_holds_nobody_up() -> None:
    rule = replace(IMPATIENT, mode="strict")
    waits = [pending("large", 8, submitted_at=NOW - 700), pending("small")]
    assert placed(schedule(snapshot(waits, [agent("a1")], rules=[rule]))) == {"small": "a1"}


def test_what_would_happen_to_one_that_depends() -> None:
    snap = snapshot([pending("other")], [agent("a1")])
    assert verdict(snap, pending("new", **after("prepare"))).code == "waits"
    assert verdict(snap, pending("new", **after("prepare"))).ahead == 0


# ---- what holds for every line, as time goes on ------------------------------------------------


def _line(random: Random, count: int) -> list[Pending]:
    """Each may depend on some before it, and may have a start time."""
    line = []
    for number in range(count):
        earlier = random.sample(range(number), min(number, random.choice([0, 0, 1, 1, 2])))
        submitted = NOW + random.randint(-300, 300)
        line.append(
            pending(
                f"s{number:02}",
                cpu=random.choice([1, 1, 2, 4]),
                priority=random.choice([10, 10, 20]),
                submitted_at=submitted,
                not_before=submitted + random.randint(1, 400) if random.random() < 0.3 else None,
                **after(*(f"s{one:02}" for one in earlier)),
            )
        )
    return line


class _Site:
    """Runs a line pass by pass, the next one whenever something changes, and notes what happens."""

    def __init__(self, line: list[Pending], agents: list[Agent], rule: GroupRule, random: Random):
        self.agents, self.rule, self.random = agents, rule, random
        self.waiting, self.running = {one.id: one for one in line}, {}
        self.started: dict[str, float] = {}
        self.over: dict[str, tuple[float, bool]] = {}
        self.ended: dict[str, tuple[float, str]] = {}
        self.holdings: dict[str, Holding] = {}

    def now_pending(self, now: float) -> list[Pending]:
        return [self._as_it_is(one) for one in self.waiting.values() if one.submitted_at <= now]

    def _as_it_is(self, one: Pending) -> Pending:
        left, ready = [], None
        for dependency in one.dependencies:
            end = self.over.get(dependency.session_id) or (
                (self.ended[dependency.session_id][0], False)
                if dependency.session_id in self.ended
                else None
            )
            if end is None or not end[1]:
                left.append(replace(dependency, failed=end is not None))
            else:
                ready = max(ready or 0.0, end[0])
        return replace(one, dependencies=tuple(left), ready_at=ready)

    def run(self) -> None:
        now = NOW
        for _ in range(400):
            for session_id in [s for s, (end, _) in self.running.items() if end <= now]:
                end, success = self.running.pop(session_id)
                self.over[session_id] = (end, success)
                del self.holdings[session_id]
            line = self.now_pending(now)
            decision = schedule(
                Snapshot(now, line, self.agents, list(self.holdings.values()), {}, {},
                         {"default": self.rule})
            )  # fmt: skip
            self._check(line, decision, now)
            for one in decision.placements:
                self._start(one.session_id, one.agent, now)
            for ending in decision.endings:
                self.ended[ending.session_id] = (now, ending.code)
                del self.waiting[ending.session_id]
            times = [end for end, _ in self.running.values()]
            times += [t for w in self.waiting.values() for t in (w.submitted_at, w.not_before or 0)]
            times += [w.could_start_at + self.rule.pending_timeout for w in line]
            later = [t for t in times if t > now]
            if not later:
                return
            now = min(later)
        raise AssertionError("it does not come to an end")

    def _start(self, session_id: str, agent: str, now: float) -> None:
        one = self.waiting.pop(session_id)
        self.started[session_id] = now
        self.running[session_id] = (now + self.random.randint(1, 200), self.random.random() < 0.8)
        self.holdings[session_id] = Holding(
            one.id, one.owner, None, one.group, agent, one.slots
        )  # fmt: skip

    def _check(self, line: list[Pending], decision: Decision, now: float) -> None:
        parts = [
            [one.session_id for one in part]
            for part in (decision.placements, decision.waits, decision.endings)
        ]
        assert sorted(sum(parts, [])) == sorted(one.id for one in line), "each is in exactly one"
        by_id = {one.id: one for one in line}
        for placement in decision.placements:
            one = by_id[placement.session_id]
            assert one.not_before is None or one.not_before <= now
            assert not one.dependencies
        for ending in decision.endings:
            one = by_id[ending.session_id]
            if ending.code == "pending_timeout":
                assert now - one.could_start_at >= self.rule.pending_timeout > 0
            else:
                assert one.dependencies
        kept = [one for one in line if one.id in parts[1]]
        assert not any(d.failed for one in kept for d in one.dependencies)
        assert not {d.session_id for one in kept for d in one.dependencies} & set(parts[2])


@given(st.integers(0, 2**64 - 1), st.integers(1, 14), st.sampled_from(["backfill", "strict"]))
@settings(max_examples=300, deadline=None)
def test_start_times_and_dependencies_hold_as_time_goes_on(
    seed: int, count: int, mode: str
) -> None:
    random = Random(seed)
    line = _line(random, count)
    rule = GroupRule("default", mode, 120.0, pending_timeout=random.choice([0.0, 300.0]))  # type: ignore[arg-type]
    site = _Site(line, [agent("a1", 4)], rule, random)
    site.run()
    assert not site.running
    assert not site.waiting, "each has started or was told why it never will"
    for one in line:
        ends = [site.over.get(d.session_id) for d in one.dependencies]
        if one.id in site.started:
            start = site.started[one.id]
            assert start >= one.could_start_at
            assert all(end is not None and end[1] and end[0] <= start for end in ends)
        elif site.ended[one.id][1] == "dependency_failed":
            event("ended with what it depended on")
            assert any(end is None or not end[1] for end in ends)
        else:
            event("waited too long")


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=200, deadline=None)
def test_what_cannot_start_yet_changes_nothing_for_the_others(seed: int) -> None:
    random = Random(seed)
    line = _line(random, 10)
    rule = GroupRule("default", random.choice(["backfill", "strict"]), 60.0)  # type: ignore[arg-type]
    all_of_them = schedule(snapshot(line, [agent("a1", 4)], rules=[rule], now=NOW + 300))
    able = [one for one in line if not one.dependencies and (one.not_before or 0) <= NOW + 300]
    alone = schedule(snapshot(able, [agent("a1", 4)], rules=[rule], now=NOW + 300))
    assert all_of_them.placements == alone.placements
    assert [turn(one) for one in sorted(able, key=turn)] == sorted(turn(one) for one in able)
