"""A Hub that is no more than its starts, for tests of the workers: real store, real spawners."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from jupyterhub.user import User

from jupyterhub_backendai.model.resolve import resolve
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.service.hub import HubRefused, HubUser
from jupyterhub_backendai.service.workers.queue import QueueWorker
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.handing_over import SESSION_HEADER
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.spawner.errors import SessionSpawnError
from jupyterhub_backendai.store import Session

from ..spawner.spawners import MachineSpawner

BACKEND = {
    "service": True,
    "queue_patience": 1,
    "agents": [
        {"name": "here", "base_url": "unix:///nowhere", "capacity": {"cpu": 8, "mem": "8g"}}
    ],
    "presets": [{"name": "four", "cpu": 4, "mem": "1g"}],
}


class Hub:
    """What the worker calls: each start makes a spawner for that server, as the real Hub does."""

    def __init__(self, user: User) -> None:
        self.owner = user
        self.errors: list[Exception] = []
        self.asked: list[str] = []
        self.pending: set[str] = set()
        self.starts: list[asyncio.Task[Any]] = []
        self.servers: dict[tuple[str, str], bool] = {}
        self.active: list[tuple[str, str]] = []
        self.stopped: list[tuple[str, str]] = []
        self.locks: dict[tuple[str, str], asyncio.Lock] = {}

    def alone_with(self, owner: str, server: str) -> asyncio.Lock:
        return self.locks.setdefault((owner, server), asyncio.Lock())

    async def active_servers(self) -> dict[tuple[str, str], bool]:
        return self.servers

    async def user(self, name: str) -> HubUser:
        if self.errors:
            raise self.errors.pop(0)
        return HubUser(name, False, frozenset())

    async def note_activity(self, user: str, servers: list[str], at: object) -> None:
        self.active += [(user, server) for server in servers]

    async def stop(self, owner: str, server: str, *, remove: bool = False) -> bool:
        self.stopped.append((owner, server))
        return True

    async def start(
        self, owner: str, server: str, options: Mapping[str, Any], display_name: str = "",
        session_id: str = "",
    ) -> bool:  # fmt: skip
        assert owner == self.owner.name
        self.asked.append(session_id)
        if self.errors:
            raise self.errors.pop(0)
        if server in self.pending:
            return False
        self.pending.add(server)
        spawner = spawner_of(self.owner, server, session_id)
        spawner.may_finish.set()
        try:
            await spawner.accept(dict(options))
        except SessionSpawnError as error:
            self.pending.discard(server)
            raise HubRefused(error.status_code, error.message) from None
        self.starts.append(asyncio.ensure_future(spawner.start()))
        self.starts[-1].add_done_callback(lambda _: self.pending.discard(server))
        return False


def spawner_of(user: User, server: str, session_id: str = "") -> MachineSpawner:
    spawner = user.get_or_create_spawner(server, server) if server else user._new_spawner("")
    headers = {SESSION_HEADER: session_id} if session_id else {}
    spawner.handler = SimpleNamespace(request=SimpleNamespace(headers=headers))
    return spawner  # type: ignore[no-any-return]


def site_of(hub: Hub) -> Site:
    site: Site = hub.owner._new_spawner("").site
    return site


def worker_of(hub: Hub) -> QueueWorker:
    return QueueWorker(site_of(hub), hub)  # type: ignore[arg-type]


async def submit(site: Site, *servers: str, **options: Any) -> list[Session]:
    """Sessions as the service's API queues them."""
    asked = {"preset": "four", **options}
    context = await site.context("alice", frozenset(), False, asked)
    return await site.db(
        site.store.submit_many, resolve(asked, context), owner="alice", owner_groups=[],
        names={server: server for server in servers}, driver=None, max_pending=None,
        now=utcnow(), asked=asked,
    )  # fmt: skip


async def until(site: Site, session: Session, *statuses: Status) -> Session:
    async def reached() -> Session:
        while (row := await site.db(site.store.get, session.id)).status not in statuses:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return row

    return await asyncio.wait_for(reached(), 10)
