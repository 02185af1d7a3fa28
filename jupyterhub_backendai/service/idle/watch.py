"""All running sessions as idle checks see them.

Judging and ending are apart: what `look` says is what people are told; `due` gives those whose told
time has come.

Use can only put the end of a network check off. So a session's server is asked when its end by the
last answer comes near, and then each minute at least: no answer is old when somebody is warned, or
a session ended. Before that it is asked when somebody is shown its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random

from ...model.status import Status
from ...model.usage import Step
from ...scheduling.idle import Verdict, ahead, earliest
from ...site.runtime import Site
from ...store import Change, IdleRecord, Session
from .clock import Sources, SteadyClock
from .watched import Watched

BATCH = 500  # changes read, and sessions judged, at once
READ_BACK = 50  # sessions whose use is read back at once
STALE = 3.0  # times between two answers after which a server's last one says nothing
AWAY = 120.0  # seconds between two looks: after more, the machine slept or the database was away


class Watch:
    """The running sessions of a site. `interval`: seconds between two looks. `noted`: when there
    was one before this process began."""

    def __init__(
        self,
        site: Site,
        clock: SteadyClock,
        interval: float,
        noted: float | None = None,
        random: Random | None = None,
    ) -> None:
        self.site, self.clock, self.interval = site, clock, interval
        self._random = random or Random()  # noqa: S311 - it spreads work
        self.sessions: dict[str, Watched] = {}
        self._records: dict[str, IdleRecord] = {}
        self._after: int | None = None
        self._followed: float | None = None
        self._noted, self._looked = noted, clock.now()
        self._following = asyncio.Lock()

    @classmethod
    async def begin(cls, site: Site, interval: float, sources: Sources) -> Watch:
        """The watch, with the clock as it was noted last. Raises `Unavailable`."""
        noted = await site.db(site.store.idle_clock)
        time = None if noted is None else noted.time
        return cls(site, SteadyClock(noted, sources), interval, time)

    async def follow(self) -> None:
        """Reads which sessions run. Raises `Unavailable`."""
        async with self._following:
            await self._follow()

    async def _follow(self) -> None:
        site, now = self.site, self.clock.now()
        if self._after is None:
            after = await site.db(site.store.seq)
            self._records = await site.db(site.store.idle_records)
            for session in await site.db(site.store.live, {Status.RUNNING}):
                await self._see(session, now)
            await self._read_back(now)
            self._after = after
        while True:
            changes: Sequence[Change] = await site.db(site.store.changes, self._after, None, BATCH)
            for change in changes:
                await self._see(change.session, now)
                self._after = change.seq
            if len(changes) < BATCH:
                break
        self._records.clear()
        self._followed = now

    async def _read_back(self, now: float) -> None:
        """What sessions used before this process began, as far as it was stored."""
        windows = {id: one.facts.windows for id, one in self.sessions.items()}
        longest = max((c.limit for each in windows.values() for c in each), default=0.0)
        wanted = [id for id, each in windows.items() if each]
        for at in range(0, len(wanted), READ_BACK):
            find, since = self.site.store.usage_steps, self.clock.wall(now - longest)
            some = wanted[at : at + READ_BACK]
            for id, steps in (await self.site.db(find, some, since)).items():
                for step in steps:
                    self.sessions[id].add(step, min(now, self.clock.of(step.at)))
                await asyncio.sleep(0)

    async def _see(self, session: Session, now: float) -> None:
        known = self.sessions.get(session.id)
        if session.status is not Status.RUNNING:
            self.sessions.pop(session.id, None)
        elif known is not None and known.is_of(session):
            known.session = session
        else:
            # It runs for the first time, or again: nothing of an earlier life counts.
            if known is not None:
                self._records.pop(session.id, None)
            checks = self.site.idle.checks(session)
            has = await self._has(session)
            record = self._records.get(session.id) or IdleRecord(self._started(session, now))
            patience = STALE * self.interval
            self.sessions[session.id] = Watched(session, checks, record, has, patience)

    async def _has(self, session: Session) -> dict[str, float]:
        slots = session.slots
        granted = await self.site.granted(session)
        memory = sum(one.memory for one in granted)
        return {"cpu": slots.cpu, "mem": slots.mem, "gpu_mem": memory}

    def _started(self, session: Session, now: float) -> float:
        """When it began to run. It has not run for longer than since the last look, if there was
        one: the wall's clock may have been set since."""
        if session.running_at is None:
            return now
        began = min(now, self.clock.of(session.running_at))
        return began if self._followed is None else max(began, self._followed)

    def add(self, steps: Iterable[Step]) -> None:
        """What sessions have used until now."""
        now = self.clock.now()
        for step in steps:
            watched = self.sessions.get(step.session_id)
            if watched is not None:
                watched.add(step, now)

    async def look(self) -> None:
        """Judges all whose turn it is: in each round those of which there is news or that end soon,
        and at least once a minute."""
        now = self.clock.now()
        was_away = now - self._looked > max(AWAY, 2 * self.interval)
        since = self._looked if was_away else self._noted
        self._noted, self._looked = None, now
        for number, watched in enumerate(list(self.sessions.values())):
            if watched.checks and (since is not None or watched.judge_at <= now):
                self.judge(watched)
                if since is not None:
                    watched.warn_late(since, now, self.site.idle.notice)
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)

    def told(self, at: float) -> datetime:
        """A time as people are told it, to the second: so it stays the same while it does."""
        wall = self.clock.wall(at)
        return (wall + timedelta(microseconds=500_000)).replace(microsecond=0)

    def judge(self, watched: Watched) -> None:
        """Judges one, now."""
        now, notice = self.clock.now(), self.site.idle.notice
        watched.judge(now, self.stale(watched), partial(self.ahead, watched), notice)
        if not self.is_near(watched):
            watched.begin_anew()

    def is_near(self, watched: Watched) -> bool:
        """Whether its owner is warned of its end, or will be in a while."""
        first = earliest(watched.verdicts)
        if first is None or first.ends_at is None:
            return False
        return first.ends_at - self.clock.now() <= self.ahead(watched, first.check.reach)

    def ask_after(self, watched: Watched) -> float:
        """Seconds after which what a session's server said is old."""
        return max(self.interval, min(60.0, watched.patience))

    def stale(self, watched: Watched) -> float:
        """Seconds after which what its server said says nothing any more."""
        return STALE * self.ask_after(watched) + self.interval

    def ahead(self, watched: Watched, reach: float) -> float:
        """Seconds before the end by a check of that reach in which it is near, and a session's
        server is asked time and again: when the first warning of it comes, there is an answer or it
        is known that there is none."""
        first = ahead(max(self.site.idle.warnings, default=0.0), reach)
        return first + 2 * self.stale(watched)

    def is_old(self, watched: Watched) -> bool:
        """Whether what a session's server said is to be asked again before it is shown."""
        heard = watched.facts.heard
        return watched.asks and (
            heard is None or self.clock.now() - heard >= self.ask_after(watched)
        )

    def to_ask(self) -> list[Watched]:
        """Those whose servers are to be asked now; they are taken to be asked."""
        now = self.clock.now()
        found = [one for one in self.sessions.values() if one.asks and self._asks(one, now)]
        for one in found:
            # Not always the same: else all that were asked together once are so ever after.
            after = self.ask_after(one)
            one.ask_at = now + self._random.uniform(after / 2, after)
        return found

    def _asks(self, watched: Watched, now: float) -> bool:
        ends = watched.unused_until
        if not ends:
            return watched.ask_at <= now
        first, _ = min(ends)
        if 0 <= now - first <= self.stale(watched):
            return True
        if watched.ask_at > now:
            return False
        # People are warned of the first end only: it may be another one if this is put off by now.
        ends += (end for end in watched.other_ends if end[0] >= first)
        return watched.shown or any(at - now <= self.ahead(watched, reach) for at, reach in ends)

    @property
    def has_news(self) -> bool:
        """Whether there is a session of which nothing is noted yet."""
        return any(one.noted is None and one.checks for one in self.sessions.values())

    def due(self) -> list[tuple[Watched, Verdict]]:
        """Those to be ended now, and by what."""
        now = self.clock.now()
        found = ((one, one.due(now)) for one in self.sessions.values() if one.ends_at is not None)
        return [(one, verdict) for one, verdict in found if verdict is not None]

    async def note(self) -> None:
        """Notes what is to outlive this process. Raises `Unavailable`."""
        changed = [
            (one, record)
            for one in self.sessions.values()
            if one.checks and _differs(record := one.record, one.noted)
        ]
        records = {one.session.id: record for one, record in changed}
        since = {one.session.id: one.session.running_at for one, _ in changed}
        await self.site.db(self.site.store.save_idle, records, self.clock.record(), since)
        for one, record in changed:
            one.noted = record


def _differs(new: IdleRecord, noted: IdleRecord | None) -> bool:
    """Whether it is worth a write: what is noted of a server's answers may be a minute old, as it
    is asked again after a restart."""
    if noted is None or (new.started, new.kept) != (noted.started, noted.kept):
        return True
    pairs = [(new.used, noted.used), (new.asked, noted.asked), (new.not_before, noted.not_before)]
    return any((a is None) != (b is None) or abs((a or 0) - (b or 0)) > 60 for a, b in pairs)
