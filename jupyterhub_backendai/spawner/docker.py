"""Sessions on Docker: DockerSpawner with the way of a session around it."""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

from docker.errors import APIError, NotFound
from dockerspawner import DockerSpawner
from sqlalchemy.orm import object_session
from tornado import web
from traitlets import Bool, default
from traitlets.config import Config

from ..engine.base import LABEL_SESSION, AgentUnreachable, EngineError, ImageMissing
from ..engine.batch import batch_job
from ..engine.docker import AgentConfig
from ..engine.settings import ContainerSettings, SessionFacts, container_settings
from ..model.catalog import Catalog
from ..model.errors import ConfigurationError, FieldError, LaunchError, RequestError, shown
from ..model.gpu_settings import GpuSettings
from ..model.images import CustomImage
from ..model.resolve import SessionRequest
from ..model.status import Phase, Status
from ..model.steps import Step
from ..site.rules import GONE_MACHINE
from ..site.runtime import Site
from ..store import Session, Unavailable
from .allowed import of_images, of_limits
from .container import ContainerSpawner, Cores
from .errors import SessionSpawnError, in_log
from .images import (
    check_downloaded,
    check_owner,
    environment_of,
    is_offered,
    is_there,
    own_image,
)
from .inherited import OF_A_SESSION, check_internal_ssl, lost_traits
from .pull import pull_with_progress
from .ready import server_url
from .servers import hub_servers


class DockerSessionSpawner(ContainerSpawner):
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
        self._own_connection: dict[str, Any] = {}
        # What is configured; a session's own replace it on this object.
        self._configured = {name: getattr(self, name) for name in OF_A_SESSION}
        self._of_session: dict[str, Any] = {}

    # ---- site ----------------------------------------------------------------------------------

    @property
    def site(self) -> Site:
        """The site this spawner's configuration describes."""
        # Kept: finding it means comparing whole configurations, and it is asked for all the time.
        if self._site is None or self._site.closed:
            self._site = Site.of(self.config, self._client_options())
            db = None if self.orm_spawner is None else object_session(self.orm_spawner)
            if db is not None:  # in the Hub itself
                self._site.hub_servers = partial(hub_servers, db)
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
    def own_catalog_of(cls, config: Config, environments: bool) -> dict[str, Any]:
        """What `site_catalog` adds to the configured catalog, as traits that would say it.

        Only what is configured for everybody: neither what a function of the admin's allows, nor
        what a hook sets. `environments`: whether the configuration has some.
        """
        found: dict[str, Any] = {}
        own = cls._without_user(config, "allowed_images", "cpu_limit", "mem_limit")
        if not environments:
            image = str(cls.class_traits()["image"].default())
            for section in cls.section_names():
                image = str(config.get(section, {}).get("image", image))
            allowed = {} if callable(own.allowed_images) else own.allowed_images
            found["environments"] = [of_images(image, allowed).model_dump(exclude_unset=True)]
        if own.cpu_limit or own.mem_limit or not environments:
            preset = of_limits(own.cpu_limit, own.mem_limit)
            cores = preset.cpu / 1000
            found["presets"] = [{"name": preset.name, "cpu": cores, "mem": preset.mem}]
        return found

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
        catalog = self.site.catalog
        own = {**self._configured, **self._set_since()}
        more: dict[str, Any] = {}
        if not catalog.environments:
            more["environments"] = (of_images(own["image"], self._get_allowed_images()),)
        limited = own["cpu_limit"] or own["mem_limit"]
        if not catalog.presets and (limited or not catalog.environments):
            more["presets"] = (of_limits(own["cpu_limit"], own["mem_limit"]),)
        return catalog.model_copy(update=more) if more else catalog

    def _set_since(self) -> dict[str, Any]:
        """What a hook, a group or a subclass has set on this object: not configured, not ours."""
        return {
            name: getattr(self, name)
            for name, configured in self._configured.items()
            if getattr(self, name) not in (configured, self._of_session.get(name, configured))
        }

    async def accepted(self) -> SessionRequest:
        """The request that is started. What `pre_spawn_hook` has set since it was checked counts
        where no catalog says otherwise; where one does, it would be lost."""
        try:
            check_internal_ssl(self.internal_ssl)
        except ConfigurationError as error:
            self.log.error("%s: %s", self._log_name, error)
            raise LaunchError(
                "configuration",
                "This Hub is configured in a way that sessions do not work with. Tell your admin.",
            ) from None
        since = self._set_since()
        for name in lost_traits(since, self.site.configuration.trait_values()):
            self.log.error(
                "%s: %s was set to %r by a hook, a group or a subclass, but with "
                "c.BackendAI.%s it is what the owner asks for. Say who may use what in "
                "c.BackendAI.group_policies.",
                self._log_name, name, since[name], OF_A_SESSION[name],
            )  # fmt: skip
            raise LaunchError(
                "configuration",
                f"This Hub sets {name} for you in a way that sessions cannot follow. "
                "Tell your admin.",
            )
        if since:
            self._request = None
        return await super().accepted()

    async def read_image_option(self, options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Without a catalog, `image` is one of DockerSpawner's allowed images, by its alias."""
        image = options.get("image")
        if not self._without_catalog or image in (None, ""):
            return options, False
        if not isinstance(image, str):
            refused = FieldError("image", "wrong_type", "Write this as text.")
            raise SessionSpawnError.refused(RequestError([refused]))
        try:
            return {**options, "image": await self.check_allowed(image)}, True
        except web.HTTPError as error:
            text = shown(error.log_message or "It is not allowed.", 500)
            message = f"{text}. Choose one that is." if text[-1:] != "." else text
            refused = FieldError("image", "not_allowed", message)
            raise SessionSpawnError.refused(RequestError([refused])) from None

    # ---- start --------------------------------------------------------------------------------

    async def prepare(self, session: Session, request: SessionRequest) -> None:
        """Image and folders on the session's agent; the spawner is set up for that agent."""
        site = self.site
        agent = session.agent or ""  # a placed session has one; "" is refused by name
        self._host = host = site.engine.host(agent)
        self.image, self.cpu_limit, self.mem_limit = request.image, request.cpu / 1000, request.mem
        self._of_session = {name: getattr(self, name) for name in OF_A_SESSION}
        self._connect_as(host.config)
        if request.image == session.request.image:  # else it is resumed, and its image is there
            own = await own_image(site, session.owner, request.image)
            await self._have_image(session, request.image, own)
            if not is_offered(self.site_catalog(), request.image):
                await check_owner(site, host, session.owner, request.image)
        try:
            with self._attempt.steps.of(Step.MAKE_FOLDERS):
                await site.folders.create(agent, request.image, self.user.name, request.mounts)
        except AgentUnreachable:
            raise
        except EngineError as error:
            self.log.error("%s: %s", self._log_name, in_log(str(error), 1000))
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

    async def _have_image(
        self, session: Session, image: str, own: CustomImage | None = None
    ) -> None:
        host = self.host
        if own is not None:
            # Neither a way of the admin's nor a registry that is not ours has it.
            if not await is_there(self.site, host, own):
                with await self._pulling(session):
                    await pull_with_progress(host, image, self._story)
                    await check_downloaded(self.site, host, own)
            return
        if type(self).pull_image is not DockerSpawner.pull_image:  # an admin's own way to have it
            with await self._pulling(session):
                try:
                    await self.pull_image(image)
                except APIError as error:
                    raise ImageMissing(f"pull_image({image!r}) on {host.name}: {error}") from error
            return
        if self.pull_policy != "always" and await self._is_there(image):
            return
        with await self._pulling(session):
            await pull_with_progress(host, image, self._story)

    async def _is_there(self, image: str) -> bool:
        """Raises `ImageMissing` where it is not, and is not to be downloaded."""
        with self._attempt.steps.of(Step.CHECK_IMAGE):
            try:
                await self.host.image(image)
                return True
            except ImageMissing:
                if self.pull_policy in {"skip", "never"}:
                    raise
                self.log.info("%s: pulling %s on %s", self._log_name, image, self.host.name)
                return False

    async def _pulling(self, session: Session) -> AbstractContextManager[None]:
        """On to PULLING; what is to be around the download."""
        steps = self._attempt.steps
        await self.move_quietly(session.id, Status.PULLING, Phase.PREPARE, sub_steps=steps.taken())
        return steps.of(Step.PULL_IMAGE)

    async def launch(self, session: Session, request: SessionRequest) -> tuple[str, int]:
        """Creates the container with exactly what was asked, and starts it."""
        host = self.host
        environment = environment_of(self.site_catalog(), request)
        command = tuple(environment.command) if environment else ()
        image = await host.image(request.image)
        granted, gpu = await self.site.granted(session), GpuSettings()
        key = secrets.token_urlsafe(32)  # to this session's apps
        if granted:
            with self._attempt.steps.of(Step.PREPARE_GPUS):
                gpu = await self.site.gpus.prepare(session.id, granted)

        def settings_for(cores: Cores) -> ContainerSettings:
            facts = SessionFacts(
                session_id=session.id,
                name=session.name,
                owner=self.user.name,
                agent=host.name,
                request=request,
                command=command or tuple(self.cmd or ()),
                cores=cores,
                batch=batch_job(request, session.name),
                granted=granted,
                gpu=gpu,
                cdi=host.cdi,
                apps=environment.apps if environment else (),
                apps_key=key,
            )
            return container_settings(facts, image, self.site.settings)

        await self.make_container(session, settings_for, granted, image)
        if self.post_start_cmd:
            with self._attempt.steps.of(Step.POST_START):
                await self.post_start_exec()
        ip, port = await self.get_ip_and_port()
        address = server_url(ip, port, "").removeprefix("http://")
        note = self.site.store.set_kernel
        await self.site.db(note, session.id, address=address, apps_key=key)
        return ip, port

    # ---- running ------------------------------------------------------------------------------

    async def poll(self) -> int | None:
        """None while the session starts or runs, else its exit code.

        While nothing is known a session counts as running, whatever does not answer or refuses: the
        Hub forgets a server for good that it cannot ask for while it starts.
        """
        if self._starting:
            return None
        try:
            return await self._poll()
        except (EngineError, APIError, Unavailable) as error:
            self.log.warning("%s counts as running: %s", self._log_name, in_log(str(error)))
            return None

    async def _poll(self) -> int | None:
        await self.site.ready()
        session = await self.recall()
        if session is None or session.status is not Status.RUNNING or session.agent is None:
            return 0 if session is None else 1
        if session.agent not in self.site.engine.hosts:
            await self.site.end(session.id, "container_gone", GONE_MACHINE)
            return 1
        self._host = self.site.engine.host(session.agent)
        rows = await self.site.engine.containers(session.agent)
        mine = next((c for c in rows if c.session_id == session.id), None)
        if mine is not None and mine.running:
            self.object_id = mine.id
            self.show_name(session)
            return None
        # The listing may be a second old: look at the very container before it is over.
        return await self._exit_of(session, mine.id if mine else self.object_id)

    async def get_url(self) -> str:
        """Where the running server is, as soon as it may answer there. A Hub that was killed before
        it had noted that asks, when it is there again."""
        url = await self._address()
        await self.until_it_goes_on(url)
        return url

    async def _address(self) -> str:
        """What the Hub knows itself is the answer where the agent has none."""
        known = str(self.server.url)
        if self._host is None or not self.object_id:
            return known
        self._connect_as(self._host.config)
        try:
            ip, port = await self.get_ip_and_port()
        except (AgentUnreachable, APIError) as error:
            self.log.warning("%s: its address is not known: %s", self._log_name, error)
            return known
        return server_url(ip, port, str(self.server.base_url))

    async def _exit_of(self, session: Session, container: str) -> int | None:
        found = None
        if container:
            with suppress(NotFound):
                found = await self.host.call(lambda client: client.inspect_container(container))
        labels = (found["Config"]["Labels"] or {}) if found else {}
        if found is None or labels.get(LABEL_SESSION) != session.id:
            await self.session_ended(None, "Its container is gone. Start it again.")
            return 1
        state = found["State"]
        if state["Running"]:
            self.object_id = found["Id"]
            return None
        code = int(state["ExitCode"])
        if state.get("OOMKilled"):
            reason = "Memory ran out and it was stopped. Start it again with more memory."
        else:
            what = "server" if session.request.batch is None else "container"
            reason = f"Its {what} ended by itself (exit code {code}). Start it again."
        await self.session_ended(code, reason)
        return code

    def clear_state(self) -> None:
        super().clear_state()
        self.object_id = ""
