"""Puts right what a process that died left behind, at start and every half minute.

| the database says | the agent has | then |
|---|---|---|
| PENDING, SCHEDULED, driven by a dead run | nothing | CANCELLED: it must be started again |
| PREPARING … CREATING, driven by a dead run | anything | removed, ERROR |
| RUNNING | no running container | removed, TERMINATED |
| TERMINATING and nobody at it | anything | removed, TERMINATED or ERROR by its reason |
| no live session | something with our hub's label | removed |
| anything | no answer | left as it is, tried again |
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..engine.base import AgentUnreachable
from ..model.status import Phase, Result, Status
from ..store import Session
from .clock import utcnow

if TYPE_CHECKING:
    from .runtime import Site

INTERVAL = 30.0  # seconds; whatever is left is gone within a minute
_WAITING = {Status.PENDING, Status.SCHEDULED}
_STARTING = {Status.PREPARING, Status.PULLING, Status.CREATING}


class Reconciler:
    """Compares database and engine; see the table above."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._ending: set[str] = set()

    async def at_start(self) -> None:
        """What an earlier run of this Hub was in the middle of."""
        site = self.site
        for session in await site.db(site.store.live, driver_not=site.run_id):
            await self._stale(session)
        await self.sweep()

    async def run(self) -> None:
        """The endless work; one failing round does not end it."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                await self.unfinished()
                await self.sweep()
            except Exception:
                self.site.log.exception("Reconciling failed; it is tried again")

    async def _stale(self, session: Session) -> None:
        site = self.site
        if session.status is Status.RUNNING:
            await self._running(session)
            return
        if session.status in _WAITING:
            code = "hub_restarted"
            reason = "The Hub was restarted while this session was in line. Start it again."
        elif session.status in _STARTING:
            code = "hub_restarted"
            reason = "The Hub was restarted while this session was starting. Start it again."
        else:
            code = session.reason_code or "user_requested"
            reason = session.reason or "It was being ended when the Hub was restarted."
        await self._note(session, reason)
        await site.end(session.id, code, reason)

    async def _running(self, session: Session) -> None:
        """Whether a session that should be running is; the Hub's own poll does the rest."""
        site = self.site
        if session.agent is None or session.agent not in site.engine.hosts:
            return
        try:
            found = await site.engine.containers(session.agent)
        except AgentUnreachable:
            return
        if not any(c.session_id == session.id and c.running for c in found):
            reason = "Its container was not running any more when the Hub was started again."
            await self._note(session, reason)
            await site.end(session.id, "container_gone", reason)

    async def unfinished(self) -> None:
        """Sessions whose end was begun but could not be finished."""
        for session in await self.site.db(self.site.store.live, statuses={Status.TERMINATING}):
            if session.id not in self._ending:
                self._ending.add(session.id)
                try:
                    await self.site.end(session.id, session.reason_code, session.reason)
                finally:
                    self._ending.discard(session.id)

    async def sweep(self) -> None:
        """Containers and homes of our hub that belong to no live session."""
        site = self.site
        for agent in site.engine.hosts:
            try:
                found = await site.engine.orphans(agent)
            except AgentUnreachable as error:
                site.log.warning("%s", error)
                continue
            # Read after the listing: a session's place is noted before its container is made.
            # What it left on another agent, where it did not come up, goes too.
            rows = await site.db(site.store.live)
            live = {session.id for session in rows if session.agent == agent}
            for session_id in set(found) - live:
                removed = await site.engine.remove_session(agent, session_id)
                site.log.warning(
                    "Removed what session %s left on %s (%i containers)",
                    session_id, agent, removed,
                )  # fmt: skip

    async def _note(self, session: Session, reason: str) -> None:
        self.site.log.warning("Session %s (%s): %s", session.id, session.status.value, reason)
        await self.site.db(
            self.site.store.note,
            session.id,
            phase=Phase.RECONCILE,
            result=Result.STALE,
            message=reason,
            now=utcnow(),
        )
