"""Short ways to write snapshots, in cores, GB and shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from jupyterhub_backendai.model.slots import GIB, Limits, Slots
from jupyterhub_backendai.scheduling.queue import Verdict, schedule, verdicts
from jupyterhub_backendai.scheduling.snapshot import (
    Agent,
    Decision,
    GroupRule,
    Holding,
    Pending,
    Snapshot,
    Wait,
)

NOW = 10_000.0


def slots(cpu: float = 0, mem: float = 0, fgpu: float = 0) -> Slots:
    """Cores, GB, shares."""
    return Slots(round(cpu * 1000), round(mem * GIB), round(fgpu * 1000))


def limits(
    cpu: float | None = None,
    mem: float | None = None,
    fgpu: float | None = None,
    sessions: int | None = None,
) -> Limits:
    """Cores, GB, shares, sessions."""
    return Limits(
        None if cpu is None else round(cpu * 1000),
        None if mem is None else round(mem * GIB),
        None if fgpu is None else round(fgpu * 1000),
        sessions=sessions,
    )


def agent(name: str, cpu: float = 4, mem: float = 64, fgpu: float = 0, **more: object) -> Agent:
    return Agent(name, **{"group": "default", "capacity": slots(cpu, mem, fgpu), **more})  # type: ignore[arg-type]


def pending(id: str, cpu: float = 1, mem: float = 1, fgpu: float = 0, **more: object) -> Pending:
    """Waits for 60 s, for no project, unless told otherwise."""
    fields: dict[str, object] = {
        "owner": f"owner of {id}",
        "project": None,
        "group": "default",
        "slots": slots(cpu, mem, fgpu),
        "priority": 10,
        "submitted_at": NOW - 60,
    }
    return Pending(id, **{**fields, **more})  # type: ignore[arg-type]


def holding(
    session: str, agent: str, cpu: float = 1, mem: float = 1, fgpu: float = 0, **more: object
) -> Holding:
    fields: dict[str, object] = {"owner": f"owner of {session}", "project": None}
    fields |= {"group": "default", "agent": agent, "slots": slots(cpu, mem, fgpu)}
    return Holding(session, **{**fields, **more})  # type: ignore[arg-type]


def snapshot(
    waiting: Sequence[Pending],
    agents: Sequence[Agent],
    held: Sequence[Holding] = (),
    owners: Mapping[str, Limits] | None = None,
    projects: Mapping[str, Limits] | None = None,
    rules: Iterable[GroupRule] = (),
    now: float = NOW,
) -> Snapshot:
    return Snapshot(
        now, waiting, agents, held, owners or {}, projects or {}, {r.name: r for r in rules}
    )


def placed(decision: Decision) -> dict[str, str]:
    """Agents by session."""
    return {p.session_id: p.agent for p in decision.placements}


def wait_of(decision: Decision, session: str) -> Wait:
    """What was told to a session that must be waiting."""
    return next(wait for wait in decision.waits if wait.session_id == session)


def reason(snap: Snapshot, session: str) -> str:
    """What the session is told by a pass over `snap`."""
    return wait_of(schedule(snap), session).reason


def verdict(snap: Snapshot, candidate: Pending) -> Verdict:
    """What would happen to this one."""
    return verdicts(snap, [candidate])[0]


def verdict_by_a_pass(snap: Snapshot, candidate: Pending) -> Verdict:
    """The same, as it is meant: the candidate is submitted, and a whole pass decides."""
    decision = schedule(replace(snap, pending=(*snap.pending, candidate)))
    wait = next((wait for wait in decision.waits if wait.session_id == candidate.id), None)
    if wait is None:
        return Verdict("now", "Starts now.", 0)
    if wait.code == "never_fits":
        return Verdict("never", wait.reason, 0)
    return Verdict("waits", wait.reason, 0 if wait.code == "not_before" else wait.position - 1)
