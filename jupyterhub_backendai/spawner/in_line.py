"""A start's place in line: how a session gets in, waits, goes back, and is left to the queue."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timezone
from functools import partial
from typing import Any

from .._within import within
from ..engine.base import AgentUnreachable, EngineError
from ..model.errors import LaunchError, Problem, RequestError
from ..model.resolve import SessionRequest
from ..model.rules import check_session_name
from ..model.status import IN_LINE, PHASES, Phase, Status
from ..model.steps import Step
from ..site import ending
from ..site.clock import utcnow
from ..site.handing_over import SESSION_HEADER, may_take, queued_sentence
from ..site.naming import random_name
from ..site.rules import OTHER_OWNER, OWNER_GONE
from ..store import Filter, Session, Unavailable
from .doors import OptionDoors
from .errors import SessionSpawnError, in_log
from .story import Story

AT_ONCE = 2.0  # seconds to see whether there is a place, for one that will hardly have it
MOST_SHOWN = 50  # sessions in line on one page
GONE = "It does not wait in line any more."


@dataclass(frozen=True, slots=True)
class Waiting:
    """A session in line that no start holds, as pages show it."""

    id: str
    name: str
    server: str
    position: int | None
    reason: str

    @property
    def says(self) -> str:
        """Its place in line, as a sentence."""
        return queued_sentence(self.position)


class HandedOver(Exception):
    """The start is over and the session goes on waiting. `error` says so to its owner."""

    def __init__(self, error: SessionSpawnError) -> None:
        super().__init__(error.message)
        self.error = error


class InLine(OptionDoors):
    """The part of a spawner that has to do with the queue."""

    name: Any
    handler: Any
    log: Any
    _log_name: Any
    _story: Story
    _attempt: Any

    async def queued(self, options: dict[str, Any]) -> Session | None:
        site, asked_by_queue = self.site, self._asked_by_queue()
        waiting = await site.db(site.store.live_of, self.user.name, self.name)
        if waiting is not None and await self._is_older_than_its_owner(waiting):
            # What rested rests again: it is for an admin to say whose it is.
            kept = await site.db(site.store.is_kept, waiting.id)
            why = ("other_owner", OTHER_OWNER) if kept else ("owner_gone", OWNER_GONE)
            await site.end(waiting.id, *why)
            waiting = None
        # One of this very run has a start, or is being ended because it was given up.
        ours = waiting is not None and waiting.driver == site.run_id
        if not ours and may_take(waiting, options or {}, asked_by_queue):
            return waiting
        if asked_by_queue:
            raise SessionSpawnError.failed(LaunchError("cancelled", GONE))
        return None

    async def _is_older_than_its_owner(self, session: Session) -> bool:
        """Whether it waits by itself, or rested until it was resumed, since before the account was
        made, for whoever had one of that name then."""
        site = self.site
        if session.status not in IN_LINE or session.driver is not None:
            return False
        made = self.user.orm_user.created.replace(tzinfo=timezone.utc)
        rest, since = await site.db(site.store.hibernation, session.id), session.submitted_at
        if rest is not None:  # since then whoever resumes it may be another one
            since = min(rest.vouched_at or rest.made_at, since)
        return bool(since < made)

    def _asked_by_queue(self) -> str:
        """Id of the session that the service asks to be started, and no other."""
        if self.handler is None:
            return ""
        return str(self.handler.request.headers.get(SESSION_HEADER, ""))

    async def _take(self, waiting: Session) -> Session:
        """Makes a session of the queue that of this start."""
        store = self.site.store
        held_by = waiting.driver
        taken = await self.site.db(store.claim, waiting.id, self.site.run_id, held_by=held_by)
        if taken is None:
            raise LaunchError("cancelled", GONE)
        return taken

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
                policies=site.policies,
                catalog=site.catalog,
                now=utcnow(),
            )
        except RequestError as error:
            raise self.refused(error) from None

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

        patience = self.patience
        if self.site.configuration.service and (session.not_before or session.request.depends_on):
            patience = min(patience, AT_ONCE)  # nobody looks at a page until that comes
        try:
            return await within(patience, self.site.queue.wait(session, tell))
        except asyncio.TimeoutError:
            if self.site.configuration.service:
                raise await self._hand_over(session) from None
            raise LaunchError(
                "queue_timeout",
                "There was no room in time, so this session was taken out of line. "
                "Ask for less, or start it again later.",
            ) from None

    async def _hand_over(self, session: Session) -> HandedOver:
        """Leaves the session to the queue: it keeps its place, and the service starts it."""
        site = self.site
        session = await site.db(site.store.get, session.id)
        error = SessionSpawnError.queued(queued_sentence(session.position))
        self.log.info("%s: session %s goes on waiting by itself", self._log_name, session.id)
        await site.db(site.store.release, session.id, site.run_id)
        site.queue.follow(session, partial(self._waits_at, error), error.say)
        self._story.tell("queued", "In line", error.message, session.position, handed_over=True)
        return HandedOver(error)

    def _waits_at(self, error: SessionSpawnError, row: Session) -> None:
        error.say(queued_sentence(row.position))

    async def waiting(self) -> list[Waiting]:
        """For pages: the owner's sessions that wait by themselves, longest first. They are in the
        database, so that a Hub that was restarted knows of them too."""
        wanted = Filter(owner=self.user.name, statuses=IN_LINE)
        try:
            rows, _ = await self.site.db(
                self.site.store.list_sessions, wanted, descending=False, limit=MOST_SHOWN
            )
        except Unavailable as error:
            self.log.debug("%s", error)
            return []
        return [
            Waiting(row.id, row.name, row.server_name, row.position, row.reason)
            for row in rows
            if row.driver is None
        ]

    async def _end_leftover(self) -> None:
        """A session of this very server that is not over yet: of an interrupted start, or of an
        earlier life of the Hub."""
        site = self.site
        left = await site.db(site.store.live_of, self.user.name, self.name)
        if left is None:
            return
        # Also where that came to nothing: its server is stopped, and it is hibernated once more.
        rests = await ending.to_rest(site, left) is not None
        if not rests and left.status is not Status.HIBERNATED:
            self.log.warning("%s: ending what is left of session %s", self._log_name, left.id)
            await site.end(left.id, "restarted", "The same server was started again.")
            left = await site.db(site.store.get, left.id)
        if rests or left.status is Status.HIBERNATED:
            it = "is being hibernated" if rests else "is hibernated"
            raise LaunchError(
                "hibernated",
                f"Your session {left.name} of this server {it}. Resume it or end it on the page of "
                f"your sessions{', when it is' if rests else ''}, or start one under another name.",
            )
        if not left.status.is_final:
            raise LaunchError(
                "server_in_use",
                f"Your last session here is still being ended: its machine, {left.agent}, does "
                "not answer. Start one under another name, or wait until it is back.",
            )

    async def _back_in_line(self, session: Session, error: EngineError) -> Session:
        """A place on another agent, or on this one when it is better. Raises the error again when
        it was tried often enough."""
        site, steps = self.site, self._attempt.steps
        self.log.warning("%s: %s", self._log_name, in_log(str(error), 1000))
        code, reason = "agent_unreachable", f"{session.agent} does not answer."
        if not isinstance(error, AgentUnreachable):
            code, reason = "engine_error", f"It could not be started on {session.agent}."
            await ending.clear(site, session, steps)
        # What may have been made where nobody answers is the reconciler's, or the next try's.
        await site.report_agents()
        status = (await site.db(site.store.get, session.id)).status
        session = await site.db(
            site.store.retry_or_give_up,
            session.id,
            phase=PHASES.get(status, Phase.START),
            error_code=code,
            reason=reason,
            now=utcnow(),
            sub_steps=steps.taken(),
        )
        if session.status is not Status.PENDING:
            raise error
        self._story.tell("queued", "Back in line", reason)
        return session

    async def _clear_earlier(self, session: Session) -> None:
        """Removes what an earlier try made on this very agent before it broke off. The reconciler
        cannot tell it from what this one makes. Raises `EngineError`."""
        site = self.site
        if await site.db(site.store.was_retried, session.id) and session.agent:
            with self._attempt.steps.of(Step.CLEAR_EARLIER):
                await ending.remove(site, session.agent, session.id)
