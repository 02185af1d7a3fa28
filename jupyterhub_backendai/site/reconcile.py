"""Puts right what a process that died left behind, at start and every half minute.

| the database says | the agent has | then |
|---|---|---|
| PENDING, SCHEDULED, driven by a dead run | nothing | CANCELLED: it must be started again |
| PENDING, SCHEDULED, driven by nobody | nothing | left as it is: the service will start it |
| PREPARING … CREATING, driven by a dead run | anything | removed, ERROR |
| PENDING … CREATING of this run, with no start at it | anything | removed, CANCELLED or ERROR |
| RUNNING | no running container | removed, TERMINATED |
| RUNNING on an agent not configured any more | anything | removed wherever it is, TERMINATED |
| TERMINATING and nobody at it | anything | removed, TERMINATED or ERROR by its reason |
| no live session | a container or a home (volume) with our hub's label | removed |
| anything | no answer | left as it is, tried again |
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ..engine.base import AgentUnreachable
from ..model.status import Phase, Result, Status
from ..store import NotFound, Session
from .batch import keep
from .clock import utcnow

if TYPE_CHECKING:
    from .runtime import Site

INTERVAL = 30.0  # seconds; whatever is left is gone within a minute
GONE_MACHINE = "Its machine is not part of this site any more. Start it again elsewhere."
_WAITING = {Status.PENDING, Status.SCHEDULED}


class Reconciler:
    """Compares database and engine; see the table above."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def clear_the_line(self) -> None:
        """What was in line when an earlier run of this Hub died. Asks no agent for anything."""
        site = self.site
        for session in await site.db(site.store.live, _WAITING, site.run_id):
            if session.driver is None:
                continue
            reason = "The Hub was restarted while this session was in line. Start it again."
            await self._end(session, "hub_restarted", reason)

    async def run(self) -> None:
        """The endless work: at once what an earlier run left, then a round every half minute."""
        site, first = self.site, True
        while True:
            try:
                sessions = await site.db(site.store.live)
                # One lane for each agent: one that hangs holds up no other.
                lanes = {session.agent for session in sessions} | set(site.engine.hosts)
                await asyncio.gather(*(self._lane(agent, sessions, first) for agent in lanes))
                first = False
            except Exception:
                site.log.exception("Reconciling failed; it is tried again")
            await asyncio.sleep(INTERVAL)

    async def _lane(self, agent: str | None, sessions: list[Session], first: bool) -> None:
        if agent is not None and not self.site.answers(agent):
            return
        for session in sessions:
            if session.agent == agent:
                await self._guarded(f"session {session.id}", self._look_at(session, first))
        if agent in self.site.engine.hosts:
            await self._guarded(f"agent {agent}", self._sweep(str(agent)))

    async def _guarded(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """One thing that cannot be put right keeps nothing else from it."""
        try:
            await work
        except AgentUnreachable as error:
            self.site.log.warning("%s", error)
        except Exception:
            self.site.log.exception("Reconciling %s failed; it is tried again", what)

    async def _look_at(self, session: Session, first: bool) -> None:
        site = self.site
        if session.status is Status.TERMINATING:
            # Not one that is being ended just now, which has a few seconds to end by itself.
            if first or self._is_old(session):
                await site.end(session.id, session.reason_code, session.reason)
        elif session.status is Status.RUNNING:
            if first and session.driver != site.run_id:
                await self._running(session)
        elif session.driver is None and session.status in _WAITING:
            return  # of the service, which starts it when its turn comes
        elif session.driver != site.run_id:
            reason = "The Hub was restarted while this session was starting. Start it again."
            await self._end(session, "hub_restarted", reason)
        elif session.id not in site.driven and self._is_old(session):
            reason = "Its start was interrupted. Start it again."
            await self._end(session, "start_failed", reason)

    @staticmethod
    def _is_old(session: Session) -> bool:
        return (utcnow() - session.status_changed_at).total_seconds() > INTERVAL

    async def _running(self, session: Session) -> None:
        """Whether a session that should be running is; the Hub's own poll does the rest."""
        site = self.site
        if session.agent in site.engine.hosts:
            found = await site.engine.containers(session.agent)
            if any(c.session_id == session.id and c.running for c in found):
                return
            reason = (
                "Its container was not running any more when the Hub was started again. "
                "Start it again."
            )
        else:
            reason = GONE_MACHINE
        await self._end(session, "container_gone", reason)

    async def _sweep(self, agent: str) -> None:
        """Containers and homes of our hub that belong to no session that is live there."""
        site = self.site
        found = await site.engine.orphans(agent)
        # Read after the listing: a session's place is noted before its container is made.
        rows = await site.db(site.store.live)
        # One that is still looking for its place may be given this agent the next moment.
        live = {
            s.id
            for s in rows
            if s.id in site.driven or (s.agent and site.engine.may_be_on(s.agent, agent))
        }
        for session_id in set(found) - live:
            await self._keep(session_id, agent)
            removed = await site.engine.remove_session(agent, session_id)
            site.log.warning(
                "Removed what session %s left on %s (%i containers)", session_id, agent, removed
            )

    async def _keep(self, session_id: str, agent: str) -> None:
        """Of a session that was ended by force, while its machine did not answer."""
        try:
            session = await self.site.db(self.site.store.get, session_id)
        except NotFound:
            return  # of another database
        if session.agent == agent:
            await keep(self.site, session)

    async def _end(self, session: Session, code: str, reason: str) -> None:
        site = self.site
        site.log.warning("Session %s (%s): %s", session.id, session.status.value, reason)
        await site.db(
            site.store.note,
            session.id,
            phase=Phase.RECONCILE,
            result=Result.STALE,
            message=reason,
            now=utcnow(),
        )
        await site.end(session.id, code, reason)
