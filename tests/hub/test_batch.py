"""A batch session behind a real Hub: its command, its folder's log, and what is left of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
import requests

from jupyterhub_backendai.engine.base import ContainerGone
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine

from .harness import Hub, running, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One Hub with its service."""
    directory = tmp_path_factory.mktemp("hub")
    settings = {
        "BackendAI": {
            "folder_root": str(directory / "folders"),
            "log_directory": str(directory / "logs"),
        }
    }
    with running(directory, settings=settings) as started:
        yield started


def test_a_batch_session_leaves_its_result_and_its_log(hub: Hub) -> None:
    user = hub.add_user("ada")
    command = "echo 'hello {username} $HOME'; echo \"$HOME\" > data/home; exit 3"
    asked = {
        "name": "train1",
        "type": "batch",
        "batch": {"command": command},
        "mounts": [{"folder": "data", "create": True}],
    }
    reply = hub.launch(user, asked)
    assert reply.status_code in {201, 202}, reply.text
    hub.until_ready(user)
    session = hub.sessions(user)[-1]
    container = hub.container_of(session["id"])
    assert container.attrs["HostConfig"]["RestartPolicy"]["Name"] == "no"
    engine = DockerEngine([AgentConfig("local")], hub.hub_id, "test")
    with suppress(ContainerGone):  # where somebody else was quicker to do the same
        asyncio.run(engine.put_go("local", container.id))
    log = hub.directory / "folders" / "users" / user / "data" / "train1.log"
    wait_for("the command's end", lambda: log.exists() and "exit code 3" in log.read_text())
    assert "\nhello {username} $HOME\n" in log.read_text()
    assert (log.parent / "home").read_text() == "/home/work\n"
    hub.delete(user)
    hub.until_over(user)
    wait_for("its end", lambda: hub.sessions(user)[-1]["status"] == "TERMINATED")
    session = hub.sessions(user)[-1]
    assert (session["result"], session["exit_code"]) == ("failure", 3)
    assert session["batch_started_at"] is not None
    assert hub.containers() == []
    saved = hub.directory / "logs" / session["id"]
    assert "\nhello {username} $HOME\n" in (saved / "main1.command.log").read_text()
    everything = (saved / "main1.log").read_text()
    assert "hello {username} $HOME" in everything
    assert "Jupyter" in everything, "the server's own words are in it too"


def test_a_command_is_followed_from_its_launch_to_its_end(hub: Hub) -> None:
    user = hub.add_user("eva")
    api = f"{hub.url}/services/backendai/api/sessions"
    wait_for("the service", lambda: requests.get(api, timeout=10).status_code == 401)
    token = hub.call("POST", f"users/{user}/tokens", json={}).json()["token"]
    client = requests.Session()
    client.headers["Authorization"] = f"token {token}"
    command = "echo first; while [ ! -e data/on ]; do sleep 0.05; done; echo oops >&2; exit 3"
    asked = {
        "type": "batch",
        "batch": {"command": command},
        "mounts": [{"folder": "data", "create": True}],
    }
    reply = client.post(api, json=asked, timeout=30)
    assert reply.status_code == 201, reply.text
    session = f"{api}/{reply.json()['sessions'][0]['id']}"
    early = client.get(f"{session}/logs", timeout=30)
    assert (early.status_code, early.json()["errors"][0]["code"]) == (409, "not_started")

    query = {"kind": "command", "follow": "1"}
    with client.get(f"{session}/logs", params=query, timeout=60, stream=True) as log:
        assert log.status_code == 200
        lines = log.iter_lines(chunk_size=1, decode_unicode=True)
        assert "The command starts" in next(lines)
        assert next(lines) == "first"
        last = client.get(f"{session}/logs", params={"kind": "command", "tail": "1"}, timeout=30)
        assert last.text == "first\n"
        (hub.directory / "folders" / "users" / user / "data" / "on").touch()
        began = time.monotonic()
        rest = list(lines)
        print(f"the log ended {time.monotonic() - began:.1f} s after the command went on")
    assert rest[0] == "oops"
    assert "exit code 3" in rest[1]
    assert len(rest) == 2
    wait_for("its end", lambda: client.get(session, timeout=30).json()["status"] == "TERMINATED")
    assert client.get(session, timeout=30).json()["exit_code"] == 3
    after = client.get(f"{session}/logs", params=query, timeout=30)
    assert after.text.splitlines()[1:] == ["first", *rest]
