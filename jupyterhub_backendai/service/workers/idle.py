"""Ends sessions whose idle checks say so, at the time that people were told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from ..._within import within
from ...model.status import Status
from ...model.usage import Step
from ...scheduling.idle import Verdict
from ...site.runtime import Site
from ...store import NotFound, Session, Unavailable
from ..hub import HubClient, HubError
from ..idle.asking import Asker, Target
from ..idle.clock import Sources
from ..idle.watch import Watch
from ..idle.watched import Watched
from ..idle.words import reason
from ..ways.tunnel import Place, Unreachable

NOTE_EVERY = 60.0  # seconds between two writes of what is to outlive this process
ENDS_AT_ONCE = 8


class IdleWorker:
    """The part of the service that ends sessions which are idle. `watch`: None until it knows
    what there is."""

    def __init__(
        self, site: Site, hub: HubClient, interval: float, sources: Sources | None = None
    ) -> None:
        self.site, self.hub, self.interval = site, hub, interval
        self._sources = sources or Sources()
        self.watch: Watch | None = None
        self.asker = Asker()
        self._ending: set[str] = set()
        self._sampled = asyncio.Event()
        self._ends = asyncio.Semaphore(ENDS_AT_ONCE)
        self._noted: float | None = None
        self._places: dict[str, Place | None] = {}

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
        self._places = {id: place for id, place in self._places.items() if id in watch.sessions}
        await self.ask(watch)
        await watch.look()
        for watched, verdict in watch.due():
            if watched.session.id not in self._ending:
                self._ending.add(watched.session.id)
                self.site.background(self._end(watched, verdict))
        now = watch.clock.now()
        if self._noted is None or now - self._noted >= NOTE_EVERY:
            await watch.note()
            self._noted = now

    async def ask(self, watch: Watch) -> None:
        """Asks the servers of sessions whose turn it is when they were used."""
        wanted = {one.session.id: one for one in watch.to_ask()}
        if not wanted:
            return
        targets = [
            Target(id, place)
            for id, one in wanted.items()
            if (place := await self._place(one.session)) is not None
        ]
        began = watch.clock.now()
        for id, answer in (await self.asker.ask(targets)).items():
            # As of when it was asked: so much is certain.
            wanted[id].hear(began - answer.used, began - answer.asked, began)

    async def _place(self, session: Session) -> Place | None:
        """Where a session's server is; None for one that cannot be asked."""
        if session.id not in self._places:
            kernels = await self.site.db(self.site.store.kernels, session.id)
            try:
                self._places[session.id] = Place.of_session(session, kernels)
            except Unreachable:
                self._places[session.id] = None
        return self._places[session.id]

    async def _end(self, watched: Watched, verdict: Verdict) -> None:
        session = watched.session
        try:
            async with self._ends:
                now = await self.site.db(self.site.store.get, session.id)
                if now.status is not Status.RUNNING:
                    return
                text = reason(verdict)
                self.site.log.info("Session %s of %s: %s", session.id, session.owner, text)
                await self.site.end(session.id, f"idle_{verdict.check.name}", text)
        except NotFound:
            return
        finally:
            self._ending.discard(session.id)
        try:
            await self.hub.stop(session.owner, session.server_name, remove=True)
        except HubError as error:
            self.site.log.warning("The Hub was not told of the end of %s: %s", session.id, error)
