"""Puts what stopped each session into a code, a place in line, and a sentence.

All of it describes how things stand after the pass, so that two sessions never read two figures
of the same free cores. "Held back by others" means: there is room or quota for it now, and it
is kept for one before it.
"""

from __future__ import annotations

from ..model.slots import Slots
from ..model.status import Result
from ..model.steps import Step
from . import reasons
from .gpu_room import Wanted, slots_of, wanted_of
from .quotas import Account
from .snapshot import Agent, Code, Pending, Wait
from .state import Cause, Group, State

Told = tuple[Code, str, Result]

OUT_OF_LINE: frozenset[Cause] = frozenset({"never", "dependency", "not_before"})
"""Causes of those that stand behind the line; see `explain`."""

_CHECKS: dict[Cause, Step] = {
    "never": Step.LIMITS,
    "dependency": Step.DEPENDENCIES,
    "not_before": Step.START_TIME,
    "no_agent": Step.AGENTS,
    "owner": Step.OWNER_QUOTA,
    "project": Step.PROJECT_QUOTA,
    "closed": Step.TURN,
    "agent": Step.SELECT_AGENT,
    "room": Step.SELECT_AGENT,
}


def explain(state: State, waiting: list[tuple[Pending, Cause]]) -> tuple[Wait, ...]:
    """One `Wait` for each, in the order given. What cannot start as things are, whatever the
    others do, stands behind the line: it is before nobody."""
    positions = _positions(waiting)
    told = _Sentences(state)
    waits = []
    for pending, cause in waiting:
        position = positions[pending.id]
        code, reason, result = told.about(pending, cause, position)
        waits.append(Wait(pending.id, code, reason, position, result, _CHECKS[cause]))
    return tuple(waits)


def explain_one(state: State, pending: Pending, cause: Cause, position: int) -> Told:
    """Code, sentence and result of one that would be at this place (from 1) in its line."""
    return _Sentences(state).about(pending, cause, position)


def _positions(waiting: list[tuple[Pending, Cause]]) -> dict[str, int]:
    positions: dict[str, int] = {}
    last: dict[str, int] = {}
    for out in (False, True):
        for pending, cause in waiting:
            if (cause in OUT_OF_LINE) is out:
                position = last[pending.group] = last.get(pending.group, 0) + 1
                positions[pending.id] = position
    return positions


class _Sentences:
    """Sentences about the end of one pass; those about room are the same for equal sizes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._rooms: dict[tuple[str, Wanted], str | None] = {}

    def about(self, pending: Pending, cause: Cause, position: int) -> Told:
        """Code, sentence and result of one session."""
        group = self._state.groups[pending.group]
        if cause == "never":
            return "never_fits", self._never(group, pending), Result.NEED_RETRY
        if cause == "dependency":
            names = [one.name for one in pending.dependencies]
            return "dependency", reasons.dependency(names), Result.SKIPPED
        if cause == "not_before":
            start = reasons.not_before(pending.not_before or 0.0)
            return "not_before", start, Result.SKIPPED
        if cause == "no_agent":
            return _no_agent(group, pending)
        if cause == "owner":
            return _quota(self._state.owner(pending), pending, None)
        if cause == "project":
            return _quota(self._state.project(pending), pending, pending.project)
        if cause == "closed":
            return "behind", reasons.in_order(group.rule.name, position), Result.SKIPPED
        if cause == "agent":
            return _agent_full(group, pending, position)
        return self._room(group, pending, position)

    def _never(self, group: Group, pending: Pending) -> str:
        for account, project in (
            (self._state.owner(pending), None),
            (self._state.project(pending), pending.project),
        ):
            if account is not None and (over := account.never(pending.slots)):
                return reasons.never_allowed(pending.slots, over, account.limits, project)
        name, wanted = group.rule.name, pending.slots
        if pending.agent is not None:
            agent = group.known[pending.agent]
            return reasons.never_fits(
                wanted, agent.capacity, name, pending.agent, profile=pending.profile
            )
        largest = group.capacities(_wanted(pending), taking=False).largest
        return reasons.never_fits(wanted, _slots(largest, pending), name, profile=pending.profile)

    def _room(self, group: Group, pending: Pending, position: int) -> Told:
        key = (pending.group, _wanted(pending))
        if key in self._rooms:
            sentence = self._rooms[key]
        else:
            sentence = self._rooms[key] = _no_room(group, pending)
        if sentence is None:
            return "behind", reasons.kept_room(position), Result.SKIPPED
        return "no_room", reasons.waiting(sentence, position), Result.NEED_RETRY


def _wanted(pending: Pending) -> Wanted:
    return wanted_of(pending.slots, pending.profile)


def _slots(amounts: tuple[int, int, int], pending: Pending) -> Slots:
    """Amounts of the kind that the session asks."""
    return slots_of(Wanted(*amounts, _wanted(pending).kind))


def _no_room(group: Group, pending: Pending) -> str | None:
    """What is missing, or None if nothing is but the right to it."""
    wanted = _wanted(pending)
    if group.left_over(wanted).holds(wanted[:3]):
        return None
    return reasons.no_room(pending.slots, group.summary(wanted), pending.profile)


def _agent_full(group: Group, pending: Pending, position: int) -> Told:
    machine = group.room.machines[pending.agent or ""]
    free = _slots(group.free_on(machine, _wanted(pending)), pending)
    if all(amount == 0 or amount <= getattr(free, name) for name, amount in pending.slots):
        return "behind", reasons.kept_room(position), Result.SKIPPED
    sentence = reasons.agent_full(pending.slots, machine.name, free, pending.profile)
    return "agent_full", reasons.waiting(sentence, position), Result.NEED_RETRY


def _no_agent(group: Group, pending: Pending) -> Told:
    """Of one that no machine takes which could hold it. One that is drained counts as that whether
    it answers or not: its admin knows of it."""
    if pending.agent is not None:
        could = [group.known[pending.agent]] if pending.agent in group.known else []
    else:
        wanted = _wanted(pending)
        could = [a for a in group.known.values() if _may_hold(group, a, wanted)]
    drained = sum(not one.schedulable for one in could)
    code: Code = "drained" if could and drained == len(could) else "no_agent"
    if any(one.takes_sessions for one in could):
        told = reasons.gpu_lost(pending.slots, group.rule.name, pending.profile, pending.agent)
        return code, told, Result.NEED_RETRY
    return code, _missing(group, pending, len(could) - drained, drained), Result.NEED_RETRY


def _may_hold(group: Group, agent: Agent, wanted: Wanted) -> bool:
    """Whether it could run this with nothing else on it. One that never answered might: nobody
    knows what it has."""
    return agent.capacity == Slots() or group.could_hold(agent, wanted)


def _missing(group: Group, pending: Pending, silent: int, drained: int) -> str:
    """Why none of those takes it that could hold it: so many do not answer, so many are drained."""
    name = group.rule.name
    if pending.agent is not None:
        if drained:
            return reasons.machine_drained(pending.agent)
        if silent:
            return reasons.machine_silent(pending.agent)
        return reasons.machine_gone(pending.agent, name)
    if not group.room.machines:
        return reasons.no_machine(name, silent, drained)
    largest = _slots(group.capacities(_wanted(pending), taking=True).largest, pending)
    return reasons.too_small_now(pending.slots, name, largest, silent, drained, pending.profile)


def _quota(account: Account | None, pending: Pending, project: str | None) -> Told:
    assert account is not None, "only an account can stop a session for its quota"
    wanted, limits = pending.slots, account.limits
    over = account.over(wanted)
    if not over:
        kept = reasons.quota_kept(account.over_kept(wanted), limits, project)
        return "behind", kept, Result.SKIPPED
    code: Code
    if over == ("sessions",):
        code = "owner_sessions" if project is None else "project_sessions"
        told = reasons.sessions_full(account.sessions, limits.sessions or 0, project)
    else:
        code = "owner_quota" if project is None else "project_quota"
        told = reasons.quota_full(wanted, over, account.used, limits, project)
    return code, told, Result.NEED_RETRY
