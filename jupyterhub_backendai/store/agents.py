"""Agents as they are reported, and what is held on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, exists, func, insert, select, text, update

from ..model.gpus import GpuDevice, Granted
from ..model.slots import SLOT_NAMES, Slots
from ..scheduling.snapshot import Holding
from . import feed
from .errors import NotFound
from .records import AgentReport, AgentState, agent_of
from .tables import AGENTS, ALLOCATIONS, HELD, SESSIONS

_HELD_THERE = select(exists().where(ALLOCATIONS.c.agent == bindparam("of"), text(HELD)))
_ALL = select(AGENTS).order_by(AGENTS.c.name)
_ONE = select(AGENTS).where(AGENTS.c.name == bindparam("of"))
_ADD = insert(AGENTS)
# Of a report, what is told to who listens.
_TOLD = ("resource_group", "available", *SLOT_NAMES, "devices")
_CHANGE = update(AGENTS).where(AGENTS.c.name == bindparam("of"))
_HOLDINGS = (
    select(
        ALLOCATIONS.c.session_id,
        SESSIONS.c.owner,
        SESSIONS.c.project,
        SESSIONS.c.resource_group,
        ALLOCATIONS.c.agent,
        *(ALLOCATIONS.c[name] for name in SLOT_NAMES),
        ALLOCATIONS.c.devices,
    )
    .join(SESSIONS, SESSIONS.c.id == ALLOCATIONS.c.session_id)
    .where(text(HELD))
    .order_by(ALLOCATIONS.c.id)
)

_GRANTED = (
    select(ALLOCATIONS.c.devices)
    .where(ALLOCATIONS.c.session_id == bindparam("of"))
    .order_by(ALLOCATIONS.c.id.desc())
    .limit(1)
)
_USED = (
    select(
        *(func.coalesce(func.sum(ALLOCATIONS.c[name]), 0) for name in SLOT_NAMES),
        func.count(ALLOCATIONS.c.session_id.distinct()),
    )
    .join(SESSIONS, SESSIONS.c.id == ALLOCATIONS.c.session_id)
    .where(text(HELD), SESSIONS.c.owner == bindparam("whose"))
)


def report(db: Connection, reporter: str, reports: Sequence[AgentReport], now: datetime) -> None:
    """Takes in all agents of one reporter. One that it names no more is forgotten, or, while
    something is held on it, no longer available. What its admin says of it stays."""
    named = {agent.name: agent for agent in reports}
    known = {row.name: row for row in db.execute(_ALL)}
    turned: list[str] = []  # those that are new, or of which something that is told has changed
    gone = False
    for agent in named.values():
        new = {
            "reporter": reporter, "resource_group": agent.group, "available": agent.available,
            "reason": agent.reason, "seen_at": now,
        }  # fmt: skip
        # One that does not answer says nothing: what it had is still the best that is known. Its
        # cores and memory may be configured; its GPUs are only ever found.
        if agent.available or agent.name not in known:
            new |= {**agent.capacity.as_dict(), "devices": agent.devices}
        elif agent.capacity != Slots():
            new |= {"cpu": agent.capacity.cpu, "mem": agent.capacity.mem}
        before = known.get(agent.name)
        if before is None:
            db.execute(_ADD, {"name": agent.name, **new})
        else:
            db.execute(_CHANGE, {"of": agent.name, **new})
        if before is None or any(new[n] != getattr(before, n) for n in _TOLD if n in new):
            turned.append(agent.name)
    for row in known.values():
        if row.reporter != reporter or row.name in named:
            continue
        if db.scalar(_HELD_THERE, {"of": row.name}):
            new = {"available": False, "reason": "no longer configured"}
            db.execute(_CHANGE, {"of": row.name, **new})
            if row.available:
                turned.append(row.name)
        else:
            db.execute(delete(AGENTS).where(AGENTS.c.name == row.name))
            gone = True
    if gone and not turned:
        # One that is gone has no row to tell of: whoever shows them all looks again for another.
        turned = list(named)[:1]
    for name in turned:
        feed.number_agent(db, name)


def set_schedulable(
    db: Connection, name: str, schedulable: bool, by: str, now: datetime
) -> AgentState:
    """Says whether sessions may be placed on an agent; who said so first is kept. Raises
    `NotFound`."""
    row = db.execute(_ONE, {"of": name}).one_or_none()
    if row is None:
        raise NotFound(name, "agent")
    if agent_of(row).schedulable is not schedulable:
        at, who = (None, None) if schedulable else (now, by)
        db.execute(_CHANGE, {"of": name, "drained_at": at, "drained_by": who})
        feed.number_agent(db, name)
        row = db.execute(_ONE, {"of": name}).one()
    return agent_of(row)


def agents(db: Connection) -> list[AgentState]:
    """All agents that are known, by name."""
    return [agent_of(row) for row in db.execute(_ALL)]


def holdings(db: Connection) -> list[Holding]:
    """All that is held now, in the order in which it was granted."""
    rows = db.execute(_HOLDINGS).all()
    known: dict[str, GpuDevice] = {}
    if any(row.devices for row in rows):
        known = {d.uuid: d for a in agents(db) for d in a.devices}
    return [
        Holding(
            session_id=row.session_id,
            owner=row.owner,
            project=row.project,
            group=row.resource_group,
            agent=row.agent,
            slots=Slots(row.cpu, row.mem, row.fgpu, row.gpu, row.mig),
            devices=tuple((held.uuid, _now(held, known.get(held.uuid))) for held in row.devices),
            profile=row.devices[0].profile if row.devices else None,
        )
        for row in rows
    ]


def _now(held: Granted, device: GpuDevice | None) -> int:
    """What is held of a device as it is offered now: the same part of it, rounded up; all of it
    where another provider would hold its shares, since a GPU has one at a time."""
    if device is None:
        return held.amount
    if (device.slot, device.provider) != (held.slot, held.provider):
        return device.capacity
    return -(-held.amount * device.capacity // held.capacity)


def granted(db: Connection, session_id: str) -> tuple[Granted, ...]:
    """The GPUs that a session was given last, whether it still holds them or not."""
    found = db.scalar(_GRANTED, {"of": session_id})
    return tuple(found or ())


def all_granted(db: Connection) -> dict[str, tuple[Granted, ...]]:
    """The GPUs of all sessions that hold some now, by session id."""
    return {row.session_id: row.devices for row in db.execute(_HOLDINGS) if row.devices}


def used(db: Connection, owner: str) -> tuple[Slots, int]:
    """What the owner's sessions hold, and how many of them hold something."""
    *slots, sessions = db.execute(_USED, {"whose": owner}).one()
    return Slots(*(int(amount) for amount in slots)), int(sessions)
