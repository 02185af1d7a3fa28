"""At the Hub's start a container tests that it reaches the Hub, and the log says how it went."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyterhub_backendai.engine.base import LABEL_SESSION

from .harness import Hub, running, wait_for

pytestmark = pytest.mark.docker
CHECKED = {"BackendAI": {"check_hub_access": True}}


def helpers(hub: Hub) -> list[str]:
    """Containers of the test itself."""
    labels = [container.labels[LABEL_SESSION] for container in hub.containers()]
    return [label for label in labels if label.startswith("helper-")]


def test_an_address_that_containers_reach(tmp_path: Path) -> None:
    """The one found by itself, where the admin sets none."""
    with running(tmp_path, settings=CHECKED) as hub:
        log = wait_for("the test", lambda: "reach the Hub" in hub.log_text() and hub.log_text())
        (line,) = (line for line in log.splitlines() if "Containers on local reach the Hub" in line)
        assert f":{hub.hub_port}/hub/api" in line
        assert "127.0.0.1" not in line
        wait_for("the helper to go", lambda: not helpers(hub))


def test_an_address_that_they_do_not_reach(tmp_path: Path) -> None:
    """The classic mistake: the Hub listens where nobody but this machine can connect."""
    settings = {**CHECKED, "JupyterHub": {"hub_ip": "127.0.0.1"}}
    with running(tmp_path, settings=settings) as hub:
        log = wait_for("the test", lambda: "cannot reach" in hub.log_text() and hub.log_text())
        url = f"http://127.0.0.1:{hub.hub_port}/hub/api"
        told = log[log.index(f"Containers on local cannot reach the Hub at {url}") :]
        assert "Connection refused" in told  # what happened,
        assert "no session can start" in told  # what it means,
        assert "Set c.JupyterHub.hub_ip" in told  # and what to do
        assert "c.JupyterHub.hub_connect_url" in told
        assert "Traceback" not in told
        wait_for("the helper to go", lambda: not helpers(hub))
        # The Hub serves all the same: an admin can look at it, and at what it says.
        assert hub.api.get(f"{hub.url}/hub/login", timeout=10).status_code == 200


def test_no_image_to_test_with(tmp_path: Path) -> None:
    """Nothing is downloaded for the test alone."""
    environment = {"name": "absent", "image": "backendai-no-such-image:1"}
    settings = {"BackendAI": {"check_hub_access": True, "environments": [environment]}}
    with running(tmp_path, settings=settings) as hub:
        wait_for("the note", lambda: "Not tested whether containers on local" in hub.log_text())


def test_no_engine_at_all(tmp_path: Path) -> None:
    """The Hub comes up and says what is missing; who launches something is told too."""
    socket = f"unix://{tmp_path}/nobody.sock"
    soon = 'c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 2}'  # it waits in line anyway
    hub = Hub(tmp_path, settings=CHECKED, extra=soon, environment={"DOCKER_HOST": socket})
    try:
        hub.start()
        wait_for("the note", lambda: "Agent local is not available" in hub.log_text())
        assert "Start Docker, or set c.JupyterHub.hub_ip" in hub.log_text()
        user = hub.add_user("alice")
        hub.launch(user)
        told = wait_for("a reason", lambda: hub.sessions(user) and hub.sessions(user)[-1]["reason"])
        assert "local" in told or "machine" in told or "answers" in told, told
        assert hub.delete(user).status_code in {202, 204}
        wait_for("it to be over", lambda: hub.sessions(user)[-1]["status"] == "CANCELLED")
    finally:
        hub.end()
