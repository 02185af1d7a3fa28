"""Docker hosts as agents: one daemon each, reached by its socket, by TLS or by SSH."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import posixpath
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import docker
import requests
from docker.auth import get_config_header, resolve_repository_name
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.tls import TLSConfig
from docker.utils import kwargs_from_env, parse_repository_tag

from .._within import within
from ..model.slots import Slots
from ..model.usage import Reading
from . import docker_batch, docker_files, docker_logs, passwd
from .base import (
    LABEL_HUB,
    LABEL_KERNEL,
    LABEL_SESSION,
    AgentStatus,
    AgentUnreachable,
    Container,
    Engine,
    EngineError,
    ImageFacts,
    ImageMissing,
)
from .batch import Outcome
from .belongings import Belongings, is_up
from .devices import cdi_of
from .docker_images import DockerImages
from .docker_readings import DockerReadings
from .downloads import Downloads
from .images import Images, Logins, no_login
from .logs import LogPart
from .saved_logs import LogShelf
from .streams import Readers
from .tar import archive

T = TypeVar("T")
THREADS = 16  # calls in flight on one daemon; more would only queue inside it
CALL_TIMEOUT = 60  # seconds, for one call that is not a pull
HELPER = "helper-"  # in front of the run's id, where a session's id would be
ANSWER_TIMEOUT = 5.0  # seconds, for the question whether the daemon is there at all
MOST_IMAGES = 200  # of which it is known who their users are
LIST_CACHE = 1.0  # seconds that one listing serves every poll


@dataclass(frozen=True)
class AgentConfig:
    """One Docker endpoint. `capacity` None is what the daemon reports less `reserved`."""

    name: str
    group: str = "default"
    client: Mapping[str, Any] = field(default_factory=dict)
    capacity: Slots | None = None
    reserved: Slots = Slots()
    address: str = ""  # where its published ports answer; "" is by the container's own address
    hub_connect_url: str = ""


class DockerHost:
    """One daemon: its client, its threads, and calls that never block the event loop."""

    def __init__(
        self, config: AgentConfig, hub_id: str, run_id: str, logins: Logins = no_login
    ) -> None:
        self.config, self._logins = config, logins
        # Of containers that are no session's: a run that died is told by its id, and swept up.
        self.helper_labels = {LABEL_HUB: hub_id, LABEL_SESSION: f"{HELPER}{run_id}"}
        self.name = config.name
        self.executor = ThreadPoolExecutor(THREADS, thread_name_prefix=f"docker-{config.name}")
        # The question whether it is there does not wait behind what keeps it busy.
        self._asking = ThreadPoolExecutor(1, thread_name_prefix=f"docker-{config.name}-asking")
        self._passwd: dict[str, str] = {}  # by the id of the image
        self.daemon_id = ""  # as the daemon says; two agents may be one daemon
        self.says: Mapping[str, Any] = {}  # what `docker info` said last
        self.downloads = Downloads(config.name, self._download_options)
        self.launching = asyncio.Lock()  # held while cores are chosen and the container is made
        self._client: docker.APIClient | None = None
        self.belongings = Belongings(hub_id)
        self.readings = DockerReadings(self)
        self._listing: tuple[float, list[dict[str, Any]]] | None = None
        self._listing_task: asyncio.Task[list[dict[str, Any]]] | None = None

    @property
    def local(self) -> bool:
        """Whether the daemon is on this machine, as its address says."""
        address = self.config.client.get("base_url") or os.environ.get("DOCKER_HOST") or "unix://"
        return str(address).startswith(("unix://", "http+unix://", "/"))

    @property
    def cdi(self) -> bool:
        """Whether the daemon gives GPUs by CDI."""
        return cdi_of(self.says)

    @property
    def client(self) -> docker.APIClient:
        """The synchronous client; only to be used from a thread of `executor`."""
        if self._client is None:
            self._client = self.new_client()
        return self._client

    def new_client(self, **more: Any) -> docker.APIClient:
        """Another client; `more` is over what was configured. For a thread."""
        options: dict[str, Any] = {
            "version": "auto",
            "timeout": CALL_TIMEOUT,
            "num_pools": THREADS + 4,
            "max_pool_size": THREADS + 4,
            **kwargs_from_env(),
            **self.config.client,
            **more,
        }
        tls = options.get("tls")
        if isinstance(tls, Mapping):
            options["tls"] = TLSConfig(**tls)
        return docker.APIClient(**options)

    async def _download_options(
        self, image: str
    ) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
        """Arguments of a client like ours, and what the site, `docker login` or the Hub's own
        client know of the image's registry."""
        registry, _ = resolve_repository_name(parse_repository_tag(image)[0])

        def run(client: docker.APIClient) -> Mapping[str, Any] | None:
            if login := self._logins(image):
                return login.auth
            header = get_config_header(client, registry)
            return json.loads(base64.urlsafe_b64decode(header)) if header else None

        return self.client_options(), await self.call(run)

    def client_options(self) -> Mapping[str, Any]:
        """Arguments of a client like ours, as JSON can say them."""
        options = {"version": "auto", "timeout": CALL_TIMEOUT, **self.config.client}
        if isinstance(tls := options.get("tls"), TLSConfig):
            given = {"client_cert": tls.cert, "ca_cert": tls.ca_cert, "verify": tls.verify}
            options["tls"] = {name: value for name, value in given.items() if value is not None}
        return options

    async def call(self, function: Callable[[docker.APIClient], T]) -> T:
        """`function(client)` in a thread. Raises `AgentUnreachable` when nobody answers."""

        def run() -> T:
            with self.answering():
                return function(self.client)

        return await asyncio.get_running_loop().run_in_executor(self.executor, run)

    async def info(self) -> dict[str, Any]:
        """What the daemon says of itself, however many calls are in flight. Raises
        `AgentUnreachable`."""

        def run() -> dict[str, Any]:
            with self.answering():
                return dict(self.client.info())

        return await asyncio.get_running_loop().run_in_executor(self._asking, run)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Around a synchronous call: raises `AgentUnreachable` when nobody answers."""
        try:
            yield
        except APIError:
            raise
        except (DockerException, requests.exceptions.RequestException, OSError) as error:
            raise AgentUnreachable(f"Docker on {self.name} does not answer: {error}") from error

    async def listing(self, fresh: bool = False) -> list[dict[str, Any]]:
        """All sessions' containers, of other hubs too; one listing serves all for a second."""
        now = time.monotonic()
        if not fresh and self._listing and now - self._listing[0] < LIST_CACHE:
            return self._listing[1]
        task = self._listing_task
        # One that is over is of whoever gave up waiting for it, however long ago.
        if task is None or task.done() or fresh:
            self._listing_task = task = asyncio.create_task(self._list())
        try:
            return await asyncio.shield(task)
        finally:
            if self._listing_task is task and task.done():
                self._listing_task = None

    async def _list(self) -> list[dict[str, Any]]:
        started = time.monotonic()
        found = await self.call(self.belongings.all_containers)
        self._listing = (started, found)
        return found

    async def image(self, reference: str) -> ImageFacts:
        """Facts of an image that is on this host. Raises `ImageMissing`."""
        try:
            found = await self.call(lambda client: client.inspect_image(reference))
        except (ImageNotFound, NotFound) as error:
            raise ImageMissing(
                f"The image {reference} is not on {self.name}. Pull it there, or check "
                "c.DockerSpawner.pull_policy."
            ) from error
        config = found.get("Config") or {}
        pairs = (line.partition("=") for line in config.get("Env") or ())
        return ImageFacts(
            id=found["Id"],
            command=tuple(config.get("Cmd") or ()),
            env={name: value for name, _, value in pairs},
        )

    async def passwd(self, container: str, image: ImageFacts) -> str:
        """`/etc/passwd` of an image, of which this is a container that was not started yet; empty
        where it has none that can be read. Raises `EngineError`."""
        if image.id not in self._passwd:

            def read(client: docker.APIClient) -> str:
                try:
                    found = docker_files.open_plain(client, container, "/etc/passwd", passwd.MOST)
                except docker_files.NotPlain:
                    return ""
                if found is None:
                    return ""
                try:
                    return found.read(passwd.MOST).decode("utf-8", "surrogateescape")
                finally:
                    found.close()

            if len(self._passwd) >= MOST_IMAGES:
                self._passwd.clear()
            self._passwd[image.id] = await self.call(read)
        return self._passwd[image.id]

    async def make_directories(
        self, image: str, root: str, entries: Sequence[tuple[str, int, int, int]]
    ) -> None:
        """Makes directories (path below `root`, uid, gid, mode) on this host.

        Done as root by the daemon itself, into a container that is never started, so that it
        works for a Hub that is not root and for one in a container. Existing ones keep their
        content. Raises `EngineError`.
        """

        def run(client: docker.APIClient) -> None:
            made = client.create_container(
                image,
                command=["true"],
                entrypoint=[],
                # `Binds` and not `Mounts`: it makes the root where it is not there yet.
                host_config={"Binds": [f"{root}:/backendai-root"], "NetworkMode": "none"},
                labels=self.helper_labels,
            )
            try:
                data = archive(
                    (posixpath.join("backendai-root", p), u, g, m, None) for p, u, g, m in entries
                )
                client.put_archive(made["Id"], "/", data)
            finally:
                # With the volumes that its image asks for.
                client.remove_container(made["Id"], force=True, v=True)

        try:
            await self.call(run)
        except APIError as error:
            raise EngineError(
                f"Cannot make directories below {root} on {self.name}: {error}. Check that root "
                "may write there, and c.BackendAI.folder_root_on_host."
            ) from error


class DockerEngine(Engine):
    """One or several Docker hosts."""

    def __init__(
        self, agents: Sequence[AgentConfig], hub_id: str, run_id: str, logins: Logins = no_login
    ) -> None:
        self.hub_id, self.run_id = hub_id, run_id
        self.hosts = {config.name: DockerHost(config, hub_id, run_id, logins) for config in agents}
        self.readers = Readers()
        self._images = DockerImages(self)

    @property
    def images(self) -> Images:
        return self._images

    def host(self, agent: str) -> DockerHost:
        """The host of that name. Raises `EngineError` for one that is not configured any more."""
        try:
            return self.hosts[agent]
        except KeyError:
            raise EngineError(
                f"There is no agent named {agent!r} any more. Check c.BackendAI.agents."
            ) from None

    async def agents(self) -> list[AgentStatus]:
        return list(await asyncio.gather(*(self._status(h) for h in self.hosts.values())))

    async def _status(self, host: DockerHost) -> AgentStatus:
        config = host.config
        status = partial(AgentStatus, config.name, config.group)
        try:
            info = await within(ANSWER_TIMEOUT, host.info())
        except (AgentUnreachable, APIError) as error:
            return status(config.capacity or Slots(), False, str(error)[:500])
        except asyncio.TimeoutError:
            reason = f"Docker on {config.name} does not answer within {ANSWER_TIMEOUT:g} seconds"
            return status(config.capacity or Slots(), False, reason)
        host.daemon_id = str(info.get("ID", ""))
        host.says = info
        found = Slots(cpu=int(info["NCPU"]) * 1000, mem=int(info["MemTotal"])) - config.reserved
        return status(config.capacity or found.floor(), True)

    async def containers(self, agent: str) -> list[Container]:
        return [
            Container(
                agent=agent,
                id=row["Id"],
                name=row["Names"][0].lstrip("/") if row.get("Names") else "",
                session_id=row["Labels"].get(LABEL_SESSION, ""),
                kernel=row["Labels"].get(LABEL_KERNEL, ""),
                running=is_up(row),
                labels=row["Labels"],
            )
            for row in await self.host(agent).listing()
            if row["Labels"].get(LABEL_HUB) == self.hub_id
        ]

    def may_be_on(self, session_agent: str, agent: str) -> bool:
        if session_agent == agent or session_agent not in self.hosts:
            return True
        theirs, ours = self.hosts[session_agent].daemon_id, self.hosts[agent].daemon_id
        return not theirs or not ours or theirs == ours

    async def orphans(self, agent: str) -> Sequence[str]:
        found = await self._call(agent, self.host(agent).belongings.sessions)
        return sorted(found - {f"{HELPER}{self.run_id}"})

    async def has_home(self, agent: str, session_id: str) -> bool:
        ours = self.host(agent).belongings
        return await self._call(agent, lambda client: ours.has_home(client, session_id))

    async def stop_session(self, agent: str, session_id: str, grace: int) -> None:
        ours = self.host(agent).belongings
        await self._call(agent, lambda client: ours.stop(client, session_id, grace))

    async def remove_session(self, agent: str, session_id: str, keep_home: bool = False) -> int:
        ours = self.host(agent).belongings
        return await self._call(agent, lambda client: ours.remove(client, session_id, keep_home))

    async def _call(self, agent: str, function: Callable[[docker.APIClient], T]) -> T:
        try:
            return await self.host(agent).call(function)
        except APIError as error:
            raise EngineError(
                f"Docker on {agent} refused: {error}. Its own log may say more."
            ) from error

    async def logs(self, agent: str, container: str, lines: int) -> str:
        def run(client: docker.APIClient) -> bytes:
            try:
                return client.logs(container, tail=lines)
            except NotFound:
                return b""

        return (await self._call(agent, run)).decode("utf-8", "replace")

    async def readings(self, agent: str, containers: Collection[str]) -> Mapping[str, Reading]:
        return await self.host(agent).readings.read(containers)

    async def put_go(self, agent: str, container: str) -> None:
        await self._call(agent, partial(docker_batch.put_go, container=container))

    async def command_started(self, agent: str, container: str) -> datetime | None:
        return await self._call(agent, partial(docker_batch.read_started, container=container))

    async def outcome(self, agent: str, container: str) -> Outcome | None:
        return await self._call(agent, partial(docker_batch.read_outcome, container=container))

    def open_log(self, agent: str, container: str, part: LogPart) -> AsyncGenerator[bytes, None]:
        return self.readers.read(
            partial(docker_logs.container_log, self.host(agent), container, part)
        )

    async def save_log(
        self, agent: str, container: str, shelf: LogShelf, session_id: str, kernel: str
    ) -> None:
        host = self.host(agent)
        work = partial(docker_logs.save, host, container, shelf, session_id, kernel)
        await asyncio.get_running_loop().run_in_executor(host.executor, work)
