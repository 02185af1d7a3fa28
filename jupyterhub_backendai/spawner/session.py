"""The way of a session inside the Hub, whatever the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from jupyterhub.spawner import Spawner
from jupyterhub.utils import url_path_join

from .._within import within
from ..engine.base import EngineError, ImageMissing
from ..model.errors import LaunchError
from ..model.resolve import SessionRequest
from ..model.status import IN_LINE, IllegalTransition, Phase, Status
from ..model.steps import Step
from ..site import ending
from ..site.clock import utcnow
from ..site.options import summary
from ..site.steps import Steps
from ..store import NotFound, Session, Unavailable
from .doors import PREPARE_TIMEOUT
from .errors import SessionSpawnError, for_people, in_log, log_in_one_line, why
from .in_line import HandedOver, InLine
from .ready import answers_now, server_url, wait_until_ready
from .resuming import resumed
from .still import until_it_goes_on
from .story import Story, Tried

# The Hub does not say whether it was the owner, an admin, or its own end.
ENDED = "It was ended through the Hub."
T = TypeVar("T")
LOG_LINES = 15  # of a server that died at its start, for the log and its owner
CLEANUP_WAIT = 60  # seconds that a start or stop waits for the clean-up of the start before it


@dataclass
class Attempt:
    """One start, as its clean-up must know it: the spawner may be busy with the next by then."""

    submitting: asyncio.Future[Session] | None = None
    launching: asyncio.Future[Any] | None = None  # calls to the engine that go on to their end
    steps: Steps = field(default_factory=Steps)  # of the phase that it is in

    async def settled(self) -> None:
        """Until no call to the engine is in flight any more; how it ended does not matter."""
        if self.launching is not None:
            await asyncio.wait([self.launching])

    async def submitted(self) -> Session | None:
        """The session that was submitted, once it is known whether there is one."""
        if self.submitting is None:
            return None
        await asyncio.wait([self.submitting])
        failed = self.submitting.cancelled() or self.submitting.exception() is not None
        return None if failed else self.submitting.result()


class SessionSpawner(InLine, Spawner):
    """Submits a session, waits for its place, has the engine run it, and ends it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        log_in_one_line(self.log)
        self._story = Story()
        self._session: Session | None = None
        self._starting = False
        self.session_summary = ""  # a line on the page that is shown while it starts
        self._attempt = Attempt()
        # Of the session that a Hub before this one had running here.
        self._known_id, self._known_since = "", ""

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

    # ---- start --------------------------------------------------------------------------------

    async def start(self) -> tuple[str, int]:
        """Submits the session, waits for its place, and starts it there.

        Whatever interrupts it, and whenever: nothing of it is left behind.
        """
        site = self.site
        self._starting = True
        self._attempt = attempt = Attempt()
        session: Session | None = None
        self._begin_story()
        try:
            await self._alone()
            self._session = None
            await site.ready()
            request = await self.accepted()
            queued, self._queued = self._queued, None
            if queued is None:
                await self._end_leftover()
            # Shielded: what its thread commits must be known to the clean-up, cancelled or not.
            attempt.submitting = asyncio.ensure_future(
                self._submit(request) if queued is None else self._take(queued)
            )
            self._session = session = await asyncio.shield(attempt.submitting)
            whole = queued is not None or session.asked == self.user_options
            self._story.tried = Tried(session.id, whole)
            site.driven.add(session.id)
            return await self._start_session(session, request)
        except asyncio.CancelledError as error:
            # The Hub gives a cancelled start one second before it stumbles over it.
            self._abandon(attempt, error)
            raise
        except HandedOver as handed:
            self._session = None
            raise handed.error from None
        except Exception as error:
            self._abandon(attempt, error)
            await site.cleanups.over(self._server_key, CLEANUP_WAIT)
            told = for_people(error, self.log, self._log_name)
            if isinstance(told, SessionSpawnError):
                told.tried = self._story.tried
            raise told from error
        finally:
            self._starting = False
            self._request = None
            if session is not None:
                site.driven.discard(session.id)
            self._story.end()

    async def _start_session(self, session: Session, request: SessionRequest) -> tuple[str, int]:
        self.session_summary = summary(request, self.site_catalog())
        self._story.tell("asked", "Asked", self.session_summary)
        while True:
            self._session = session = await self._in_line(session)
            self._story.tell("placed", "Admitted", f"A place on {session.agent} is yours.")
            try:
                return await self._on_agent(session, request)
            except ImageMissing:
                raise
            except EngineError as error:
                await self._attempt.settled()
                self._session = session = await self._back_in_line(session, error)

    async def _on_agent(self, session: Session, request: SessionRequest) -> tuple[str, int]:
        await self._done(session.id, Status.PREPARING)
        await self._clear_earlier(session)
        groups = sorted(group.name for group in self.user.orm_user.groups)
        resuming = resumed(self.site, session, request, groups)
        request = await self._within(PREPARE_TIMEOUT, resuming)
        # An image may be downloaded here: its time is its own, not that of the start.
        await self._within(PREPARE_TIMEOUT, self.prepare(session, request))
        await self._done(session.id, Status.CREATING)
        return await self._within(self._launch_timeout, self._launched(session, request))

    async def _done(self, session_id: str, to: Status) -> Session:
        """On to the next status: what was done in the one before went well."""
        steps = self._attempt.steps.taken()
        return await self.site.db(
            self.site.store.advance, session_id, to, now=utcnow(), sub_steps=steps
        )

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
        with self._attempt.steps.of(Step.SERVER_ANSWERS):
            await self._until_it_answers(ip, port)
        self._session = await self._done(session.id, Status.RUNNING)
        self._story.tell("ready", "Ready", "This page takes you to your session.")
        self.form_launched()
        return ip, port

    async def _until_it_answers(self, ip: str, port: int) -> None:
        """Until the server answers. Raises `LaunchError` after the Hub's `http_timeout`."""
        url = server_url(ip, port, url_path_join(self.server.base_url, "api"))
        if not await wait_until_ready(url, self.http_timeout, self.check_alive):
            self.log.error("%s does not answer at %s", self._log_name, url)
            raise LaunchError(
                "start_timeout",
                f"The session's Jupyter server did not answer within {self.http_timeout} seconds. "
                "Start it again; if it happens again, tell your admin.",
            )

    @property
    def _server_key(self) -> tuple[str, str]:
        return (self.user.name, self.name)

    async def _alone(self) -> None:
        """Until nothing is left of a start that was given up."""
        if not await self.site.cleanups.over(self._server_key, CLEANUP_WAIT):
            raise LaunchError(
                "server_in_use",
                "Your last session here is still being ended. Start it again in a minute, or start "
                "one under another name.",
            )

    def _abandon(self, attempt: Attempt, error: BaseException) -> None:
        """Has everything of one start removed in the background. It uses nothing of this spawner
        that the next start may have changed by then."""
        if attempt.submitting is None:
            return  # it has come to nothing yet
        site, name = self.site, self._log_name
        code, reason = why(error)

        async def clean_up() -> None:
            await attempt.settled()
            session = await attempt.submitted()
            if site.stopping and site.configuration.service:
                return  # nobody gave it up: the next run of the Hub goes on with it
            if session is not None:
                self.log.info("%s: session %s is given up: %s", name, session.id, reason)
                if not isinstance(error, asyncio.CancelledError):
                    steps = attempt.steps.taken()
                    await ending.note_failure(site, session.id, code, reason, steps)
                await site.end(session.id, code, reason)

        site.cleanups.add(self._server_key, clean_up)

    # ---- running ------------------------------------------------------------------------------

    async def poll(self) -> int | None:
        """None while the session starts or runs, else its exit code."""
        raise NotImplementedError

    async def until_it_goes_on(self, url: str) -> None:
        """Until no image is being made of the session, which stands still meanwhile. A Hub that
        asks has just begun."""
        session = self._session
        if session is None:
            return
        # By itself it starts its service after ten seconds, whatever it has looked at by then.
        first = int(self.config.get("JupyterHub", {}).get("init_spawners_timeout", 0)) < 0
        nobody = first or not self.site.configuration.service
        answers = partial(answers_now, url_path_join(url, "api"))
        await until_it_goes_on(self.site, session, answers, nobody)

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Each step of the start with its time; every open page reads it from the beginning."""
        async for event in self._story:
            yield event

    @property
    def told(self) -> dict[str, dict[str, Any]]:
        """The newest news of each step of a start that is under way, for its page."""
        return {} if self._story.over else self._story.told

    def clear_state(self) -> None:
        super().clear_state()
        self._known_id, self._known_since = "", ""
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
        await self.site.cleanups.over(self._server_key, CLEANUP_WAIT)
        await self._attempt.settled()
        try:
            session = await self.recall()
            if session is not None:
                grace = 0 if now else ending.STOP_GRACE
                await self.site.end(session.id, "user_requested", ENDED, grace=grace)
        except Unavailable as error:
            # A session whose server the Hub does not have any more is ended by the reconciler.
            self.log.error("%s: ended once it can be: %s", self._log_name, in_log(str(error)))
        self._session = None
        self.clear_state()

    async def delete_forever(self) -> None:
        """The server goes for good: a session of it that still waits is not to start it again."""
        waiting = await self._find_session()
        if waiting is None or waiting.status not in IN_LINE:
            return
        # One that waits to be resumed has no server: this is the one before it rested.
        if not await self.site.db(self.site.store.is_kept, waiting.id):
            await self.site.end(waiting.id, "user_requested", "Its server was removed.")

    def get_state(self) -> dict[str, Any]:
        state: dict[str, Any] = super().get_state()
        if self._session is not None:
            state["session_id"] = self._session.id
            state["since"] = _since(self._session)
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state or {})
        self._known_id = str((state or {}).get("session_id", ""))
        self._known_since = str((state or {}).get("since", ""))

    @property
    def will_resume(self) -> bool:
        """Never: the next start of this server is another session, with a token of its own."""
        return False

    async def recall(self) -> Session | None:
        """The live session of this server, after a restart of the Hub too, and also where the
        user was renamed since it began. One that has rested and was resumed since is not: that
        life of it is another server's."""
        known, since = self._known_id, self._known_since
        if self._session is not None:
            known, since = self._session.id, _since(self._session)
            self._known_id, self._known_since = known, since  # also when it is over
        row = None
        if known:
            try:
                row = await self.site.db(self.site.store.get, known)
            except NotFound:
                self.log.debug("Session %s is not there any more", known)
        else:
            row = await self._find_session()
        over = row is None or row.status.is_final or row.status is Status.HIBERNATED
        if row is not None and known and since:
            over = over or _since(row) != since
        self._session = None if over else row
        return self._session

    def show_name(self, session: Session) -> None:
        """Has the Hub show a session by its name, which may have been changed since it began. The
        Hub's own server has no name of its own there."""
        if self.name and self.orm_spawner.display_name != session.name:
            self.orm_spawner.display_name = session.name
            self.db.commit()

    async def move_quietly(self, session_id: str, to: Status, phase: Phase, **more: Any) -> None:
        """A status change that may have been made already."""
        try:
            await self.site.move(session_id, to, phase, **more)
        except IllegalTransition as error:
            self.log.debug("%s: %s", self._log_name, error)


def _since(session: Session) -> str:
    """When this life of a session began: a resumed one has been submitted anew."""
    return session.submitted_at.isoformat()
