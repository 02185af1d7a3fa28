"""Runs schedule passes, and has the Hub start what was given its place.

A session that no start of the Hub works on has no driver. While it waits it needs nobody; once it
is SCHEDULED the Hub is asked to start its server, and the start there makes it its own before it
does anything. So nothing here has to be remembered: whoever is killed at whatever moment, the next
look finds what is still to be asked for, and what was asked for twice is started once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial

from ...model.status import IN_LINE, Phase, Status
from ...site.clock import utcnow
from ...site.rules import OWNER_GONE
from ...site.runtime import Site
from ...store import Changed, NotFound, Session
from ..hub import HubClient, HubRefused, HubUnavailable, NoSuchUser

LOOK_INTERVAL = 0.5  # seconds between two looks at whether anything changed
PASS_INTERVAL = 5.0  # seconds between passes that nothing asked for: start times, agents
SHARE = 10  # passes take at most a tenth of the time, however many sessions wait
AT_ONCE = 50  # starts that the Hub is asked for at the same time; it answers after ten seconds
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds before a Hub that does not answer is asked again


class QueueWorker:
    """The part of the service that starts sessions."""

    def __init__(self, site: Site, hub: HubClient) -> None:
        self.site, self.hub = site, hub
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._refusals: Counter[str] = Counter()
        self._room = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """The endless work."""
        try:
            while True:
                seq = await self.site.db(self.site.store.seq)
                took = await self.once()
                await self._until_due(seq, took * SHARE)
        finally:
            for task in self._asking.values():
                task.cancel()

    async def once(self) -> float:
        """A pass, and a start for each that has its place; how many seconds the pass took."""
        site, began = self.site, time.monotonic()
        await site.db(site.store.run_pass, site.policies, site.catalog, utcnow())
        took = time.monotonic() - began
        await self.start_placed()
        return took

    async def start_placed(self) -> None:
        """Asks for a start of each that has its place and no driver."""
        placed = await self.site.db(self.site.store.live, {Status.SCHEDULED})
        for session in placed:
            if session.driver is None and session.id not in self._asking:
                task = self.site.background(self._ask(session.id))
                self._asking[session.id] = task
                task.add_done_callback(partial(self._asked, session.id))
        await self._forget_refusals()

    def _asked(self, session_id: str, _: asyncio.Task[None]) -> None:
        del self._asking[session_id]

    async def _forget_refusals(self) -> None:
        if not self._refusals:
            return
        known = await self.site.db(self.site.store.get_many, list(self._refusals))
        for session_id in list(self._refusals):
            if session_id not in known or known[session_id].status not in IN_LINE:
                del self._refusals[session_id]

    async def _until_due(self, seq: int, least: float) -> None:
        """Until something changed after `seq` that a pass may act on, or it is time for one; not
        before `least` seconds. What another process places meanwhile is started all the same."""
        site, began, due = self.site, time.monotonic(), False
        while (passed := time.monotonic() - began) < max(PASS_INTERVAL, least):
            if due and passed >= least:
                return
            seq, news = await site.db(site.store.queue_news, seq)
            if news:
                await self.start_placed()
            if due or news:
                due = True
                await asyncio.sleep(max(0, min(LOOK_INTERVAL, least - passed)))
            else:
                due = await site.queue.kicked(LOOK_INTERVAL)

    async def _ask(self, session_id: str) -> None:
        """Until the Hub has taken the session over, or it is not to be started any more."""
        wait = FIRST_WAIT
        if refused := self._refusals[session_id]:
            await asyncio.sleep(min(LONGEST_WAIT, FIRST_WAIT * 2**refused))
        while (session := await self._placed(session_id)) is not None:
            try:
                async with self.hub.alone_with(session.owner, session.server_name), self._room:
                    await self.hub.start(
                        session.owner,
                        session.server_name,
                        session.asked or {},
                        display_name=session.name,
                        session_id=session.id,
                    )
                return  # a start that was on its way already for another reason is seen next time
            except HubUnavailable as error:
                self.site.log.warning("Session %s waits for the Hub: %s", session_id, error)
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT, 2 * wait)
            except HubRefused as error:
                await self._refused(session_id, error)
                return

    async def _placed(self, session_id: str) -> Session | None:
        """The session, if it has its place and nobody works on it."""
        try:
            session = await self.site.db(self.site.store.get, session_id)
        except NotFound:
            return None
        mine = session.status is Status.SCHEDULED and session.driver is None
        return session if mine else None

    async def _refused(self, session_id: str, error: HubRefused) -> None:
        """The Hub's no. One that came from the session's own start is dealt with already."""
        session = await self._placed(session_id)
        if session is None:
            return
        site = self.site
        site.log.error("Session %s: %s", session_id, error)
        if isinstance(error, NoSuchUser):
            await site.end(session_id, "owner_gone", OWNER_GONE)
            return
        self._refusals[session_id] += 1
        try:
            session = await site.db(
                site.store.retry_or_give_up,
                session_id,
                phase=Phase.START,
                error_code="hub_refused",
                reason=f"The Hub did not start it: {error.message}",
                now=utcnow(),
                version=session.version,
            )
        except Changed:
            return  # somebody else has gone on with it, or ended it
        if session.status is Status.TERMINATING:
            await site.end(session_id, session.reason_code, session.reason)
