"""What tests of the store, and the processes that they start, make and check."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import func, select, text

from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.request import SessionRequest, Work
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import Session, SessionResult, Store
from jupyterhub_backendai.store.tables import HELD, AgentRow, AllocationRow, HistoryRow, SessionRow

NOW = datetime(2026, 12, 1, 9, 0, 0, 123456, tzinfo=timezone.utc)
POLICIES, CATALOG = Policies(), Catalog()
ON_THE_WAY = (Status.PREPARING, Status.CREATING, Status.RUNNING)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def slots(cpu: float = 1, gib: float = 1, fgpu: float = 0) -> Slots:
    return Slots(int(cpu * 1000), int(gib * GIB), int(fgpu * 1000))


def request(cpu: float = 1, gib: float = 1, **changes: Any) -> SessionRequest:
    amounts = slots(cpu, gib)
    facts: dict[str, Any] = {
        "name": None, "type": "interactive", "environment": "python", "version": "3.11",
        "image": "jupyter/base:1", "env": {"GREETING": "grüß dich 👋"}, "preset": "small",
        "resource_group": "default", "agent": None, "preset_changed": False,
        "cpu": amounts.cpu, "mem": amounts.mem, "shm": 2**26, "fgpu": 0,
        "omp_threads": 1, "openblas_threads": 1, "mounts": (), "preopen_ports": (8080,),
        "project": None, "priority": 10,
    }  # fmt: skip
    return SessionRequest(**{**facts, **changes})


def submit(store: Store, name: str, owner: str = "ana", **changes: Any) -> Session:
    """Queues a session on the server of the same name."""
    facts: dict[str, Any] = {
        "owner": owner, "owner_groups": ["lab"], "server_name": name, "name": name,
        "driver": "hub-1", "max_pending": None, "now": NOW, "request": request(),
    }  # fmt: skip
    facts |= changes
    if not_before := facts.pop("not_before", None):
        facts["request"] = facts["request"].model_copy(update={"not_before": not_before})
    return store.submit(facts.pop("request"), **facts)


def batch(*earlier: str, timeout: int | None = None, **more: Any) -> SessionRequest:
    work = Work(command="make", timeout=timeout)
    return request(type="batch", batch=work, depends_on=earlier, **more)


def start(store: Store, session_id: str, seconds: float, upto: Status = Status.RUNNING) -> None:
    """From its place on to `upto`."""
    for status in ON_THE_WAY[: ON_THE_WAY.index(upto) + 1]:
        store.move(session_id, status, phase=Phase.START, now=after(seconds))


def end(store: Store, session_id: str, seconds: float, result: SessionResult) -> None:
    """A running one ends with this result."""
    for status in (Status.TERMINATING, Status.TERMINATED):
        store.move(
            session_id, status, phase=Phase.TERMINATE, now=after(seconds), result_of_work=result
        )


def run_pass(store: Store, seconds: float = 0) -> list[str]:
    """One pass; names of those placed."""
    return [session.name for session in store.run_pass(POLICIES, CATALOG, after(seconds))]


def violations(store: Store) -> list[str]:
    """Everything that must never be, as seen in one moment."""
    found = []
    with store._db.read() as db:
        held = db.execute(
            select(AllocationRow.agent, func.sum(AllocationRow.cpu), func.sum(AllocationRow.mem))
            .where(text(HELD))
            .group_by(AllocationRow.agent)
        ).all()
        known = db.execute(select(AgentRow.name, AgentRow.cpu, AgentRow.mem))
        capacity = {name: (cpu, mem) for name, cpu, mem in known}
        holders = Counter(db.scalars(select(AllocationRow.session_id).where(text(HELD))))
        of = SessionRow
        rows = db.execute(select(of.id, of.owner, of.name, of.status, of.agent, of.ended_at)).all()
        last = (
            select(func.max(HistoryRow.id))
            .where(HistoryRow.to_status.is_not(None))
            .group_by(HistoryRow.session_id)
        )
        ends = select(HistoryRow.session_id, HistoryRow.to_status).where(HistoryRow.id.in_(last))
        told = {row.session_id: row.to_status for row in db.execute(ends)}
    for agent, cpu, mem in held:
        if cpu > capacity[agent][0] or mem > capacity[agent][1]:
            found.append(f"{agent} holds {cpu} cores and {mem} bytes: more than it has")
    names = Counter((row.owner, row.name) for row in rows if not Status(row.status).is_final)
    found += [f"{count} live sessions are named {n}" for n, count in names.items() if count > 1]
    for row in rows:
        status, what = Status(row.status), f"{row.name} is {row.status}"
        if holders[row.id] != status.holds_resources:
            found.append(f"{what}, held {holders[row.id]} times")
        at_rest = status.is_final or status is Status.HIBERNATED  # which keep it
        if status.holds_resources != (row.agent is not None) and not at_rest:
            found.append(f"{what} on {row.agent}")
        if status.is_final != (row.ended_at is not None):
            found.append(f"{what}, ended {row.ended_at}")
        if told[row.id] != row.status:
            found.append(f"{what}, its history ends with {told[row.id]}")
    return found
