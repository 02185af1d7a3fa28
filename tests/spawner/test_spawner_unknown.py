"""While database or engine say nothing, nothing is over, and people are told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from docker.errors import APIError
from jupyterhub import orm
from spawners import running, site_config, spawner_of, user_of
from traitlets.config import Config

from jupyterhub_backendai.engine.base import AgentUnreachable, EngineError, ImageFacts
from jupyterhub_backendai.model.errors import LaunchError
from jupyterhub_backendai.model.images import CommitStatus, reference_of
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.site import reconcile
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.spawner.docker import DockerSessionSpawner
from jupyterhub_backendai.spawner.errors import SessionSpawnError
from jupyterhub_backendai.spawner.ready import pause
from jupyterhub_backendai.spawner.servers import hub_servers
from jupyterhub_backendai.store import Made, Return, Session, Unavailable, Wish


class Slow(DockerSessionSpawner):
    """Notes when cores are chosen; its container takes until `may_finish` to be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.chosen, self.may_finish = asyncio.Event(), asyncio.Event()

    async def free_cores(self, request: Any) -> tuple[int, ...] | None:
        self.chosen.set()
        return (0,)

    async def _create_object_once(self, session: Session) -> dict[str, Any]:
        await self.may_finish.wait()
        raise LaunchError("start_failed", "No container here. Start it again.")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    agent = {
        "name": "here",
        "base_url": f"unix://{tmp_path}/none.sock",
        "capacity": {"cpu": 9, "mem": "9g"},
    }
    return site_config(tmp_path, agents=[agent], pin_cores=True)


@pytest.fixture
async def spawner(config: Config) -> AsyncIterator[Slow]:
    spawner: Slow = spawner_of(config, Slow)
    yield spawner
    await spawner.site.close()


def refusing() -> APIError:
    response = requests.Response()
    response.status_code = 500
    return APIError("500 Server Error", response=response, explanation="deadline exceeded")


UNKNOWN = {
    "docker-refuses": refusing(),
    "docker-is-silent": AgentUnreachable("Docker on here does not answer"),
    "engine": EngineError("Docker on here refused"),
    "database": Unavailable("the server is away"),
}


@pytest.mark.parametrize("error", UNKNOWN.values(), ids=UNKNOWN)
async def test_what_cannot_be_asked_for_counts_as_running(
    spawner: Slow, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = running(spawner.site)

    async def fails(*_: object, **__: object) -> object:
        raise error

    where = spawner.site if isinstance(error, Unavailable) else spawner.site.engine
    with monkeypatch.context() as patch:
        patch.setattr(where, "db" if where is spawner.site else "containers", fails)
        assert await spawner.poll() is None
    assert spawner.site.store.get(session.id).status is Status.RUNNING


async def test_without_a_database_people_are_told_so(
    spawner: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> object:
        raise Unavailable("the server is away")

    assert 'id="backendai"' in await spawner.render_form()
    for name in ("live_names", "live_of"):
        with monkeypatch.context() as patch:
            patch.setattr(spawner.site.store, name, away)
            with pytest.raises(SessionSpawnError) as told:
                await spawner.accept({})
            assert told.value.status_code == 503
            assert "database does not answer" in told.value.jupyterhub_message
            assert "server is away" not in told.value.jupyterhub_message
    monkeypatch.setattr(spawner.site.store, "live_names", away)
    form = await spawner.render_form()
    assert "database does not answer" in form
    assert "<form" not in form


FACTS = ImageFacts("sha256:1", (), {})


async def test_cores_are_chosen_when_the_container_before_is_there(config: Config) -> None:
    user = user_of(config, Slow)
    first, second = user._new_spawner(""), user._new_spawner("")
    session = running(first.site)
    try:
        start = asyncio.ensure_future(first.make_container(session, lambda cores: None, (), FACTS))
        await asyncio.wait_for(first.chosen.wait(), 10)
        start.cancel()
        await asyncio.wait([start])
        after = asyncio.ensure_future(second.make_container(session, lambda cores: None, (), FACTS))
        _, pending = await asyncio.wait([after], timeout=0.1)
        assert pending
        assert not second.chosen.is_set()
        first.may_finish.set()
        with suppress(LaunchError):
            await first._attempt.launching
        await asyncio.wait_for(second.chosen.wait(), 10)
        second.may_finish.set()
        with suppress(LaunchError):
            await after
        assert not second.host.launching.locked()
    finally:
        await first.site.close()


async def test_a_session_whose_server_the_hub_lost_ends(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.BackendAI.service = False  # which looks at it otherwise
    user = user_of(config, Slow)
    site = user._new_spawner("").site
    row = user.orm_user.orm_spawners[""]
    site_servers = site.hub_servers
    assert site_servers is not None
    lost, renamed, stranger = running(site), running(site, "other"), running(site, "", "bob")
    look, sessions = site.reconciler._lost, site.store.live()
    try:
        monkeypatch.setattr(reconcile, "LOST", -1)
        # The Hub has its server: it runs, or is on its way in or out.
        row.server, row.state = orm.Server(), {"session_id": renamed.id}
        user.db.commit()
        assert hub_servers(user.db).servers == {("alice", "")}
        assert look(sessions) == frozenset()
        row.server = None
        user.db.commit()
        site.driven.add(renamed.id)  # a start of it is on its way
        assert look(sessions) == {lost.id}  # and of bob the Hub knows nothing
        monkeypatch.setattr(reconcile, "LOST", 60)
        assert look(sessions) == frozenset()  # not before it was so for a minute
        monkeypatch.setattr(reconcile, "LOST", -1)

        async def here(*_: object, **__: object) -> int:
            return 0

        async def unknown(*_: object) -> None:
            return None

        for name in ("remove_session", "stop_session"):
            monkeypatch.setattr(site.engine, name, here)
        monkeypatch.setattr(site.reconciler, "_has_container", unknown)
        monkeypatch.setattr(reconcile, "INTERVAL", -1)
        for session in sessions:
            await site.reconciler._look_at(session, first=False, lost=look(sessions))
        ended = site.store.get(lost.id)
        assert (ended.status, ended.reason_code) == (Status.TERMINATED, "not_in_hub")
        for session in (renamed, stranger):
            assert site.store.get(session.id).status is Status.RUNNING
        # With the service on it is the service that compares.
        monkeypatch.setattr(site.configuration, "service", True)
        assert look(sessions) == frozenset()
    finally:
        await site.close()


def test_tries_are_frequent_only_as_long_as_a_start_is_quick() -> None:
    assert [pause(waited) for waited in (0, 2.9, 3, 60)] == [0.02, 0.02, 0.1, 0.1]


def rested(site: Site, session: Session) -> Session:
    """A running session that was hibernated since, and resumed: it waits for its place."""
    store, now = site.store, utcnow()
    wish = Wish("hibernated", "alice", "c" * 64, hibernates=True)
    commit = store.begin_hibernation(session.id, wish, 3, partial(reference_of, prefix=""), now)
    store.move_commit(commit.id, CommitStatus.COMMITTING, now)
    made = Made("sha256:2", "sha256:1", 10, 5, agent="here", digest=None)
    store.finish_hibernation(commit.id, made, None, now)
    store.move(session.id, Status.TERMINATED, phase=Phase.TERMINATE, now=now)
    return store.resume(session.id, Return("alice", (), None), utcnow())


@pytest.mark.parametrize("known", ["polled", "by-its-state", "at-once"])
async def test_the_end_of_its_server_before_does_not_end_what_was_resumed(
    spawner: Slow, known: str
) -> None:
    store, session = spawner.site.store, running(spawner.site)
    assert await spawner.recall() is not None
    if known == "by-its-state":  # of a Hub before
        state = spawner.get_state()
        spawner.clear_state()
        spawner._session = None
        spawner.load_state(state)
    waits = rested(spawner.site, session)
    assert (waits.id, waits.status) == (session.id, Status.PENDING)
    if known == "polled":
        assert await spawner.poll() == 0, "so the Hub stops it"
    await spawner.stop()
    assert store.get(session.id).status is Status.PENDING
    await spawner.delete_forever()
    assert store.get(session.id).status is Status.PENDING
    # One of which nothing is kept ends with its server.
    store.let_go(session.id, "user_requested", "alice ended it.")
    await spawner.delete_forever()
    assert store.get(session.id).status is Status.CANCELLED


async def test_an_account_made_anew_has_nothing_of_what_rested(spawner: Slow) -> None:
    store, session = spawner.site.store, running(spawner.site)
    rested(spawner.site, session)
    spawner.user.orm_user.created = (utcnow() + timedelta(hours=1)).replace(tzinfo=None)
    assert await spawner.queued({}) is None
    # Nothing of it is lost: it is for an admin to say whose it is.
    rests = store.get(session.id)
    assert (rests.status, rests.reason_code) == (Status.HIBERNATED, "other_owner")
    assert store.is_kept(session.id)
    with pytest.raises(LaunchError) as refused:
        await spawner._end_leftover()
    assert refused.value.reason == "hibernated"
    # Who has been there since before it was resumed, as everybody of a Hub that was made anew.
    late = utcnow() + timedelta(hours=2)
    store.resume(session.id, Return("alice", (), None), late)
    assert await spawner.queued({}) is None
    store.resume(session.id, Return("admin", (), None, vouched=True), late)
    waits = await spawner.queued({})
    assert waits is not None
    assert waits.id == session.id
    # The next account of that name is another one again.
    store.move(session.id, Status.CANCELLED, phase=Phase.CANCEL, now=late)
    spawner.user.orm_user.created = (late + timedelta(hours=1)).replace(tzinfo=None)
    store.resume(session.id, Return("alice", (), None), late + timedelta(hours=2))
    assert await spawner.queued({}) is None
    assert store.is_kept(session.id)


async def test_a_start_does_not_end_what_is_being_hibernated(spawner: Slow) -> None:
    store, session = spawner.site.store, running(spawner.site)
    wish = Wish("hibernated", "alice", "c" * 64, hibernates=True)
    naming = partial(reference_of, prefix="")
    commit = store.begin_hibernation(session.id, wish, 3, naming, utcnow())
    await spawner.stop()  # as the Hub does it, which does not know
    with pytest.raises(LaunchError) as refused:
        await spawner._end_leftover()
    assert refused.value.reason == "hibernated"
    assert store.get(session.id).status is Status.RUNNING
    # Nor where that came to nothing: its server is stopped, and the service hibernates it again.
    store.cancel_commit(commit.id, utcnow())
    with pytest.raises(LaunchError) as refused:
        await spawner._end_leftover()
    assert "is being hibernated. Resume it" in refused.value.message
    assert store.get(session.id).status is Status.RUNNING
    assert store.is_kept(session.id) is False
