"""A start that is cancelled or fails, at whatever moment, leaves nothing behind."""

from __future__ import annotations

import contextlib
import html
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .harness import ENVIRONMENTS, IMAGE, Hub, free_port, wait_for
from .test_restart import HELD, reached, settled
from .visitor import sign_in

pytestmark = [pytest.mark.docker, pytest.mark.slow]
DIES = r"printf '[I 2026] forged\033[2J\n'; echo my last words; exit 3"
HUNG = free_port()
SETTINGS = {
    "BackendAI": {
        "environments": [
            *ENVIRONMENTS,
            {"name": "dies", "image": IMAGE, "command": ["sh", "-c", DIES]},
            {"name": "sleeps", "image": IMAGE, "command": ["sleep", "600"]},
            {"name": "gone", "image": "backendai-no-such-image:1"},
            {"name": "hung", "image": f"127.0.0.1:{HUNG}/lab/python:1"},
        ],
        "presets": [{"name": "small", "cpu": 0.5, "mem": "256m"}],
        "agents": [{"name": "here", "capacity": {"cpu": 1, "mem": "4g"}}],
    },
    "Spawner": {"start_timeout": 40, "http_timeout": 15},
    "JupyterHub": {"log_level": "INFO"},
}
# What stops or fails only while a file of that name is in the Hub's directory.
EXTRA = f"""
{HELD}
import os, requests
from docker.errors import APIError
from jupyterhub_backendai.engine.base import AgentUnreachable
from jupyterhub_backendai.engine.belongings import Belongings
from jupyterhub_backendai.store import Store, Unavailable

class Silent(HeldSpawner):
    async def start_object(self):
        if os.path.exists("silent-once"):
            os.remove("silent-once")
            raise AgentUnreachable("Docker on here does not answer: read timed out")
        return await super().start_object()

class Refusing(Belongings):
    def all_containers(self, client):
        if os.path.exists("docker-refuses"):
            reply = requests.Response()
            reply.status_code = 500
            raise APIError("500 Server Error", response=reply, explanation="deadline exceeded")
        return super().all_containers(client)

def away(read):
    def call(self, *args):
        if os.path.exists("database-away"):
            raise Unavailable("connection refused")
        return read(self, *args)
    return call

for name in ("live_of", "live_names"):
    setattr(Store, name, away(getattr(Store, name)))
from jupyterhub_backendai.engine import docker
docker.Belongings = Refusing
c.JupyterHub.spawner_class = Silent
"""


@pytest.mark.parametrize("moment", ["PENDING", "PREPARING", "CREATING", "container"])
def test_cancel_in_the_middle(hub: Hub, moment: str) -> None:
    user = hub.add_user(f"c-{moment.lower()}")
    count = len(hub.sessions())
    hold = hub.directory / f"hold-{moment}"
    hold.touch()
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(hub.launch, user)
        wait_for("the session", lambda: len(hub.sessions()) > count)
        wait_for(moment, lambda: reached(hub, moment))
        assert hub.delete(user).status_code in {202, 204}
        start.result()
    hold.unlink()
    wait_for("nothing to be left", lambda: settled(hub) and not hub.containers())
    row = hub.sessions(user)[-1]
    assert row["status"] in {"CANCELLED", "TERMINATED"}
    assert row["reason"] in {
        "It was cancelled while it started. Start it again when you like.",
        "It was ended through the Hub.",
    }
    assert hub.launch(user).status_code in {201, 202}
    hub.until_ready(user)
    hub.delete(user)
    wait_for("all to be over", lambda: not hub.containers() and not hub.held())


def downloads(hub: Hub) -> list[str]:
    """The programs that this Hub has downloading images."""
    assert hub.process is not None
    children = Path(f"/proc/{hub.process.pid}/task/{hub.process.pid}/children").read_text().split()
    commands = []
    for pid in children:
        with contextlib.suppress(OSError):
            commands.append(Path("/proc", pid, "cmdline").read_text())
    return [command for command in commands if "download.py" in command]


def test_cancel_of_a_download_that_hangs(hub: Hub) -> None:
    """Nothing waits for a registry that nobody waits for."""
    user = hub.add_user("c-download")
    with socket.create_server(("127.0.0.1", HUNG)) as registry, ThreadPoolExecutor(1) as pool:
        start = pool.submit(hub.launch, user, {"environment": "hung"})
        registry.settimeout(30)
        client, _ = registry.accept()  # Docker asks, and gets no answer
        with client:
            assert hub.sessions(user)[-1]["status"] == "PULLING"
            assert len(downloads(hub)) == 1
            assert hub.delete(user).status_code in {202, 204}
            start.result()
            wait_for("the download to end", lambda: not downloads(hub), 5)
    wait_for("nothing to be left", lambda: settled(hub))
    assert hub.sessions(user)[-1]["status"] in {"CANCELLED", "TERMINATED"}


def failed(hub: Hub, user: str, environment: str, phase: str, *last: str) -> str:
    """What the user is told of a start that fails; nothing of it is left. `last` is the sub-step
    of the phase at which it failed, and its code."""
    hub.add_user(user)
    reply = hub.launch(user, {"environment": environment})
    wait_for("the failure", lambda: not hub.server(user).get("pending"))
    wait_for("nothing to be left", lambda: settled(hub) and not hub.containers())
    row = hub.sessions(user)[-1]
    assert row["status"] == "ERROR"
    if reply.status_code >= 400:
        assert reply.json()["message"] == row["reason"]
    step, code = last
    assert hub.sub_steps(row["id"])[phase][-1] == (step, "FAILURE", code)
    return str(row["reason"])


def test_a_server_that_dies_at_its_start(hub: Hub) -> None:
    before = len(hub.log_text())
    reason = failed(hub, "unlucky", "dies", "create", "wait_for_server", "start_failed")
    assert "ended while it started (exit code 3)" in reason
    assert "my last words" in reason
    # What it wrote is in the log, and cannot be taken for a line of the Hub's.
    log = hub.log_text()[before:]
    assert r"| [I 2026] forged\x1b[2J" in log
    assert "\x1b[2J" not in log
    assert "Traceback" not in log


def test_a_server_that_never_answers(hub: Hub) -> None:
    why = failed(hub, "patient", "sleeps", "create", "wait_for_server", "start_timeout")
    assert "did not answer within 15 seconds" in why


def test_an_image_that_cannot_be_had(hub: Hub) -> None:
    before = len(hub.log_text())
    why = failed(hub, "hopeful", "gone", "pull", "pull_image", "image_missing")
    assert "image of this session is not on its machine" in why
    assert "backendai-no-such-image:1" in hub.log_text()[before:]  # an admin is told which


def test_an_engine_that_is_silent_once_and_one_that_refuses_while_the_hub_starts(hub: Hub) -> None:
    """The one agent there is has a leftover of the very session that it is given again."""
    (hub.directory / "silent-once").touch()
    user = hub.add_user("flaky")
    reply = hub.launch(user)
    assert reply.ok, reply.text
    hub.until_ready(user)
    session = hub.sessions(user)[-1]
    assert session["status"] == "RUNNING"
    container = hub.container_of(session["id"]).id
    results = hub.rows("select message from history where session_id = ?", session["id"])
    assert {"message": "here does not answer."} in results

    hub.kill()
    (hub.directory / "docker-refuses").touch()
    before = len(hub.log_text())
    hub.start()
    wait_for("it to be asked", lambda: "counts as running" in hub.log_text()[before:])
    (hub.directory / "docker-refuses").unlink()
    assert hub.server(user)["ready"]
    assert hub.sessions(user)[-1]["status"] == "RUNNING"
    assert hub.container_of(session["id"]).id == container
    hub.delete(user)
    wait_for("nothing to be left", lambda: settled(hub) and not hub.containers())


def test_a_database_that_does_not_answer(hub: Hub) -> None:
    user, away = hub.add_user("early"), hub.directory / "database-away"
    browser = sign_in(hub.url, user)
    before = len(hub.log_text())
    away.touch()
    try:
        page = browser.get(f"{hub.url}/hub/spawn/{user}", timeout=30)
        reply = hub.launch(user)
    finally:
        away.unlink()
    assert (page.status_code, reply.status_code) == (200, 503)
    for text in (html.unescape(page.text), reply.json()["message"]):
        assert "The Hub's database does not answer. Try again in a minute." in text
    log = hub.log_text()[before:]
    assert f"{user}: connection refused" in log
    assert "Traceback" not in log
