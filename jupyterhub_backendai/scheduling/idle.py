"""When each check would end a session: pure functions of what is configured and what was seen.

All times are seconds of one clock that only goes forward; see `service.idle.clock`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from ..model.idle import (
    GPU_METRICS,
    METRICS,
    CheckName,
    IdleMinimum,
    IdleRules,
    Keep,
    Utilization,
)
from .window import HAIR, Span, Values, Window, common


class State(str, Enum):
    """What a check says of a session now."""

    COUNTING = "counting"  # it ends the session at `ends_at` if nothing changes
    USED = "used"  # it is used, and no end is in sight
    UNKNOWN = "unknown"  # what it asks about is not known; that ends nothing


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one place on a session. `limit`: its lifetime, its timeout or its window, in
    seconds; `grace`: seconds from its start. `bends`: whether the owner may put its end off.
    `rests`: whether that end is to be hibernated. The rest is as in `model.idle`."""

    name: CheckName
    source: str  # "site", "policy" or "group"
    limit: float
    grace: float = 0.0
    bends: bool = True
    rests: bool = False
    polling: bool = False
    operator: str = "and"
    thresholds: tuple[tuple[str, float], ...] = ()

    @property
    def reach(self) -> float:
        """Seconds away that use puts an end by it, at most; infinite for one that use does not put
        off at all, and nobody who works is warned of in vain."""
        return inf if self.name == "lifetime" else self.limit

    @property
    def metrics(self) -> tuple[str, ...]:
        """Of what its thresholds are."""
        return tuple(metric for metric, _ in self.thresholds)


@dataclass(slots=True)
class Facts:
    """What is known of a session. `used`, `asked`: when a client used it last, and asked anything;
    both as of `heard`. None: never heard of. `kept_until`: its owner keeps it so long."""

    started: float
    used: float | None = None
    asked: float | None = None
    heard: float | None = None
    kept_until: float | None = None
    windows: Mapping[Check, Window] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check says. `ends_at`: when it ends the session; None where it does not. `averages`:
    what the utilization check compares with its thresholds, in their order."""

    check: Check
    state: State
    ends_at: float | None = None
    averages: Values = ()


def checks_of(
    rules: Sequence[tuple[str, IdleRules]],
    least: IdleMinimum,
    *,
    batch: bool,
    gpus: bool,
    keep: Keep | None = None,
    may_rest: bool = False,
) -> tuple[Check, ...]:
    """All checks of a session, by the rules of each place that has a say. Each is judged by itself,
    so the strictest counts. `least`: what its environment needs. `gpus`: whether it has any.
    `keep`: what its owner may keep. `may_rest`: whether one of this owner may be hibernated."""
    found: list[Check] = []
    for source, one in rules:
        rests = one.then == "hibernate" and may_rest and not batch
        if one.lifetime is not None:
            limit = max(one.lifetime, least.lifetime or 0)
            bends = keep is not None and keep.lifetime
            found.append(Check("lifetime", source, limit, bends=bends))
        if one.network is not None and not batch:
            asked = one.network
            limit = max(asked.timeout, least.network or 0)
            found.append(
                Check("network", source, limit, asked.grace, rests=rests, polling=asked.polling)
            )
        if one.utilization is not None and (thresholds := _thresholds(one.utilization, gpus)):
            use = one.utilization
            limit = max(use.window, least.utilization or 0)
            found.append(
                Check("utilization", source, limit, use.grace, rests=rests,
                      operator=use.operator, thresholds=thresholds)
            )  # fmt: skip
    return tuple(found)


def _thresholds(use: Utilization, gpus: bool) -> tuple[tuple[str, float], ...]:
    """Those that are numbers, and of something that the session has."""
    return tuple(
        (metric, value)
        for metric in METRICS
        if (value := use.thresholds.get(metric)) is not None
        if gpus or metric not in GPU_METRICS
    )


def judge(check: Check, facts: Facts, now: float, stale: float, ahead: float = inf) -> Verdict:
    """What a check says now. `stale`: seconds after which what was heard last says nothing, in the
    last `ahead` seconds before an end; before that it is an end that may only move away."""
    if check.name == "lifetime":
        return _kept(Verdict(check, State.COUNTING, facts.started + check.limit), facts)
    if check.name == "network":
        return _network(check, facts, now, stale, ahead)
    window = facts.windows.get(check)
    if window is None:
        return Verdict(check, State.UNKNOWN, None, (None,) * len(check.thresholds))
    verdict = _utilization(check, window, now)
    return _kept(verdict, facts)


def _kept(verdict: Verdict, facts: Facts) -> Verdict:
    if verdict.ends_at is None or facts.kept_until is None or not verdict.check.bends:
        return verdict
    return Verdict(
        verdict.check, verdict.state, max(verdict.ends_at, facts.kept_until), verdict.averages
    )


def _network(check: Check, facts: Facts, now: float, stale: float, ahead: float) -> Verdict:
    ends = unused_until(check, facts)
    if ends is None or facts.heard is None or now - max(facts.heard, ends - ahead) > stale:
        return Verdict(check, State.UNKNOWN)
    return Verdict(check, State.COUNTING, ends)


def unused_until(check: Check, facts: Facts) -> float | None:
    """When a network check ends a session that nobody has used since it was asked; None where it
    never said. Whoever uses it only moves this away."""
    last = facts.asked if check.polling else facts.used
    if last is None:
        return None
    ends = max(last, facts.started + check.grace) + check.limit
    is_kept = facts.kept_until is not None and check.bends
    return max(ends, facts.kept_until or 0.0) if is_kept else ends


def _utilization(check: Check, window: Window, now: float) -> Verdict:
    averages, spans = window.judge(now, [limit for _, limit in check.thresholds])
    ends = _first(check, spans)
    if ends is not None:
        return Verdict(check, State.COUNTING, ends, averages)
    is_unknown = _is_unknown(check, averages) and now >= window.full_at
    return Verdict(check, State.UNKNOWN if is_unknown else State.USED, None, averages)


def _is_unknown(check: Check, averages: Values) -> bool:
    known = [value is not None for value in averages]
    return not all(known) if check.operator == "and" else not any(known)


def below_at(check: Check, window: Window, now: float) -> float | None:
    """When the averages are first below the thresholds over a whole window, if the present level
    goes on; None: never."""
    return _first(check, window.below(now, [limit for _, limit in check.thresholds]))


def _first(check: Check, spans: Iterator[list[Span]]) -> float | None:
    if check.operator == "or":
        return min((low for one in spans for low, _ in one), default=None)
    found = next(spans)
    for one in spans:
        if not found:
            return None
        found = common(found, one)
    return found[0][0] if found else None


def earliest(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The one that ends a session first, if any does."""
    ending = [one for one in verdicts if one.ends_at is not None]
    return min(ending, key=lambda one: one.ends_at or 0.0, default=None)


def is_due(verdict: Verdict, facts: Facts, now: float) -> bool:
    """Whether a session is to be ended now: what is known of it now must say so, too. Of the
    network check the session must have been asked since it was due, so that nobody who came back
    a moment ago is taken for away; of the utilization check it must have been measured."""
    if verdict.ends_at is None or verdict.ends_at > now:
        return False
    ends = judge(verdict.check, facts, now, inf).ends_at
    if ends is None or ends > now:
        return False
    if verdict.check.name == "network":
        return facts.heard is not None and facts.heard >= ends - HAIR
    window = facts.windows.get(verdict.check)
    if window is None:
        return True
    below = below_at(verdict.check, window, now)
    return below is not None and below <= window.told(now) + HAIR


def ahead(warning: float, reach: float) -> float:
    """How long before an end somebody is warned of it where the admin wants `warning` seconds. Of
    one that use puts off by `reach` seconds, after half of them at the earliest: who works in
    between has always less than all of them left."""
    return min(warning, reach / 2)
