"""The way of a session inside the Hub, whatever the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from jupyterhub.spawner import Spawner
from jupyterhub.utils import make_ssl_context, url_path_join
from tornado.web import HTTPError

from .._within import within
from ..engine.base import AgentUnreachable, EngineError, ImageMissing
from ..model.errors import LaunchError, Problem, RequestError
from ..model.resolve import SessionRequest
from ..model.rules import check_session_name
from ..model.status import IllegalTransition, Phase, Result, Status
from ..site.clock import utcnow
from ..site.naming import random_name
from ..site.options import summary
from ..store import NotFound, Session
from .doors import MAX_PLACES, PREPARE_TIMEOUT, OptionDoors
from .errors import SessionSpawnError
from .ready import wait_until_ready
from .story import Story

# The Hub does not say whether it was the owner, an admin, or its own end.
ENDED = "It was ended through the Hub."
T = TypeVar("T")
LOG_LINES = 15  # of a server that died at its start, for the log and its owner


class SessionSpawner(OptionDoors, Spawner):
    """Submits a session, waits for its place, has the engine run it, and ends it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._story = Story()
        self._session: Session | None = None
        self._starting = False
        self.session_summary = ""  # a line on the page that is shown while it starts
        self._cleanup: asyncio.Task[None] | None = None
        self._submitting: asyncio.Future[Session] | None = None
        self._known_id = ""  # of the session that a Hub before this one had running here

    # ---- what an engine's spawner brings ------------------------------------------------------

    async def prepare(self, session: Session, request: SessionRequest) -> None:
        """Has the image and the folders ready on the session's agent."""
        raise NotImplementedError

    async def launch(self, session: Session, request: SessionRequest) -> tuple[str, int]:
        """Creates and starts the container; where its server will answer."""
        raise NotImplementedError

    async def check_alive(self) -> None:
        """Raises `LaunchError` when the container that is starting has ended."""
        raise NotImplementedError

    async def settle(self) -> None:
        """Until no call to the engine of an interrupted launch is in flight any more."""
        raise NotImplementedError

    # ---- start --------------------------------------------------------------------------------

    async def start(self) -> tuple[str, int]:
        """Submits the session, waits for its place, and starts it there.

        Whatever interrupts it, and whenever: nothing of it is left behind.
        """
        self._starting = True
        self._begin_story()
        try:
            await self._cleaned_up()
            self._session = self._submitting = None
            await self.site.ready()
            request = self._request or await self.accept(self.user_options)
            await self._end_leftover()
            # Shielded: what its thread commits must be known to the clean-up, cancelled or not.
            self._submitting = asyncio.ensure_future(self._submit(request))
            self._session = await asyncio.shield(self._submitting)
            self.site.driven.add(self._session.id)
            return await self._start_session(self._session, request)
        except asyncio.CancelledError as error:
            # The Hub gives a cancelled start one second before it stumbles over it, so the
            # clean-up goes on by itself; the next start or stop of this server waits for it.
            self._cleanup = self.site.background(self._abandon(error))
            raise
        except Exception as error:
            self._cleanup = self.site.background(self._abandon(error))
            await self._cleaned_up()
            raise self._for_people(error) from error
        finally:
            self._starting = False
            self._request = None
            if self._session is not None:
                self.site.driven.discard(self._session.id)
            self._story.end()

    async def _start_session(self, session: Session, request: SessionRequest) -> tuple[str, int]:
        self.session_summary = summary(request, self.site_catalog())
        self._story.tell("asked", "Asked", self.session_summary)
        for left in reversed(range(MAX_PLACES)):
            self._session = session = await self._in_line(session)
            self._story.tell("placed", "Admitted", f"A place on {session.agent} is yours.")
            try:
                return await self._on_agent(session, request)
            except AgentUnreachable as error:
                if not left:
                    raise
                self._session = session = await self._back_in_line(session, error)
        raise AssertionError("not reached: the last place is taken or raises")

    async def _back_in_line(self, session: Session, error: AgentUnreachable) -> Session:
        """The agent went away: a place on another one, or on this one when it is back.

        What may have been made there is the reconciler's.
        """
        self.log.warning("%s: %s", self._log_name, error)
        await self.settle()
        await self.site.report_agents()
        self._story.tell("queued", "Back in line", f"{session.agent} does not answer.")
        return await self.site.move(
            session.id,
            Status.PENDING,
            Phase.PREPARE,
            result=Result.NEED_RETRY,
            error_code="agent_unreachable",
            message=f"{session.agent} does not answer.",
        )

    async def _on_agent(self, session: Session, request: SessionRequest) -> tuple[str, int]:
        move = self.site.move
        await move(session.id, Status.PREPARING, Phase.PREPARE)
        # An image may be downloaded here: its time is its own, not that of the start.
        await self._within(PREPARE_TIMEOUT, self.prepare(session, request))
        await move(session.id, Status.CREATING, Phase.CREATE)
        return await self._within(self._launch_timeout, self._launched(session, request))

    async def _within(self, timeout: float, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await within(timeout, work)
        except asyncio.TimeoutError:
            raise LaunchError(
                "start_timeout",
                f"The session did not start within {timeout:g} seconds. "
                "Start it again; if it happens again, tell your admin.",
            ) from None

    async def _launched(self, session: Session, request: SessionRequest) -> tuple[str, int]:
        self._story.tell("container", "Container", "Folders and limits are attached.")
        ip, port = await self.launch(session, request)
        self._story.tell("server", "Server", "Jupyter starts inside.")
        await self._until_it_answers(ip, port)
        self._session = await self.site.move(session.id, Status.RUNNING, Phase.START)
        self._story.tell("ready", "Ready", "This page takes you to your session.")
        self.forms.launched()
        return ip, port

    async def _submit(self, request: SessionRequest) -> Session:
        site, groups = self.site, sorted(g.name for g in self.user.orm_user.groups)
        policy = site.policies.of(self.user.name, groups)
        names = await site.db(site.store.live_names, self.user.name)
        try:
            return await site.db(
                site.store.submit,
                request,
                owner=self.user.name,
                owner_groups=groups,
                server_name=self.name,
                name=request.name or self._free_name(names),
                driver=site.run_id,
                max_pending=policy.max_pending,
                asked=self.user_options,
                now=utcnow(),
            )
        except RequestError as error:
            self.forms.refused(error.errors)
            raise SessionSpawnError.refused(error) from None

    def _free_name(self, taken: frozenset[str]) -> str:
        """The server's own display name where it will do, else a random one."""
        shown = str(getattr(self.orm_spawner, "display_name", "") or "")
        try:
            if shown and check_session_name(shown) not in taken:
                return shown
        except Problem:
            self.log.debug("The display name of %s is no session name", self._log_name)
        return random_name()

    async def _in_line(self, session: Session) -> Session:
        told: tuple[int | None, str] | None = None

        def tell(row: Session) -> None:
            nonlocal told
            if (row.position, row.reason) != told:
                told = (row.position, row.reason)
                title = f"In line, #{row.position}" if row.position else "In line"
                self._story.tell("queued", title, row.reason, row.position)

        timeout = self.site.configuration.queue_timeout
        try:
            return await within(timeout, self.site.queue.wait(session, tell))
        except asyncio.TimeoutError:
            raise LaunchError(
                "queue_timeout",
                "There was no room in time, so this session was taken out of line. "
                "Ask for less, or start it again later.",
            ) from None

    async def _until_it_answers(self, ip: str, port: int) -> None:
        """Until the server answers. Raises `LaunchError` after the Hub's `http_timeout`."""
        context = None
        scheme = "http"
        if self.internal_ssl:
            scheme = "https"
            app = self.user.settings
            context = make_ssl_context(
                app.get("internal_ssl_key"),
                app.get("internal_ssl_cert"),
                cafile=app.get("internal_ssl_ca"),
            )
        host = f"[{ip}]" if ":" in ip else ip
        base = self.server.base_url if self.server else "/"
        url = url_path_join(f"{scheme}://{host}:{port}", base, "api")
        if not await wait_until_ready(url, self.http_timeout, self.check_alive, context):
            self.log.error("%s does not answer at %s", self._log_name, url)
            raise LaunchError(
                "start_timeout",
                f"The session's Jupyter server did not answer within {self.http_timeout} seconds. "
                "Start it again; if it happens again, tell your admin.",
            )

    async def _end_leftover(self) -> None:
        """A session of this very server that is not over yet: of an interrupted start, or of an
        earlier life of the Hub."""
        site = self.site
        left = await site.db(site.store.live_of, self.user.name, self.name)
        if left is not None:
            self.log.warning("%s: ending what is left of session %s", self._log_name, left.id)
            await site.end(left.id, "restarted", "The same server was started again.")
            left = await site.db(site.store.get, left.id)
            if not left.status.is_final:
                raise LaunchError(
                    "server_in_use",
                    f"Your last session here is still being ended: its machine, {left.agent}, does "
                    "not answer. Start one under another name, or wait until it is back.",
                )

    async def _cleaned_up(self) -> None:
        """Until nothing is left of a start that was given up."""
        cleanup, self._cleanup = self._cleanup, None
        if cleanup is not None:
            # Its failure is in the log already, and what it left is the reconciler's.
            await asyncio.wait([asyncio.shield(cleanup)])

    async def _abandon(self, error: BaseException) -> None:
        await self.settle()
        if self._submitting is not None and self._session is None:
            (made,) = await asyncio.gather(self._submitting, return_exceptions=True)
            self._session = made if isinstance(made, Session) else None
        if self._session is None:
            return
        code, reason = _why(error)
        self.log.info("%s: session %s is given up: %s", self._log_name, self._session.id, reason)
        await self.site.end(self._session.id, code, reason)
        self.clear_state()

    def _for_people(self, error: BaseException) -> BaseException:
        if isinstance(error, (LaunchError, EngineError)):
            code, reason = _why(error)
            return SessionSpawnError.failed(LaunchError(code, reason))
        if isinstance(error, HTTPError):
            return error
        self.log.error("%s: an unforeseen failure", self._log_name, exc_info=error)
        return SessionSpawnError.failed(LaunchError(*_why(error)))

    # ---- running ------------------------------------------------------------------------------

    async def poll(self) -> int | None:
        """None while the session starts or runs, else its exit code."""
        raise NotImplementedError

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Each step of the start with its time; every open page reads it from the beginning."""
        async for event in self._story:
            yield event

    def clear_state(self) -> None:
        super().clear_state()
        self._known_id = ""
        # The Hub's first step of a start, long before start(): pages may follow it from here on.
        self._begin_story()

    def _begin_story(self) -> None:
        if self._story.over:
            self._story = Story()

    async def session_ended(self, exit_code: int | None, reason: str) -> None:
        """The container ended by itself: what is left of it goes, and the history says why."""
        session = await self.recall()
        if session is not None:
            await self.site.end(session.id, "exited", reason, exit_code)
        self._session = None

    async def _find_session(self) -> Session | None:
        site = self.site
        return await site.db(site.store.live_of, self.user.name, self.name)

    async def stop(self, now: bool = False) -> None:
        """Ends the session: container and scratch go, folders stay. Fine to call twice."""
        await self._cleaned_up()
        await self.settle()
        session = await self.recall()
        if session is not None:
            await self.stop_gently(session, now)
            await self.site.end(session.id, "user_requested", ENDED)
        self._session = None
        self.clear_state()

    async def stop_gently(self, session: Session, now: bool) -> None:
        """Gives the server a chance to end by itself."""
        raise NotImplementedError

    def get_state(self) -> dict[str, Any]:
        state: dict[str, Any] = super().get_state()
        if self._session is not None:
            state["session_id"] = self._session.id
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state or {})
        self._known_id = str((state or {}).get("session_id", ""))

    @property
    def will_resume(self) -> bool:
        """Never: the next start of this server is another session, with a token of its own."""
        return False

    async def recall(self) -> Session | None:
        """The live session of this server, after a restart of the Hub too, and also where the
        user was renamed since it began."""
        known = self._session.id if self._session is not None else self._known_id
        row = None
        if known:
            try:
                row = await self.site.db(self.site.store.get, known)
            except NotFound:
                self.log.debug("Session %s is not there any more", known)
        else:
            row = await self._find_session()
        self._session = None if row is None or row.status.is_final else row
        return self._session

    async def move_quietly(self, session_id: str, to: Status, phase: Phase, **more: Any) -> None:
        """A status change that may have been made already."""
        try:
            await self.site.move(session_id, to, phase, **more)
        except IllegalTransition as error:
            self.log.debug("%s: %s", self._log_name, error)


def _why(error: BaseException) -> tuple[str, str]:
    """Reason code and sentence of what ended a start."""
    if isinstance(error, LaunchError):
        return error.reason, error.message
    if isinstance(error, ImageMissing):
        return "image_missing", (
            "The image of this session is not on its machine and cannot be downloaded. "
            "Choose another environment, or tell your admin."
        )
    if isinstance(error, AgentUnreachable):
        return "start_failed", (
            "The machine of this session does not answer. Start it again in a minute."
        )
    if isinstance(error, asyncio.CancelledError):
        return "cancelled", "It was cancelled while it started."
    return "start_failed", (
        "The session could not be started. Start it again; if it happens again, tell your admin."
    )
