"""When servers are asked, and sessions judged: no more often than it takes to tell the truth."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyterhub_backendai.scheduling.idle import Check, ahead
from jupyterhub_backendai.service.idle.clock import Sources, SteadyClock
from jupyterhub_backendai.service.idle.views import warnings_due
from jupyterhub_backendai.service.idle.watch import Watch
from jupyterhub_backendai.service.idle.watched import REST, Watched
from jupyterhub_backendai.store import IdleRecord

from .test_idle_worker import HOUR, INTERVAL, Idle, idle, use

WARNINGS = (3600, 600)


def times_asked(one: Idle) -> int:
    return sum(path.endswith("/activity") for _, path, _ in one.server.asked)


def watched_of(one: Idle) -> Watched:
    assert one.worker.watch is not None
    return one.worker.watch.sessions[one.id]


def left_by_rounds(one: Idle) -> float | None:
    """Seconds to the end by the rounds alone: nobody looks, which would ask."""
    assert one.worker.watch is not None
    ends = watched_of(one).ends_at
    return None if ends is None else ends - one.worker.watch.clock.now()


async def test_a_server_is_asked_when_the_end_comes_near(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "4h"}) as one:
        one.service.service.parts.site.idle.warnings = WARNINGS
        one.says(used=0)
        await one.rounds(INTERVAL)
        asked = times_asked(one)
        await one.rounds(2.8 * HOUR, each=60)
        assert times_asked(one) == asked
        one.says(used=60)  # somebody is there, and is not warned of what would have been
        lowest = 4 * HOUR
        for _ in range(60):
            await one.rounds(60, each=60)
            left = left_by_rounds(one)
            assert left is not None
            lowest = min(lowest, left)
        assert lowest > WARNINGS[0]
        assert times_asked(one) == asked + 1
        await one.rounds(HOUR, each=60)
        assert times_asked(one) == asked + 1
        await one.rounds(1.5 * HOUR, each=60)
        assert times_asked(one) > asked + 30, "each minute, near the end"
        assert one.is_running
        await one.rounds(HOUR, each=60)
        assert one.session.reason_code == "idle_network"
        assert one.server.activity["used"] <= 4 * HOUR + 120


async def test_of_a_short_timeout_a_server_is_asked_from_the_first_half_on(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "1h"}, idle_warnings=["1h", "10m"]) as one:
        one.says(used=0)
        await one.rounds(INTERVAL)
        asked = times_asked(one)
        await one.rounds(23 * 60, each=60)
        assert times_asked(one) == asked
        await one.rounds(20 * 60, each=60)
        assert asked + 15 <= times_asked(one) <= asked + 40, "each minute, near the first warning"


# How much later than it is due a warning may come: servers are asked once a minute, and sessions
# judged so often.
LATE = 60 + REST + INTERVAL


@pytest.mark.parametrize(("network", "first"), [("30m", 1800), ("1h", 3600), ("2h", 3600)])
async def test_who_works_all_the_time_is_warned_of_the_lifetime_in_time(
    tmp_path: Path, network: str, first: float
) -> None:
    rules = {"network": network, "lifetime": "3h"}
    async with idle(tmp_path, rules, idle_warnings=["1h", "10m"]) as one:
        warned: dict[int, float] = {}
        while one.is_running:
            one.says(used=0)
            await one.rounds(INTERVAL * 2, each=INTERVAL)
            if not one.is_running:
                break
            left = began_at(one) + 3 * HOUR - now(one)
            site = one.service.service.parts.site
            if count := warnings_due(site, watched_of(one), now(one)):
                end = left_by_rounds(one)
                assert end is not None
                assert abs(end - left) <= 1, "who works is not warned of anything else"
                warned.setdefault(count, left)
        assert one.session.reason_code == "idle_lifetime"
        assert first - LATE <= warned[1] <= first
        assert 600 - LATE <= warned[2] <= 600


def now(one: Idle) -> float:
    assert one.worker.watch is not None
    return one.worker.watch.clock.now()


def began_at(one: Idle) -> float:
    return watched_of(one).facts.started


async def test_who_looks_is_told_of_what_was_used_since(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "8h"}) as one:
        one.says(used=0)
        await one.rounds(INTERVAL)
        await one.rounds(5 * HOUR, each=600)
        one.says(used=30)
        assert left_by_rounds(one) < 3 * HOUR + 60  # type: ignore[operator]
        assert abs(await one.left() - (8 * HOUR - 30)) <= 1
        asked = times_asked(one)
        assert (await one.view())["ends_at"] is not None
        assert times_asked(one) == asked, "a moment ago"

        await one.rounds(5 * HOUR, each=600)
        one.says(used=30)
        listed = (await one.service.call("GET", "?part=list", "alice")).json
        assert "if nothing changes" in listed
        await one.rounds(INTERVAL)  # who is in a list is asked for the next look at it
        assert left_by_rounds(one) > 7.9 * HOUR  # type: ignore[operator]
        asked = times_asked(one)
        await one.rounds(HOUR, each=600)
        assert times_asked(one) == asked, "nobody looks any more"


async def test_nobody_is_warned_by_an_old_answer(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "4h"}) as one:
        one.service.service.parts.site.idle.warnings = WARNINGS
        one.says(used=0)
        await one.rounds(INTERVAL)
        one.server.activity = None
        for _ in range(5 * 60):
            await one.rounds(60, each=60)
            left = left_by_rounds(one)
            assert left is None or left > WARNINGS[0]
        assert one.is_running
        one.says(used=5 * HOUR)
        await one.rounds(60)
        assert abs(left_by_rounds(one) - WARNINGS[-1]) <= 60  # type: ignore[operator]


async def test_a_parked_session_at_which_nobody_looks_ends_when_it_was_told(
    tmp_path: Path,
) -> None:
    rule = {"window": "2h", "thresholds": {"cpu": 5}}
    async with idle(tmp_path, {"utilization": rule}) as one:
        for _ in range(int(2 * HOUR / INTERVAL)):
            await use(one, 800)
        assert left_by_rounds(one) is None
        told: list[float] = []
        for _ in range(int(2.2 * HOUR / INTERVAL)):
            await use(one, 10)
            if not one.is_running:
                break
            if watched_of(one).ends_at is not None:
                told.append(watched_of(one).ends_at)  # type: ignore[arg-type]
        assert one.session.reason_code == "idle_utilization"
        assert one.worker.watch is not None
        late = [one.worker.watch.clock.now() - at for at in told[len(told) // 2 :]]
        assert len(told) > 100
        assert max(abs(each) for each in late) <= INTERVAL + 1, late


def bare(warnings: tuple[int, ...], boot: list[float], **more: Any) -> Watch:
    """A watch of no service, by a clock that the test moves."""
    wall = datetime(2026, 11, 23, tzinfo=timezone.utc)
    clock = SteadyClock(None, Sources(lambda: wall, lambda: boot[0], lambda: "one"))
    notice = min(warnings, default=0.0)
    site: Any = SimpleNamespace(idle=SimpleNamespace(warnings=warnings, notice=notice))
    return Watch(site, clock, INTERVAL, **more)


def test_those_that_were_asked_together_once_are_not_so_ever_after() -> None:
    boot, count = [0.0], 1000
    watch = bare(WARNINGS, boot, random=Random(7))
    check, began = Check("network", "site", HOUR), watch.clock.now()
    for number in range(count):
        watch.sessions[str(number)] = Watched(None, (check,), IdleRecord(began), {}, 45.0)  # type: ignore[arg-type]
    asked = []
    for _ in range(40):
        wanted, now = watch.to_ask(), watch.clock.now()
        for number, one in enumerate(wanted):
            if number % 10:  # some never say anything, and are asked no more often
                one.hear(now, now, now)
        asked.append(len(wanted))
        boot[0] += INTERVAL
    assert asked[0] == count
    assert max(asked[8:]) < 0.45 * count


@st.composite
def days(draw: st.DrawFn) -> tuple[list[float], list[tuple[float, float]]]:
    """When somebody uses a session, and spans of time in which its server is silent."""
    uses = draw(st.lists(st.floats(0, 6 * HOUR), max_size=12))
    silent = draw(st.lists(st.tuples(st.floats(0, 8 * HOUR), st.floats(0, HOUR)), max_size=3))
    return sorted(uses), [(began, began + long) for began, long in silent]


@settings(max_examples=25)
@given(
    day=days(),
    limit=st.sampled_from([600.0, HOUR, 2 * HOUR, 4 * HOUR]),
    warnings=st.sampled_from([(), (600,), WARNINGS]),
    looks=st.sets(st.integers(0, 2000), max_size=5),
)
def test_whatever_people_do_they_are_told_in_time_and_nobody_ends_early(
    day: Any, limit: float, warnings: tuple[int, ...], looks: set[int]
) -> None:
    uses, silent = day
    boot = [0.0]
    # As people are warned: of a short limit after half of it.
    notice, first = (ahead(f(warnings, default=0.0), limit) for f in (min, max))
    watch = bare(warnings, boot, random=Random(7))
    clock, began = watch.clock, watch.clock.now()
    check = Check("network", "site", limit)
    one = Watched(None, (check,), IdleRecord(began), {}, 45.0)  # type: ignore[arg-type]
    watch.sessions["s"] = one
    warned: float | None = None
    for number in range(int(13 * HOUR / INTERVAL)):
        boot[0] += INTERVAL
        passed, now = boot[0], clock.now()
        used = max((at for at in uses if at <= passed), default=0.0)
        speaks = not any(a <= passed <= b for a, b in silent)
        if number in looks:
            one.shown = True
        if watch.to_ask() and speaks:
            one.hear(began + used, began + used, now)
        if one.judge_at <= now:
            watch.judge(one)
        if one.ends_at is not None:
            near = one.ends_at - now <= first
            warned = (now if warned is None else warned) if near else None
            if near:
                assert one.facts.heard is not None
                # It was judged by an answer that was not old then, a rest ago at most.
                assert now - one.facts.heard <= watch.stale(one) + REST, "by an old answer"
            if one.due(now) is not None:
                break
        else:
            warned = None
    else:
        raise AssertionError("it never ended")
    assert passed >= used + limit - 1e-6, "used since"
    if first:
        assert warned is not None
        assert now - warned >= notice - 1e-6
    if not silent:
        assert warned is None or now - warned >= first - 120, "warned late"
        assert passed <= used + limit + min(warnings, default=0.0) + 2 * INTERVAL
