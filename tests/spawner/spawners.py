"""Spawners as the Hub makes them, for tests without a Hub: by its own `User`, with its own rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jupyterhub import orm
from jupyterhub.user import User
from traitlets.config import Config

from jupyterhub_backendai.engine.base import (
    LABEL_HUB,
    LABEL_SESSION,
    AgentStatus,
    Container,
    Engine,
)
from jupyterhub_backendai.engine.batch import Outcome
from jupyterhub_backendai.engine.docker import AgentConfig
from jupyterhub_backendai.engine.logs import LogPart
from jupyterhub_backendai.engine.saved_logs import LogShelf
from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.resolve import Context, resolve
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import PHASES, Phase, Status
from jupyterhub_backendai.model.usage import Reading
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.spawner.session import SessionSpawner
from jupyterhub_backendai.store import AgentReport, Session


def site_config(directory: Path, **more: Any) -> Config:
    """A site with a database of its own, and one agent where no Docker answers."""
    config = Config()
    config.BackendAI.database_url = f"sqlite:///{directory / 'backendai.sqlite'}"
    config.BackendAI.environments = [{"name": "python", "image": "python:3"}]
    config.BackendAI.agents = [{"name": "here", "base_url": f"unix://{directory}/none.sock"}]
    config.BackendAI.update(more)
    return config


def user_of(config: Config, spawner_class: type, name: str = "alice", **settings: Any) -> User:
    """A user of a Hub that has nobody else, with a default server."""
    db = orm.new_session_factory()()
    row = orm.User(name=name)
    db.add_all([row, orm.Spawner(user=row, name="")])
    db.commit()
    return User(row, {"config": config, "spawner_class": spawner_class, **settings}, db)


def spawner_of(config: Config, spawner_class: type, **more: Any) -> Any:
    """The spawner of a user's default server; each call makes another one."""
    return user_of(config, spawner_class)._new_spawner("", **more)


class Machine(Engine):
    """An engine with one agent, whose containers are names of sessions in a list."""

    def __init__(self) -> None:
        self.hosts = {"here": AgentConfig("here")}
        self.made: list[str] = []
        self.removed: list[str] = []
        self.saved: list[str] = []
        self.let_go: set[str] = set()
        self.outcomes: dict[str, Outcome] = {}

    async def agents(self) -> list[AgentStatus]:
        return [AgentStatus("here", "default", Slots(8000, 8 * GIB), True)]

    async def containers(self, agent: str) -> list[Container]:
        return [
            Container(agent, s, s, s, "main1", True, {LABEL_HUB: "hub1", LABEL_SESSION: s})
            for s in self.made
        ]

    async def readings(self, agent: str, containers: Collection[str]) -> Mapping[str, Reading]:
        return {}

    async def stop_session(self, agent: str, session_id: str, grace: int) -> None:
        return

    async def remove_session(self, agent: str, session_id: str, keep_home: bool = False) -> int:
        self.removed.append(session_id)
        self.made = [made for made in self.made if made != session_id]
        return 1

    async def has_home(self, agent: str, session_id: str) -> bool:
        return True

    def may_be_on(self, session_agent: str, agent: str) -> bool:
        return True

    async def orphans(self, agent: str) -> Sequence[str]:
        return self.made

    async def logs(self, agent: str, container: str, lines: int) -> str:
        return ""

    async def put_go(self, agent: str, container: str) -> None:
        self.let_go.add(container)

    async def command_started(self, agent: str, container: str) -> datetime | None:
        return utcnow() if container in self.let_go else None

    async def outcome(self, agent: str, container: str) -> Outcome | None:
        return self.outcomes.get(container)

    async def open_log(
        self, agent: str, container: str, part: LogPart
    ) -> AsyncGenerator[bytes, None]:
        yield b""

    async def save_log(
        self, agent: str, container: str, shelf: LogShelf, session_id: str, kernel: str
    ) -> None:
        self.saved.append(session_id)


class MachineSpawner(SessionSpawner):
    """Runs sessions on a `Machine`, whose containers take until `may_finish` to be made."""

    machine: Machine

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.began, self.may_finish = asyncio.Event(), asyncio.Event()

    @property
    def site(self) -> Site:
        site = Site.of(self.config, {})
        if not isinstance(site.engine, Machine):
            site.engine = Machine()  # type: ignore[assignment]
        return site

    async def prepare(self, session: Any, request: Any) -> None:
        return

    async def launch(self, session: Any, request: Any) -> tuple[str, int]:
        self._attempt.launching = asyncio.ensure_future(self._make(session.id))
        await asyncio.shield(self._attempt.launching)
        return "127.0.0.1", 1

    async def _make(self, session_id: str) -> None:
        self.began.set()
        await self.may_finish.wait()
        self.site.engine.made.append(session_id)  # type: ignore[attr-defined]

    async def _until_it_answers(self, ip: str, port: int) -> None:
        return


def running(site: Site, name: str = "", owner: str = "alice") -> Session:
    """A session of a server that runs, as far as the database knows."""
    store = site.store
    store.report_agents([AgentReport("here", "default", Slots(9000, 9 * GIB))], now=utcnow())
    catalog = Catalog(environments=({"name": "python", "image": "python:3"},))  # type: ignore[arg-type]
    request = resolve({}, Context(owner, frozenset(), False, catalog, Policies()))
    row = store.submit(
        request, owner=owner, owner_groups=[], server_name=name, name=f"{name}-session",
        driver=site.run_id, max_pending=None, now=utcnow(),
    )  # fmt: skip
    store.run_pass(site.policies, site.catalog, utcnow())
    for status in (Status.PREPARING, Status.CREATING, Status.RUNNING):
        row = store.move(row.id, status, phase=PHASES.get(status, Phase.START), now=utcnow())
    return row
