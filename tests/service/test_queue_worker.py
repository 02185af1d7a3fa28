"""The queue's worker on a real store and real starts; the Hub is no more than its starts here."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyterhub_backendai.engine.base import AgentUnreachable, EngineError
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.service.hub import HubRefused, HubUnavailable, NoSuchUser
from jupyterhub_backendai.service.workers import queue
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.spawner.errors import SessionSpawnError
from jupyterhub_backendai.store import Session

from ..holdings import holdings
from ..spawner.spawners import MachineSpawner
from .starting import Hub, site_of, spawner_of, submit, until, worker_of


def statuses(site: Site) -> dict[str, Status]:
    rows, _ = site.store.list_sessions(limit=200)
    return {row.server_name: row.status for row in rows}


async def test_what_has_its_place_is_started_once_whoever_dies(hub: Hub) -> None:
    site = site_of(hub)
    first, second, third = await submit(site, "train-1", "train-2", "train-3")
    worker = worker_of(hub)
    await worker.once()
    # Killed here and started again: asked for twice, started once.
    again = worker_of(hub)
    await again.start_placed()
    for session in (first, second):
        row = await until(site, session, Status.RUNNING)
        assert row.driver == site.run_id
    assert statuses(site)["train-3"] is Status.PENDING
    assert sorted(site.engine.made) == sorted([first.id, second.id])  # type: ignore[attr-defined]

    run = asyncio.ensure_future(worker.run())
    await site.end(first.id, "user_requested", "You ended it.")
    await until(site, third, Status.RUNNING)
    run.cancel()
    assert len(site.store.list_sessions()[0]) == 3


async def test_one_that_was_cancelled_meanwhile_is_not_started_anew(hub: Hub) -> None:
    site = site_of(hub)
    (session,) = await submit(site, "train-1")
    site.store.run_pass(site.policies, site.catalog, utcnow())
    await site.end(session.id, "user_requested", "You ended it.")
    with pytest.raises(HubRefused, match="does not wait in line any more"):
        await hub.start("alice", "train-1", session.asked or {}, session_id=session.id)
    assert statuses(site) == {"train-1": Status.CANCELLED}


async def test_a_hub_that_is_away_or_refuses(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "FIRST_WAIT", 0.001)
    site = site_of(hub)
    hub.errors = [HubUnavailable("it does not answer")] * 3
    (session,) = await submit(site, "train-1")
    worker = worker_of(hub)
    run = asyncio.ensure_future(worker.run())
    row = await until(site, session, Status.RUNNING)
    assert [e.phase for e in site.store.history(row.id)].count(Phase.START) == 1

    # A no is tried five times, each a row of its own in the history or counted in it.
    hub.errors = [HubRefused(403, "You have too many servers.")] * 5
    (session,) = await submit(site, "train-2")
    row = await until(site, session, Status.ERROR)
    assert row.reason_code == "hub_refused"
    assert "You have too many servers." in row.reason
    assert hub.asked.count(session.id) == 5

    hub.errors = [NoSuchUser(404, "There is no user alice.")]
    (session,) = await submit(site, "train-4")
    row = await until(site, session, Status.CANCELLED)
    assert row.reason_code == "owner_gone"
    run.cancel()
    assert [h.session_id for h in holdings(site.store)] != []


async def test_a_start_lets_go_of_what_waits_long_and_the_queue_starts_it(hub: Hub) -> None:
    site = site_of(hub)
    holding = await submit(site, "train-1", "train-2")
    worker = worker_of(hub)
    await worker.once()
    for session in holding:
        await until(site, session, Status.RUNNING)

    page = spawner_of(hub.owner, "")
    options = {"preset": "four", "env": {"MY_TOKEN": "secret"}}
    await page.accept(options)
    page.user_options = options
    page.may_finish.set()
    with pytest.raises(SessionSpawnError, match="in line, #1. It starts by itself") as told:
        await page.start()
    assert (told.value.status_code, told.value.reason) == (202, "queued")
    (waiting,) = (row for row in site.store.live() if row.status is Status.PENDING)
    assert waiting.driver is None

    # The page again: the same session, and no second one.
    again = spawner_of(hub.owner, "")
    assert (await again.accept(options)).env["MY_TOKEN"] == "secret"
    assert again._queued == waiting

    await site.end(holding[0].id, "user_requested", "You ended it.")
    await worker.once()
    row = await until(site, waiting, Status.RUNNING)
    assert row.request.env["MY_TOKEN"] == "secret"
    assert "secret" not in str(row.asked)


async def test_an_engine_that_fails_is_tried_five_times(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, launch = site_of(hub), MachineSpawner.launch
    fails = [EngineError("no"), AgentUnreachable("silence")]

    async def failing(self: MachineSpawner, session: Session, request: Any) -> tuple[str, int]:
        if fails:
            raise fails.pop(0)
        return await launch(self, session, request)

    monkeypatch.setattr(MachineSpawner, "launch", failing)
    (session,) = await submit(site, "train-1")
    worker = worker_of(hub)
    await worker.once()
    await until(site, session, Status.RUNNING)
    again = [e.error_code for e in site.store.history(session.id) if e.phase is Phase.CREATE]
    assert again.count("engine_error") == again.count("agent_unreachable") == 1

    fails = [EngineError("no")] * 5
    (session,) = await submit(site, "train-2")
    await worker.once()
    row = await until(site, session, Status.ERROR)
    assert (row.reason_code, fails) == ("engine_error", [])
    assert "It was tried 5 times" in row.reason
    assert len(holdings(site.store)) == 1


async def test_a_hub_that_is_stopped_gives_nothing_up(hub: Hub) -> None:
    site = site_of(hub)
    spawner = spawner_of(hub.owner, "")
    await spawner.accept({"preset": "four"})
    start = asyncio.ensure_future(spawner.start())
    await asyncio.wait_for(spawner.began.wait(), 10)
    spawner.may_finish.set()
    # The Hub cancels whatever runs, its own tasks and ours.
    for task in [*site._tasks, start]:
        task.cancel()
    await asyncio.wait([start])
    assert await site.cleanups.over(("alice", ""), 10)
    (left,) = site.store.live()
    assert (left.status, left.driver) == (Status.CREATING, site.run_id)


async def test_a_try_that_broke_off_leaves_no_second_container(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, launch, silent = site_of(hub), MachineSpawner.launch, [True]

    async def breaking_off(self: MachineSpawner, session: Session, request: Any) -> tuple[str, int]:
        found = await launch(self, session, request)
        if silent and silent.pop():
            raise AgentUnreachable("it died when it had made the container")
        return found

    monkeypatch.setattr(MachineSpawner, "launch", breaking_off)
    (session,) = await submit(site, "train-1")
    await worker_of(hub).once()
    await until(site, session, Status.RUNNING)
    assert site.engine.made == [session.id]  # type: ignore[attr-defined]
