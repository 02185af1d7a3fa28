"""Sessions on Docker: DockerSpawner with the way of a session around it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import docker
from docker.errors import APIError, NotFound
from dockerspawner import DockerSpawner
from tornado import web
from traitlets import Bool, default
from traitlets.config import Config

from ..engine.base import (
    LABEL_CORES,
    LABEL_HUB,
    LABEL_KERNEL,
    LABEL_SESSION,
    AgentUnreachable,
    EngineError,
    ImageMissing,
)
from ..engine.batch import batch_job
from ..engine.create import apply_settings
from ..engine.docker import AgentConfig, DockerHost
from ..engine.inside import batch_files
from ..engine.settings import (
    ContainerSettings,
    SessionFacts,
    container_settings,
)
from ..engine.support import support_files
from ..model.catalog import Catalog, Preset
from ..model.errors import LaunchError
from ..model.resolve import SessionRequest
from ..model.slots import GIB
from ..model.status import Phase, Status
from ..site.runtime import Site
from ..store import NotFound as NoSuchSession
from ..store import Session
from .images import own_environment
from .pull import pull_with_progress
from .session import ENDED, LOG_LINES, SessionSpawner

STOP_GRACE = 5  # seconds for a server to end before it is killed


class DockerSessionSpawner(SessionSpawner, DockerSpawner):
    """A session in a Docker container. All of `c.DockerSpawner.*` goes on working, but for
    `remove`: a session's container always goes with it."""

    remove = Bool(
        True,
        help="Always true for sessions: the container goes when its session ends. Keep work in "
        "folders instead.",
    ).tag(config=True)

    image: Any
    cpu_limit: Any
    mem_limit: Any
    # On the class: traits' defaults ask for the site before __init__ has come this far.
    _site: Site | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._host: DockerHost | None = None
        self._settings: ContainerSettings | None = None
        self._creating: asyncio.Future[Any] | None = None
        self._own_connection: dict[str, Any] = {}
        # The limits of the configuration; a session's own replace them on this object.
        cpu = int((self.cpu_limit or 1) * 1000)
        self._own_image, self._granted_image = self.image, ""
        self._own_preset = (Preset(name="default", cpu=cpu / 1000, mem=self.mem_limit or GIB),)

    # ---- site, client, threads ----------------------------------------------------------------

    @property
    def site(self) -> Site:
        """The site this spawner's configuration describes."""
        # Kept: finding it means comparing whole configurations, and it is asked for all the time.
        if self._site is None or self._site.closed:
            self._site = Site.of(self.config, self._client_options())
        return self._site

    @classmethod
    def site_of(cls, config: Config) -> Site:
        """The site that `config` describes, before there is a user to start anything for."""
        return cls._without_user(config).site

    @classmethod
    def client_of(cls, config: Config) -> dict[str, Any]:
        """Arguments of the Docker client that `config` describes."""
        return cls._without_user(config)._client_options()

    @classmethod
    def own_catalog_of(cls, config: Config) -> dict[str, Any]:
        """What `config` offers where it has no environments, as the traits that would say it.

        Images that a function of the admin's allows are not in it: they are by user.
        """
        spawner = cls._without_user(config, "allowed_images", "cpu_limit", "mem_limit")
        image = str(cls.class_traits()["image"].default())
        for section in cls.section_names():
            image = str(config.get(section, {}).get("image", image))
        allowed = {} if callable(spawner.allowed_images) else spawner.allowed_images
        (preset,) = spawner._own_preset
        return {
            "environments": [own_environment(image, allowed).model_dump(exclude_unset=True)],
            "presets": [{"name": preset.name, "cpu": preset.cpu / 1000, "mem": preset.mem}],
        }

    @classmethod
    def _without_user(cls, config: Config, *more: str) -> DockerSessionSpawner:
        wanted = Config(BackendAI=config.get("BackendAI", {}))
        for section in cls.section_names():
            given = config.get(section, {})
            # Nothing else: an image, say, would have its container's name made from a user's.
            names = [name for name in ("client_kwargs", "tls_config", *more) if name in given]
            wanted[section] = Config({name: given[name] for name in names})
        return cls(config=wanted)

    def _client_options(self) -> dict[str, Any]:
        options: dict[str, Any] = dict(self.client_kwargs)
        if self.tls_config:
            options["tls"] = dict(self.tls_config)
        return options

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

    @default("prefix")
    def _default_prefix(self) -> str:
        return f"backendai-{self.site.hub_id}"

    @default("use_internal_ip")
    def _default_use_internal_ip(self) -> bool:
        # On Linux a container's own address is reachable, and publishing a port costs time.
        return True

    # ---- options ------------------------------------------------------------------------------

    @property
    def _without_catalog(self) -> bool:
        return not self.site.catalog.environments

    def site_catalog(self) -> Catalog:
        """The configured catalog; without one, the images that DockerSpawner's own traits name."""
        if not self._without_catalog:
            return self.site.catalog
        if self.image != self._granted_image:
            self._own_image = self.image  # set by the admin, or on this object since
        environment = own_environment(self._own_image, self._get_allowed_images())
        presets = self.site.catalog.presets or self._own_preset
        return self.site.catalog.model_copy(
            update={"environments": (environment,), "presets": presets}
        )

    async def read_image_option(self, options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Without a catalog, `image` is one of DockerSpawner's allowed images, by its alias."""
        image = options.get("image")
        if not self._without_catalog or image in (None, ""):
            return options, False
        if not isinstance(image, str):
            raise web.HTTPError(400, "image: Write this as text.")
        return {**options, "image": await self.check_allowed(image)}, True

    # ---- start --------------------------------------------------------------------------------

    async def prepare(self, session: Session, request: SessionRequest) -> None:
        """Image and folders on the session's agent; the spawner is set up for that agent."""
        site = self.site
        agent = session.agent or ""  # a placed session has one; "" is refused by name
        self._host = host = site.engine.host(agent)
        self.image = self._granted_image = request.image
        self.cpu_limit, self.mem_limit = request.cpu / 1000, request.mem
        self._connect_as(host.config)
        await self._have_image(session, request.image)
        try:
            await site.folders.create(agent, request.image, self.user.name, request.mounts)
        except AgentUnreachable:
            raise
        except EngineError as error:
            self.log.error("%s: %s", self._log_name, error)
            raise LaunchError(
                "folder", "Your new folder could not be made. Tell your admin."
            ) from error

    def _connect_as(self, agent: AgentConfig) -> None:
        """Hub and server find each other as the agent says, else as this spawner's traits do."""
        own = self._own_connection
        for name in ("hub_connect_url", "use_internal_ip", "host_ip"):
            own.setdefault(name, getattr(self, name))
        self.hub_connect_url = agent.hub_connect_url or own["hub_connect_url"]
        self.use_internal_ip = own["use_internal_ip"] and not agent.address
        self.host_ip = agent.address or own["host_ip"]

    async def _have_image(self, session: Session, image: str) -> None:
        host = self.host
        if self.pull_policy in {"skip", "never"}:
            await host.image(image)
            return
        if self.pull_policy != "always":
            try:
                await host.image(image)
                return
            except ImageMissing:
                self.log.info("%s: pulling %s on %s", self._log_name, image, host.name)
        await self.move_quietly(session.id, Status.PULLING, Phase.PULL)
        await pull_with_progress(host, image, self._story)

    async def launch(self, session: Session, request: SessionRequest) -> tuple[str, int]:
        """Creates the container with exactly what was asked, and starts it."""
        host = self.host
        environment = self.site_catalog().environment(request.environment or "")
        command = tuple(environment.command) if environment else ()
        image = await host.image(request.image)
        pinned = self.site.configuration.pin_cores
        # One at a time only where each must see the cores that the others were given.
        async with host.launching if pinned else nullcontext():
            cores = await self._free_cores(request) if pinned else None
            facts = SessionFacts(
                session_id=session.id,
                name=session.name,
                owner=self.user.name,
                agent=host.name,
                request=request,
                command=command or tuple(self.cmd or ()),
                cores=cores,
                batch=batch_job(request, session.name),
            )
            self._settings = container_settings(facts, image, self.site.settings)
            await self._create(session)
        if self.post_start_cmd:
            await self.post_start_exec()
        return await self.get_ip_and_port()

    async def _free_cores(self, request: SessionRequest) -> tuple[int, ...] | None:
        """Cores of the host that no other session has been given; None for part of a core."""
        if request.cpu % 1000:
            return None
        info = await self.host.call(lambda client: client.info())
        rows = await self.host.listing(fresh=True)
        taken = {
            int(core)
            for row in rows
            if row.get("State") == "running" and row["Labels"].get(LABEL_KERNEL)
            for core in row["Labels"].get(LABEL_CORES, "").split(",")
            if core.isdecimal()
        }
        free = [core for core in range(int(info["NCPU"])) if core not in taken]
        wanted = request.cpu // 1000
        return tuple(free[:wanted]) if len(free) >= wanted else None

    async def _create(self, session: Session) -> None:
        """Create, fill and start as one piece of work that a cancelled start cannot tear apart:
        whoever cleans up waits for it first (`settle`)."""
        self._creating = asyncio.ensure_future(self._create_and_start(session))
        try:
            await asyncio.shield(self._creating)
        except APIError as error:
            raise self._explain(error) from error

    async def _create_and_start(self, session: Session) -> None:
        files = support_files(
            self.site.settings, tuple(mount.target for mount in session.request.mounts)
        )
        obj = await self._create_object_once()
        self.object_id = obj[self.object_id_key]
        await self.docker("put_archive", self.object_id, "/", files)
        if self._settings is not None and self._settings.batch is not None:
            job = batch_files(self._settings.batch, self.site.settings)
            await self.docker("put_archive", self.object_id, "/", job)
        await self.start_object()
        await self.site.db(
            self.site.store.set_kernel,
            session.id,
            container_id=self.object_id,
            container_name=self.object_name,
            agent=self.host.name,
            image=self.image,
        )

    async def _create_object_once(self) -> dict[str, Any]:
        try:
            return dict(await self.create_object())
        except APIError as error:
            if error.status_code != 409:
                raise
        # The name is taken: by a leftover of ours, which goes, or by somebody else's container.
        found = await self.docker("inspect_container", self.object_name)
        labels = found["Config"].get("Labels") or {}
        ours = labels.get(LABEL_HUB) == self.site.hub_id
        if not ours or await self._is_live(labels.get(LABEL_SESSION, "")):
            self.log.error(
                "%s: the name %s is taken by another container; c.DockerSpawner.name_template must "
                "differ for each server of a user", self._log_name, self.object_name,
            )  # fmt: skip
            raise LaunchError(
                "start_failed",
                f"A container named {self.object_name} is there already and is another's. "
                "Tell your admin.",
            )
        await self.docker("remove_container", found["Id"], force=True, v=True)
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
        if method == "create_container" and self._settings is not None:
            kwargs = apply_settings(kwargs, self._settings)
        return super().docker(method, *args, **kwargs)

    def _docker(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """What runs in the thread. Raises `AgentUnreachable` when nobody answers."""
        with self.host.answering():
            return super()._docker(method, *args, **kwargs)

    async def get_command(self) -> list[str]:
        """The command to run; an image may have none at all."""
        if self._settings is not None:
            return [*self._settings.command, *self.get_args()]
        return list(await super().get_command())

    def _explain(self, error: APIError) -> Exception:
        text = str(error.explanation or error)
        self.log.error("%s: Docker refused: %s", self._log_name, text)
        if "bind source path does not exist" in text:
            return LaunchError(
                "folder", "A folder that you mount is not there any more. Choose again."
            )
        return EngineError(text)

    async def settle(self) -> None:
        if self._creating is not None:
            await asyncio.wait([self._creating])
            if not self._creating.cancelled():
                self._creating.exception()
            self._creating = None

    async def check_alive(self) -> None:
        try:
            found = await self.docker("inspect_container", self.object_id)
        except NotFound:
            raise LaunchError(
                "start_failed", "The session's container disappeared while it started."
            ) from None
        state = found["State"]
        if state["Running"]:
            return
        lines = await self.site.engine.logs(self.host.name, self.object_id, LOG_LINES)
        self.log.error("%s ended while it started:\n%s", self._log_name, lines)
        if state.get("OOMKilled"):
            raise LaunchError(
                "start_failed", "Memory ran out while the session started. Ask for more memory."
            )
        last = next((line for line in reversed(lines.splitlines()) if line.strip()), "")
        raise LaunchError(
            "start_failed",
            f"The session's server ended while it started (exit code {state['ExitCode']})."
            + (f" Its last words: {last.strip()[:300]}" if last else ""),
        )

    # ---- running ------------------------------------------------------------------------------

    def clear_state(self) -> None:
        super().clear_state()
        self._settings = None

    async def poll(self) -> int | None:
        """None while the session starts or runs, else its exit code.

        While Docker does not answer a session counts as running: nothing says that it is not.
        """
        if self._starting:
            return None
        await self.site.ready()
        session = await self.recall()
        if session is None or session.status is not Status.RUNNING or session.agent is None:
            return 0 if session is None else 1
        if session.agent not in self.site.engine.hosts:
            await self.site.end(
                session.id, "container_gone", "Its machine is not part of this site any more."
            )
            return 1
        self._host = self.site.engine.host(session.agent)
        try:
            rows = await self.site.engine.containers(session.agent)
            mine = next((c for c in rows if c.session_id == session.id), None)
            if mine is not None and mine.running:
                self.object_id = mine.id
                return None
            # The listing may be a second old: look at the very container before it is over.
            return await self._exit_of(mine.id if mine else self.object_id)
        except AgentUnreachable as error:
            self.log.warning("%s: %s", self._log_name, error)
            return None

    async def _exit_of(self, container: str) -> int | None:
        found = None
        if container:
            with suppress(NotFound):
                found = await self.host.call(lambda client: client.inspect_container(container))
        if found is None:
            await self.session_ended(None, "Its container is gone.")
            return 1
        state = found["State"]
        if state["Running"]:
            self.object_id = found["Id"]
            return None
        code = int(state["ExitCode"])
        if state.get("OOMKilled"):
            reason = "Memory ran out and it was stopped. Start again with more memory."
        else:
            reason = f"Its server ended by itself (exit code {code})."
        await self.session_ended(code, reason)
        return code

    async def stop_gently(self, session: Session, now: bool) -> None:
        if session.agent is None or session.agent not in self.site.engine.hosts:
            return
        if session.status is Status.RUNNING:
            await self.move_quietly(
                session.id, Status.TERMINATING, Phase.TERMINATE,
                reason_code="user_requested", reason=ENDED,
            )  # fmt: skip
        self._host = self.site.engine.host(session.agent)
        if self.object_id:
            try:
                await self.docker("stop", self.object_id, timeout=0 if now else STOP_GRACE)
            except (APIError, AgentUnreachable) as error:
                self.log.debug("%s: %s", self._log_name, error)
        self.object_id = ""
