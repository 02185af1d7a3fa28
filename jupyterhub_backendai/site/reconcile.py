"""Puts right what a process that died left behind, at start and every half minute.

What is done in which case is in `rules`. This is the work of the Hub's process, which has the
starts. What the Hub says of its servers is compared here while there is no service, else by it
(`service.workers.servers`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..engine.base import AgentUnreachable
from ..model.status import IN_LINE, PHASES, Phase, Result, Status
from ..store import NotFound, Session, SubStep
from . import ending
from .batch import keep, own_reason
from .clock import utcnow
from .rules import Action, Driver, Rule, Sight, rule_for
from .steps import Steps

if TYPE_CHECKING:
    from .runtime import Site

INTERVAL = 30.0  # seconds; whatever is left is gone within a minute
LOST = 60.0  # seconds that the Hub has no server of a session before that is believed


def settled(session: Session) -> bool:
    """Whether its status is half a minute old. One from a time that is yet to come was noted before
    a clock was set back; a little of that is two machines' clocks."""
    return abs((utcnow() - session.status_changed_at).total_seconds()) > INTERVAL


class Reconciler:
    """Compares database and engine; see `rules`."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._lacking: dict[str, float] = {}  # since when the Hub has no server of a session

    async def clear_the_line(self) -> None:
        """What was in line when an earlier run of this Hub died. Asks no agent for anything."""
        for session in await self.site.db(self.site.store.live, IN_LINE, self.site.run_id):
            await self._follow(session, rule_for(self._sight(session, first=True)))

    async def run(self) -> None:
        """The endless work: at once what an earlier run left, then a round every half minute."""
        site, first = self.site, True
        while True:
            try:
                sessions = await site.db(site.store.live)
                lost = self._lost(sessions)
                # One lane for each agent: one that hangs holds up no other.
                lanes = {session.agent for session in sessions} | set(site.engine.hosts)
                await asyncio.gather(*(self._lane(a, sessions, first, lost) for a in lanes))
                first = False
            except Exception:
                site.log.exception("Reconciling failed; it is tried again")
            await asyncio.sleep(INTERVAL)

    async def keep_gpus(self) -> None:
        """The endless work beside it, which waits for the driver: what sessions hold of GPUs."""
        site = self.site
        while site.gpus.on:
            try:
                # Before and after: who was starting holds something by then, and no start is so
                # short that it is in neither.
                starting = set(site.driven)
                holding = await site.db(site.store.all_granted)
                await site.gpus.restore(holding, starting | site.driven)
            except Exception:
                site.log.exception("What sessions hold of GPUs is not put right; it is tried again")
            await asyncio.sleep(INTERVAL)

    def _lost(self, sessions: list[Session]) -> frozenset[str]:
        """Ids of the running sessions that the Hub has had no server of for a while."""
        site = self.site
        if site.configuration.service or site.hub_servers is None:
            return frozenset()
        hub, now = site.hub_servers(), time.monotonic()
        self._lacking = {
            s.id: self._lacking.get(s.id, now)
            for s in sessions
            if s.status is Status.RUNNING and s.id not in site.driven and hub.lack(s)
        }
        return frozenset(id for id, since in self._lacking.items() if now - since > LOST)

    async def _lane(
        self, agent: str | None, sessions: list[Session], first: bool, lost: frozenset[str]
    ) -> None:
        for session in sessions:
            if session.agent == agent:
                await self._guarded(f"session {session.id}", self._look_at(session, first, lost))
        if agent in self.site.engine.hosts and self.site.answers(str(agent)):
            await self._guarded(f"agent {agent}", self._sweep(str(agent)))

    async def _guarded(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """One thing that cannot be put right keeps nothing else from it."""
        try:
            await work
        except AgentUnreachable as error:
            self.site.log.warning("%s", error)
        except Exception:
            self.site.log.exception("Reconciling %s failed; it is tried again", what)

    async def _look_at(
        self, session: Session, first: bool, lost: frozenset[str] = frozenset()
    ) -> None:
        container = None
        if session.status is Status.RUNNING:
            container = await self._has_container(session)
        sight = self._sight(session, first, container, False if session.id in lost else None)
        if session.status is Status.HIBERNATED:
            sight = replace(sight, kept=await self.site.db(self.site.store.is_kept, session.id))
        await self._follow(session, rule_for(sight))

    def _sight(
        self,
        session: Session,
        first: bool = False,
        container: bool | None = None,
        server: bool | None = None,
    ) -> Sight:
        site = self.site
        if session.driver is None:
            driver = Driver.NOBODY
        elif session.driver != site.run_id:
            driver = Driver.DEAD
        else:
            driver = Driver.START if session.id in site.driven else Driver.FORGOTTEN
        return Sight(
            status=session.status,
            driver=driver,
            settled=settled(session),
            first=first and session.driver != site.run_id,
            queue=site.configuration.service,
            answers=session.agent is None or site.answers(session.agent),
            known=session.agent is None or session.agent in site.engine.hosts,
            container=container,
            server=server,
        )

    async def _has_container(self, session: Session) -> bool | None:
        """Whether one of the session runs; None where nobody can say."""
        site, agent = self.site, session.agent
        if agent not in site.engine.hosts or not site.answers(agent):
            return None
        found = await site.engine.containers(agent)
        return any(c.session_id == session.id and c.running for c in found)

    async def _follow(self, session: Session, rule: Rule | None) -> None:
        site = self.site
        if rule is None or rule.action is Action.LEAVE:
            return
        if rule.action is Action.FINISH:
            await site.end(session.id, session.reason_code, session.reason)
            return
        steps = Steps()
        if rule.action is Action.RETRY:
            await ending.clear(site, session, steps)
        await follow(site, session, rule, steps.taken())

    async def _sweep(self, agent: str) -> None:
        """Containers and homes of our hub that belong to no session that is live there."""
        site = self.site
        found = await site.engine.orphans(agent)
        # Read after the listing: a session's place is noted before its container is made.
        rows = await site.db(site.store.live)
        # Those that rest, also while they wait to be resumed and have no place.
        kept = await site.db(site.store.kept_sessions)
        # One that is still looking for its place may be given this agent the next moment.
        live = kept | {
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
            # First it runs no more: a command may end between a look at it and its removal.
            await self.site.engine.stop_session(agent, session_id, ending.STOP_GRACE)
            await keep(self.site, session, Steps())


async def follow(
    site: Site, session: Session, rule: Rule, sub_steps: Sequence[SubStep] = ()
) -> None:
    """Does what a rule says of a session that is not over, and notes it in its history.
    `sub_steps` is what was done already."""
    code, reason = await own_reason(site, session, rule.code, rule.reason)
    site.log.warning("Session %s (%s): %s", session.id, session.status.value, reason)
    await site.db(
        site.store.note,
        session.id,
        phase=Phase.RECONCILE,
        result=Result.STALE,
        error_code=code,
        message=reason,
        now=utcnow(),
    )
    if rule.action is Action.END:
        await site.end(session.id, code, reason)
        return
    if rule.action is Action.RETRY:
        session = await site.db(
            site.store.retry_or_give_up,
            session.id,
            phase=PHASES[session.status],
            error_code=rule.code,
            reason=rule.reason,
            now=utcnow(),
            sub_steps=sub_steps,
        )
        if session.status is Status.TERMINATING:
            await site.end(session.id, session.reason_code, session.reason)
            return
    if session.driver is not None:
        await site.db(site.store.release, session.id, session.driver)
    site.queue.kick()
