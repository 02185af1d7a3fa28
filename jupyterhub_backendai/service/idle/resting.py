"""Idle sessions that are hibernated instead of ended, where the admin wants that."""

from __future__ import annotations

from datetime import timedelta

from ...model.errors import RequestError
from ...model.images import CommitStatus
from ...model.status import Status
from ...scheduling.idle import Verdict
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import Session
from ..hibernating import hibernate
from ..images import ImageDoor
from .words import reason

AGAIN = timedelta(minutes=10)  # after one that failed
TRIES = 3  # that fail, until the session is ended after all


class Rest:
    """Has sessions hibernated that idle checks are to end."""

    def __init__(self, site: Site, door: ImageDoor) -> None:
        self.site, self._door = site, door
        self._failed: dict[str, set[str]] = {}  # ids of work, by session

    async def refused(self, session: Session, verdict: Verdict) -> str | None:
        """None where the session is hibernated, or will be tried again; else it is to be ended,
        with what this says: why it was not hibernated, if it should have been. Raises `NotFound`.
        """
        if not verdict.check.rests:
            return ""
        now = await self.site.db(self.site.store.get, session.id)
        latest = await self.site.db(self.site.store.commit_of, session.id)
        if now.status is not Status.RUNNING:
            return None
        if latest is not None and not latest.status.is_final:
            return None  # an image is made of it; maybe the one that it rests as
        if latest is not None and latest.hibernates and latest.status is CommitStatus.FAILED:
            failed = self._failed.setdefault(session.id, set())
            failed.add(latest.id)
            if len(failed) >= TRIES:
                del self._failed[session.id]
                return f"It could not be hibernated: {latest.message}"
            if latest.ended_at is not None and utcnow() - latest.ended_at < AGAIN:
                return None
        why = f"idle_{verdict.check.name}", reason(verdict)
        try:
            await hibernate(self.site, self._door, now, "", why)
        except RequestError as error:
            told = " ".join(one.message for one in error.errors)
            return f"It could not be hibernated: {told}"
        return None
