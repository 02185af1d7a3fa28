"""Starts the service for tests, and calls it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jupyterhub._data import DATA_FILES_PATH
from jupyterhub.services.auth import HubOAuth
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import StaticFileHandler

from jupyterhub_backendai.engine.saved_logs import CONTAINER
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.service.app import Service
from jupyterhub_backendai.service.handover import LOOK, pack, unpack
from jupyterhub_backendai.service.ways.public import READ
from jupyterhub_backendai.service.workers.runner import Work
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import AgentReport

from .stand_in import StandIn

PREFIX = "/services/backendai/"
PATIENCE = 120.0  # seconds for what takes one or two
BACKEND = {
    "service": True,
    "environments": [
        {"name": "python", "versions": [{"name": "3.11", "image": "jupyter/base:1"}]},
    ],
    "presets": [{"name": "small", "cpu": 1, "mem": "1g"}],
    "agents": [{"name": "local", "base_url": "unix:///nobody/answers.sock"}],
    "idle": {"network": "30d"},
}


@dataclass
class Reply:
    """An answer, read to its end."""

    status: int
    headers: Any
    json: Any


@dataclass
class Running:
    """A service that runs, its stand-in of a Hub, and tokens by the names of who has them."""

    service: Service
    hub: StandIn
    url: str
    tokens: dict[str, str]
    client: aiohttp.ClientSession

    async def call(self, method: str, path: str, who: str | None = None, **options: Any) -> Reply:
        """One call as `who` (nobody without)."""
        headers = dict(options.pop("headers", {}))
        if who is not None:
            headers["Authorization"] = f"token {self.tokens.get(who, who)}"
        async with self.client.request(
            method, self.url + path, headers=headers, allow_redirects=False, **options
        ) as reply:
            is_json = reply.content_type == "application/json"
            return Reply(
                reply.status, reply.headers, await (reply.json() if is_json else reply.text())
            )

    async def status_of_stream(self, path: str, who: str | None, params: Any) -> int:
        """The status that a stream begins with; it is not read further."""
        headers = {"Authorization": f"token {self.tokens.get(who, who)}"} if who else {}
        async with self.client.get(self.url + path, headers=headers, params=params) as reply:
            return reply.status

    @property
    def store(self) -> Any:
        return self.service.parts.site.store

    def report_agent(self, cpu: int = 4, gib: int = 8, available: bool = True) -> None:
        report = AgentReport("local", "default", Slots(cpu * 1000, gib * GIB), available)
        self.store.report_agents([report], now=utcnow())


@asynccontextmanager
async def running(
    folder: Path,
    *,
    base: str = "/",
    hub_host: str = "",
    look: Mapping[str, Any] | None = None,
    **backend: Any,
) -> AsyncIterator[Running]:
    """A service in `folder` that is open: of a Hub below `base`; with a host of its own where the
    Hub's is `hub_host`, whose `{port}` is the service's; `look` as the Hub hands it over."""
    hub = StandIn()
    tokens = {
        "alice": hub.add("alice", groups=("lab",)),
        "bob": hub.add("bob"),
        "mate": hub.add("mate", groups=("lab",)),
        "admin": hub.add("admin", admin=True),
    }
    reads = ["read:servers!user=alice", "access:services!service=backendai"]
    tokens["reader"] = hub.token("alice", reads)
    tokens["ender"] = hub.token("alice", ["delete:servers!user=alice", reads[1]])
    tokens["starter"] = hub.token("alice", ["start:servers!user=alice", reads[1]])
    tokens["tutor"] = hub.token("mate", ["read:servers!group=lab", reads[1]])
    tokens["watcher"] = hub.token("bob", ["read:servers", reads[1]])
    tokens["narrow"] = hub.token("alice", ["read:users:name!user=alice"])
    hub_server = hub.start()
    sockets, port = bind_unused_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "JUPYTERHUB_API_TOKEN": "the-service",
            "JUPYTERHUB_API_URL": hub.url,
            "JUPYTERHUB_CLIENT_ID": "service-backendai",
            "JUPYTERHUB_SERVICE_NAME": "backendai",
            "JUPYTERHUB_SERVICE_PREFIX": base[:-1] + PREFIX,
            "JUPYTERHUB_BASE_URL": base,
            "JUPYTERHUB_HOST": hub_host.format(port=port),
        }.items():
            patch.setenv(name, value)
        settings = {**BACKEND, "database_url": f"sqlite:///{folder}/b.sqlite"}
        settings.update(log_directory=str(folder / "logs"), **backend)
        HubOAuth.clear_instance()
        # What a test has put in line stays there: what starts it has tests of its own.
        patch.setattr(Service, "workers", _workers)
        service = Service(lambda: unpack(pack({"BackendAI": settings, LOOK: look or {}})))
        application = service.application()
        application.add_handlers(".*", hub_files(base))
        server = HTTPServer(application, chunk_size=READ)
        server.add_socket(sockets)
        service.start()
        async with aiohttp.ClientSession() as client:
            url = f"http://127.0.0.1:{port}{base[:-1]}{PREFIX}"
            started = Running(service, hub, url, tokens, client)
            try:
                yield started
            finally:
                server.stop()
                await service.stop()
                await server.close_all_connections()
                hub_server.stop()


def _workers(service: Service, site: Site) -> dict[str, Work]:
    return {"feed": lambda: service.feed.run(site), "ways": lambda: service.book.run(site)}


def hub_files(base: str) -> list[Any]:
    """What a browser loads of the Hub beside our pages: a proxy would lead there."""
    files = Path(DATA_FILES_PATH, "static")
    logo = {"path": str(files / "images"), "default_filename": "jupyterhub-80.png"}
    return [
        (f"{base}hub/static/(.*)", StaticFileHandler, {"path": str(files)}),
        (f"{base}hub/logo/?()", StaticFileHandler, logo),
    ]


async def until(condition: Callable[[], object]) -> None:
    """Waits for a condition, on a slow machine too."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it did not come to be"
        await asyncio.sleep(0.02)


async def until_open(started: Running) -> None:
    """Until the service answers that it works."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while (await started.call("GET", "health")).status != 200:
        assert asyncio.get_running_loop().time() < deadline, "the service did not open"
        await asyncio.sleep(0.05)


async def launch(started: Running, who: str, body: dict[str, Any]) -> dict[str, Any]:
    """One session that waits."""
    reply = await started.call("POST", "api/sessions", who, json=body)
    assert reply.status == 201, reply.json
    return dict(reply.json["sessions"][0])


def keep_log(started: Running, session_id: str, *pieces: bytes, kind: str = CONTAINER) -> None:
    """A container that is gone, and what was kept of its log."""
    started.store.set_kernel(session_id, role="main")
    started.service.parts.site.shelf.save(pieces, session_id, "main1", kind)
