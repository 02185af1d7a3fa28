"""Tells who is at work inside a session that it will be ended; see `service.idle.telling`."""

from __future__ import annotations

import asyncio

from ...site.runtime import Site
from ...store import Unavailable
from ..idle.telling import SOON, Teller
from ..idle.watched import Watched
from ..ways.tunnel import Place, Unreachable
from .idle import IdleWorker


class TellingWorker:
    """The part of the service that tells sessions' servers of their end."""

    def __init__(self, site: Site, idle: IdleWorker) -> None:
        self.site, self.idle = site, idle
        self.teller = Teller(site, self._place)

    async def run(self) -> None:
        """The endless work."""
        try:
            while True:
                if self.idle.watch is not None:
                    try:
                        await self.teller.once(self.idle.watch)
                    except Unavailable as error:
                        self.site.log.warning("No session can be told of its end: %s", error)
                await asyncio.sleep(SOON)
        finally:
            await self.teller.close()

    async def _place(self, watched: Watched) -> Place | None:
        """Where a session's server is now; None for one that cannot be told."""
        kernels = await self.site.db(self.site.store.kernels, watched.session.id)
        try:
            return Place.of_session(watched.session, kernels)
        except Unreachable:
            return None
