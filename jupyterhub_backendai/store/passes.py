"""A schedule pass over the database: what the decision is made on, and how it is written down.

What a pass writes of a session that goes on waiting is kept small, because there may be 10,000:

* its reason and position, only where they changed;
* its history, merged as any other. A wait with another code than the last one is a new row at
  once. The same wait again is one more attempt of that row, but at most one in `RETRY_INTERVAL`:
  passes run whenever anything changes, and a number of passes would say nothing about how long
  or how earnestly a session was tried. So `attempts` of a wait is about its length in minutes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, exists, func, insert, select, text, update

from ..model.catalog import Catalog, ResourceGroup
from ..model.gpus import GpuDevice
from ..model.policy import Policies
from ..model.request import SessionRequest
from ..model.slots import SLOT_NAMES, Limits, Slots
from ..model.status import AGENT_FAILED, IllegalTransition, Phase, Result, Status
from ..scheduling.fgpu import grant
from ..scheduling.queue import schedule
from ..scheduling.snapshot import (
    Agent,
    Dependency,
    Ending,
    GroupRule,
    Pending,
    Placement,
    Snapshot,
    Wait,
)
from . import agents, checks, history, sessions
from .history import Outcome
from .records import Session, SessionResult, SubStep
from .tables import ALLOCATIONS, DEPENDENCIES, HISTORY, LIVE, SESSIONS, among

RETRY_INTERVAL = timedelta(seconds=60)  # the same wait counts as one more attempt no more often
AVOID_FOR = timedelta(hours=1)  # how long an agent on which a session failed is avoided for it
MAIN_KERNEL = "main1"

_ALL = SESSIONS.c
_PENDING = (text(LIVE), _ALL.status == Status.PENDING.value)
_NEWEST = (
    select(func.max(HISTORY.c.id))
    .where(HISTORY.c.session_id == _ALL.id)
    .correlate(SESSIONS)
    .scalar_subquery()
)
# Read out of the request only where there is one.
_MIG_PROFILE = case((_ALL.mig > 0, _ALL.spec["mig_profile"].as_string())).label("mig_profile")
_WAITING = (
    select(
        _ALL.id, _ALL.owner, _ALL.project, _ALL.resource_group, *(_ALL[n] for n in SLOT_NAMES),
        _ALL.priority, _ALL.submitted_at, _ALL.status_changed_at, _ALL.agent_wanted,
        _ALL.not_before, _MIG_PROFILE, _ALL.reason_code, _ALL.reason, _ALL.position,
        HISTORY.c.id.label("last_id"), HISTORY.c.phase, HISTORY.c.error_code,
        HISTORY.c.to_status, HISTORY.c.result, HISTORY.c.updated_at,
        exists().where(ALLOCATIONS.c.session_id == _ALL.id).label("had_a_place"),
        exists().where(DEPENDENCIES.c.session_id == _ALL.id).label("depends"),
    )
    .select_from(SESSIONS)
    .outerjoin(HISTORY, HISTORY.c.id == _NEWEST)
    .where(*_PENDING)
)  # fmt: skip
# What is held is freed in the very moment of the row that says why.
_OF_ITS_END = (
    HISTORY.c.session_id == ALLOCATIONS.c.session_id,
    HISTORY.c.created_at == ALLOCATIONS.c.freed_at,
)
_AVOIDED = (
    select(ALLOCATIONS.c.session_id, ALLOCATIONS.c.agent)
    .join(SESSIONS, _ALL.id == ALLOCATIONS.c.session_id)
    .join(HISTORY, and_(*_OF_ITS_END))
    .where(*_PENDING, ALLOCATIONS.c.freed_at > bindparam("since"))
    .where(among(HISTORY.c.error_code, AGENT_FAILED))
)
_WHO_WAITS, _OTHER = SESSIONS.alias(), SESSIONS.alias()
_AWAITED = (
    select(
        DEPENDENCIES.c.session_id, _OTHER.c.id, _OTHER.c.name, _OTHER.c.status, _OTHER.c.result,
        _OTHER.c.ended_at,
    )
    .join(_WHO_WAITS, _WHO_WAITS.c.id == DEPENDENCIES.c.session_id)
    .join(_OTHER, _OTHER.c.id == DEPENDENCIES.c.depends_on)
    .where(_WHO_WAITS.c.status == Status.PENDING.value)
    .order_by(_OTHER.c.submitted_at, _OTHER.c.id)
)  # fmt: skip
_NEWEST_FIRST = func.row_number().over(
    partition_by=_ALL.owner, order_by=(_ALL.submitted_at.desc(), _ALL.id.desc())
)
_NUMBERED = select(_ALL.id, _NEWEST_FIRST.label("number")).where(text(LIVE)).subquery()
_GROUPS = (
    select(_ALL.owner, _ALL.owner_groups)
    .join(_NUMBERED, _NUMBERED.c.id == _ALL.id)
    .where(_NUMBERED.c.number == 1)
)
_HOLD = insert(ALLOCATIONS)
_TELL = (
    update(SESSIONS)
    .where(_ALL.id == bindparam("of"), _ALL.status == Status.PENDING.value)
    .values(reason_code=bindparam("code"), reason=bindparam("why"), position=bindparam("place"))
)


@dataclass(frozen=True, slots=True)
class _Latest:
    """The latest history row of a session, as far as merging needs it."""

    id: int
    phase: str
    error_code: str | None
    to_status: str | None
    result: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A pending session, and what its owner was told last: reason code, reason, position."""

    pending: Pending
    told: tuple[str, str, int | None]
    latest: _Latest | None


def snapshot(db: Connection, policies: Policies, catalog: Catalog, now: datetime) -> Snapshot:
    """Everything that a pass decides on, as of this transaction."""
    return _snapshot(db, _waiting(db, now), policies, catalog, now)


def run(db: Connection, policies: Policies, catalog: Catalog, now: datetime) -> list[Session]:
    """One pass; the caller sees to it that no other runs. Returns the sessions placed.

    Sessions are written before history, as everywhere else, so that no two writers of
    PostgreSQL ever wait for each other.
    """
    waiting = _waiting(db, now)
    if not waiting:
        return []
    found = _snapshot(db, waiting, policies, catalog, now)
    decision = schedule(found)

    def steps(session: Session) -> Sequence[SubStep]:
        rule = found.rules.get(session.resource_group) or GroupRule(session.resource_group)
        return checks.of_place(session, rule.selection, now)

    agents_of = {placement.session_id: placement.agent for placement in decision.placements}
    placed = sessions.place(db, agents_of, steps, now)
    _grant(db, placed, decision.placements, found.agents, now)
    for ending in decision.endings:
        _end(db, ending, now)
    _tell(db, decision.waits, waiting)
    _note(db, decision.waits, waiting, now)
    return placed


def left_waiting(
    db: Connection, owner: str, policies: Policies, catalog: Catalog, now: datetime
) -> list[str]:
    """Ids of the owner's sessions that a pass would leave in line now; changes nothing."""
    found = snapshot(db, policies, catalog, now)
    waits = {wait.session_id for wait in schedule(found).waits}
    return [one.id for one in found.pending if one.owner == owner and one.id in waits]


def _waiting(db: Connection, now: datetime) -> dict[str, _Waiting]:
    rows = db.execute(_WAITING).all()
    if not rows:
        return {}
    # Asked for only where there can be any.
    avoided = _avoided(db, now) if any(row.had_a_place for row in rows) else {}
    awaited = _awaited(db) if any(row.depends for row in rows) else {}
    return {
        row.id: _read(row, avoided.get(row.id, frozenset()), awaited.get(row.id, ()))
        for row in rows
    }


def _read(row: Any, avoid: frozenset[str], awaited: Sequence[Any]) -> _Waiting:
    pending = Pending(
        id=row.id,
        owner=row.owner,
        project=row.project,
        group=row.resource_group,
        slots=Slots(row.cpu, row.mem, row.fgpu, row.gpu, row.mig),
        priority=row.priority,
        submitted_at=row.submitted_at.timestamp(),
        agent=row.agent_wanted,
        not_before=row.not_before.timestamp() if row.not_before else None,
        avoid=avoid,
        dependencies=_dependencies(awaited),
        ready_at=max((one.ended_at.timestamp() for one in awaited if one.ended_at), default=None),
        pending_since=row.status_changed_at.timestamp(),
        profile=row.mig_profile,
    )
    latest = None
    if row.last_id is not None:
        latest = _Latest(
            row.last_id, row.phase, row.error_code, row.to_status, row.result, row.updated_at
        )
    return _Waiting(pending, (row.reason_code, row.reason, row.position), latest)


def candidate(db: Connection, request: SessionRequest, owner: str, now: datetime) -> Pending:
    """A session as it would wait if it were submitted now, behind all of its priority."""
    of = SESSIONS.c
    awaited = db.execute(
        select(of.id, of.name, of.status, of.result).where(of.id.in_(request.depends_on))
    ).all()
    return Pending(
        id="\uffff",
        owner=owner,
        project=request.project,
        group=request.resource_group,
        slots=request.slots,
        priority=request.priority,
        submitted_at=now.timestamp(),
        agent=request.agent,
        not_before=request.not_before.timestamp() if request.not_before else None,
        dependencies=_dependencies(awaited),
        profile=request.mig_profile,
    )


def _dependencies(awaited: Sequence[Any]) -> tuple[Dependency, ...]:
    """Of sessions that one waits for those that have not ended in success."""
    return tuple(
        Dependency(one.id, one.name, failed=Status(one.status).is_final)
        for one in awaited
        if not _succeeded(one)
    )


def _succeeded(row: Any) -> bool:
    return Status(row.status).is_final and row.result == SessionResult.SUCCESS.value


def _awaited(db: Connection) -> dict[str, list[Any]]:
    """What sessions that wait depend on, by the id of the one that waits."""
    found: dict[str, list[Any]] = {}
    for row in db.execute(_AWAITED):
        found.setdefault(row.session_id, []).append(row)
    return found


def _avoided(db: Connection, now: datetime) -> dict[str, frozenset[str]]:
    """Agents that failed a session lately which waits again."""
    found: dict[str, set[str]] = {}
    for session_id, agent in db.execute(_AVOIDED, {"since": now - AVOID_FOR}):
        found.setdefault(session_id, set()).add(agent)
    return {session_id: frozenset(names) for session_id, names in found.items()}


def _snapshot(
    db: Connection,
    waiting: Mapping[str, _Waiting],
    policies: Policies,
    catalog: Catalog,
    now: datetime,
) -> Snapshot:
    pending, held = [session.pending for session in waiting.values()], agents.holdings(db)
    return Snapshot(
        now=now.timestamp(),
        pending=pending,
        agents=[
            Agent(a.name, a.group, a.capacity, a.available, a.schedulable, a.devices)
            for a in agents.agents(db)
        ],
        holdings=held,
        owner_limits=_owner_limits(
            db, policies, {p.owner for p in pending} | {h.owner for h in held}
        ),
        project_limits={name: quota.limits for name, quota in policies.projects.items()},
        rules={g.name: _rule(g) for g in catalog.resource_groups},
    )


def _rule(group: ResourceGroup) -> GroupRule:
    return GroupRule(
        group.name, group.queue, group.max_bypass, group.selection, group.pending_timeout,
        group.gpu_spread, group.gpu_placement,
    )  # fmt: skip


def _owner_limits(db: Connection, policies: Policies, owners: Collection[str]) -> dict[str, Limits]:
    """Limits of `owners`, who are all that have a live session, by the groups known when the newest
    came in. Those are read only where some group has a policy."""
    if not policies.groups:
        return {owner: policies.of(owner, ()).limits for owner in owners}
    return {owner: policies.of(owner, groups).limits for owner, groups in db.execute(_GROUPS)}


def _grant(
    db: Connection,
    placed: Sequence[Session],
    placements: Sequence[Placement],
    agents: Sequence[Agent],
    now: datetime,
) -> None:
    """Notes what each of those that were placed holds there."""
    devices = {p.session_id: p.devices for p in placements if p.devices}
    known: dict[tuple[str | None, str], GpuDevice] = {}
    if devices:
        known = {(a.name, d.uuid): d for a in agents for d in a.devices}
    values = [
        {
            "session_id": session.id,
            "kernel": MAIN_KERNEL,
            "agent": session.agent,
            "created_at": now,
            "devices": tuple(
                grant(device, amount)
                for uuid, amount in devices.get(session.id, ())
                if (device := known.get((session.agent, uuid)))  # else amounts alone are known
            ),
            **session.slots.as_dict(),
        }
        for session in placed
    ]
    if values:
        db.execute(_HOLD, values)


def _end(db: Connection, ending: Ending, now: datetime) -> None:
    """Takes one out of line for good, unless it was cancelled since the pass began."""
    result = Result.EXPIRED if ending.code == "pending_timeout" else Result.GIVE_UP
    outcome = Outcome(
        Phase.SCHEDULE, result, to_status=Status.CANCELLED, error_code=ending.code,
        message=ending.reason, sub_steps=checks.of_ending(ending, now),
    )  # fmt: skip
    try:
        sessions.move(
            db, sessions.locked(db, ending.session_id), outcome, now=now, expect=Status.PENDING,
            reason_code=ending.code, reason=ending.reason,
        )  # fmt: skip
    except IllegalTransition:
        return


def _tell(db: Connection, waits: Sequence[Wait], waiting: Mapping[str, _Waiting]) -> None:
    """Writes why each waits and where in line, where that is news. Leaves `version` alone: a
    queue that moves is no change that two people could make at once."""
    news = [
        {"of": wait.session_id, "code": wait.code, "why": wait.reason, "place": wait.position}
        for wait in waits
        if waiting[wait.session_id].told != (wait.code, wait.reason, wait.position)
    ]
    if news:
        db.execute(_TELL, news)


def _note(
    db: Connection, waits: Sequence[Wait], waiting: Mapping[str, _Waiting], now: datetime
) -> None:
    """Writes the history of those that wait, as the head of this module says."""
    again, first = [], []
    for wait in waits:
        outcome = Outcome(Phase.SCHEDULE, wait.result, Status.PENDING, None, wait.code, wait.reason)
        latest = waiting[wait.session_id].latest
        if latest is None or not outcome.repeats(
            latest.phase, latest.error_code, latest.to_status, latest.result
        ):
            outcome = replace(outcome, sub_steps=checks.of_wait(wait, now))
            first.append(outcome.values(wait.session_id, now))
        elif now - latest.updated_at >= RETRY_INTERVAL:
            again.append(latest.id)
    history.count_again(db, again, now)
    history.add(db, first)
