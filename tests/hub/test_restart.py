"""kill -9 of the Hub, at any moment of a start: the next one puts things right."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from .harness import Hub, running, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow]
SETTINGS = {"BackendAI": {"presets": [{"name": "small", "cpu": 0.5, "mem": "256m"}]}}
# Starts stop at the moment that is named, so that the Hub is killed there and not a bit later.
HELD = """
import asyncio, pathlib
from jupyterhub_backendai.spawner.docker import DockerSessionSpawner

async def held(moment):
    while pathlib.Path("hold-" + moment).exists():
        await asyncio.sleep(0.05)

class HeldSpawner(DockerSessionSpawner):
    async def _in_line(self, session):
        await held("PENDING")
        return await super()._in_line(session)

    async def prepare(self, session, request):
        await held("PREPARING")
        await super().prepare(session, request)

    async def launch(self, session, request):
        await held("CREATING")
        return await super().launch(session, request)

    async def _until_it_answers(self, ip, port):
        await held("container")
        await super()._until_it_answers(ip, port)

c.JupyterHub.spawner_class = HeldSpawner
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running(tmp_path_factory.mktemp("hub"), settings=SETTINGS, extra=HELD) as started:
        yield started


@pytest.fixture
def hub(shared: Hub) -> Iterator[Hub]:
    """The module's Hub, running and with nothing in it, also after a test that failed."""
    yield shared
    for hold in shared.directory.glob("hold-*"):
        hold.unlink()
    assert shared.process is not None
    if shared.process.poll() is not None:
        shared.start()
    for owner in {session["owner"] for session in shared.sessions()}:
        shared.delete(owner)
    wait_for("all to be over", lambda: not shared.containers() and not shared.held())


def settled(hub: Hub) -> bool:
    """Nothing is on its way, nothing is held or left by what is over."""
    live = {
        s["id"] for s in hub.sessions() if s["status"] not in {"TERMINATED", "CANCELLED", "ERROR"}
    }
    left = {c.labels["backendai.session"] for c in hub.containers()}
    homes = {v.attrs["Labels"]["backendai.session"] for v in hub.volumes()}
    held = {a["session_id"] for a in hub.held()}
    on_the_way = {s["status"] for s in hub.sessions() if s["id"] in live} - {"RUNNING"}
    return left <= live and homes <= live and held == live and not on_the_way


@pytest.mark.parametrize("moment", ["PENDING", "PREPARING", "CREATING", "container", "RUNNING"])
def test_kill_in_the_middle_of_a_start(moment: str, hub: Hub) -> None:
    count = len(hub.sessions())
    hold = hub.directory / f"hold-{moment}"
    hold.touch()
    user = hub.add_user(f"k-{moment.lower()}")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_launch, hub, user)
        wait_for("the session", lambda: len(hub.sessions()) > count)
        wait_for(moment, lambda: reached(hub, moment))
        hub.kill()
    assert reached(hub, moment), "it was killed at this moment and no other"
    hold.unlink()
    hub.start()
    wait_for("everything to be put right", lambda: settled(hub), timeout=60)
    # A Hub that has just begun looks at what runs beside its first answers.
    wait_for("the Hub to agree", lambda: agreed(hub, user) and settled(hub))
    session = hub.sessions(user)[-1]
    # What ran goes on, also where the Hub had no time to note its address.
    assert moment != "RUNNING" or session["status"] == "RUNNING", session["reason"]
    if session["status"] != "RUNNING":
        assert session["status"] in {"ERROR", "CANCELLED", "TERMINATED"}
        assert "restarted" in session["reason"] or "running any more" in session["reason"]
        assert not hub.server(user).get("ready")
        phases = hub.rows("select phase from history where session_id = ?", session["id"])
        assert "reconcile" in {row["phase"] for row in phases}
    # The same server can be started again at once.
    if session["status"] != "RUNNING":
        assert hub.launch(user).status_code in {201, 202}
    hub.until_ready(user)


def agreed(hub: Hub, user: str) -> bool:
    """Whether the Hub takes a server to be ready exactly where the session runs."""
    runs = hub.sessions(user)[-1]["status"] == "RUNNING"
    return bool(hub.server(user).get("ready")) == runs


def _launch(hub: Hub, user: str) -> None:
    try:
        hub.launch(user)
    except OSError:
        return  # the Hub is killed while it answers


def reached(hub: Hub, moment: str) -> bool:
    if moment == "container" and not (hub.hub_id and hub.containers()):
        return False
    # A pass of the service may give it its place meanwhile; no start has begun with it then.
    statuses = {"container": {"CREATING"}, "PENDING": {"PENDING", "SCHEDULED"}}
    sessions = hub.sessions()
    return bool(sessions) and sessions[-1]["status"] in statuses.get(moment, {moment})


def test_a_running_session_survives_a_restart(hub: Hub) -> None:
    user = hub.add_user("survivor")
    hub.launch(user)
    hub.until_ready(user)
    session = hub.sessions(user)[-1]["id"]
    container = hub.container_of(session).id
    hub.kill()
    # As a Hub knows it that is killed the moment after the start: no address yet, no state.
    with contextlib.closing(sqlite3.connect(hub.directory / "jupyterhub.sqlite")) as db, db:
        assert db.execute("update servers set ip = '', port = 54023 where port = 8888").rowcount
        assert db.execute("update spawners set state = null").rowcount
    hub.start()
    wait_for("the Hub to see it", lambda: hub.server(user).get("ready"))
    assert hub.container_of(session).id == container
    assert hub.sessions(user)[-1]["status"] == "RUNNING"
    assert hub.delete(user).status_code in {202, 204}
    wait_for("it to be over", lambda: not hub.containers() and not hub.held())


def test_a_container_that_died_while_the_hub_was_away(hub: Hub) -> None:
    user = hub.add_user("bereft")
    hub.launch(user)
    hub.until_ready(user)
    session = hub.sessions(user)[-1]["id"]
    hub.kill()
    hub.container_of(session).remove(force=True)
    hub.start()
    wait_for("everything to be put right", lambda: settled(hub))
    assert hub.sessions(user)[-1]["status"] == "TERMINATED"
    assert not hub.server(user)


def test_strangers_are_left_alone(hub: Hub) -> None:
    """Containers without our hub's label, or with another hub's, are never touched."""
    strangers = [
        hub.docker.containers.create("backendai-demo:latest", "true", labels=labels)
        for labels in ({}, {"backendai.hub": "somebody-else", "backendai.session": "x"})
    ]
    try:
        user = hub.add_user("host")
        hub.launch(user)
        hub.kill()
        hub.start()
        wait_for("everything to be put right", lambda: settled(hub))
        for stranger in strangers:
            stranger.reload()
    finally:
        for stranger in strangers:
            stranger.remove(force=True)
