"""Two Docker daemons as two agents of one resource group; one of them dies and comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from jupyterhub_backendai.site.reach import _gateways

from .harness import Hub, wait_for
from .second_engine import SecondEngine, missing
from .visitor import sign_in

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing() or "-"),
]
ROOM = {"cpu": 4, "mem": "8g"}  # what the admin says: the test does not depend on the machine
MOST = {"resources": {"cpu": 3, "mem": "1g"}}
# The Hub's process puts things right every few seconds instead of every half minute, and a request
# for a start that takes longer is answered soon.
EXTRA = """
from jupyterhub_backendai.site import reconcile
reconcile.INTERVAL = 5
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 2}
"""
HALF = {"resources": {"cpu": 0.5, "mem": "512m"}}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondEngine]:
    engine = SecondEngine(tmp_path_factory.mktemp("engine"))
    try:
        engine.start().have_image()
        yield engine
    finally:
        engine.stop()


@pytest.fixture
def hub(engine: SecondEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A Hub with both; each agent's containers reach it at the address of their own bridge."""
    directory = tmp_path_factory.mktemp("hub")
    hub = Hub(directory, extra=EXTRA)
    gateway = _gateways(hub.docker.networks.get("bridge").attrs)[0]
    hub.settings = {
        # By itself the Hub takes its machine's name, which need not resolve.
        "JupyterHub": {
            "hub_ip": "0.0.0.0",
            "hub_connect_ip": "127.0.0.1",
            "allow_named_servers": True,
        },
        "BackendAI": {
            "check_hub_access": True,
            "folder_root": str(directory / "folders"),
            "resource_groups": [{"name": "default", "selection": "dispersed"}],
            "agents": [
                {
                    "name": "one",
                    "capacity": ROOM,
                    "hub_connect_url": f"http://{gateway}:{hub.hub_port}",
                },
                {
                    "name": "two",
                    "base_url": engine.socket,
                    "capacity": ROOM,
                    "hub_connect_url": f"http://{engine.gateway}:{hub.hub_port}",
                },
            ],
        },
    }
    try:
        yield hub.start()
    finally:
        hub.end()


def agents(hub: Hub, user: str) -> dict[str, dict[str, Any]]:
    """What the form tells of the agents."""
    page = sign_in(hub.url, user).get(f"{hub.url}/hub/spawn/{user}/looking", timeout=30)
    found = re.search(r'id="backendai-view">(.*?)</script>', page.text, re.S)
    assert found, page.text
    (group,) = json.loads(found[1])["resource_groups"]
    return {agent["name"]: agent for agent in group["agents"]}


def session_of(hub: Hub, user: str, server: str = "") -> dict[str, Any]:
    return [s for s in hub.sessions(user) if s["server_name"] == server][-1]


def set_schedulable(hub: Hub, agent: str, schedulable: bool) -> dict[str, Any]:
    """What an admin says of an agent, to the service."""
    url = f"{hub.url}/services/backendai/api/agents/{agent}"
    hub.add_user("admin")
    token = hub.call("POST", "users/admin/tokens", json={}).json()["token"]
    headers = {"Authorization": f"token {token}"}
    reply = requests.patch(url, json={"schedulable": schedulable}, headers=headers, timeout=30)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def inside(engine: SecondEngine, hub: Hub) -> list[Any]:
    label = {"label": f"backendai.hub={hub.hub_id}"}
    return list(engine.client().containers.list(all=True, filters=label, ignore_removed=True))


def test_sessions_land_on_both(hub: Hub, engine: SecondEngine) -> None:
    users = [hub.add_user(name) for name in ("ann", "ben", "cem", "dot")]
    for user in users[:2]:
        assert hub.launch(user, HALF).ok
    for user in users[:2]:
        hub.until_ready(user)
    places = {user: session_of(hub, user)["agent"] for user in users[:2]}
    assert set(places.values()) == {"one", "two"}

    # What each has is what its containers do not hold.
    known = agents(hub, "ann")
    for name in ("one", "two"):
        assert known[name]["available"] is True
        assert known[name]["capacity"]["cpu"] == 4000
        assert known[name]["free"] == {**known[name]["free"], "cpu": 3500, "mem": 7680 * 2**20}

    # Each is in its own daemon, and its container works as any: it reaches the Hub (or it would
    # not be ready) by the address that its agent says.
    assert len(hub.containers()) == len(inside(engine, hub)) == 1
    for user, place in places.items():
        printed = hub.run_inside(session_of(hub, user)["id"], "env")
        variables = dict(line.partition("=")[::2] for line in printed.splitlines())
        assert variables["BACKENDAI_AGENT"] == place
        assert (engine.gateway in variables["JUPYTERHUB_API_URL"]) == (place == "two")

    # A designated agent is the one; where it is full, the session waits for it alone.
    assert hub.launch(users[2], {**MOST, "agent": "two"}).ok
    hub.until_ready(users[2])
    assert session_of(hub, users[2])["agent"] == "two"
    assert hub.launch(users[3], {**MOST, "agent": "two"}).ok
    waits = wait_for("dot to wait", lambda: session_of(hub, "dot")["reason"] and
                     session_of(hub, "dot"))  # fmt: skip
    assert waits["status"] == "PENDING"
    assert "two" in waits["reason"]
    hub.delete(users[2])
    hub.until_ready(users[3])
    assert session_of(hub, users[3])["agent"] == "two"

    # Drained by an admin it goes on with what it has, and gets nothing: whoever chose it waits and
    # reads why, through a start of the Hub too, and others go to the other one.
    hub.delete(users[3])
    wait_for("dot to leave", lambda: not hub.held("dot"))
    assert set_schedulable(hub, "two", False)["drained_by"] == "admin"
    assert hub.launch(users[2], HALF).ok
    hub.until_ready(users[2])
    assert session_of(hub, "cem")["agent"] == "one", "the other one has more room"
    assert hub.launch(users[3], {**HALF, "agent": "two"}).ok
    waits = wait_for("dot to read why", lambda: session_of(hub, "dot")["reason"] and
                     session_of(hub, "dot"))  # fmt: skip
    assert (waits["status"], waits["reason_code"]) == ("PENDING", "drained")
    assert agents(hub, "ann")["two"]["schedulable"] is False
    stays = next(user for user in users[:2] if places[user] == "two")
    assert session_of(hub, stays)["status"] == "RUNNING"
    set_schedulable(hub, "two", True)
    hub.until_ready(users[3])
    assert session_of(hub, users[3])["agent"] == "two"
    hub.delete(users[2])

    log = hub.log_text()
    assert "Containers on one reach the Hub" in log
    assert f"Containers on two reach the Hub at http://{engine.gateway}" in log
    for user in (users[0], users[1], users[3]):
        hub.delete(user)
    wait_for("all to be over", lambda: not hub.held())
    assert not hub.containers()
    assert not inside(engine, hub)
    assert not [v for v in engine.client().volumes.list() if hub.hub_id in v.name]


def test_one_daemon_dies_and_comes_back(hub: Hub, engine: SecondEngine) -> None:
    places = {"stays": "two", "leaves": "two", "fills": "one"}
    for user in (*places, "comes", "waits"):
        hub.add_user(user)
    for user, agent in places.items():
        amounts = MOST if user == "fills" else HALF
        assert hub.launch(user, {**amounts, "agent": agent}).ok
    for user in places:
        hub.until_ready(user)
    assert len(inside(engine, hub)) == 2

    engine.kill()
    # At once, before anybody has noticed: its place is on the dead one, where more is free, and
    # is given up again for one on the other.
    assert hub.launch("comes", HALF).ok
    hub.until_ready("comes")
    comes = session_of(hub, "comes")
    assert comes["agent"] == "one"
    results = hub.rows("select result, message from history where session_id = ?", comes["id"])
    tried = {"result": "NEED_RETRY", "message": "two does not answer."} in results
    # A look of the Hub may have come in between, by chance.
    assert tried or "Agent two is not available" in hub.log_text()

    wait_for("it to be noticed", lambda: not agents(hub, "comes")["two"]["available"])
    assert agents(hub, "comes")["one"]["available"]
    (row,) = hub.rows("select * from agents where name = 'two'")
    assert "does not answer" in row["reason"]
    # Nothing is lost: who is there is still there, with what is held.
    assert session_of(hub, "stays")["status"] == "RUNNING"
    assert hub.server("stays")["ready"]
    assert len(hub.held()) == 4

    # A session on it can be ended; what cannot be removed yet is held until it can be.
    assert hub.delete("leaves").status_code in {202, 204}
    hub.until_over("leaves")
    assert session_of(hub, "leaves")["status"] == "TERMINATING"
    again = hub.launch("leaves", HALF)
    assert again.status_code >= 400
    assert "does not answer" in again.text
    # Under another name there is room on the other.
    assert hub.launch("leaves", HALF, server="other").ok
    hub.until_ready("leaves", "other")
    assert session_of(hub, "leaves", "other")["agent"] == "one"
    # Who wants just this one waits, and is told for what.
    assert hub.launch("waits", {**HALF, "agent": "two"}).ok
    told = wait_for("a reason", lambda: session_of(hub, "waits")["reason"])
    assert "two" in told, told

    engine.start()
    hub.until_ready("waits", timeout=90)
    wait_for("what is over to go", lambda: session_of(hub, "leaves")["status"] == "TERMINATED", 90)
    owners = {c.labels["backendai.user"]: c.status for c in inside(engine, hub)}
    assert owners == {"stays": "running", "waits": "running"}
    assert agents(hub, "comes")["two"]["available"]
    # The daemon's containers ran on while it was dead, and so did the session in one.
    stays = session_of(hub, "stays")
    assert stays["status"] == "RUNNING"
    assert hub.run_inside(stays["id"], "echo", "still here") == "still here\n"
    for user in ("stays", "comes", "fills", "waits"):
        hub.delete(user)
    hub.delete("leaves", "other")
    wait_for("all to be over", lambda: not hub.held())
    assert not inside(engine, hub)
