"""Services with a session that runs and has an app, for tests of ways."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.site.clock import utcnow

from .running import Reply, Running, launch, running, until, until_open
from .session_server import (
    KEY,
    App,
    SessionServer,
    app_server,
    item,
    plain_server,
    session_server,
)

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
        plain_server() as plain,
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
            item("db", plain, protocol="tcp", path=""),
            item("sshd", plain, protocol="tcp", path="", shareable=False),
            item("gone", 1),
            item("missing", None, available=False, why="It is not in this image."),
        ]
        yield Open(service, server, app, session)


def free_ports(count: int) -> list[int]:
    """Ports side by side that nothing listens at, and that no connection is given by itself."""
    random = Random()
    while True:
        first = random.randrange(20_000, 30_000)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return list(range(first, first + count))
