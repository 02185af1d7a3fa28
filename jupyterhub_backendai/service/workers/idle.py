"""Ends sessions whose idle checks say so, at the time that people were told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from ..._within import within
from ...model.status import IllegalTransition, Phase, Status
from ...model.usage import Step
from ...scheduling.idle import Verdict
from ...site.runtime import Site
from ...store import NotFound, Unavailable
from ..ending import tell_hub
from ..hub import HubClient
from ..idle.asking import Asker, Line, Target
from ..idle.clock import Sources
from ..idle.resting import Rest
from ..idle.watch import Watch
from ..idle.watched import Watched
from ..idle.words import reason
from ..images import ImageDoor
from ..ways.tunnel import Place, Unreachable

NOTE_EVERY = 60.0  # seconds between two writes of what is to outlive this process
ENDS_AT_ONCE = 8
PATIENCE = 1.0  # seconds that a round waits for sessions' servers
FRESH = 2.0  # seconds; a session is ended by no answer that is older


class IdleWorker:
    """The part of the service that ends sessions which are idle. `watch`: None until it knows
    what there is."""

    def __init__(
        self,
        site: Site,
        hub: HubClient,
        interval: float,
        door: ImageDoor,
        sources: Sources | None = None,
    ) -> None:
        self.site, self.hub, self.interval = site, hub, interval
        self._rest = Rest(site, door)
        self._sources = sources or Sources()
        self.watch: Watch | None = None
        self.asker = Asker()
        self._ending: set[str] = set()
        self._sampled = asyncio.Event()
        self._ends = asyncio.Semaphore(ENDS_AT_ONCE)
        self._noted: float | None = None
        # Who took longer than a round waits is asked apart the next time, and delays nobody else.
        self._quick, self._slow = Line(self._ask_of), Line(self._ask_of)
        self.patience = PATIENCE

    async def run(self) -> None:
        """The endless work."""
        try:
            while True:
                try:
                    await self.once()
                except Unavailable as error:
                    self.site.log.warning("No idle check can be made: %s", error)
                # Right after a sample: so an end comes with the first that says so.
                with suppress(asyncio.TimeoutError):
                    await within(self.interval, self._sampled.wait())
                self._sampled.clear()
        finally:
            for line in (self._quick, self._slow):
                await line.close()
            await self.asker.close()

    def add(self, steps: Sequence[Step]) -> None:
        """What sessions have used, as it is measured."""
        if self.watch is not None:
            self.watch.add(steps)
        self._sampled.set()

    async def once(self) -> None:
        """One round. Raises `Unavailable`."""
        watch = self.watch or await Watch.begin(self.site, self.interval, self._sources)
        await watch.follow()
        self.watch = watch
        await self._ask_soon(watch)
        await watch.look()
        await self._rest.look_ahead(watch)
        for watched, _ in watch.due():
            if watched.session.id not in self._ending:
                self._ending.add(watched.session.id)
                self.site.background(self._end(watch, watched))
        now = watch.clock.now()
        if self._noted is None or watch.has_news or now - self._noted >= NOTE_EVERY:
            await watch.note()
            self._noted = now

    async def _ask_soon(self, watch: Watch) -> None:
        """Asks; servers that take their time delay no other check: what they say is of a later
        round."""
        wanted = watch.to_ask()
        self._quick.add(one.session.id for one in wanted if not one.slow)
        self._slow.add(one.session.id for one in wanted if one.slow)
        await self._quick.wait(self.patience)
        await self._slow.wait(0)

    async def _ask_of(self, session_id: str) -> None:
        watched = self.watch.sessions.get(session_id) if self.watch is not None else None
        if watched is not None:
            await self._ask(watched)

    async def _ask(self, watched: Watched) -> None:
        """Asks a session's server when it was used. Raises `Unavailable`."""
        assert self.watch is not None
        place = await self._place(watched)
        if place is None:
            return
        began, began_here = self.watch.clock.now(), time.monotonic()
        answer = await self.asker.ask(Target(watched.session.id, place))
        watched.slow = time.monotonic() - began_here > self.patience
        if answer is not None:
            # As of when it was asked: so much is certain.
            watched.hear(began - answer.used, began - answer.asked, began)
        else:
            watched.place = None  # it may be elsewhere now

    async def refresh(self, watched: Watched) -> None:
        """Asks the server of a session whose end is shown to somebody, unless it said when it was
        used a moment ago. One that takes its time is asked once more in the next round."""
        if self.watch is not None and self.watch.is_old(watched):
            watched.shown = True
            with suppress(asyncio.TimeoutError):
                await within(self.patience, self._ask(watched))

    async def _place(self, watched: Watched) -> Place | None:
        """Where a session's server is; None for one that cannot be asked."""
        if watched.place is None:
            session = watched.session
            kernels = await self.site.db(self.site.store.kernels, session.id)
            try:
                watched.place = Place.of_session(session, kernels)
            except Unreachable:
                return None
        return watched.place

    async def _end(self, watch: Watch, watched: Watched) -> None:
        session = watched.session
        try:
            if not await self._is_due_now(watch, watched):
                return
            async with self._ends:
                async with watched.deciding:
                    # It may have waited: who came back, or keeps it, since then keeps it.
                    watch.judge(watched)
                    verdict = watched.due(watch.clock.now())
                    if verdict is None:
                        return
                    refused = await self._rest.refused(watched, verdict)
                    if refused is None or (refused and self._waits(watch, watched, refused)):
                        return
                    if not await self._is_ended(watched, verdict, refused):
                        return
                await self.site.end(session.id, session.reason_code, session.reason)
        except (NotFound, IllegalTransition) as error:
            self.site.log.debug("Session %s is not ended: %s", session.id, error)
            return
        finally:
            self._ending.discard(session.id)
        await tell_hub(self.site, self.hub, session)

    def _waits(self, watch: Watch, watched: Watched, refused: str) -> bool:
        """Whether its owner is still to hear that it cannot be hibernated, and is ended."""
        now, notice = watch.clock.now(), self.site.idle.notice
        waits = watched.refuse(refused, now, notice, tried=True)
        if waits:
            id, owner = watched.session.id, watched.session.owner
            self.site.log.info("Session %s of %s cannot be hibernated: %s", id, owner, refused)
        return waits

    async def _is_due_now(self, watch: Watch, watched: Watched) -> bool:
        """Whether a check ends it, by no answer of its server that is of an earlier round."""
        now = watch.clock.now()
        verdict = watched.due(now)
        if verdict is None or verdict.check.name != "network" or watched.heard_since(now - FRESH):
            return verdict is not None
        await self._ask(watched)
        return watched.heard_since(now)  # one that says nothing now is asked again in the next

    async def _is_ended(self, watched: Watched, verdict: Verdict, refused: str) -> bool:
        """Whether its end has begun, by this check; `refused`: why it is not hibernated, if it
        should be. Raises `NotFound`, `IllegalTransition`."""
        session = watched.session
        now = await self.site.db(self.site.store.get, session.id)
        if not watched.is_of(now):
            return False
        commit = await self.site.db(self.site.store.commit_of, session.id)
        if commit is not None and not commit.status.is_final:
            return False  # an image is made of it; the end comes after that
        code, text = f"idle_{verdict.check.name}", reason(verdict)
        if refused:
            text = f"{text} It could not be hibernated: {refused}"
        await self.site.move(
            session.id, Status.TERMINATING, Phase.TERMINATE, reason_code=code, reason=text,
            message=text,
        )  # fmt: skip
        self.site.log.info("Session %s of %s: %s", session.id, session.owner, text)
        return True
