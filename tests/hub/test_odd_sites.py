"""What an admin may well do to a site: two names for one machine, other names, renamed users."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import IMAGE, Hub, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow]
PRESETS = [{"name": "small", "cpu": 0.5, "mem": "256m"}]


def after_a_round(hub: Hub) -> None:
    """Restarts the Hub, and waits until its first round of putting things right is through."""
    labels = {"backendai.hub": hub.hub_id, "backendai.session": "0" * 32}
    stray = hub.docker.containers.create(IMAGE, "true", labels=labels)
    hub.kill()
    hub.start()
    wait_for("the stray to go", lambda: stray.id not in {c.id for c in hub.containers()})


def test_a_site_without_the_service(tmp_path: Path) -> None:
    """Nobody is there to start what no page waits for, and each is told so."""
    here = {"name": "here", "capacity": {"cpu": 1, "mem": "4g"}}
    settings = {"BackendAI": {"presets": PRESETS, "agents": [here], "queue_timeout": 4}}
    hub = Hub(tmp_path, settings=settings, service=False)
    try:
        hub.start()
        holder, waiter = hub.add_user("holder"), hub.add_user("waiter")
        hub.launch(holder, {"resources": {"cpu": 1}})
        hub.until_ready(holder)
        hub.launch(waiter)
        (row,) = wait_for(
            "the wait to be over",
            lambda: [
                s for s in hub.sessions(waiter) if s["status"] not in {"PENDING", "SCHEDULED"}
            ],
        )
        assert row["status"] == "CANCELLED"
        assert "no room in time" in row["reason"]
        reply = hub.launch(waiter, {"type": "batch", "batch": {"command": "true"}})
        assert reply.status_code == 400
        assert "needs the sessions service" in reply.json()["message"]
        hub.delete(holder)
        wait_for("all to be over", lambda: not hub.containers() and not hub.held())
    finally:
        hub.end()


def test_two_groups_on_one_machine(tmp_path: Path) -> None:
    """Each agent sees the other's containers, and leaves them alone."""
    groups = ["blue", "red"]
    settings = {
        "BackendAI": {
            "presets": PRESETS,
            "resource_groups": [{"name": name} for name in groups],
            "agents": [
                {"name": f"on-{name}", "resource_group": name, "capacity": {"cpu": 1, "mem": "2g"}}
                for name in groups
            ],
        }
    }
    hub = Hub(tmp_path, settings=settings)
    try:
        hub.start()
        user = hub.add_user("alice")
        for name in groups:
            hub.launch(user, {"resource_group": name}, server=name)
            hub.until_ready(user, name)
        before = {c.id for c in hub.containers()}
        after_a_round(hub)
        assert {c.id for c in hub.containers()} == before
        assert {s["status"] for s in hub.sessions()} == {"RUNNING"}
    finally:
        hub.end()


def test_an_agent_of_another_name(tmp_path: Path) -> None:
    """A session whose machine is not configured any more ends; nothing of it is held."""
    hub = Hub(tmp_path, settings={"BackendAI": {"presets": PRESETS}})
    try:
        hub.start()
        user = hub.add_user("alice")
        hub.launch(user)
        hub.until_ready(user)
        hub.settings = {"BackendAI": {"presets": PRESETS, "agents": [{"name": "cpu-01"}]}}
        after_a_round(hub)
        wait_for("its end", lambda: hub.sessions(user)[-1]["status"] == "TERMINATED")
        wait_for("nothing to be left", lambda: not hub.held() and not hub.containers())
        assert hub.launch(user).status_code in {201, 202}
        hub.until_ready(user)
    finally:
        hub.end()


def test_a_renamed_user(tmp_path: Path) -> None:
    """Keeps the running session, and can end it."""
    hub = Hub(tmp_path, settings={"BackendAI": {"presets": PRESETS}})
    try:
        hub.start()
        user = hub.add_user("alice")
        hub.launch(user)
        hub.until_ready(user)
        assert hub.call("PATCH", f"users/{user}", json={"name": "alicia"}).status_code == 200
        after_a_round(hub)
        assert len(hub.containers()) == 1
        wait_for("the Hub to see it", lambda: hub.server("alicia").get("ready"))
        assert hub.delete("alicia").status_code in {202, 204}
        wait_for("nothing to be left", lambda: not hub.held() and not hub.containers())
    finally:
        hub.end()


def test_one_name_for_all_containers_of_a_user(tmp_path: Path) -> None:
    """The second server does not take the first one's container away."""
    settings = {
        "BackendAI": {"presets": PRESETS},
        "DockerSpawner": {"name_template": "{prefix}-{username}"},
    }
    hub = Hub(tmp_path, settings=settings)
    try:
        hub.start()
        user = hub.add_user("alice")
        hub.launch(user, {}, server="one")
        hub.until_ready(user, "one")
        (first,) = hub.containers()
        reply = hub.launch(user, {}, server="two")
        assert reply.status_code == 503
        assert "is another's" in reply.json()["message"]
        assert [c.id for c in hub.containers()] == [first.id]
        assert hub.server(user, "one").get("ready")
    finally:
        hub.end()
