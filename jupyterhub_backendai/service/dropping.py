"""When hibernated sessions are dropped, and what is told of that.

What is dropped is gone. So it is not enough that its time is over by the wall's clock, which may be
set, and which goes on while the service is away: the last warning has to have been up for as long
as it says, in this run of the service and by a clock that nobody sets. Else the session is dropped
later, and that is the time that everybody is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ..model.hibernation import DROP_WARNINGS, Hibernation
from ..scheduling.idle import ahead
from ..site.clock import utcnow
from ..site.runtime import Site

AHEAD = timedelta(seconds=max(DROP_WARNINGS))
MARGIN = 60.0  # seconds by which a look may be late and put nothing off
SAME = timedelta(seconds=2)  # times that differ by less are told as one


@dataclass(slots=True)
class _Up:
    """A last warning: since when it is up, and the time that it tells, if that was put off."""

    since: float
    told: datetime | None = None


class Drops:
    """`steady`: a clock that nobody sets, in seconds; `wall`: the one that people read."""

    def __init__(
        self,
        steady: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = utcnow,
    ) -> None:
        self._steady, self._wall = steady, wall
        self._up: dict[str, _Up] = {}  # by the id of what is kept

    @property
    def now(self) -> datetime:
        """What the wall's clock says."""
        return self._wall()

    async def soon(self, site: Site, owner: str | None = None) -> list[tuple[Hibernation, str]]:
        """What is kept of the sessions of one owner, or of all, that are to be warned of, with
        their names; as `told`."""
        found = await site.db(site.store.hibernations_dropping, owner, self.now + AHEAD)
        return [(self.told(rest), name) for rest, name in found]

    async def look(self, site: Site) -> list[tuple[Hibernation, str]]:
        """The same, by who warns: every few seconds. From here on the warnings are up."""
        found = await site.db(site.store.hibernations_dropping, None, self.now + AHEAD)
        now = self._steady()
        self._up = {
            rest.id: self._up.get(rest.id) or _Up(now)
            for rest, _ in found
            if self._is_last(rest, MARGIN)
        }
        return [(self.told(rest), name) for rest, name in found]

    def told(self, rest: Hibernation) -> Hibernation:
        """As people are told of it: with the time at which it is dropped."""
        if rest.drop_at is None or not self._is_last(rest):
            return rest
        up = self._up.get(rest.id) or _Up(self._steady())
        left = up.since + _notice(rest) - self._steady()
        at = (self.now + timedelta(seconds=left)).replace(microsecond=0)
        if at <= rest.drop_at:
            return rest
        if up.told is None or not -SAME < at - up.told < SAME:
            up.told = at
        return replace(rest, drop_at=up.told)

    def is_due(self, rest: Hibernation) -> bool:
        """Whether it is dropped now."""
        up = self._up.get(rest.id)
        is_told = up is not None and self._steady() - up.since >= _notice(rest)
        return is_told and rest.is_due(self.now)

    def _is_last(self, rest: Hibernation, margin: float = 0.0) -> bool:
        """Whether it is time for the last warning, or will be so many seconds later."""
        if rest.drop_at is None:
            return False
        return (rest.drop_at - self.now).total_seconds() <= _notice(rest) + margin


def _notice(rest: Hibernation) -> float:
    """How many seconds ahead the last warning comes; of one that is kept for a short time after
    half of that."""
    assert rest.drop_at is not None
    return ahead(DROP_WARNINGS[-1], (rest.drop_at - rest.made_at).total_seconds())
