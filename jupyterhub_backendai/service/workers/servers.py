"""Compares sessions with the Hub: what it has lost, what it has too much, whom it does not know.

Of servers only what two looks have seen is acted on: one is not yet there, or not any more, while a
session starts or ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable
from datetime import datetime

from ...model.errors import RequestError
from ...model.hibernation import UNOWNED, Hibernation
from ...model.status import IN_LINE, Phase, Result, Status
from ...site.clock import utcnow
from ...site.ending import to_rest
from ...site.reconcile import INTERVAL, follow, settled
from ...site.rules import Action, Rule, Sight, rule_for
from ...site.runtime import Site
from ...store import Session
from ..hibernating import hibernate
from ..hub import HubClient, HubError, HubUnavailable, NoSuchUser
from ..images import ImageDoor

Server = tuple[str, str]  # owner, name
AGAIN = 600.0  # seconds between two tries to hibernate what has lost its server
OWNERS_A_LOOK = 20  # whom the Hub is asked for one by one; the others come next time
RESTING_A_LOOK = 5  # the same, of those of whom something rests


class _Turns:
    """Owners of whom the Hub is asked in turn, some at a time."""

    def __init__(self, some: int) -> None:
        self._some = some
        self._asked_for: list[str] = []  # the one asked for last at the end

    def next(self, unsure: Collection[str]) -> list[str]:
        """Those whose turn it is."""
        earlier = [owner for owner in self._asked_for if owner in unsure]
        order = [*sorted(set(unsure).difference(earlier)), *earlier]
        now, later = order[: self._some], order[self._some :]
        self._asked_for = [*(owner for owner in later if owner in earlier), *now]
        return now


class ServersWorker:
    """The part of the service that compares database and Hub; see `site.rules`."""

    def __init__(self, site: Site, hub: HubClient, door: ImageDoor) -> None:
        self.site, self.hub, self._door = site, hub, door
        self._rested: dict[str, float] = {}  # by session, when it was last to be hibernated by us
        self._odd: set[tuple[Server, bool]] = set()  # at the last look, and whether the Hub has it
        self._waiting, self._resting = _Turns(OWNERS_A_LOOK), _Turns(RESTING_A_LOOK)

    async def run(self) -> None:
        """The endless work."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                await self.once()
            except HubUnavailable as error:
                self.site.log.debug("The Hub's servers cannot be looked at: %s", error)

    async def once(self) -> None:
        """One look at all. Raises `HubUnavailable`."""
        site = self.site
        # The Hub first: whatever starts meanwhile is in the database before it is in the Hub.
        active = await self.hub.active_servers()
        rows = await site.db(site.store.live)
        # One that rests has no server; it has the name of one.
        live = {(s.owner, s.server_name): s for s in rows if s.status is not Status.HIBERNATED}
        running = {key for key, s in live.items() if s.status is Status.RUNNING}
        lost = {(key, False) for key in running - active.keys()}
        left = {(key, True) for key, ready in active.items() if ready and key not in live}
        again, self._odd = (lost | left) & self._odd, lost | left
        for key, is_active in again:
            await self._put_right(key, live.get(key), is_active)
        owners = {owner for owner, _ in active}
        await self._cancel_what_nobody_owns(live.values(), owners)
        await self._expire_what_nobody_owns(owners)

    async def _cancel_what_nobody_owns(
        self, sessions: Iterable[Session], with_server: Collection[str]
    ) -> None:
        """What waits for nobody's start asks nothing of the Hub until it has its place: by then
        there may be another account of its owner's name."""
        waiting: dict[str, list[Session]] = {}
        for session in sessions:
            if session.driver is None and session.status in IN_LINE:
                waiting.setdefault(session.owner, []).append(session)
        for owner in self._waiting.next(waiting.keys() - with_server):
            if await self._is_known(owner):
                continue
            for session in waiting[owner]:
                rule = rule_for(Sight(session.status, owner=False))
                if rule is not None:
                    await follow(self.site, session, rule)

    async def _expire_what_nobody_owns(self, with_server: Collection[str]) -> None:
        """What rests for good is dropped in a while where its owner is gone, and is not where they
        are back."""
        resting: dict[str, list[Hibernation]] = {}
        for rest in await self.site.db(self.site.store.hibernations):
            if rest.current:
                resting.setdefault(rest.owner, []).append(rest)
        for owner in self._resting.next(resting.keys() - with_server):
            try:
                user = await self.hub.user(owner)
            except NoSuchUser:
                await self._expire(rest for rest in resting[owner] if rest.drop_at is None)
                continue
            policy = self.site.policies.of(owner, user.groups).hibernate
            for rest in resting[owner]:
                if policy.retention is None and rest.drop_at is not None:
                    await self._kept_until(rest, None)

    async def _expire(self, rests: Iterable[Hibernation]) -> None:
        rule = rule_for(Sight(Status.HIBERNATED, owner=False))
        assert rule is not None
        for rest in rests:
            self.site.log.warning("Session %s: %s", rest.session_id, rule.reason)
            await self._kept_until(rest, utcnow() + UNOWNED)
            await self.site.db(
                self.site.store.note, rest.session_id, Phase.RECONCILE, Result.STALE, now=utcnow(),
                error_code=rule.code, message=rule.reason,
            )  # fmt: skip

    async def _kept_until(self, rest: Hibernation, then: datetime | None) -> None:
        await self.site.db(self.site.store.drop_hibernation_at, rest.session_id, then)

    async def _put_right(self, server: Server, session: Session | None, active: bool) -> None:
        latest = session or await self.site.db(self.site.store.latest_of, *server)
        if latest is None:
            return  # not of ours
        status = None if session is None else session.status
        resting = None if session is None else await to_rest(self.site, session)
        seen = Sight(
            status, settled=settled(latest), server=active, to_rest=resting is not None
        )  # fmt: skip
        rule = rule_for(seen)
        if rule is None or rule.action is Action.LEAVE:
            return
        if session is not None:
            if not await self._is_known(session.owner):
                return
            if rule.action is not Action.REST:
                await follow(self.site, session, rule)
            elif resting is not None and resting.status.is_final:
                await self._hibernate(session, rule)
        elif rule.action is Action.STOP:
            self.site.log.warning("%s of %s: %s", server[1], server[0], rule.then)
            try:
                await self.hub.stop(*server)
            except HubError as error:
                self.site.log.warning("The Hub did not stop %s of %s: %s", *server[::-1], error)

    async def _hibernate(self, session: Session, rule: Rule) -> None:
        """Has one hibernated whose server was stopped when that came to nothing: nobody can come
        to it, and its end would take the home. What stands in the way may be gone later."""
        now = time.monotonic()
        last = self._rested.get(session.id)
        if last is not None and now - last < AGAIN:
            return
        self._rested = {id: at for id, at in self._rested.items() if now - at < AGAIN}
        self._rested[session.id] = now
        try:
            await hibernate(self.site, self._door, session, "", (rule.code, rule.reason))
        except RequestError as refused:
            told = " ".join(error.message for error in refused.errors)
            self.site.log.warning("Session %s cannot be hibernated: %s", session.id, told)
            await self.site.db(
                self.site.store.note, session.id, Phase.HIBERNATE, Result.FAILURE, now=utcnow(),
                error_code=refused.errors[0].code, message=told,
            )  # fmt: skip

    async def _is_known(self, owner: str) -> bool:
        """Whether there is a user of that name: who was renamed since has the server, not us."""
        try:
            await self.hub.user(owner)
        except NoSuchUser:
            return False
        return True
