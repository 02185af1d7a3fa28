"""Batch sessions, as the service's worker sees to them."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from jupyterhub_backendai.engine.base import AgentUnreachable
from jupyterhub_backendai.engine.batch import Ending, Outcome
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.service.hub import HubUnavailable
from jupyterhub_backendai.service.workers import batch
from jupyterhub_backendai.service.workers.batch import BatchWorker
from jupyterhub_backendai.site.clock import utcnow
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


async def looked(worker: BatchWorker) -> None:
    """One look at all, to its end."""
    await worker.once()
    telling = [worker._telling] if worker._telling else []
    await asyncio.wait_for(asyncio.gather(*worker._looking.values(), *telling), 10)


async def test_a_command_begins_ends_and_ends_its_session(hub: Hub) -> None:
    session = await running(hub, "train-1", **work())
    site, worker = site_of(hub), BatchWorker(site_of(hub), hub)  # type: ignore[arg-type]
    machine = site.engine
    await looked(worker)
    assert machine.let_go == {"train-1"}  # type: ignore[attr-defined]
    assert site.store.get(session.id).batch_started_at is not None
    assert hub.active == [("alice", "train-1")]
    machine.outcomes["train-1"] = Outcome(Ending.FINISHED, 0)  # type: ignore[attr-defined]
    # While the Hub is away too.
    await looked(worker)
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

    async def started(agent: str, container: str) -> datetime:
        return utcnow() - timedelta(hours=1)  # by a clock that is slow

    monkeypatch.setattr(site.engine, "command_started", started)
    for _ in range(3):
        await looked(worker)
    assert site.store.get(session.id).status is Status.RUNNING
    monkeypatch.setattr(batch, "OVERDUE", -2)
    outcome = site.engine.outcome

    async def silent(agent: str, container: str) -> Outcome | None:
        if container == "train-2":
            raise AgentUnreachable("here does not answer")
        return await outcome(agent, container)

    monkeypatch.setattr(site.engine, "outcome", silent)
    await looked(worker)
    row = site.store.get(session.id)
    assert (row.status, row.result, row.exit_code, row.reason_code) == (
        Status.TERMINATED, SessionResult.FAILURE, -2, "task_timeout",
    )  # fmt: skip
    assert site.store.get(other.id).status is Status.RUNNING


async def test_an_end_that_takes_long_holds_up_no_other(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, worker = site_of(hub), BatchWorker(site_of(hub), hub)  # type: ignore[arg-type]
    slow = await running(hub, "train-1", **work())
    await looked(worker)
    saving, may_save, save = asyncio.Event(), asyncio.Event(), site.engine.save_log

    async def save_slowly(agent: str, container: str, *more: Any) -> None:
        if container == "train-1":
            saving.set()
            await may_save.wait()
        await save(agent, container, *more)

    monkeypatch.setattr(site.engine, "save_log", save_slowly)
    monkeypatch.setattr(batch, "LOOK_INTERVAL", 0.01)
    outcomes = site.engine.outcomes  # type: ignore[attr-defined]
    endless = asyncio.ensure_future(worker.run())
    try:
        outcomes["train-1"] = Outcome(Ending.FINISHED, 0)
        await asyncio.wait_for(saving.wait(), 10)
        other = await running(hub, "train-2", **work())
        outcomes["train-2"] = Outcome(Ending.FAILED, 3)
        await until(site, other, Status.TERMINATED)
        assert site.store.get(slow.id).status is Status.TERMINATING
        may_save.set()
        await until(site, slow, Status.TERMINATED)
    finally:
        endless.cancel()


async def test_a_hub_that_is_away_is_asked_once_and_holds_up_no_look(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, worker = site_of(hub), BatchWorker(site_of(hub), hub)  # type: ignore[arg-type]
    for server in ("train-1", "train-2"):
        await running(hub, server, **work())
    monkeypatch.setattr(batch, "ACTIVE_RETRY", 0)
    asked, answers = [], asyncio.Event()

    async def hang(user: str, servers: list[str], at: object) -> None:
        asked.append(servers)
        await answers.wait()
        raise HubUnavailable("the Hub does not answer")

    monkeypatch.setattr(hub, "note_activity", hang)
    await worker.once()
    machine = site.engine
    while machine.let_go != {"train-1", "train-2"}:  # type: ignore[attr-defined] # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await worker.once()  # which does not ask a second time
    answers.set()
    assert worker._telling is not None
    await asyncio.wait_for(worker._telling, 10)
    assert len(asked) == 1
    monkeypatch.setattr(hub, "note_activity", type(hub).note_activity.__get__(hub))
    await looked(worker)
    assert sorted(hub.active) == [("alice", "train-1"), ("alice", "train-2")]


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
