"""Idle checks of real sessions: what ends them, what does not, and when they were told.

The rules are short, so that a test is; each user has their own. An end is to come at the time that
was told last, give or take one sample. On a machine that is slow two samples are further apart than
they should be, so how far is measured, while each of these sessions is waited for.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import requests

from jupyterhub_backendai.service.workers.idle import PATIENCE

from .harness import ENVIRONMENTS, Hub, running, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

SAMPLE = 2  # seconds
LONG = 180  # seconds that a test waits for what takes half a minute on a machine at rest
ROUNDED = 1  # seconds: times are told in whole ones
LATE = 10  # seconds, more than an end comes late on a machine at rest
USE = {"window": "20s", "thresholds": {"cpu": 20}}
KEEP = {"each": "10m", "total": "15m"}
RULES: dict[str, dict[str, Any]] = {
    "busy": {"utilization": {"window": "60s", "thresholds": {"cpu": 5}}},
    "parked": {"utilization": {"window": "40s", "thresholds": {"cpu": 20}}},
    "grace": {"utilization": {**USE, "grace": "10m"}},
    "none": {"utilization": USE},
    "nogpu": {"utilization": {"window": "20s", "thresholds": {"gpu": 50, "gpu_mem": 50}}},
    "batch": {"network": "10s", "lifetime": "1h"},
    "computes": {"network": "40s"},
    "types": {"network": "60s"},
    "apps": {"network": "60s"},
    "polls": {"network": "40s"},
    "watches": {"network": {"timeout": "60s", "polling": True}},
    "keeps": {"network": "10m"},
}
APP = (Path(__file__).parent / "inside_app.py").read_text()
BOARD = {"name": "board", "port": 8050, "command": ["python3", "-c", APP, "{port}"]}
SETTINGS = {
    "BackendAI": {
        "environments": [{**ENVIRONMENTS[0], "apps": ["jupyterlab", BOARD]}],
        "usage_interval": SAMPLE,
        "idle_warnings": [],
        "presets": [{"name": "small", "cpu": 0.5, "mem": "256m"}],
        "agents": [{"name": "local", "capacity": {"cpu": 16, "mem": "16g"}}],
        "user_policies": {name: {"idle": rules, "keep": KEEP} for name, rules in RULES.items()},
    }
}
SPIN = "while :; do :; done"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running(tmp_path_factory.mktemp("hub"), settings=SETTINGS) as started:
        health = f"{started.url}/services/backendai/health"
        wait_for("the service", lambda: requests.get(health, timeout=10).status_code == 200)
        yield started


class Samples:
    """When a session was sampled, as its usage shows. `longest`: seconds between two samples that
    came after each other, and none in between: never less than they were."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last: Any = None
        self._seen: float | None = None

    def shows(self, values: Any, asked: float, answered: float) -> None:
        """What its usage was between these times."""
        if values is not None and values != self._last:
            self.ends(answered)
            self._last, self._seen = values, asked

    def ends(self, at: float) -> None:
        """There was one until then."""
        if self._seen is not None:
            self.longest = max(self.longest, at - self._seen)


class Idle:
    """A session of a user whose rules are those of that name."""

    def __init__(self, hub: Hub, user: str, **options: Any) -> None:
        self.hub, self.user = hub, hub.add_user(user)
        self.token = hub.call("POST", f"users/{user}/tokens", json={}).json()["token"]
        asked = {"name": f"session-{user}", "preset": "small", **options}
        reply = hub.launch(user, asked)
        assert reply.status_code in {201, 202}, reply.text
        hub.until_ready(user, timeout=LONG)
        self.id = str(hub.sessions(user)[-1]["id"])
        self.told: list[datetime] = []
        self.at_it = threading.Event()  # its user is, and not only on the way there
        self.look()

    @property
    def row(self) -> dict[str, Any]:
        return self.hub.sessions(self.user)[-1]

    @property
    def finished(self) -> str:
        """The page that lists what is over."""
        headers = {"Authorization": f"token {self.token}"}
        url = f"{self.hub.url}/services/backendai/?state=over"
        reply = requests.get(url, headers=headers, timeout=60)
        assert reply.status_code == 200, reply.text
        return unescape(reply.text)

    @property
    def server(self) -> str:
        return f"{self.hub.url}/user/{self.user}"

    def api(self, method: str = "GET", of: str = "idle", **more: Any) -> requests.Response:
        url = f"{self.hub.url}/services/backendai/api/sessions/{self.id}/{of}"
        headers = {"Authorization": f"token {self.token}"}
        return requests.request(method, url, headers=headers, timeout=60, **more)

    def look(self) -> dict[str, Any] | None:
        """What it is told of its checks; None once it does not run any more."""
        reply = self.api()
        if reply.status_code == 409:
            return None
        assert reply.status_code == 200, reply.text
        view = dict(reply.json())
        if view["ends_at"] is not None:
            self.told.append(datetime.fromisoformat(view["ends_at"]))
        return view

    def open_app(self) -> None:
        """Has its app started, as a browser that opens it does."""
        headers = {"Authorization": f"token {self.token}", "Accept": "text/html"}

        def found(path: str) -> str:
            return requests.get(f"{self.server}/{path}", headers=headers, timeout=60).text

        found("backendai/open/board")
        wait_for("its app", lambda: "It is here" in found("backendai/app/board/"), LONG)

    def spin(self) -> None:
        """A program of its user's that computes, and talks to nobody."""
        self.hub.container_of(self.id).exec_run(["sh", "-c", SPIN], detach=True, user="1000")

    def until(self, what: str, *states: str) -> dict[str, Any]:
        """Until each of its checks is in one of these states."""

        def found() -> dict[str, Any] | None:
            view = self.look()
            assert view is not None, f"it was ended: {self.row['reason']}"
            return view if all(one["state"] in states for one in view["checks"]) else None

        return wait_for(what, found, LONG) or {}

    def over_by(self) -> datetime:
        """When its check has ended it, at the latest, if who is at it does nothing from now on."""
        assert self.at_it.wait(LONG), "nobody is at it"
        view = self.look()
        assert view is not None
        (check,) = view["checks"]
        return datetime.fromisoformat(view["now"]) + timedelta(seconds=check["limit"] + LATE)

    def until_past(self, at: datetime) -> None:
        """Until it has run for longer than that."""

        def is_past() -> bool:
            view = self.look()
            assert view is not None, f"it was ended: {self.row['reason']}"
            return datetime.fromisoformat(view["now"]) > at

        wait_for("it to outlive that", is_past, LONG)

    def until_ended(self, code: str) -> None:
        """Until its check has ended it: at the time that was told last."""
        samples = Samples()

        def is_over() -> bool:
            asked = time.monotonic()
            used = self.api(of="usage", params={"since": datetime.now(timezone.utc).isoformat()})
            assert used.status_code == 200, used.text
            samples.shows(used.json()["now"], asked, time.monotonic())
            return self.look() is None

        wait_for(f"the end of {self.user}", is_over, LONG)
        samples.ends(time.monotonic())
        row = wait_for("its end", lambda: self.row if self.row["ended_at"] else None, LONG)
        assert (row["reason_code"], row["status"]) == (code, "TERMINATED")
        assert self.told, "nobody was told"
        query = "select created_at from history where session_id = ? and to_status = 'TERMINATING'"
        (moved,) = self.hub.rows(query, self.id)
        ended = datetime.fromisoformat(moved["created_at"]).replace(tzinfo=timezone.utc)
        late = (ended - self.told[-1]).total_seconds()
        # What sees a sample first waits for sessions' servers, for so long at most.
        most = max(SAMPLE, samples.longest) + PATIENCE + ROUNDED
        print(f"{self.user} ended {late:.1f} s after what was told; {most:.1f} s may be")
        # The end by a network check only moves away; by use it may come nearer, by a sample.
        least = -ROUNDED if code == "idle_network" else -most
        assert least <= late <= most, f"it ended {late:.1f} s after what was told"

    @contextmanager
    def meanwhile(self, work: Any) -> Iterator[None]:
        """While `work` is done time and again, in a thread."""
        over, failed = threading.Event(), []

        def run() -> None:
            try:
                asyncio.run(work(self, over))
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(60)
        assert not failed, failed

    def end(self) -> None:
        self.hub.delete(self.user)
        self.hub.until_over(self.user, timeout=LONG)


async def polls(one: Idle, over: threading.Event) -> None:
    """A page that is open and asks by itself, as JupyterLab's do."""
    headers = {"Authorization": f"token {one.token}"}
    async with aiohttp.ClientSession(headers=headers) as client:
        while not over.is_set():
            for path in ("api/kernels", "api/sessions", "api/terminals"):
                async with client.get(f"{one.server}/{path}") as reply:
                    await reply.read()
            await asyncio.sleep(0.5)


async def types(one: Idle, over: threading.Event) -> None:
    """Somebody types into a terminal of Jupyter's."""
    headers = {"Authorization": f"token {one.token}"}
    async with aiohttp.ClientSession(headers=headers, raise_for_status=True) as client:
        async with client.post(f"{one.server}/api/terminals") as reply:
            name = (await reply.json())["name"]
        async with client.ws_connect(f"{one.server}/terminals/websocket/{name}") as socket:
            reading = asyncio.ensure_future(_read(socket))  # which answers the server's pings
            while not over.is_set():
                await socket.send_str(json.dumps(["stdin", "x"]))
                one.at_it.set()
                await asyncio.sleep(0.5)
            reading.cancel()


async def works(one: Idle, over: threading.Event) -> None:
    """Somebody works in an app, of which only the websocket is open."""
    headers = {"Authorization": f"token {one.token}"}
    socket_url = f"{one.server}/backendai/app/board/ws"
    async with (
        aiohttp.ClientSession(headers=headers) as client,
        client.ws_connect(socket_url) as socket,
    ):
        while not over.is_set():
            said = "x" * random.randrange(200, 2000)
            await socket.send_str(said)
            assert await socket.receive_str(timeout=60) == said
            one.at_it.set()
            await asyncio.sleep(0.5)


async def _read(socket: aiohttp.ClientWebSocketResponse) -> None:
    async for _ in socket:
        pass


def test_what_uses_little_is_ended_and_what_computes_is_not(hub: Hub) -> None:
    busy = Idle(hub, "busy")
    busy.spin()
    parked = Idle(hub, "parked")
    parked.until_ended("idle_utilization")
    assert "of its CPU (less than 20%)" in parked.row["reason"]
    assert parked.row["reason"] in parked.finished
    view = busy.until("its use", "used")
    (metric,) = view["checks"][0]["metrics"]
    assert (metric["metric"], metric["threshold"]) == ("cpu", 5)
    assert metric["average"] > 5
    assert view["ends_at"] is None
    busy.end()


def test_grace_and_thresholds_of_what_it_does_not_have(hub: Hub) -> None:
    grace, gpu = Idle(hub, "grace"), Idle(hub, "nogpu")
    none = Idle(hub, "none")  # of the same rule but for the grace, and it began later
    none.until_ended("idle_utilization")
    began = datetime.fromisoformat(grace.row["running_at"]).replace(tzinfo=timezone.utc)
    view = wait_for("its end to be told", lambda: _with_end(grace), LONG)
    assert (datetime.fromisoformat(view["ends_at"]) - began).total_seconds() >= 620 - 1
    view = gpu.look()
    assert view is not None
    assert view["checks"] == [], "it has no GPU"
    grace.end()
    gpu.end()


def _with_end(one: Idle) -> dict[str, Any]:
    view = one.look()
    assert view is not None
    return view if view["ends_at"] else {}


def test_batch_sessions_have_no_network_check(hub: Hub) -> None:
    options = {"type": "batch", "batch": {"command": "sleep 600"}}
    one = Idle(hub, "batch", **options)
    view = one.look()
    assert view is not None
    assert [check["check"] for check in view["checks"]] == ["lifetime"]
    one.end()


def test_a_computation_that_nobody_looks_at_is_ended_and_who_types_is_not(hub: Hub) -> None:
    typing, working = Idle(hub, "types"), Idle(hub, "apps")
    working.open_app()
    with typing.meanwhile(types), working.meanwhile(works):
        ends = [(one, one.over_by()) for one in (typing, working)]
        computes = Idle(hub, "computes")
        computes.spin()
        computes.until_ended("idle_network")
        assert computes.row["reason"] == "Nobody had used it for 40 seconds."
        for one, at in ends:
            one.until_past(at)
    working.end()
    typing.until_ended("idle_network")


def test_a_page_that_only_polls_counts_as_the_admin_says(hub: Hub) -> None:
    watched = Idle(hub, "watches")
    with watched.meanwhile(polls):
        polled = Idle(hub, "polls")
        with polled.meanwhile(polls):
            polled.until_ended("idle_network")
        assert watched.look() is not None
    watched.until_ended("idle_network")


def test_its_owner_keeps_it_and_is_told_how_long(hub: Hub) -> None:
    one = Idle(hub, "keeps")
    one.until("what its server says", "counting")
    reply = one.api("POST", json={"seconds": "1h"})
    assert reply.status_code == 409
    assert "may be kept for 10 minutes now" in reply.json()["errors"][0]["message"]
    before = time.time()
    reply = one.api("POST", json={})
    assert reply.status_code == 200, reply.text
    assert datetime.fromisoformat(reply.json()["ends_at"]).timestamp() > before + 600
    assert one.api("POST", json={"seconds": "10m"}).status_code == 409, "five minutes are left"
    messages = [row["message"] for row in hub.rows(
        "select message from history where session_id = ? and phase = 'keep'", one.id
    )]  # fmt: skip
    assert messages == ["keeps keeps it for 10 minutes."]
    one.end()
