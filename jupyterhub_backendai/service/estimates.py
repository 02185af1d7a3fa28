"""When a session would start: of one that waits, and of a spec that is not launched yet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar

from ..model.resolve import Context, SessionRequest
from ..site.clock import utcnow
from ..site.runtime import Site
from ..store import Ahead, Session
from .places import Places
from .schemas import Outlook

T = TypeVar("T")
SAME = 2.0  # seconds for which one look at the queue is good enough
MOST, MOST_OF_ALL = 4, 1000  # estimates that one caller may wait for at a time, and all of them


class Estimates:
    """One estimate at a time, on a thread of its own: each may compute for a second, and what
    people do with their sessions waits for none of them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="backendai-estimates")
        told = "You wait for other estimates already. Ask again when they are there."
        self.waiting = Places(MOST, MOST_OF_ALL, "too_many_estimates", told)
        self._last: tuple[float, Ahead] | None = None  # when it was looked at; the thread's own

    async def of_request(
        self, site: Site, asked_by: str, request: SessionRequest, context: Context
    ) -> Outlook:
        """What would happen to this request if it were launched now. Raises `Refused`."""

        def work() -> Outlook:
            ahead = self._look(site)
            candidate = site.store.candidate(request, context.user, ahead.made_at)
            found = ahead.forecast(request, candidate, context.policy.limits)
            starts_in = None
            if found.starts_at is not None:
                starts_in = max(0.0, found.starts_at - ahead.made_at.timestamp())
            return Outlook(
                code=found.code, text=found.reason, ahead=found.ahead, starts_in=starts_in
            )

        return await self._in_turn(asked_by, work)

    async def of_session(self, site: Site, asked_by: str, session: Session) -> datetime | None:
        """When a session that waits may start, as far as that can be known. Raises `Refused`."""
        return await self._in_turn(
            asked_by, lambda: self._look(site, session.id).start_of(session.id)
        )

    def close(self) -> None:
        """Ends the thread; what waits for it is cancelled."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _in_turn(self, asked_by: str, work: Callable[[], T]) -> T:
        with self.waiting.one(asked_by):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _look(self, site: Site, session_id: str = "") -> Ahead:
        """The queue as it was a moment ago, but not before this session was in it."""
        if self._last is not None:
            at, ahead = self._last
            if time.monotonic() - at < SAME and (not session_id or ahead.waits(session_id)):
                return ahead
        at = time.monotonic()
        ahead = site.store.ahead(site.policies, site.catalog, utcnow())
        self._last = at, ahead
        return ahead
