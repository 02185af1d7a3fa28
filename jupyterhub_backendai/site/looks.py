"""One look at the line for all who want to see it while nothing changes in it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ..scheduling.snapshot import Snapshot
from .clock import utcnow

if TYPE_CHECKING:
    from .runtime import Site

SAME = 2.0  # seconds for which a look is good enough, where no session has changed


class Looks:
    """What a schedule pass would decide on now. Reading 2,000 that wait takes some 50 ms of a core,
    and a class that opens the form together would have it read for each."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._turn = asyncio.Lock()
        self._last: tuple[int, float, Snapshot] | None = None  # change, when, what

    async def now(self) -> Snapshot:
        """The line as it is."""
        store = self._site.store
        async with self._turn:  # who waits here has what the first of them has read
            change = await self._site.db(store.seq)
            at = time.monotonic()
            if self._last is not None:
                number, when, snapshot = self._last
                if number == change and at - when < SAME:
                    return snapshot
            snapshot = await self._site.db(
                store.snapshot, self._site.policies, self._site.catalog, utcnow()
            )
            # Of what changed meanwhile the number says that it is newer.
            self._last = change, at, snapshot
            return snapshot
