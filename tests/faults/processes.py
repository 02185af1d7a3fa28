"""The two processes that are killed: a Hub that is its spawners, and the service's workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

from jupyterhub import orm
from jupyterhub.user import User
from sqlalchemy.orm import Session as OrmSession
from traitlets import observe
from traitlets.config import Config

from jupyterhub_backendai.engine.base import AgentUnreachable
from jupyterhub_backendai.model.errors import LaunchError
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.service.auth import Caller
from jupyterhub_backendai.service.ending import end
from jupyterhub_backendai.service.hub import HubRefused, HubUnavailable
from jupyterhub_backendai.service.images import ImageDoor
from jupyterhub_backendai.service.launching import launch
from jupyterhub_backendai.service.parts import ServiceSite
from jupyterhub_backendai.service.workers.batch import BatchWorker
from jupyterhub_backendai.service.workers.queue import QueueWorker
from jupyterhub_backendai.service.workers.runner import Runner
from jupyterhub_backendai.service.workers.servers import ServersWorker
from jupyterhub_backendai.site.handing_over import SESSION_HEADER
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.spawner.errors import SessionSpawnError
from jupyterhub_backendai.spawner.session import SessionSpawner
from jupyterhub_backendai.store import Session

from .virtual import Process
from .world import Job, StubEngine, World, ask

POLL = 30  # seconds between two looks of the Hub at a server
SLOW_SPAWN = 10  # seconds after which the Hub answers a start or a stop that goes on
PROXY_PATIENCE = 10  # seconds that the Hub tries to tell its proxy of a server
Server = tuple[str, str]


class StubSpawner(SessionSpawner):
    """The real way of a session, on machines of the world."""

    container = ""

    @observe("config")
    def _config_changed(self, change: Any) -> None:
        """It is empty; to go through it would take as long as all else that makes a spawner."""

    @property
    def site(self) -> Site:
        return self.user.settings["backendai_site"]  # type: ignore[no-any-return]

    @property
    def machines(self) -> StubEngine:
        return self.site.engine  # type: ignore[return-value]

    async def prepare(self, session: Session, request: Any) -> None:
        await self.machines.containers(str(session.agent))

    async def launch(self, session: Session, request: Any) -> tuple[str, int]:
        self._attempt.launching = asyncio.ensure_future(self._make(session))
        await asyncio.shield(self._attempt.launching)
        return "127.0.0.1", 1

    async def _make(self, session: Session) -> None:
        agent, site, batch = str(session.agent), self.site, session.request.batch
        job = Job.of(batch.command) if batch else None
        self.container = await self.machines.create(agent, session.id, job)
        await self.machines.start(agent, self.container)
        await site.db(
            site.store.set_kernel, session.id, container_id=self.container, agent=agent,
            container_name=self.container, image="python:3",
        )  # fmt: skip

    async def _until_it_answers(self, ip: str, port: int) -> None:
        await asyncio.sleep(1)
        if not any(c.id == self.container and c.running for c in await self._all()):
            raise LaunchError("start_failed", "It ended while it started.")

    async def _all(self) -> list[Any]:
        assert self._session is not None
        return await self.machines.containers(str(self._session.agent))

    async def poll(self) -> int | None:
        if self._starting:
            return None
        await self.site.ready()
        session = await self.recall()
        if session is None or session.status is not Status.RUNNING:
            return 0 if session is None else 1
        try:
            mine = [c for c in await self._all() if c.session_id == session.id]
        except AgentUnreachable:
            return None
        if any(c.running for c in mine):
            return None
        await self.session_ended(137 if mine else None, "Its server ended by itself.")
        return 1


class StubHub:
    """Starts, stops and polls servers as the Hub does; its rows are the world's."""

    def __init__(self, world: World, users: Mapping[str, Any], configuration: Any) -> None:
        self.world, self.process, self.listening = world, Process("hub"), False
        self._rows, self._configuration = users, configuration
        self.pending: dict[Server, asyncio.Task[Any]] = {}
        self.running: dict[Server, StubSpawner] = {}
        self._spawners: dict[Server, StubSpawner] = {}

    async def boot(self) -> None:
        site = Site(self._configuration, {})
        self.site = site
        settings = {"spawner_class": StubSpawner, "backendai_site": site, "config": Config()}
        self.users = {name: User(row, settings, OrmSession()) for name, row in self._rows.items()}
        self.process.run(site.ready())
        for server in list(self.world.rows):
            spawner = self._spawner(server)
            spawner.load_state(self.world.rows[server])
            if await spawner.poll() is None:
                self.running[server] = spawner
            else:
                self._forget(server)
        self.listening = True
        while True:
            await asyncio.sleep(POLL)
            for server, spawner in list(self.running.items()):
                if await spawner.poll() is not None and self.running.get(server) is spawner:
                    self._forget(server)

    def _spawner(self, server: Server, session_id: str = "") -> StubSpawner:
        """The Hub's one object for a server; its row is there before."""
        owner, name = server
        if server not in self._spawners:
            user = self.users[owner]
            if name not in user.orm_spawners:
                orm.Spawner(user=user.orm_user, name=name)
            self._spawners[server] = user._new_spawner(name)
        spawner = self._spawners[server]
        headers = {SESSION_HEADER: session_id} if session_id else {}
        spawner.handler = SimpleNamespace(request=SimpleNamespace(headers=headers))
        return spawner

    def _forget(self, server: Server) -> None:
        self.running.pop(server, None)
        self.world.rows.pop(server, None)

    # ---- its API ------------------------------------------------------------------------------

    async def active_servers(self) -> dict[Server, bool]:
        rows = self.world.rows
        return {server: server in self.running for server in rows}

    async def user(self, name: str) -> None:
        return

    async def note_activity(self, user: str, servers: Any, at: object) -> None:
        return

    async def start(
        self, owner: str, name: str, options: Mapping[str, Any], display_name: str = "",
        session_id: str = "",
    ) -> bool:  # fmt: skip
        server = owner, name
        if server in self.running:
            return True
        if server in self.pending:
            return False
        task = self.pending[server] = self.process.run(
            self._start(server, dict(options), session_id)
        )
        await asyncio.wait([task], timeout=SLOW_SPAWN)
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, SessionSpawnError):
                raise HubRefused(error.status_code, error.message)
            self.world.broken.append(f"a start met {error!r}")
            raise HubRefused(500, str(error))
        return server in self.running

    async def _start(self, server: Server, options: dict[str, Any], session_id: str) -> None:
        try:
            spawner = self._spawner(server, session_id)
            self.world.rows[server] = {}
            await self.world.step()
            spawner.clear_state()
            await spawner.accept(options)
            spawner.user_options = options
            await spawner.start()
            await self.world.step()
            self.world.rows[server] = spawner.get_state()
            for _ in range(PROXY_PATIENCE):
                if self.world.proxy:
                    self.running[server] = spawner
                    return
                await asyncio.sleep(1)
            await spawner.stop()
        finally:
            if self.process.alive and self.pending.get(server) is asyncio.current_task():
                del self.pending[server]
                if server not in self.running:
                    self.world.rows.pop(server, None)

    async def stop(self, owner: str, name: str, *, remove: bool = False) -> bool:
        server = owner, name
        if (starting := self.pending.get(server)) is not None:
            starting.cancel()
            await asyncio.sleep(1)
        elif server not in self.running:
            return True
        task = self.process.run(self._stop(server, self._spawner(server)))
        await asyncio.wait([task], timeout=SLOW_SPAWN)
        return task.done()

    async def _stop(self, server: Server, spawner: StubSpawner) -> None:
        await spawner.stop()
        await self.world.step()
        self._forget(server)


class StubClient:
    """The service's client of the Hub, which tries again as the real one does."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.forget()

    def forget(self) -> None:
        """What was held dies with the process that held it; its tasks stand still here."""
        self._locks: dict[Server, asyncio.Lock] = {}

    def alone_with(self, owner: str, name: str) -> asyncio.Lock:
        return self._locks.setdefault((owner, name), asyncio.Lock())

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **more: Any) -> Any:
            for number in range(4):
                await asyncio.sleep(0.5 * 2**number if number else 0)
                hub = self.world.hub
                if hub is None or not hub.listening:
                    await self.world.step()
                    continue
                try:
                    work = getattr(hub, method)
                    return await ask(self.world, hub.process, lambda: work(*args, **more))  # noqa: B023
                except ConnectionError:
                    continue
            raise HubUnavailable("the Hub does not answer")

        return call


class StubService:
    """The service's workers, and the calls that people make."""

    def __init__(self, world: World, configuration: Any) -> None:
        self.world, self.process = world, Process("service")
        self._configuration = configuration
        self.client: Any = StubClient(world)
        self.open = False

    async def boot(self) -> None:
        self.site = site = ServiceSite(self._configuration, {})
        self.client.forget()
        Runner().start({
            "queue": QueueWorker(site, self.client).run,
            "batch": BatchWorker(site, self.client).run,
            "servers": ServersWorker(site, self.client, ImageDoor()).run,
        })  # fmt: skip
        self.open = True

    async def launch(self, owner: str, options: dict[str, Any]) -> list[Session]:
        context = await self.site.context(owner, frozenset(), False, options)
        caller = Caller(owner, True, False, frozenset(), frozenset())
        return await launch(self.site, caller, options, context)

    async def end(self, session_id: str, force: bool) -> Session:
        session = await self.site.db(self.site.store.get, session_id)
        return await end(self.site, self.client, session, session.owner, None, force)
