"""Agents as they are reported, and what is held on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import exists, select, text
from sqlalchemy.orm import Session as Transaction

from ..model.slots import Slots
from ..scheduling.snapshot import Holding
from .records import AgentReport, AgentState, agent_of
from .tables import HELD, AgentRow, AllocationRow, SessionRow


def report(db: Transaction, reporter: str, reports: Sequence[AgentReport], now: datetime) -> None:
    """Takes in all agents of one reporter. One that it names no more is forgotten, or, while
    something is held on it, no longer available."""
    named = {agent.name: agent for agent in reports}
    for agent in named.values():
        row = db.get(AgentRow, agent.name)
        if row is None:
            row = AgentRow(name=agent.name)
            db.add(row)
        row.reporter = reporter
        row.resource_group = agent.group
        # One that does not answer says nothing: what it had is still the best that is known.
        if agent.available or agent.capacity != Slots() or row.cpu is None:
            row.cpu, row.mem, row.fgpu = agent.capacity.cpu, agent.capacity.mem, agent.capacity.fgpu
        row.available, row.reason = agent.available, agent.reason
        row.seen_at = now
    gone = db.scalars(
        select(AgentRow).where(AgentRow.reporter == reporter, AgentRow.name.not_in(named))
    )
    for row in gone.all():
        if db.scalar(select(exists().where(AllocationRow.agent == row.name, text(HELD)))):
            row.available, row.reason = False, "no longer configured"
        else:
            db.delete(row)


def agents(db: Transaction) -> list[AgentState]:
    """All agents that are known, by name."""
    return [agent_of(row) for row in db.scalars(select(AgentRow).order_by(AgentRow.name))]


def holdings(db: Transaction) -> list[Holding]:
    """All that is held now, in the order in which it was granted."""
    rows = db.execute(
        select(
            AllocationRow.session_id,
            SessionRow.owner,
            SessionRow.project,
            SessionRow.resource_group,
            AllocationRow.agent,
            AllocationRow.cpu,
            AllocationRow.mem,
            AllocationRow.fgpu,
        )
        .join(SessionRow, SessionRow.id == AllocationRow.session_id)
        .where(text(HELD))
        .order_by(AllocationRow.id)
    )
    return [
        Holding(
            session_id=row.session_id,
            owner=row.owner,
            project=row.project,
            group=row.resource_group,
            agent=row.agent,
            slots=Slots(row.cpu, row.mem, row.fgpu),
        )
        for row in rows
    ]
