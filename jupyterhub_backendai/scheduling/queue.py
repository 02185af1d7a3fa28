"""Who starts now, where, and why the others wait.

One pass goes through all pending sessions, highest priority first, then oldest, and starts each
one that its quotas and a machine admit. Quotas hold over all resource groups; each group has its
own line. What belongs to a session alone (its start time, what it depends on, a quota, the one
machine that its user picked) lets those behind it go on. Where a session finds no room:

* in a *strict* group everything behind it waits;
* in a *backfill* group smaller ones may pass it until it has waited for `max_bypass` seconds. From
  then on it is *protected*: nothing behind it may take what it waits for.

What waited too long, or depends on what did not end in success, waits no more: it is ended, and
with it what depends on it.

Why nothing starves
-------------------
Let W be protected and lack room, and L be behind W. On each machine where W could ever run, L may
take of a slot only what leaves all of W's amount of it free (`Room.keep`). So of a slot that W
lacks there L gets nothing, and of a slot that W does not lack W's amount stays. Hence *L never
increases what W lacks, in any slot, on any machine*: what W lacks can only fall, as sessions
that run now end, and rise through sessions that are before W. The first in line has none before
it, so it starts in the very pass in which it would start if nobody were behind it. Then the next
one is the first. Time decides the order among equals, so only finitely many are ever before W
and each one in line starts, provided that sessions end. (A stream of sessions with a higher
priority may hold W back for as long as it lasts: this is what priority means.)

Why on every machine and not on one that is reserved: nobody knows which session ends next. A
single machine that is kept for W may host a session that runs for weeks, while L and its like take
the machine that would have come free in an hour. Sessions that need nothing W lacks still pass: on
machines that are too small for W, and on W's own (work on cores beside a GPU that W waits for).

The same holds for quotas, from the owner's over the project's to room. A protected session keeps
its amount of the first of them that it lacks, and of those before that one, so what it once
had within its reach nothing behind it takes away. What comes after is not kept: that its owner
has used up a quota must cost neither a project nor a machine anything. A machine that the user
picked is kept the same way, at once in a strict group since nothing is to be passed there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..model.slots import Slots
from . import reasons
from .gpu_room import wanted_of
from .placement import Spot
from .reasons import STARTS_NOW
from .snapshot import Code, Decision, Devices, Ending, Pending, Placement, Snapshot
from .state import Cause, Group, State
from .waits import OUT_OF_LINE, explain, explain_one

# What waits for one of these has nobody before it, whatever its place in line.
_BY_ITSELF: frozenset[Code] = frozenset({"not_before", "dependency"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What would happen to a session that is submitted now. `ahead`: how many are before it."""

    code: Literal["now", "waits", "never"]
    reason: str
    ahead: int


def schedule(snapshot: Snapshot) -> Decision:
    """One pass. The same snapshot, in whatever order its parts come, gives the same decision."""
    state = State(snapshot)
    placements, waiting, endings = _walk(state, sorted(snapshot.pending, key=turn))
    if endings:
        waiting = _with_dependents(waiting, endings)
    return Decision(tuple(placements), explain(state, waiting), tuple(endings))


def verdicts(snapshot: Snapshot, candidates: Sequence[Pending]) -> list[Verdict]:
    """What the next pass would decide on each of `candidates` if it alone were submitted now.

    All of them have the same id, priority and submission time. So one pass up to their turn is
    the same for all, and what follows it too, for all that do not hold those behind them back.
    """
    line = sorted(snapshot.pending, key=turn)
    theirs = bisect_left(line, turn(candidates[0]), key=turn) if candidates else 0
    before, behind = line[:theirs], line[theirs:]
    with_all = replace(snapshot, pending=(*line, *candidates))
    state = State(with_all)
    _, waiting, _ = _walk(state, before)
    ahead = Counter(pending.group for pending, cause in waiting if cause not in OUT_OF_LINE)
    outcomes = [_decide(state, candidate) for candidate in candidates]
    holding_back = [
        None if isinstance(outcome, Spot) else _effect(state, candidate, outcome, bool(behind))
        for candidate, outcome in zip(candidates, outcomes, strict=True)
    ]
    _walk(state, behind)
    ends: dict[_Effect | None, State] = {None: state}
    found = []
    for candidate, outcome, effect in zip(candidates, outcomes, holding_back, strict=True):
        if isinstance(outcome, Spot):
            found.append(Verdict("now", STARTS_NOW, 0))
            continue
        if effect not in ends:
            ends[effect] = end = State(with_all)
            _walk(end, before)
            _protect(end, candidate, outcome)
            _walk(end, behind)
        place = ahead[candidate.group]
        code, reason, _ = explain_one(ends[effect], candidate, outcome, place + 1)
        if code == "never_fits":
            found.append(Verdict("never", reason, 0))
        else:
            found.append(Verdict("waits", reason, 0 if code in _BY_ITSELF else place))
    return found


_Effect = tuple[object, ...]


def _effect(state: State, candidate: Pending, cause: Cause, any_behind: bool) -> _Effect | None:
    """What `_protect` would change for those behind it, and for what is said of itself: equal for
    candidates that change the same, None where it changes nothing that matters."""
    group = state.groups[candidate.group]
    strict = group.rule.mode == "strict"
    about_quota = cause in {"owner", "project"}
    if cause in OUT_OF_LINE or cause == "no_agent" or not (any_behind or about_quota):
        return None
    if _waited(state, candidate) >= group.rule.max_bypass or (strict and cause == "agent"):
        owner, project = candidate.owner, candidate.project
        size = (candidate.slots, candidate.profile)
        return (candidate.group, cause, size, candidate.agent, owner, project)
    return (candidate.group,) if strict and cause == "room" else None


def _walk(
    state: State, line: Iterable[Pending]
) -> tuple[list[Placement], list[tuple[Pending, Cause]], list[Ending]]:
    """Goes through a part of the line: who starts, what stopped each of the others, and which of
    those wait no more."""
    placements: list[Placement] = []
    waiting: list[tuple[Pending, Cause]] = []
    endings: list[Ending] = []
    for pending in line:
        outcome = _decide(state, pending)
        if isinstance(outcome, Spot):
            devices = _take(state, pending, outcome)
            placements.append(Placement(pending.id, outcome.machine.name, devices))
        elif (ending := _ending(state, pending, outcome)) is not None:
            endings.append(ending)
        else:
            waiting.append((pending, outcome))
            _protect(state, pending, outcome)
    return placements, waiting, endings


def turn(pending: Pending) -> tuple[int, float, str]:
    """What the line is sorted by: the highest priority first, then the oldest."""
    return (-pending.priority, pending.submitted_at, pending.id)


def _ending(state: State, pending: Pending, cause: Cause) -> Ending | None:
    """Whether what does not start now waits no more."""
    failed = next((one for one in pending.dependencies if one.failed), None)
    if failed is not None:
        reason = reasons.dependency_failed(failed.name)
        return Ending(pending.id, "dependency_failed", reason)
    rule = state.groups[pending.group].rule
    since = max(pending.could_start_at, pending.pending_since or 0.0)
    if not rule.pending_timeout or pending.dependencies or state.now - since < rule.pending_timeout:
        return None
    reason = reasons.pending_timeout(rule.name, rule.pending_timeout)
    return Ending(pending.id, "pending_timeout", reason)


def _with_dependents(
    waiting: list[tuple[Pending, Cause]], endings: list[Ending]
) -> list[tuple[Pending, Cause]]:
    """Ends what depends on what was ended, and so on. They wait for a session, so they held
    nothing back and nothing was decided by them. Returns those that go on waiting."""
    dependents: dict[str, list[tuple[Pending, str]]] = {}
    for pending, _ in waiting:
        for one in pending.dependencies:
            dependents.setdefault(one.session_id, []).append((pending, one.name))
    over: set[str] = set()
    for ending in endings:  # which grows while we go
        for pending, name in dependents.get(ending.session_id, ()):
            if pending.id not in over:
                over.add(pending.id)
                reason = reasons.dependency_failed(name)
                endings.append(Ending(pending.id, "dependency_failed", reason))
    return [(pending, cause) for pending, cause in waiting if pending.id not in over]


def _decide(state: State, pending: Pending) -> Spot | Cause:
    """Where it would be put now, or what stops it."""
    group = state.groups[pending.group]
    owner, project = state.owner(pending), state.project(pending)
    if owner is not None and not owner.possible(pending.slots):
        return "never"
    if project is not None and not project.possible(pending.slots):
        return "never"
    hopeless = _no_machine(group, pending)
    if hopeless == "never":
        return "never"
    if pending.dependencies:
        return "dependency"
    if pending.not_before is not None and pending.not_before > state.now:
        return "not_before"
    if hopeless is not None:
        return hopeless
    if owner is not None and not owner.admits(pending.slots):
        return "owner"
    if project is not None and not project.admits(pending.slots):
        return "project"
    if group.closed:
        return "closed"
    return _room(group, pending)


def _no_machine(group: Group, pending: Pending) -> Literal["never", "no_agent"] | None:
    """Whether no machine could hold it at all, or none of those that take sessions now."""
    wanted = wanted_of(pending.slots, pending.profile)
    if pending.agent is not None:
        agent = group.known.get(pending.agent)
        if agent is None:
            return "no_agent"
        if not group.could_hold(agent, wanted):
            return "no_agent" if agent.capacity == Slots() else "never"
        machine = group.room.machines.get(pending.agent)
        there = machine is not None and machine.could_have(wanted, group.room.gpus.even)
        return None if there else "no_agent"
    if group.capacities(wanted, taking=True).holds(wanted[:3]):
        return None
    everything = group.capacities(wanted, taking=False)
    if not group.known or not group.all_known or everything.holds(wanted[:3]):
        return "no_agent"
    return "never"


def _room(group: Group, pending: Pending) -> Spot | Cause:
    """A machine that has room for it."""
    wanted = wanted_of(pending.slots, pending.profile)
    if pending.agent is None:
        return group.room.find(wanted, pending.avoid) or "room"
    return group.room.find_on(group.room.machines[pending.agent], wanted) or "agent"


def _take(state: State, pending: Pending, spot: Spot) -> Devices:
    """Give it the room, and count it as held from here on; tells its GPUs."""
    wanted = wanted_of(pending.slots, pending.profile)
    devices = state.groups[pending.group].room.take(spot, wanted)
    for account in (state.owner(pending), state.project(pending)):
        if account is not None:
            account.take(pending.slots)
    return devices


def _protect(state: State, pending: Pending, cause: Cause) -> None:
    """Hold those behind it back as far as the rules say; the argument is at the top."""
    if cause in OUT_OF_LINE or cause == "no_agent":
        return
    group = state.groups[pending.group]
    strict = group.rule.mode == "strict"
    protected = _waited(state, pending) >= group.rule.max_bypass
    if cause == "room" and strict:
        group.closed = True
    elif cause == "room" and protected:
        group.room.keep(wanted_of(pending.slots, pending.profile))
    elif cause == "agent" and (strict or protected) and pending.agent is not None:
        machine = group.room.machines[pending.agent]
        group.room.keep_on(machine, wanted_of(pending.slots, pending.profile))
    if protected:
        owner, project = state.owner(pending), state.project(pending)
        if owner is not None:
            owner.keep(pending.slots)
        if project is not None and cause != "owner":
            project.keep(pending.slots)


def _waited(state: State, pending: Pending) -> float:
    """Seconds since it could have started."""
    return state.now - pending.could_start_at
