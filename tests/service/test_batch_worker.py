"""Batch sessions, as the service's worker sees to them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jupyterhub_backendai.engine.base import AgentUnreachable
from jupyterhub_backendai.engine.batch import Ending, Outcome
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.service.workers import batch
from jupyterhub_backendai.service.workers.batch import BatchWorker
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import Session, SessionResult

from ..holdings import holdings
from .starting import Hub, site_of, submit, until, worker_of


async def running(hub: Hub, server: str, **options: object) -> Session:
    """A session that runs, with a container of its server's name."""
    site = site_of(hub)
    (session,) = await submit(site, server, **options)
    await worker_of(hub).once()
    session = await until(site, session, Status.RUNNING)
    site.store.set_kernel(session.id, container_id=server, agent="here")
    return session


def work(command: str = "true", **more: object) -> dict[str, object]:
    return {"type": "batch", "batch": {"command": command, **more}}


async def test_a_command_begins_ends_and_ends_its_session(hub: Hub) -> None:
    session = await running(hub, "train-1", **work())
    site, worker = site_of(hub), BatchWorker(site_of(hub), hub)  # type: ignore[arg-type]
    machine = site.engine
    await worker.once()
    assert machine.let_go == {"train-1"}  # type: ignore[attr-defined]
    assert site.store.get(session.id).batch_started_at is not None
    assert hub.active == [("alice", "train-1")]
    machine.outcomes["train-1"] = Outcome(Ending.FINISHED, 0)  # type: ignore[attr-defined]
    # While the Hub is away too.
    await worker.once()
    row = site.store.get(session.id)
    assert (row.status, row.result, row.exit_code) == (
        Status.TERMINATED, SessionResult.SUCCESS, 0,
    )  # fmt: skip
    assert row.reason_code == "task_finished"
    assert machine.saved == machine.removed == [session.id]  # type: ignore[attr-defined]
    assert holdings(site.store) == []
    assert hub.active == [("alice", "train-1")]  # once in a while


async def test_a_runner_that_does_not_end_its_command(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await running(hub, "train-1", **work(timeout="1s"))
    other = await running(hub, "train-2", **work())
    site, worker = site_of(hub), BatchWorker(site_of(hub), hub)  # type: ignore[arg-type]
    await worker.once()
    monkeypatch.setattr(batch, "OVERDUE", timedelta(seconds=-2))
    outcome = site.engine.outcome

    async def silent(agent: str, container: str) -> Outcome | None:
        if container == "train-2":
            raise AgentUnreachable("here does not answer")
        return await outcome(agent, container)

    monkeypatch.setattr(site.engine, "outcome", silent)
    await worker.once()
    row = site.store.get(session.id)
    assert (row.status, row.result, row.exit_code, row.reason_code) == (
        Status.TERMINATED, SessionResult.FAILURE, -2, "task_timeout",
    )  # fmt: skip
    assert site.store.get(other.id).status is Status.RUNNING


async def test_a_command_that_ends_while_its_container_is_swept(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await running(hub, "train-1", **work())
    site = site_of(hub)
    for status in (Status.TERMINATING, Status.TERMINATED):  # by force
        await site.move(session.id, status, Phase.TERMINATE)

    async def stop(agent: str, session_id: str, grace: int) -> None:
        site.engine.outcomes["train-1"] = Outcome(Ending.FINISHED, 0)  # type: ignore[attr-defined]

    monkeypatch.setattr(site.engine, "stop_session", stop)
    await site.reconciler._sweep("here")
    row = site.store.get(session.id)
    assert (row.result, row.exit_code) == (SessionResult.SUCCESS, 0)
    assert site.engine.removed == [session.id]  # type: ignore[attr-defined]


async def test_what_its_command_made_of_it_counts_and_not_its_container(hub: Hub) -> None:
    session = await running(hub, "train-1", **work())
    site = site_of(hub)
    site.store.mark_batch_ended(session.id, 0, SessionResult.SUCCESS)
    await site.end(session.id, "exited", "Its server ended by itself.", 137)
    row = site.store.get(session.id)
    assert (row.result, row.exit_code) == (SessionResult.SUCCESS, 0)


def status(site: Site, session: Session) -> Status:
    return site.store.get(session.id).status
