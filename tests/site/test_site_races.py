"""Races that cannot be met by luck: the moment is chosen here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from jupyterhub_backendai.model.catalog import Catalog, ResourceGroup
from jupyterhub_backendai.model.errors import LaunchError
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.resolve import Context, SessionRequest, resolve
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import AgentReport, Session

from ..holdings import holdings


def request() -> SessionRequest:
    catalog = Catalog(environments=({"name": "python", "image": "python:3"},))  # type: ignore[arg-type]
    context = Context("alice", frozenset(), False, catalog, Policies())
    return resolve({}, context)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site with an agent that has room and that nobody asks anything of."""
    config = Config()
    config.BackendAI.database_url = f"sqlite:///{tmp_path / 'backendai.sqlite'}"
    nobody = f"unix://{tmp_path}/none.sock"
    room = {"cpu": 2, "mem": "4g"}
    config.BackendAI.agents = [{"name": "here", "base_url": nobody, "capacity": room}]
    site = Site.of(config, {})
    reports = [AgentReport("here", "default", Slots(2000, 4 * GIB))]
    site.store.report_agents(reports, now=utcnow())
    yield site
    site.store.close()


def submit(site: Site, name: str) -> Session:
    return site.store.submit(
        request(), owner="alice", owner_groups=[], server_name=name, name=name,
        driver=site.run_id, max_pending=None, now=utcnow(),
    )  # fmt: skip


async def test_who_comes_while_rows_are_read_is_not_told_that_it_was_cancelled(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, late = asyncio.get_running_loop(), []
    read: Callable[..., dict[str, Session]] = site.store.get_many

    def get_many(*args: Any, **kwargs: Any) -> dict[str, Session]:
        rows = read(*args, **kwargs)
        if not late:  # the rows are read; now somebody submits and waits
            session = submit(site, "second")
            started = asyncio.run_coroutine_threadsafe(begin(session), loop)
            late.append(started.result())
        return rows

    async def begin(session: Session) -> asyncio.Task[Session]:
        task = asyncio.ensure_future(site.queue.wait(session, lambda row: None))
        await asyncio.sleep(0)
        return task

    monkeypatch.setattr(site.store, "get_many", get_many)
    monkeypatch.setattr(site.store, "live", None)  # a look reads no one's rows but theirs
    first = await begin(submit(site, "first"))
    await site.queue.once()
    assert (await first).status is Status.SCHEDULED
    assert not late[0].done()
    await site.queue.once()
    assert (await late[0]).status is Status.SCHEDULED


async def test_an_end_that_meets_a_step_in_flight_ends_all_the_same(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = submit(site, "first")
    site.store.run_pass(site.policies, site.catalog, utcnow())
    read = site.store.get
    looks = []

    def get(session_id: str) -> Session:
        row = read(session_id)
        if not looks:  # between this look and its step, the start goes on
            site.store.move(session_id, Status.PREPARING, phase=Phase.PREPARE, now=utcnow())
        looks.append(row.status)
        return row

    async def removed(agent: str, session_id: str, keep_home: bool) -> int:
        return 0

    monkeypatch.setattr(site.store, "get", get)
    monkeypatch.setattr(site.engine, "remove_session", removed)
    await site.end(session.id, "cancelled", "It was cancelled.")
    assert looks[:2] == [Status.SCHEDULED, Status.PREPARING]
    assert read(session.id).status is Status.TERMINATED
    assert holdings(site.store) == []


async def test_a_start_that_nobody_drives_is_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.configuration.service = False  # which would start it
    session = submit(site, "first")
    driven = submit(site, "second")
    site.driven.add(driven.id)
    monkeypatch.setattr("jupyterhub_backendai.site.reconcile.INTERVAL", -1)
    for row in site.store.live():
        await site.reconciler._look_at(row, first=False)
    assert site.store.get(session.id).status is Status.CANCELLED
    assert site.store.get(driven.id).status is Status.PENDING


async def test_a_first_look_that_failed_is_tried_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    async def report() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("the database is away")

    monkeypatch.setattr(site, "report_agents", report)
    with pytest.raises(OSError, match="away"):
        await site.ready()
    await site.ready()
    assert len(tries) == 2
    await site.close()


async def test_who_waits_is_told_why_a_pass_took_the_session_out_of_line(site: Site) -> None:
    reports = [AgentReport("here", "default", Slots(2000, 4 * GIB), available=False)]
    site.store.report_agents(reports, now=utcnow())
    session = submit(site, "first")
    waiting = asyncio.ensure_future(site.queue.wait(session, lambda _: None))
    await site.queue.once()
    assert not waiting.done()
    group = ResourceGroup(name="default", pending_timeout=0.001)
    site.catalog = Catalog(resource_groups=(group,))
    await site.queue.once()
    with pytest.raises(LaunchError, match="the longest that a session waits in default") as caught:
        await waiting
    assert caught.value.reason == "pending_timeout"
