"""Which checks a session has, what they say of it, and when they end it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyterhub_backendai.model.idle import IdleMinimum, IdleRules, Keep
from jupyterhub_backendai.scheduling.idle import (
    Check,
    Facts,
    State,
    Verdict,
    below_at,
    checks_of,
    earliest,
    is_due,
    judge,
    unused_until,
)
from jupyterhub_backendai.scheduling.window import Window

HAIR = 1e-5
STEP = 15.0  # seconds of a sample
A_MOMENT = 0.01  # seconds; what is told may be the edge itself
STALE = 60.0
Values = tuple["float | None", ...]

NETWORK = Check("network", "site", 600.0, grace=100.0)


def rules(**what: object) -> IdleRules:
    return IdleRules.model_validate(what)


USE = {"window": "30m", "thresholds": {"cpu": 5, "mem": None, "gpu": 10}}
NO_LEAST = IdleMinimum()


# Which checks there are.


def test_every_place_has_its_say_and_the_strictest_counts() -> None:
    site, group = rules(lifetime="2d", network="1h"), rules(lifetime="1d", network="2h")
    found = checks_of([("site", site), ("group", group)], NO_LEAST, batch=False, gpus=False)
    assert [(one.name, one.source, one.limit) for one in found] == [
        ("lifetime", "site", 172800), ("network", "site", 3600),
        ("lifetime", "group", 86400), ("network", "group", 7200),
    ]  # fmt: skip
    facts = Facts(started=0.0, used=0.0, asked=0.0, heard=10.0)
    first = earliest(judge(one, facts, 10.0, STALE) for one in found)
    assert first is not None
    assert (first.check.name, first.check.source, first.ends_at) == ("network", "site", 3600)
    assert earliest([Verdict(NETWORK, State.UNKNOWN)]) is None


def test_a_batch_session_has_no_network_check() -> None:
    all_three = rules(lifetime="1d", network="1h", utilization=USE)
    found = checks_of([("policy", all_three)], NO_LEAST, batch=True, gpus=True)
    assert [one.name for one in found] == ["lifetime", "utilization"]
    assert checks_of([("policy", IdleRules())], NO_LEAST, batch=False, gpus=True) == ()


def test_thresholds_of_gpus_are_for_sessions_that_have_one() -> None:
    def metrics(thresholds: dict[str, float | None], gpus: bool) -> list[tuple[str, ...]]:
        use = rules(utilization={"window": 60, "operator": "or", "thresholds": thresholds})
        found = checks_of([("site", use)], NO_LEAST, batch=False, gpus=gpus)
        return [one.metrics for one in found]

    assert metrics({"gpu": 10, "mem": None, "cpu": 5}, True) == [("cpu", "gpu")]
    assert metrics({"gpu": 10, "mem": None, "cpu": 5}, False) == [("cpu",)]
    assert metrics({"gpu": 10, "gpu_mem": 10, "mem": None}, False) == []


def test_an_environment_may_ask_for_more_time_and_not_for_less() -> None:
    all_three = rules(lifetime="1d", network="1h", utilization=USE)
    for least, limits in (
        (IdleMinimum(lifetime="2d", network="2h", utilization="1h"), [172800, 7200, 3600]),
        (IdleMinimum(lifetime="1h", network="1m", utilization="1m"), [86400, 3600, 1800]),
    ):
        found = checks_of([("site", all_three)], least, batch=False, gpus=False)
        assert [one.limit for one in found] == limits


# What they say.


def test_lifetime_and_what_its_owner_may_keep() -> None:
    def check(keep: Keep | None) -> Check:
        place = [("site", rules(lifetime=1000))]
        return checks_of(place, NO_LEAST, batch=False, gpus=False, keep=keep)[0]

    facts = Facts(started=100.0, kept_until=2000.0)
    for keep in (None, Keep()):
        assert judge(check(keep), facts, 200.0, STALE).ends_at == 1100.0
    assert judge(check(Keep(lifetime=True)), facts, 200.0, STALE).ends_at == 2000.0
    verdict = judge(check(None), facts, 200.0, STALE)
    assert not is_due(verdict, facts, 1099.9)
    assert is_due(verdict, facts, 1100.0)


@pytest.mark.parametrize("polling", [False, True])
def test_network(polling: bool) -> None:
    check = replace(NETWORK, polling=polling)
    facts = Facts(started=0.0, used=300.0, asked=500.0, heard=510.0)
    last = 500.0 if polling else 300.0
    assert judge(check, facts, 520.0, STALE) == Verdict(check, State.COUNTING, last + 600)
    young = replace(facts, used=50.0, asked=60.0)
    assert judge(check, young, 520.0, STALE).ends_at == 700.0  # grace, and then its timeout
    kept = replace(facts, kept_until=5000.0)
    assert judge(check, kept, 520.0, STALE).ends_at == 5000.0
    for unknown in (
        replace(facts, used=None, asked=None),
        replace(facts, heard=None),
        replace(facts, heard=520.0 - STALE - 1),
    ):
        verdict = judge(check, unknown, 520.0, STALE)
        assert (verdict.state, verdict.ends_at) == (State.UNKNOWN, None)
        assert not is_due(verdict, unknown, 1e9)


def test_network_trusts_an_answer_until_the_end_comes_near() -> None:
    facts = Facts(started=0.0, used=1000.0, asked=1000.0, heard=1000.0)
    ahead = 300.0
    for now, state in (
        (1000.0, State.COUNTING),
        (1300.0 + STALE, State.COUNTING),  # from 1300 on it should have been asked
        (1300.1 + STALE, State.UNKNOWN),
    ):
        assert judge(NETWORK, facts, now, STALE, ahead).state is state
    near = replace(facts, heard=1400.0)
    assert judge(NETWORK, near, 1400.0 + STALE, STALE, ahead).ends_at == 1600.0
    assert judge(NETWORK, near, 1400.1 + STALE, STALE, ahead).state is State.UNKNOWN
    kept = replace(facts, kept_until=5000.0)
    assert judge(NETWORK, kept, 4700.0 + STALE, STALE, ahead).ends_at == 5000.0
    assert unused_until(NETWORK, kept) == 5000.0
    assert unused_until(NETWORK, Facts(0.0)) is None


def test_network_ends_only_what_was_asked_when_it_was_due() -> None:
    facts = Facts(started=0.0, used=300.0, asked=300.0, heard=890.0)
    verdict = judge(NETWORK, facts, 895.0, STALE)
    assert verdict.ends_at == 900.0
    assert not is_due(verdict, facts, 905.0)  # it may have been used since 890
    assert not is_due(verdict, replace(facts, used=899.0, heard=904.0), 905.0)
    assert is_due(verdict, replace(facts, heard=904.0), 905.0)


def test_who_comes_back_while_it_is_kept_is_not_taken_for_away() -> None:
    facts = Facts(started=0.0, used=300.0, heard=1995.0, kept_until=2000.0)
    verdict = judge(NETWORK, facts, 1996.0, STALE)
    assert not is_due(verdict, facts, 2001.0)
    assert is_due(verdict, replace(facts, heard=2001.0), 2001.0)
    late = replace(facts, heard=2001.0, kept_until=3000.0)  # kept after it was judged
    assert not is_due(verdict, late, 2001.0)


# What is used.


def watch(check: Check, since: float, history: Sequence[Values | str]) -> tuple[Window, float]:
    """A window that has seen these samples, "-" is none, and the time of the last."""
    window, now = Window(check.metrics, check.limit, since), 0.0
    for values in history:
        now += STEP
        if not isinstance(values, str):
            window.add(now - STEP, now, values)
    return window, now


def run_on(check: Check, window: Window, now: float, level: Values, rounds: int) -> float | None:
    """When rounds at this level, each judged by itself, end the session."""
    facts = Facts(0.0, windows={check: window})
    for _ in range(rounds):
        verdict = judge(check, facts, now, STALE)
        if is_due(verdict, facts, now):
            return now
        window.add(now, now + STEP, level)
        now += STEP
    return None


def use(operator: str, limits: Sequence[float], seconds: float) -> Check:
    names = ("cpu", "mem", "gpu")
    thresholds = tuple(zip(names, limits, strict=False))
    return Check("utilization", "site", seconds, operator=operator, thresholds=thresholds)


levels = st.one_of(st.sampled_from([0.0, 1.0, 100.0]), st.floats(0, 100))
maybe = st.one_of(st.none(), levels)
seen = st.one_of(st.just("-"), st.tuples(levels, levels))
samples = st.one_of(st.just("-"), st.tuples(maybe, maybe), st.tuples(levels, levels))


@st.composite
def histories(draw: st.DrawFn, of: st.SearchStrategy[Values | str] = samples) -> list[Values | str]:
    """Samples of two metrics in runs of the same, as sessions are."""
    runs = draw(st.lists(st.tuples(of, st.integers(1, 30)), min_size=1, max_size=12))
    return [values for values, times in runs for _ in range(times)]


checks = st.builds(
    use,
    st.sampled_from(["and", "or"]),
    st.lists(st.one_of(st.sampled_from([5.0, 50.0]), st.floats(0.5, 100)), min_size=2, max_size=2),
    st.sampled_from([60.0, 600.0, 1000.0, 1800.0]),
)


@settings(derandomize=True, database=None)
@given(check=checks, history=histories(seen), since=st.floats(0, 600))
def test_the_time_that_is_told_is_when_it_ends_give_or_take_a_sample(
    check: Check, history: list[Values | str], since: float
) -> None:
    window, now = watch(check, since, history)
    told, level = below_at(check, window, now), window.level
    rounds = int((check.limit * 1.1 + since) / STEP) + 3
    ended = run_on(check, deepcopy(window), now, level, rounds)
    if told is None:
        assert ended is None
        return
    assert ended is None or ended >= told - HAIR
    # Were there a round at that moment, it would end it. A dip may be over at the next one.
    at = max(told, now) + A_MOMENT
    window.add(now, at, level)
    facts = Facts(0.0, windows={check: window})
    again = judge(check, facts, at, STALE)
    soon = again.ends_at is not None and again.ends_at - at <= window.span  # exact to a bucket
    assert soon or is_due(again, facts, at)
    assert below_for(check, window, at) < STEP or (
        ended is not None and ended <= max(told, now) + STEP + HAIR
    )


def below_for(check: Check, window: Window, now: float) -> float:
    """For how long the averages of all metrics (or of one) stay below, at least."""
    spans = window.below(now, [limit for _, limit in check.thresholds])
    until = [next((high for low, high in one if low <= now), now) for one in spans]
    return (min(until) if check.operator == "and" else max(until)) - now


@settings(derandomize=True, database=None)
@given(check=checks, history=histories(), since=st.floats(0, 600))
def test_what_is_told_does_not_move_while_the_level_stays(
    check: Check, history: list[Values | str], since: float
) -> None:
    window, now = watch(check, since, history)
    first = told = below_at(check, window, now)
    level = window.level
    while first is not None and now + STEP < first:
        window.add(now, now + STEP, level)
        now += STEP
        told = below_at(check, window, now)
        assert told is not None
        assert abs(told - first) <= STEP


def ended_at(check: Check, since: float, history: Sequence[Values | str]) -> float | None:
    window, now = Window(check.metrics, check.limit, since), 0.0
    facts = Facts(0.0, windows={check: window})
    for values in history:
        now += STEP
        if not isinstance(values, str):
            window.add(now - STEP, now, values)
            verdict = judge(check, facts, now, STALE)
            if is_due(verdict, facts, now):
                return now
    return None


@settings(derandomize=True, database=None)
@given(check=checks, history=histories(), since=st.floats(0, 600), data=st.data())
def test_what_was_not_seen_never_ends_a_session_sooner(
    check: Check, history: list[Values | str], since: float, data: st.DataObject
) -> None:
    history = [*history, *[data.draw(st.tuples(maybe, maybe))] * 150]
    ended = ended_at(check, since, history)
    missing = data.draw(st.sets(st.integers(0, len(history) - 1)))
    with_gaps = ["-" if at in missing else one for at, one in enumerate(history)]
    down = data.draw(st.integers(0, len(history)))
    for_an_hour = [*history[:down], *"-" * 240, *history[down + 240 :]]
    for found in (ended, ended_at(check, since, with_gaps), ended_at(check, since, for_an_hour)):
        assert found is None or (ended is not None and found >= ended - HAIR)
        assert found is None or found >= since + check.limit - HAIR


def test_a_session_that_is_parked_ends_when_it_was_told() -> None:
    check = use("and", [5.0], 600.0)
    window, now = watch(check, 0.0, [(80.0,)] * 100)
    facts = Facts(0.0, windows={check: window})
    assert judge(check, facts, now, STALE) == Verdict(check, State.USED, None, (80.0,))
    # 80 % in the past and 1 % from now on: below 5 % when 30.4 s of the old are left.
    for _ in range(20):
        window.add(now, now + STEP, (1.0,))
        now += STEP
    verdict = judge(check, facts, now, STALE)
    assert verdict.state is State.COUNTING
    assert verdict.ends_at == pytest.approx(1500 + 600 - 4 / 79 * 600, abs=1.0)
    kept = replace(facts, kept_until=5000.0)
    assert judge(check, kept, now, STALE).ends_at == 5000.0
    assert not is_due(verdict, kept, 4000.0)


def test_nothing_ends_for_what_is_not_known() -> None:
    for operator, values, state in (
        ("and", (None, 0.0), State.UNKNOWN),
        ("and", (None, None), State.UNKNOWN),
        ("or", (None, None), State.UNKNOWN),
        ("or", (None, 90.0), State.USED),
        ("or", (None, 0.0), State.COUNTING),
    ):
        check = use(operator, [5.0, 5.0], 600.0)
        window, now = watch(check, 0.0, [values] * 100)
        verdict = judge(check, Facts(0.0, windows={check: window}), now, STALE)
        assert verdict.state is state
        assert (verdict.ends_at is None) == (state is not State.COUNTING)
    unheard = judge(check, Facts(0.0), 1e9, STALE)
    assert unheard == Verdict(check, State.UNKNOWN, None, (None, None))


def test_an_old_verdict_ends_nothing_that_was_not_seen_since() -> None:
    check = use("and", [5.0], 600.0)
    window, now = watch(check, 0.0, [(1.0,)] * 30)
    facts = Facts(0.0, windows={check: window})
    verdict = judge(check, facts, now, STALE)
    assert verdict.ends_at == 600.0
    assert not is_due(verdict, facts, 600.0)  # 150 s of it nobody looked
    assert not is_due(verdict, facts, 1e9)


def test_a_dip_is_told_ahead() -> None:
    """Busy, then idle, now in use a little above the threshold: as the busy time leaves, the
    average falls below, and it is told so while it has not."""
    check = use("and", [5.0], 600.0)
    window, now = watch(check, 0.0, [(100.0,)] * 5 + [(0.0,)] * 33 + [(9.0,)] * 2)
    (average,) = window.averages(now)
    assert average is not None
    assert average > 5
    told = below_at(check, window, now)
    assert told is not None
    ended = run_on(check, window, now, window.level, 40)
    assert ended is not None
    assert told <= ended <= told + STEP
