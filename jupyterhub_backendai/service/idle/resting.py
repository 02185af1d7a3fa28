"""Idle sessions that are hibernated instead of ended, where the admin wants that."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ...model.errors import RequestError
from ...model.images import CommitStatus
from ...scheduling.idle import Verdict
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import Commit
from ..hibernating import hibernate
from ..images import ImageDoor
from .watched import Watched
from .words import reason

AGAIN = timedelta(minutes=10)  # after one that failed, or that its owner cancelled
TRIES = 3  # that fail, until the session is ended after all


# What may be otherwise in a while: the agent's Docker, not the session or its owner.
PASSING = frozenset({"agent_away", "engine"})


@dataclass
class _Tries:
    """Those of one session that failed: what is known of each, and when the last one ended."""

    failed: set[str] = field(default_factory=set)
    last: datetime | None = None

    def note(self, what: str, at: datetime) -> None:
        self.failed.add(what)
        self.last = at if self.last is None else max(self.last, at)


class Rest:
    """Has sessions hibernated that idle checks are to end."""

    def __init__(self, site: Site, door: ImageDoor) -> None:
        self.site, self._door = site, door
        self._tries: dict[str, _Tries] = {}  # by session

    async def refused(self, watched: Watched, verdict: Verdict) -> str | None:
        """None where the session is hibernated, or will be tried again; else it is to be ended,
        with what this says: why it was not hibernated, if it should have been. Raises `NotFound`.
        """
        if not verdict.check.rests:
            return ""
        session = watched.session
        now = await self.site.db(self.site.store.get, session.id)
        latest = await self.site.db(self.site.store.commit_of, session.id)
        if not watched.is_of(now):
            return None
        if latest is not None and not latest.status.is_final:
            return None  # an image is made of it; maybe the one that it rests as
        if latest is not None and _is_put_off(latest):
            return None
        if latest is not None and latest.hibernates and latest.status is CommitStatus.FAILED:
            at = latest.ended_at or utcnow()
            if (over := self._failed(session.id, latest.id, latest.message, at)) is not None:
                return over
        if self._waits(session.id):
            return None
        why = f"idle_{verdict.check.name}", reason(verdict)
        try:
            await hibernate(self.site, self._door, now, "", why)
        except RequestError as error:
            told = " ".join(one.message for one in error.errors)
            if {one.code for one in error.errors} <= PASSING:
                return self._failed(session.id, utcnow().isoformat(), told, utcnow())
            return f"It could not be hibernated: {told}"
        return None

    def _waits(self, session_id: str) -> bool:
        tries = self._tries.get(session_id)
        return tries is not None and tries.last is not None and utcnow() - tries.last < AGAIN

    def _failed(self, session_id: str, what: str, told: str, at: datetime) -> str | None:
        """Notes one that failed; why the session is ended after all, if that was the last try."""
        tries = self._tries.setdefault(session_id, _Tries())
        tries.note(what, at)
        if len(tries.failed) < TRIES:
            return None
        del self._tries[session_id]
        return f"It could not be hibernated: {told}"


def _is_put_off(latest: Commit) -> bool:
    """Whether its owner has just cancelled what an idle check had begun: there is time to use it,
    or to keep it."""
    if not latest.hibernates or latest.asked_by or latest.status is not CommitStatus.CANCELLED:
        return False
    return latest.ended_at is not None and utcnow() - latest.ended_at < AGAIN
