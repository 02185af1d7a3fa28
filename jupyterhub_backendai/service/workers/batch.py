"""Watches batch sessions: lets their commands start, notes how they end, and ends the sessions.

What came of a command is in its container until the session's end, so nothing is lost while this,
the Hub or both are away: the next look finds it. Each session is looked at by itself: an agent
that hangs, or an end that takes long, holds up no other's.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from functools import partial

from ...engine.base import ContainerGone, EngineError
from ...engine.batch import GRACE, TIMED_OUT
from ...model.status import Status
from ...site.batch import attend, reason_of
from ...site.clock import utcnow
from ...site.ending import Why
from ...site.runtime import Site
from ...store import NotFound, Session, SessionResult
from ..ending import tell_hub
from ..hub import HubClient, HubError, HubUnavailable

LOOK_INTERVAL = 1.0  # seconds between two looks at all that run
LOOKS_AT_ONCE, ENDS_AT_ONCE = 8, 4  # on one agent, so that it has threads left for others
OVERDUE = GRACE + 60  # seconds after which a runner that should have ended its command is dead
ACTIVE_INTERVAL = 300.0  # seconds between two words to the Hub that somebody works there
ACTIVE_RETRY = 30.0  # seconds until a Hub that did not answer is told


class BatchWorker:
    """The part of the service that sees to batch sessions while they run."""

    def __init__(self, site: Site, hub: HubClient) -> None:
        self.site, self.hub = site, hub
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._looks = defaultdict[str, asyncio.Semaphore](partial(asyncio.Semaphore, LOOKS_AT_ONCE))
        self._ends = defaultdict[str, asyncio.Semaphore](partial(asyncio.Semaphore, ENDS_AT_ONCE))
        # When a command was first seen to run here, by this process's own clock: what the clocks
        # of agents and database say of that is no measure of how long it took.
        self._seen: dict[str, float] = {}
        self._telling: asyncio.Task[None] | None = None
        self._tell_at = time.monotonic()

    async def run(self) -> None:
        """The endless work."""
        try:
            while True:
                await self.once()
                await asyncio.sleep(LOOK_INTERVAL)
        finally:
            for task in (*self._looking.values(), *([self._telling] if self._telling else ())):
                task.cancel()

    async def once(self) -> None:
        """Begins a look at each batch session that runs, where none is under way."""
        batch = await self.site.db(self.site.store.live, {Status.RUNNING}, type="batch")
        for session in batch:
            if session.id not in self._looking:
                task = self.site.background(self._guarded(session))
                self._looking[session.id] = task
                task.add_done_callback(partial(self._looked, session.id))
        running = {session.id for session in batch}
        self._seen = {key: since for key, since in self._seen.items() if key in running}
        told = self._telling is None or self._telling.done()
        if batch and told and time.monotonic() >= self._tell_at:
            self._telling = self.site.background(self._say_active(batch))

    def _looked(self, session_id: str, _: asyncio.Task[None]) -> None:
        del self._looking[session_id]

    async def _guarded(self, session: Session) -> None:
        """One that cannot be looked at is looked at again."""
        try:
            await self._look_at(session)
        except EngineError as error:
            self.site.log.debug("Session %s cannot be looked at: %s", session.id, error)
        except NotFound:
            return
        except Exception:
            self.site.log.exception("Looking at session %s failed", session.id)

    async def _look_at(self, session: Session) -> None:
        agent = str(session.agent)
        async with self._looks[agent]:
            why = await self._why_over(session.id)
        if why is None:
            return
        async with self._ends[agent]:
            # Here, so that it is over while the Hub is away too.
            await self.site.end(session.id, why.code, why.sentence, why.exit_code, why.result)
        self.site.background(tell_hub(self.site, self.hub, session))

    async def _why_over(self, session_id: str) -> Why | None:
        """None for one that goes on, or that somebody else has ended since it was listed."""
        session = await self.site.db(self.site.store.get, session_id)
        if session.status is not Status.RUNNING:
            return None
        try:
            outcome = await attend(self.site, session)
        except ContainerGone:
            return Why("container_gone", "Its container is gone.")
        if outcome is not None:
            return Why(*reason_of(outcome))
        if self._overdue(session):
            reason = "Its command took longer than its time limit and could not be ended in time."
            return Why("task_timeout", reason, TIMED_OUT, SessionResult.FAILURE)
        return None

    def _overdue(self, session: Session) -> bool:
        batch = session.request.batch
        if batch is None or batch.timeout is None or session.batch_started_at is None:
            return False
        now = time.monotonic()
        return now > self._seen.setdefault(session.id, now) + batch.timeout + OVERDUE

    async def _say_active(self, batch: list[Session]) -> None:
        """A batch session has no browser; whatever culls servers for that must not take it."""
        self._tell_at = time.monotonic() + ACTIVE_INTERVAL
        for session in batch:
            try:
                await self.hub.note_activity(session.owner, [session.server_name], utcnow())
            except HubUnavailable as error:
                # It would not answer for the others either.
                self.site.log.debug("No batch session is said to be active: %s", error)
                self._tell_at = time.monotonic() + ACTIVE_RETRY
                return
            except HubError as error:
                # It ended meanwhile.
                self.site.log.debug("Session %s is not said to be active: %s", session.id, error)
