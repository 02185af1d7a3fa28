"""Idle sessions that are hibernated instead of ended, where the admin wants that."""

from __future__ import annotations

from ...model.errors import RequestError
from ...model.images import CommitStatus
from ...scheduling.idle import Verdict
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import Commit
from ..hibernating import hibernate, lasting
from ..images import ImageDoor
from .refusals import AGAIN, Tries
from .watch import Watch
from .watched import Watched
from .words import reason

# What may be otherwise in a while: the agent's Docker, not the session or its owner.
PASSING = frozenset({"agent_away", "engine"})
MEANWHILE = frozenset({"under_way"})  # somebody has an image made of it at this moment


class Rest:
    """Has sessions hibernated that idle checks are to end."""

    def __init__(self, site: Site, door: ImageDoor) -> None:
        self.site, self._door = site, door

    async def look_ahead(self, watch: Watch) -> None:
        """Asks of all that are to be hibernated soon whether their owners may have one more, before
        anybody is warned that they will be. Raises `Unavailable`."""
        now, notice = watch.clock.now(), self.site.idle.notice
        soon = [one for one in watch.sessions.values() if one.is_to_rest and watch.is_near(one)]
        if not soon:
            return
        resting = await self.site.db(self.site.store.resting)
        for one in soon:
            error = lasting(self.site, one.session, resting)
            if error is None:
                one.allow(tried=False)
            else:
                one.refuse(error.message, now, notice, tried=False)

    async def refused(self, watched: Watched, verdict: Verdict) -> str | None:
        """None where the session is hibernated, or will be tried again; else why it cannot be, and
        nothing of a check that ends it anyway. Raises `NotFound`."""
        if not verdict.check.rests:
            return ""
        now = await self.site.db(self.site.store.get, watched.session.id)
        latest = await self.site.db(self.site.store.commit_of, watched.session.id)
        if not watched.is_of(now):
            return None
        # An image is made of it; maybe the one that it rests as.
        if latest is not None and (not latest.status.is_final or _is_put_off(latest)):
            return None
        tries = watched.tries
        if latest is not None and latest.hibernates and latest.status is CommitStatus.FAILED:
            tries.note(latest.id, latest.ended_at or utcnow())
            if tries.are_enough():
                return latest.message
        if tries.waits(utcnow()):
            return None
        why = f"idle_{verdict.check.name}", reason(verdict)
        try:
            await hibernate(self.site, self._door, now, "", why)
        except RequestError as error:
            return self._told(tries, error)
        if not tries.are_over:  # else it is the last one, of which its owner was told
            watched.allow(tried=True)
        return None

    def _told(self, tries: Tries, error: RequestError) -> str | None:
        codes = {one.code for one in error.errors}
        if codes <= MEANWHILE:
            return None
        if codes <= PASSING:
            tries.note(utcnow().isoformat(), utcnow())
            if not tries.are_enough():
                return None
        return " ".join(one.message for one in error.errors)


def _is_put_off(latest: Commit) -> bool:
    """Whether its owner has just cancelled what an idle check had begun: there is time to use it,
    or to keep it."""
    if not latest.hibernates or latest.asked_by or latest.status is not CommitStatus.CANCELLED:
        return False
    return latest.ended_at is not None and utcnow() - latest.ended_at < AGAIN
