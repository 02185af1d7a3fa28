"""The container of a session on Docker: made with exactly what was granted, and looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import docker
from docker.errors import APIError, NotFound
from dockerspawner import DockerSpawner

from ..engine.base import LABEL_CORES, LABEL_KERNEL, EngineError, ImageFacts
from ..engine.belongings import is_up
from ..engine.create import apply_settings, overruled
from ..engine.devices import refusal
from ..engine.docker import DockerHost
from ..engine.inside import batch_entries
from ..engine.settings import ContainerSettings
from ..engine.support import support_files
from ..model.errors import LaunchError, shown
from ..model.gpus import Granted
from ..model.resolve import SessionRequest
from ..model.steps import Step
from ..site.steps import Steps
from ..store import NotFound as NoSuchSession
from ..store import Session
from .errors import in_log
from .session import LOG_LINES, SessionSpawner

Cores = tuple[int, ...] | None  # of its own; None is a share of them all

# Of the container that the current task makes. Not an attribute: a start that was given up may
# still be making its container when the next one begins.
_granted: ContextVar[ContainerSettings | None] = ContextVar("granted", default=None)


class ContainerSpawner(SessionSpawner, DockerSpawner):
    """The part of a session's spawner that makes its one container on one Docker host."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._host: DockerHost | None = None

    @property
    def host(self) -> DockerHost:
        """The Docker host of this session; the first one while it has no place yet."""
        if self._host is None:
            return next(iter(self.site.engine.hosts.values()))
        return self._host

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The threads of this session's host, so that one slow call delays no other."""
        return self.host.executor

    @property
    def client(self) -> docker.APIClient:
        """The client of this session's host."""
        return self.host.client

    async def free_cores(self, request: SessionRequest) -> Cores:
        """Cores of the host that no other session has been given; None for part of a core."""
        if request.cpu % 1000:
            return None
        info = await self.host.call(lambda client: client.info())
        rows = await self.host.listing(fresh=True)
        taken = {
            int(core)
            for row in rows
            if is_up(row) and row["Labels"].get(LABEL_KERNEL)
            for core in row["Labels"].get(LABEL_CORES, "").split(",")
            if core.isdecimal()
        }
        free = [core for core in range(int(info["NCPU"])) if core not in taken]
        wanted = request.cpu // 1000
        return tuple(free[:wanted]) if len(free) >= wanted else None

    async def make_container(
        self,
        session: Session,
        settings_for: Callable[[Cores], ContainerSettings],
        granted: tuple[Granted, ...],
        image: ImageFacts,
    ) -> None:
        """Create, fill and start as one piece of work that a cancelled start cannot tear apart:
        whoever cleans up waits for it first. `settings_for` is given the cores that it gets."""
        pinned = self.site.configuration.pin_cores
        # One at a time only where each must see the cores that the others were given.
        lock = self.host.launching
        if pinned:
            await lock.acquire()
        work = asyncio.ensure_future(
            self._create_and_start(session, settings_for, granted, image, pinned)
        )
        if pinned:
            # Not when the start is over, but when its container is there for others to see.
            work.add_done_callback(lambda _: lock.release())
        self._attempt.launching = work
        await asyncio.shield(work)

    async def _create_and_start(
        self,
        session: Session,
        settings_for: Callable[[Cores], ContainerSettings],
        granted: tuple[Granted, ...],
        image: ImageFacts,
        pinned: bool,
    ) -> None:
        steps = self._attempt.steps  # of this start, also when the next one has begun
        cores: Cores = None
        if pinned:
            with self._step(steps, Step.CHOOSE_CORES):
                cores = await self.free_cores(session.request)
        settings = settings_for(cores)
        _granted.set(settings)  # for this task alone
        keys = await self.site.ssh_keys(self.user.name)
        with self._step(steps, Step.CREATE_CONTAINER):
            obj = await self._create_object_once(session)
            # Kept here too: a start that is given up forgets its own while this goes on.
            self.object_id = container = obj[self.object_id_key]
        with self._step(steps, Step.COPY_FILES):
            passwd = await self.host.passwd(container, image)
            # Not the user's variable: it would be in the layer that an image is made of.
            shell = image.env.get("SHELL", "")
            targets = [mount.target for mount in session.request.mounts]

            def pack() -> bytes:
                site, job = self.site.settings, settings.batch
                more = [] if job is None else batch_entries(job, site)
                return support_files(site, targets, settings.told, keys, passwd, shell, more)

            files = await asyncio.get_running_loop().run_in_executor(self.executor, pack)
            await self.docker("put_archive", container, "/", files)
        with self._step(steps, Step.START_CONTAINER):
            await self.start_object()
            if granted:
                found = await self.docker("inspect_container", container)
                pid = int(found["State"]["Pid"])
                await self.site.gpus.attach(session.id, granted, container, pid)
        await self.site.db(
            self.site.store.set_kernel,
            session.id,
            container_id=container,
            container_name=self.object_name,
            agent=self.host.name,
            image=self.image,
        )

    @contextmanager
    def _step(self, steps: Steps, step: Step) -> Iterator[None]:
        """A sub-step in which Docker may refuse what it is asked."""
        with steps.of(step):
            try:
                yield
            except APIError as error:
                raise self._explain(error) from error

    async def _create_object_once(self, session: Session) -> dict[str, Any]:
        try:
            return dict(await self.create_object())
        except APIError as error:
            if error.status_code != 409:
                raise
        # The name is taken: by a leftover of ours, which goes, or by somebody else's container. A
        # leftover may be this very session's, of a try before this one that Docker did not answer.
        ours = self.host.belongings
        holder = await self.host.call(lambda client: ours.session_of(client, self.object_name))
        if holder == "" or (holder and holder != session.id and await self._is_live(holder)):
            self.log.error(
                "%s: the name %s is taken by another container; c.DockerSpawner.name_template must "
                "differ for each server of a user", self._log_name, self.object_name,
            )  # fmt: skip
            raise LaunchError(
                "start_failed",
                f"A container named {self.object_name} is there already and is another's. "
                "Tell your admin, or start one under another name.",
            )
        if holder is not None:
            keep_home = await self.site.db(self.site.store.is_kept, holder)
            await self.host.call(lambda client: ours.remove(client, holder, keep_home))
        return dict(await self.create_object())

    async def _is_live(self, session_id: str) -> bool:
        try:
            row = await self.site.db(self.site.store.get, session_id)
        except NoSuchSession:
            return False
        return not row.status.is_final

    def docker(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """DockerSpawner's one gate to Docker; a session's settings go into its container here,
        after the admin's templates were rendered, so that no text of a user is ever a template."""
        if method == "create_container" and (settings := _granted.get()) is not None:
            for name in overruled(kwargs, settings):
                self.site.warn_once(
                    f"{name} that c.DockerSpawner.extra_host_config gives a container has no "
                    "effect: a session has what it was granted. Leave it out."
                )
            kwargs = apply_settings(kwargs, settings)
        return super().docker(method, *args, **kwargs)

    def _docker(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """What runs in the thread. Raises `AgentUnreachable` when nobody answers."""
        with self.host.answering():
            return super()._docker(method, *args, **kwargs)

    async def get_command(self) -> list[str]:
        """The command to run; an image may have none at all."""
        if (settings := _granted.get()) is not None:
            return [*settings.command, *self.get_args()]
        return list(await super().get_command())

    def _explain(self, error: APIError) -> Exception:
        text = str(error.explanation or error)
        self.log.error("%s: Docker refused: %s", self._log_name, in_log(text, 1000))
        if "bind source path does not exist" in text:
            return LaunchError(
                "folder",
                "A folder that you mount is not there any more. Choose your folders again.",
            )
        if (told := refusal(text, self.host.name)) is not None:
            return LaunchError("gpu", told)
        return EngineError(text)

    async def check_alive(self) -> None:
        try:
            found = await self.docker("inspect_container", self.object_id)
        except NotFound:
            raise LaunchError(
                "start_failed",
                "The session's container disappeared while it started. Start it again; if it "
                "happens again, tell your admin.",
            ) from None
        state = found["State"]
        if state["Running"]:
            return
        lines = await self.site.engine.logs(self.host.name, self.object_id, LOG_LINES)
        self.log.error("%s ended while it started; what it wrote last:", self._log_name)
        for line in lines.splitlines():
            self.log.error("%s | %s", self._log_name, in_log(line))
        if state.get("OOMKilled"):
            raise LaunchError(
                "start_failed", "Memory ran out while the session started. Ask for more memory."
            )
        last = next((line for line in reversed(lines.splitlines()) if line.strip()), "")
        raise LaunchError(
            "start_failed",
            f"The session's server ended while it started (exit code {state['ExitCode']}). Try "
            "another environment, or tell your admin."
            + (f" Its last words: {shown(last.strip(), 300)}" if last else ""),
        )
