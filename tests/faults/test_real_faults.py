"""The same for real: service, Hub, proxy and a Docker daemon are killed while sessions come and go.

None by default: `REAL_FAULT_SCHEDULES=2` runs so many; `FAULT_SEED=7` only that one.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from jupyterhub_backendai.site.reach import _gateways

from ..hub.harness import Hub, wait_for
from ..hub.second_engine import SecondEngine, missing
from ..hub.test_service import processes
from ..hub.test_worker import FINAL, call, token_of

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing() or "-"),
]
ONLY = os.environ.get("FAULT_SEED")
SCHEDULES = int(os.environ.get("REAL_FAULT_SCHEDULES", "0"))
SEEDS = [int(ONLY)] if ONLY else list(range(1, SCHEDULES + 1))
KILLS = ["service", "hub", "proxy", "engine"]
ROOM = {"cpu": 2, "mem": "8g"}
# The Hub looks at its service this often; by itself that is half a minute.
OFTEN = "from jupyterhub.services.service import _ServiceSpawner\n_ServiceSpawner.poll_interval = 1"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondEngine]:
    engine = SecondEngine(tmp_path_factory.mktemp("engine"))
    try:
        engine.start().have_image()
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="module")
def hub(engine: SecondEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A Hub with its service, and two agents; the second one's daemon may be killed."""
    hub = Hub(tmp_path_factory.mktemp("hub"), extra=OFTEN)
    gateway = _gateways(hub.docker.networks.get("bridge").attrs)[0]
    one = {"name": "one", "hub_connect_url": f"http://{gateway}:{hub.hub_port}"}
    two = {"name": "two", "hub_connect_url": f"http://{engine.gateway}:{hub.hub_port}"}
    hub.settings = {
        "JupyterHub": {"hub_ip": "0.0.0.0", "hub_connect_ip": "127.0.0.1"},
        "ConfigurableHTTPProxy": {"check_running_interval": 1},
        "BackendAI": {
            "resource_groups": [{"name": "default", "selection": "dispersed"}],
            "agents": [{**one, "capacity": ROOM}, {**two, "base_url": engine.socket,
                                                   "capacity": ROOM}],
        },
    }  # fmt: skip
    try:
        yield hub.start()
    finally:
        hub.end()


def kill(hub: Hub, engine: SecondEngine, what: str) -> None:
    """kill -9; what nobody starts again is started here."""
    if what == "hub":
        hub.kill()
        hub.start(wait=False)
    elif what == "engine":
        engine.kill()
        engine.start()
    elif what == "proxy":
        os.kill(int((hub.directory / "jupyterhub-proxy.pid").read_text().split()[0]), 9)
    else:
        for service in processes(hub):
            os.kill(service, signal.SIGKILL)


def asked(hub: Hub, method: str, path: str, token: str, **more: Any) -> requests.Response:
    """An answer of the service, however often that takes."""

    def answer() -> requests.Response | None:
        try:
            reply = call(hub, method, path, token, **more)
        except requests.RequestException:
            return None
        return reply if reply.status_code in {200, 201, 202, 400, 409} else None

    return wait_for(f"{method} {path}", answer)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_killed_nothing_is_lost_left_or_done_twice(
    hub: Hub, engine: SecondEngine, seed: int
) -> None:
    print(f"FAULT_SEED={seed} python -m pytest {__file__}")
    dice = random.Random(seed)
    owner = f"user{seed}"
    token = wait_for("the Hub", lambda: safely(lambda: token_of(hub, owner)))
    codes: dict[str, int] = {}
    kills = dice.sample(KILLS, 4)
    for number in range(10):
        name = f"work-{number}"
        options: dict[str, Any] = {"name": name, "resources": {"cpu": 0.5, "mem": "256m"}}
        if number % 5:
            codes[name] = dice.choice((0, 0, 3))
            command = f"echo once; sleep {dice.randint(0, 3)}; exit {codes[name]}"
            options |= {"type": "batch", "batch": {"command": command}}
        asked(hub, "POST", "api/sessions", token, json=options)
        if number in (2, 4, 6, 9):
            kill(hub, engine, kills.pop())

    def rows() -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in hub.sessions(owner)}

    assert len(rows()) == 10
    for name in rows().keys() - codes:
        asked(hub, "DELETE", f"api/sessions/{rows()[name]['id']}", token)
    wait_for("all to end", lambda: all(row["status"] in FINAL for row in rows().values()), 120)
    for name, code in codes.items():
        row = rows()[name]
        assert (row["status"], row["exit_code"]) == ("TERMINATED", code), row
        assert row["result"] == ("failure" if code else "success")
        log = asked(hub, "GET", f"api/sessions/{row['id']}/logs?kind=command", token)
        assert log.text == "once\n"
    assert not hub.held()
    label = {"label": f"backendai.hub={hub.hub_id}"}

    def left() -> list[Any]:
        theirs = engine.client()
        more = [
            *theirs.containers.list(all=True, filters=label),
            *theirs.volumes.list(filters=label),
        ]
        return [*hub.containers(), *hub.volumes(), *more]

    wait_for("nothing to be left", lambda: not left(), 75)
    wait_for("the Hub to know it", lambda: safely(lambda: no_server(hub, owner)))


def no_server(hub: Hub, owner: str) -> bool:
    return not hub.call("GET", f"users/{owner}").json()["servers"]


def safely(ask: Callable[[], Any]) -> Any:
    """An answer of the Hub; None while there is nobody to give it."""
    try:
        return ask()
    except (requests.RequestException, AssertionError, KeyError):
        return None
