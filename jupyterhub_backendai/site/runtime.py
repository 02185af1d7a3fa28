"""The parts of a site put together: what the configuration says, the store, the engine."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from traitlets.config import Config
from traitlets.log import get_logger

from ..configuration import BackendAI, read_configuration
from ..engine.docker import DockerEngine
from ..engine.saved_logs import LogShelf
from ..engine.settings import SiteSettings
from ..model.errors import ConfigurationError
from ..model.gpus import Granted, slots_in
from ..model.images import with_images
from ..model.keys import SshKeys
from ..model.request import KnownSession
from ..model.resolve import AgentFacts, Context
from ..model.spec import references
from ..model.status import Phase, Status
from ..store import AgentReport, AgentState, Session, SessionResult, Store
from . import ending, retention
from .cleanups import Cleanups
from .clock import utcnow
from .folders import FolderShelf
from .gpu_host import SiteGpus
from .hub_servers import HubServers
from .idle import IdleSettings
from .looks import Looks
from .queue import Queue
from .reconcile import Reconciler
from .registry import Registry
from .ssh_keys import new_keys

P = ParamSpec("P")
T = TypeVar("T")
DB_THREADS = 4


class Site:
    """Everything of one configured site in this process. Use `Site.of`, which makes one each."""

    _sites: dict[str, Site] = {}

    @classmethod
    def of(cls, config: Config, client: Mapping[str, Any]) -> Site:
        """The site of this configuration, made and opened on first use.

        `client` are the arguments of the Docker client for the agent that needs no configuration.
        Blocking: to be called before the event loop serves, or once. Raises `ConfigurationError`.
        """
        options = _plain((dict(config.get("BackendAI", {})), dict(client)))
        if options in cls._sites:
            return cls._sites[options]
        configuration = read_configuration(config)
        for other in cls._sites.values():
            if other.configuration.database_url == configuration.database_url:
                raise ConfigurationError(
                    "BackendAI.database_url", configuration.database_url,
                    "Two kinds of spawner would use this database, with different settings of "
                    "c.BackendAI or different client_kwargs or tls_config of Docker.",
                    "Give both the same settings (in c.BackendAI and c.DockerSpawner), or each a "
                    "database of its own.",
                )  # fmt: skip
        cls._sites[options] = cls(configuration, client)
        return cls._sites[options]

    def __init__(self, configuration: BackendAI, client: Mapping[str, Any]) -> None:
        self.log: logging.Logger | logging.LoggerAdapter[Any] = get_logger()
        self.configuration = configuration
        self.catalog = configuration.catalog()
        self.policies = configuration.policies()
        self.run_id = uuid.uuid4().hex[:12]  # this run of this process, as sessions note it
        self.store = Store(configuration.database_url)
        self.store.upgrade()
        self.hub_id = configuration.hub_id or self.store.hub_id
        self.registry = Registry(configuration.registry())
        self.engine = DockerEngine(
            configuration.agent_configs(client), self.hub_id, self.run_id, self.registry.login_for
        )
        self.gpus = SiteGpus(
            self.engine.hosts,
            configuration.gpu_rules(),
            configuration.simulated_gpus,
            configuration.uid,
        )
        self.settings = SiteSettings(
            hub_id=self.hub_id,
            uid=configuration.uid,
            gid=configuration.gid,
            pids_limit=configuration.pids_limit,
            capabilities=tuple(configuration.capabilities),
            folder_root=configuration.folder_root_on_host or configuration.folder_root,
            scratch_driver=configuration.scratch_driver,
            scratch_options=dict(configuration.scratch_options),
            log_max=configuration.log_bytes(),
            gpus=self.gpus.on,
        )
        self.shelf = LogShelf(configuration.log_directory, self.settings.log_max)
        self.folders = FolderShelf(self)
        self.looks = Looks(self)
        self.idle = IdleSettings(self)
        self.queue = Queue(self)
        self.reconciler = Reconciler(self)
        self.cleanups = Cleanups(self)
        self._threads = ThreadPoolExecutor(DB_THREADS, thread_name_prefix="backendai-db")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._starting: asyncio.Task[None] | None = None
        self._answering: dict[str, bool] = {}
        self._warned: set[str] = set()
        self.driven: set[str] = set()  # ids of sessions that a start of this process is busy with
        self.hub_servers: Callable[[], HubServers] | None = None  # in the Hub's process only
        self.closed = False
        self.stopping = False  # all tasks of this process have been cancelled: it ends

    def warn_once(self, text: str) -> None:
        """Says something in the log that is the same for every session."""
        if text not in self._warned:
            self._warned.add(text)
            self.log.warning("%s", text)

    async def db(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A call of the store, in a thread: nothing on the loop waits for the database."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(function, *args, **kwargs))

    async def ssh_keys(self, user: str) -> SshKeys:
        """The SSH keys of a user, who gets some the first time."""
        found = await self.db(self.store.ssh_keys, user)
        if found is None:
            found = await self.db(self.store.add_ssh_keys, user, new_keys(), utcnow())
        return found

    async def renew_ssh_keys(self, user: str) -> SshKeys:
        """New SSH keys of a user, for sessions that start from now on."""
        return await self.db(self.store.replace_ssh_keys, user, new_keys(), utcnow())

    def background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs `work` to its end whatever becomes of the caller; a failure is logged."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

        def over(done: asyncio.Task[T]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                self.log.error("A background task of the sessions failed", exc_info=error)

        task.add_done_callback(over)
        return task

    async def ready(self) -> None:
        """Until the agents are known, and nothing of an earlier run is in line any more.

        A first look that failed is tried again by the next who asks.
        """
        task = self._starting
        failed = task is not None and task.done() and (task.cancelled() or task.exception())
        if task is None or failed or task.get_loop() is not asyncio.get_running_loop():
            self._starting = task = asyncio.ensure_future(self._start())
        await asyncio.shield(task)

    async def _start(self) -> None:
        await self.report_agents()
        await self.reconciler.clear_the_line()
        self.background(self._until_stopped())
        self.background(self.queue.run())
        self.background(self.queue.watch_agents())
        self.background(retention.run(self))
        # Beside everything else: what it waits for may be an agent that hangs.
        self.background(self.reconciler.run())
        self.background(self.reconciler.keep_gpus())

    async def _until_stopped(self) -> None:
        """Notes the end of this process in the very step in which it cancels whatever runs."""
        try:
            await asyncio.Event().wait()
        finally:
            self.stopping = True

    async def close(self) -> None:
        """Ends the background work; sessions stay as they are."""
        tasks = [*self._tasks, *([self._starting] if self._starting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._starting = None
        self.closed = True
        for key in [key for key, site in self._sites.items() if site is self]:
            del self._sites[key]
        await self.gpus.close()
        await asyncio.get_running_loop().run_in_executor(None, self.store.close)

    def answers(self, agent: str) -> bool:
        """Whether the agent answered when it was last looked at."""
        return self._answering.get(agent, True)

    async def report_agents(self) -> None:
        """Looks at every agent and notes what it has and whether it answers."""
        reports = [
            AgentReport(a.name, a.group, a.capacity, a.available, a.reason, devices)
            for a, devices in await self.gpus.with_devices(await self.engine.agents())
        ]
        for report in reports:
            # Once each time that it changes: this is how the admin is told.
            if report.available == self._answering.get(report.name, True):
                continue
            self._answering[report.name] = report.available
            if report.available:
                self.log.warning("Agent %s answers again", report.name)
            else:
                self.log.error(
                    "Agent %s is not available: %s. Sessions wait until it answers: start Docker "
                    "there, or check what c.BackendAI.agents says of it.",
                    report.name, report.reason,
                )  # fmt: skip
        await self.db(self.store.report_agents, reports, now=utcnow())

    async def context(
        self, user: str, groups: frozenset[str], admin: bool, options: object = None
    ) -> Context:
        """All that a request of this user is checked against; `options` are those of the request,
        for the sessions that they name."""
        await self.ready()
        names, agents, folders, earlier, images = await asyncio.gather(
            self.db(self.store.live_names, user),
            self.db(self.store.agents),
            self.folders.of(user, groups),
            self._named(user, options),
            self.db(self.store.images_of, user),
        )
        return Context(
            user=user,
            groups=groups,
            admin=admin,
            catalog=with_images(self.catalog, images),
            policies=self.policies,
            folders={folder.name: folder for folder in folders},
            folders_enabled=self.folders.enabled,
            names_in_use=names,
            agents=tuple(_facts(agent) for agent in agents),
            sessions=earlier,
            images=tuple(images),
            service=self.configuration.service,
            now=utcnow(),
        )

    async def _named(self, user: str, options: object) -> Mapping[str, KnownSession]:
        """The user's sessions that options name."""
        named = references(options)
        return await self.db(self.store.find_sessions, user, named) if named else {}

    async def move(self, session_id: str, to: Status, phase: Phase, **more: Any) -> Session:
        """One status change, now. Raises `IllegalTransition` and `NotFound`."""
        return await self.db(self.store.move, session_id, to, phase=phase, now=utcnow(), **more)

    async def granted(self, session: Session) -> tuple[Granted, ...]:
        """The GPUs that a session was given last; nobody is asked where it wanted none."""
        if session.slots.gpu_slot is None:
            return ()
        return await self.db(self.store.granted, session.id)

    async def release_gpus(self, session: Session) -> None:
        """Takes back what the session had of GPUs on the machine, now that nothing of it runs."""
        if granted := await self.granted(session):
            await self.gpus.release(session.id, granted)

    async def end(
        self,
        session_id: str,
        reason_code: str,
        reason: str,
        exit_code: int | None = None,
        result: SessionResult | None = None,
        grace: int = ending.STOP_GRACE,
    ) -> None:
        """Ends a session, and removes what it has, once what is to be kept is saved: `ending`."""
        why = ending.Why(reason_code, reason, exit_code, result, grace)
        await ending.end(self, session_id, why)


def _facts(agent: AgentState) -> AgentFacts:
    """An agent as requests are checked against it: a GPU that is lost may come back."""
    lost = slots_in(agent.devices, lost=True) - slots_in(agent.devices)
    return AgentFacts(agent.name, agent.group, agent.capacity + lost, agent.devices)


def _plain(value: Any) -> str:
    """Configured values as text that is the same for the same settings, whatever copies of them
    there are: an object such as docker-py's TLSConfig is what it holds."""
    if isinstance(value, Mapping):
        return repr(sorted((str(name), _plain(each)) for name, each in value.items()))
    if isinstance(value, (list, tuple)):
        return repr([_plain(each) for each in value])
    if hasattr(value, "__dict__") and not callable(value):
        return f"{type(value).__qualname__}{_plain(vars(value))}"
    return repr(value)
