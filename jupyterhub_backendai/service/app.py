"""The service as one object: its parts, its routes, and how it starts and ends."""

from __future__ import annotations

import asyncio
import hmac
import os
import re
from collections.abc import Callable
from functools import partial

from jupyterhub.services.auth import HubOAuth
from jupyterhub.utils import url_path_join
from tornado.web import Application
from traitlets.config import Config
from traitlets.log import get_logger

from ..model.status import Status
from ..site.runtime import Site
from ..store import Session
from .audit import AuditFile
from .base import Handler, Nowhere
from .calls.about import HealthHandler, SchemaHandler
from .calls.agents import AgentHandler, AgentsHandler
from .calls.apps import AppHandler, AppsHandler, SessionAppsHandler
from .calls.events import EventsHandler, stream_places
from .calls.idle import IdleHandler, not_watched
from .calls.images import (
    CommitHandler,
    HibernationHandler,
    ImageHandler,
    ImagesHandler,
    ResumeHandler,
)
from .calls.keys import KeyHandler
from .calls.launches import LaunchesHandler, LaunchHandler
from .calls.logs import LogsHandler, log_places
from .calls.metrics import MetricsHandler
from .calls.options import EstimateHandler, OptionsHandler
from .calls.sessions import HistoryHandler, SessionHandler, SessionsHandler
from .calls.usage import UsageHandler
from .dropping import Drops
from .ending import tell_hub
from .estimates import Estimates
from .feed import Feed
from .hub import HubClient
from .idle.watch import Watch
from .idle.watched import Watched
from .images import ImageDoor, engine_of
from .launching import Once
from .life import Life
from .metrics.book import Metrics
from .notify.channels import channels_of, session_pages
from .pages.admin import AdminPage
from .pages.apps import AppsPage
from .pages.base import Asset, Callback, HubAsset, Page, Script
from .pages.commit import CommitPage
from .pages.ending import EndPage
from .pages.hibernate import HibernatePage, ResumePage
from .pages.history import HistoryListPage
from .pages.idle import KeepPage
from .pages.images import DeleteImagePage, ImagesPage
from .pages.launcher import LaunchPage, Turns
from .pages.log import LogPage
from .pages.notices import NoticesPage
from .pages.session import DetailPage
from .pages.sessions import SessionsPage
from .pages.shell import HUB_STATIC, Shell, look
from .parts import Parts
from .sampling import Sampling
from .schemas import UsedPercent
from .table import CALLS, calls_at
from .usage import Usages
from .ways.book import Book
from .ways.public import PathVisit, public_path
from .workers.batch import BatchWorker
from .workers.commits import CommitWorker
from .workers.idle import IdleWorker
from .workers.notices import NoticesWorker
from .workers.queue import QueueWorker
from .workers.runner import Runner, Work
from .workers.servers import ServersWorker
from .workers.telling import TellingWorker
from .workers.usage import UsageWorker

IDENTITY_AGE = 60  # seconds that the Hub's word on who somebody is holds
HANDLERS: dict[str, type[Handler]] = {
    "health": HealthHandler,
    "api/openapi.json": SchemaHandler,
    "metrics": MetricsHandler,
    "api/options": OptionsHandler,
    "api/estimate": EstimateHandler,
    "api/sessions": SessionsHandler,
    "api/sessions/{id}": SessionHandler,
    "api/sessions/{id}/history": HistoryHandler,
    "api/sessions/{id}/logs": LogsHandler,
    "api/sessions/{id}/usage": UsageHandler,
    "api/sessions/{id}/idle": IdleHandler,
    "api/sessions/{id}/apps": SessionAppsHandler,
    "api/sessions/{id}/apps/{app}": AppHandler,
    "api/sessions/{id}/commit": CommitHandler,
    "api/sessions/{id}/hibernation": HibernationHandler,
    "api/sessions/{id}/resume": ResumeHandler,
    "api/images": ImagesHandler,
    "api/images/{id}": ImageHandler,
    "api/apps": AppsHandler,
    "api/history": LaunchesHandler,
    "api/history/{id}": LaunchHandler,
    "api/key": KeyHandler,
    "api/agents": AgentsHandler,
    "api/agents/{name}": AgentHandler,
    "api/events": EventsHandler,
}
# The pages, by their addresses below the prefix.
PAGES: dict[str, type[Page]] = {
    "": SessionsPage,
    "admin": AdminPage,
    "notices": NoticesPage,
    "sessions/{id}": DetailPage,
    "launch": LaunchPage,
    "sessions/{id}/end": EndPage,
    "sessions/{id}/keep": KeepPage,
    "sessions/{id}/history": HistoryListPage,
    "sessions/{id}/apps": AppsPage,
    "sessions/{id}/log": LogPage,
    "sessions/{id}/commit": CommitPage,
    "sessions/{id}/hibernate": HibernatePage,
    "sessions/{id}/resume": ResumePage,
    "images": ImagesPage,
    "images/{id}/delete": DeleteImagePage,
}


class Service:
    """The process's one service. `config` gives the configuration, each time it is needed; `life`
    is told of all that is answered."""

    def __init__(self, config: Callable[[], Config], life: Life | None = None) -> None:
        self.log = get_logger()
        self.life = life or Life("")
        prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"]
        self.hub_auth = HubOAuth(cache_max_age=IDENTITY_AGE, base_url=prefix)
        self.hub = HubClient(self.hub_auth.api_url, self.hub_auth.api_token)
        self.parts = Parts(config)
        self.shell = Shell(self.hub_auth, look(config))
        self.estimates = Estimates()
        self.usages = Usages()
        self.metrics = Metrics()
        self.sampling = Sampling(self.usages)
        self.feed = Feed()
        self.book = Book(self.life.sign)
        self.streams, self.logs = stream_places(), log_places()
        self.launchers, self.once = Turns(), Once()
        self.images, self.drops = ImageDoor(), Drops()
        self.runner = Runner()
        self.idle: IdleWorker | None = None  # while there is no site
        self.notices: NoticesWorker | None = None  # the same
        self._opening: asyncio.Task[None] | None = None
        self._audit: AuditFile | None = None

    def application(self) -> Application:
        """The routes below the prefix that the Hub gave."""
        prefix, token = os.environ["JUPYTERHUB_SERVICE_PREFIX"], self.hub_auth.api_token
        routes: list[tuple[object, ...]] = []
        for path, handler in HANDLERS.items():
            arguments = {"service": self, "calls": calls_at(path)}
            routes.append((_pattern(prefix, path), handler, arguments))
        nothing = {"service": self, "calls": {}}
        for path, page in PAGES.items():
            routes.append((_pattern(prefix, path), page, nothing))
        static = re.escape(f"{prefix}{self.shell.static.path}/")
        launcher = {"body": self.shell.script("backendai/launcher/launcher.js")}
        routes.append((static + r"launcher/launcher\.js", Script, launcher))
        hub_files = {"path": str(self.shell.hub_static)}
        routes.append((re.escape(f"{prefix}{HUB_STATIC}") + "(.+)", HubAsset, hub_files))
        routes.append((static + "(.+)", Asset, {"path": str(self.shell.static.root)}))
        public = re.escape(public_path("")) + ".*"
        routes.append((public, PathVisit, {"book": self.book}))
        callback = url_path_join(prefix, "oauth_callback")
        routes.append((callback, Callback, {"service": self}))
        return Application(
            routes,  # type: ignore[arg-type]
            default_handler_class=Nowhere,
            default_handler_args=nothing,
            # The same after a restart of this process, so that nobody has to sign in again.
            cookie_secret=hmac.digest(token.encode(), b"cookies", "sha256"),
        )

    def start(self) -> None:
        """Begins to open the site, and what runs beside it; to be called on the loop."""
        self._opening = asyncio.ensure_future(self._open())

    async def _open(self) -> None:
        site = await self.parts.open()
        if site.configuration.audit_log:
            self._audit = AuditFile(site.configuration.audit_log)
        interval = site.configuration.usage_interval
        self.idle = IdleWorker(site, self.hub, interval, self.images)
        self.sampling.listeners.append(self.idle.add)
        self.notices = NoticesWorker(
            site,
            lambda: None if self.idle is None else self.idle.watch,
            channels_of(site),
            self.drops,
            session_pages(),
            self.metrics.note_notice,
        )
        self.runner.start(self.workers(site))

    async def idle_of(self, session: Session) -> tuple[Watch, Watched]:
        """A session as idle checks see it. Raises `Refused` for one that they do not."""
        watch = None if self.idle is None else self.idle.watch
        if self.idle is not None and watch is not None and session.status is Status.RUNNING:
            known = watch.sessions.get(session.id)
            if known is None or not known.is_of(session):
                await watch.follow()  # it has begun to run since
            if (watched := watch.sessions.get(session.id)) is not None:
                await self.idle.refresh(watched)
                watch.judge(watched)
                return watch, watched
        raise not_watched(session)

    def workers(self, site: Site) -> dict[str, Work]:
        """All that runs beside the answers, by name."""
        assert self.idle is not None
        assert self.notices is not None
        images = engine_of(site)
        making = {}
        if images is not None:
            tell = partial(tell_hub, site, self.hub)
            making["images"] = CommitWorker(site, images, self.images, tell, self.drops).run
        return {
            **making,
            "idle": self.idle.run,
            "notices": self.notices.run,
            "telling": TellingWorker(site, self.idle).run,
            "events": lambda: self.feed.run(site),
            "ways": lambda: self.book.run(site),
            "queue": QueueWorker(site, self.hub).run,
            "batch": BatchWorker(site, self.hub).run,
            "servers": ServersWorker(site, self.hub, self.images).run,
            "usage": UsageWorker(site, self.sampling).run,
        }

    def used(self, session_id: str) -> UsedPercent | None:
        """What a session uses now of what it has, as it was sampled last."""
        found = self.sampling.used(session_id)
        return None if found is None else UsedPercent(**found)

    async def stop(self) -> None:
        """Ends all that was begun."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        self.feed.end()
        await self.runner.stop()
        if self.notices is not None:
            await self.notices.stop()
            self.notices.close()
        await self.book.stop()
        self.estimates.close()
        await self.hub.close()
        await self.parts.close()
        if self._audit is not None:
            self._audit.close()


def _pattern(prefix: str, path: str) -> str:
    parts = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))
    return re.escape(prefix) + parts + "/?$"


assert {call.path for call in CALLS} == set(HANDLERS), "each call has its handler"
