"""Watches batch sessions: lets their commands start, notes how they end, and ends the sessions.

What came of a command is in its container until the session's end, so nothing is lost while this,
the Hub or both are away: the next look finds it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from ...engine.base import ContainerGone, EngineError
from ...engine.batch import GRACE, TIMED_OUT
from ...model.status import Status
from ...site.batch import attend, reason_of
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import NotFound, Session, SessionResult
from ..hub import HubClient, HubError

LOOK_INTERVAL = 1.0  # seconds between two looks at all that run
AT_ONCE = 8  # looks at the same time, so that the engine has threads left for others
OVERDUE = timedelta(seconds=GRACE + 60)  # after which a runner that should have ended it is dead
ACTIVE_INTERVAL = timedelta(minutes=5)  # between two words to the Hub that somebody works there


class BatchWorker:
    """The part of the service that sees to batch sessions while they run."""

    def __init__(self, site: Site, hub: HubClient) -> None:
        self.site, self.hub = site, hub
        self._room = asyncio.Semaphore(AT_ONCE)
        self._told_active = utcnow() - ACTIVE_INTERVAL

    async def run(self) -> None:
        """The endless work."""
        while True:
            await self.once()
            await asyncio.sleep(LOOK_INTERVAL)

    async def once(self) -> None:
        """One look at each batch session that runs."""
        batch = await self.site.db(self.site.store.live, {Status.RUNNING}, type="batch")
        await asyncio.gather(*(self._guarded(session) for session in batch))
        if batch and utcnow() - self._told_active >= ACTIVE_INTERVAL:
            self._told_active = utcnow()
            await self._say_active(batch)

    async def _guarded(self, session: Session) -> None:
        """One that cannot be looked at keeps nobody from the others."""
        async with self._room:
            try:
                await self._look_at(session)
            except EngineError as error:
                self.site.log.debug("Session %s cannot be looked at: %s", session.id, error)
            except NotFound:
                return
            except Exception:
                self.site.log.exception("Looking at session %s failed", session.id)

    async def _look_at(self, session: Session) -> None:
        try:
            outcome = await attend(self.site, session)
        except ContainerGone:
            await self._end(session, "container_gone", "Its container is gone.")
            return
        if outcome is not None:
            await self._end(session, *reason_of(outcome))
        elif _overdue(session):
            reason = "Its command took longer than its time limit and could not be ended in time."
            await self._end(
                session, "task_timeout", reason,
                exit_code=TIMED_OUT, result=SessionResult.FAILURE,
            )  # fmt: skip

    async def _end(
        self,
        session: Session,
        code: str,
        reason: str,
        exit_code: int | None = None,
        result: SessionResult | None = None,
    ) -> None:
        """Ends it here, so that it is over while the Hub is away too, and tells the Hub."""
        await self.site.end(session.id, code, reason, exit_code, result)
        self.site.background(self._tell_hub(session))

    async def _tell_hub(self, session: Session) -> None:
        """The Hub notices by itself too, when it next looks at that server."""
        try:
            await self.hub.stop(session.owner, session.server_name, remove=True)
        except HubError as error:
            self.site.log.warning("The Hub was not told of the end of %s: %s", session.id, error)

    async def _say_active(self, batch: list[Session]) -> None:
        """A batch session has no browser; whatever culls servers for that must not take it."""
        for session in batch:
            try:
                await self.hub.note_activity(session.owner, [session.server_name], utcnow())
            except HubError as error:
                # It ended meanwhile, or the Hub is away, which is told elsewhere.
                self.site.log.debug("Session %s is not said to be active: %s", session.id, error)


def _overdue(session: Session) -> bool:
    batch, began = session.request.batch, session.batch_started_at
    if batch is None or batch.timeout is None or began is None:
        return False
    return utcnow() > began + timedelta(seconds=batch.timeout) + OVERDUE
