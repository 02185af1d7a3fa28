"""Runs schedule passes and tells those who wait how it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from .._within import within
from ..model.errors import LaunchError
from ..model.status import Status
from ..scheduling.snapshot import EndCode
from ..store import Session
from .clock import utcnow

if TYPE_CHECKING:
    from .runtime import Site

_IN_LINE = frozenset({Status.PENDING, Status.SCHEDULED})
PASS_INTERVAL = 5.0  # seconds between passes that nobody asked for, while somebody waits
AGENTS_INTERVAL = 15.0  # seconds between two looks at what the agents have


@dataclass
class _Waiter:
    tell: Callable[[Session], None]
    placed: asyncio.Future[Session] = field(default_factory=lambda: asyncio.Future())


class Queue:
    """Passes over the pending sessions: at once when kicked, else on a slow timer."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._kicked = asyncio.Event()
        self._waiting: dict[str, _Waiter] = {}

    def kick(self) -> None:
        """Something was submitted or freed: run a pass as soon as may be."""
        self._kicked.set()

    async def wait(self, session: Session, tell: Callable[[Session], None]) -> Session:
        """Until the session has its place; `tell` gets every change of its reason or position.

        Raises `LaunchError` when it is ended while it waits.
        """
        waiter = self._waiting[session.id] = _Waiter(tell)
        self.kick()
        try:
            return await waiter.placed
        finally:
            del self._waiting[session.id]

    async def run(self) -> None:
        """The endless work; one failing pass does not end it."""
        while True:
            try:
                await within(PASS_INTERVAL, self._kicked.wait())
            except asyncio.TimeoutError:
                if not self._waiting:
                    continue
            self._kicked.clear()
            try:
                await self.once()
            except Exception:
                self.site.log.exception("A schedule pass failed; it is tried again")
                await asyncio.sleep(1)

    async def watch_agents(self) -> None:
        """Endless too, and beside the passes: an agent that is slow to answer delays nobody."""
        while True:
            await asyncio.sleep(AGENTS_INTERVAL)
            try:
                await self.site.report_agents()
            except Exception:
                self.site.log.exception("The agents could not be noted; it is tried again")
            self.kick()

    async def once(self) -> None:
        """One pass, and the news to those who wait."""
        site = self.site
        await site.db(site.store.run_pass, site.policies, site.catalog, utcnow())
        # Before the rows are read: whoever comes later has no row in them yet.
        waiting = list(self._waiting.items())
        if not waiting:
            return
        rows = await site.db(site.store.get_many, [session_id for session_id, _ in waiting])
        for session_id, waiter in waiting:
            self._inform(waiter, rows.get(session_id))

    @staticmethod
    def _inform(waiter: _Waiter, row: Session | None) -> None:
        if waiter.placed.done():
            return
        if row is None or row.status not in _IN_LINE:
            waiter.placed.set_exception(_why_ended(row))
        elif row.status is Status.SCHEDULED:
            waiter.placed.set_result(row)
        else:
            waiter.tell(row)


def _why_ended(row: Session | None) -> LaunchError:
    """What is told to whoever waited for a session that is in line no more."""
    if row is not None and row.reason_code in get_args(EndCode):
        return LaunchError(row.reason_code, row.reason)
    message = "It was cancelled while it was in line. Start it again when you like."
    return LaunchError("cancelled", message)
