"""A start that is cancelled or fails, at whatever moment, leaves nothing behind."""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .harness import ENVIRONMENTS, IMAGE, Hub, free_port, wait_for
from .test_restart import reached, settled

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
        "queue_timeout": 4,
    },
    "Spawner": {"start_timeout": 40, "http_timeout": 15},
    "JupyterHub": {"log_level": "INFO"},
}


@pytest.mark.parametrize("moment", ["PENDING", "PREPARING", "CREATING", "a container"])
def test_cancel_in_the_middle(hub: Hub, moment: str) -> None:
    user = hub.add_user(f"c-{moment.replace(' ', '-').lower()}")
    count = len(hub.sessions())
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(hub.launch, user)
        wait_for("the session", lambda: len(hub.sessions()) > count)
        wait_for(moment, lambda: reached(hub, moment))
        assert hub.delete(user).status_code in {202, 204}
        start.result()
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


def failed(hub: Hub, user: str, environment: str) -> str:
    """What the user is told of a start that fails; nothing of it is left."""
    hub.add_user(user)
    reply = hub.launch(user, {"environment": environment})
    wait_for("the failure", lambda: not hub.server(user).get("pending"))
    wait_for("nothing to be left", lambda: settled(hub) and not hub.containers())
    row = hub.sessions(user)[-1]
    assert row["status"] == "ERROR"
    if reply.status_code >= 400:
        assert reply.json()["message"] == row["reason"]
    return str(row["reason"])


def test_a_server_that_dies_at_its_start(hub: Hub) -> None:
    before = len(hub.log_text())
    reason = failed(hub, "unlucky", "dies")
    assert "ended while it started (exit code 3)" in reason
    assert "my last words" in reason
    # What it wrote is in the log, and cannot be taken for a line of the Hub's.
    log = hub.log_text()[before:]
    assert r"| [I 2026] forged\x1b[2J" in log
    assert "\x1b[2J" not in log
    assert "Traceback" not in log


def test_a_server_that_never_answers(hub: Hub) -> None:
    assert "did not answer within 15 seconds" in failed(hub, "patient", "sleeps")


def test_an_image_that_cannot_be_had(hub: Hub) -> None:
    assert "image of this session is not on its machine" in failed(hub, "hopeful", "gone")


def test_no_room_in_time(hub: Hub) -> None:
    holder, waiter = hub.add_user("holder"), hub.add_user("waiter")
    hub.launch(holder, {"resources": {"cpu": 1}})
    hub.until_ready(holder)
    hub.launch(waiter)
    row = wait_for(
        "the wait to be over",
        lambda: [s for s in hub.sessions(waiter) if s["status"] not in {"PENDING", "SCHEDULED"}],
    )[-1]
    assert row["status"] == "CANCELLED"
    assert "no room in time" in row["reason"]
    hub.delete(holder)
    wait_for("all to be over", lambda: not hub.containers() and not hub.held())
