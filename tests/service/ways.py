"""Services with a session that runs and has an app, for tests of ways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tornado.testing import bind_unused_port

from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.site.clock import utcnow

from .running import Reply, Running, launch, running, until_open
from .session_server import KEY, App, SessionServer, app_server, item, session_server

ALLOWED = {"public_apps": True, "preferred_port": True}


@dataclass
class Open:
    """A service, a session of alice's that runs, and its app `echo`."""

    service: Running
    server: SessionServer
    app: App
    session: dict[str, Any]

    @property
    def path(self) -> str:
        return f"api/sessions/{self.session['id']}/apps"

    async def open(self, app: str = "echo", who: str = "alice", **body: Any) -> Reply:
        return await self.service.call("POST", f"{self.path}/{app}", who, json=body)

    async def close(self, app: str = "echo", who: str = "alice") -> Reply:
        return await self.service.call("DELETE", f"{self.path}/{app}", who)

    def url(self, way: dict[str, Any], path: str = "") -> str:
        """Where the path of a public app is."""
        return f"{self.service.url}public/{way['id']}/{path}"

    async def public(self) -> dict[str, Any]:
        """The public way of the app."""
        reply = await self.open(public=True)
        assert reply.status == 200, reply.json
        return dict(reply.json["way"])


async def make_running(service: Running, session: dict[str, Any], address: str) -> None:
    """Its server is at that address."""
    store, id = service.store, session["id"]
    service.report_agent()
    store.run_pass(Policies(), Catalog(), utcnow())
    for status in (Status.PREPARING, Status.CREATING, Status.RUNNING):
        store.move(id, status, phase=Phase.START, now=utcnow())
    store.set_kernel(id, role="main", address=address, apps_key=KEY)


def end(service: Running, session: dict[str, Any]) -> None:
    """As another process does it."""
    for status in (Status.TERMINATING, Status.TERMINATED):
        service.store.move(session["id"], status, phase=Phase.TERMINATE, now=utcnow())


@asynccontextmanager
async def opened(folder: Path, **backend: Any) -> AsyncIterator[Open]:
    """One with a policy that allows all."""
    backend.setdefault("default_policy", ALLOWED)
    async with (
        app_server() as app,
        session_server() as server,
        running(folder, **backend) as service,
    ):
        await until_open(service)
        await until(lambda: service.service.book.is_open)
        session = await launch(service, "alice", {"name": "work"})
        await make_running(service, session, server.address)
        server.items = [
            item("echo", app.port),
            item("jupyterlab", 8888, shareable=False),
            item("db", app.port, protocol="tcp", path=""),
            item("sshd", app.port, protocol="tcp", path="", shareable=False),
            item("gone", 1),
            item("missing", None, available=False, why="It is not in this image."),
        ]
        yield Open(service, server, app, session)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition, at most some seconds."""
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(0.025)
    raise AssertionError("it did not come to be")


def free_ports(count: int) -> list[int]:
    """Ports side by side that nothing listens at."""
    while True:
        held = [bind_unused_port() for _ in range(1)]
        first = held[0][1]
        for sockets, _ in [held[0]]:
            sockets.close()
        if first + count < 65000:
            return list(range(first, first + count))
