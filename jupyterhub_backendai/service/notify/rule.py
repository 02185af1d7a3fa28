"""Which warning of an end is due. Pure; all times are seconds of the service's steady clock.

An end moves while people work, and the average of what they use moves it by seconds all the time.
A mail for each such move is worse than none, so what was told holds for ends near the one that it
told of; and nobody is warned of an end that is only as far away as a check lets it be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ...scheduling.idle import ahead
from ...store import Notice, NoticeState

LEAST_SLACK = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Due:
    """A warning that is to be sent now. `earlier`: what was not taken when it was sent before."""

    warning: int
    earlier: Notice | None = None


def slack(warning: float, limit: float) -> float:
    """How far an end may be from the one that was told, to be the same to its owner."""
    return max(LEAST_SLACK, ahead(warning, limit) / 2)


def nearest(warnings: Iterable[int], left: float, limit: float) -> int | None:
    """The warning to be sent of an end that is `left` seconds away: of all whose time has come the
    one that is nearest to the end; None where it is over, or none has come."""
    if left <= 0:
        return None
    return min((one for one in warnings if left <= ahead(one, limit)), default=None)


def knows(notice: Notice, warning: int, ends_at: float, limit: float) -> bool:
    """Whether who got this notice need not get that warning."""
    moved = ends_at - notice.key.ends_at
    if notice.key.warning == warning:
        return abs(moved) <= slack(warning, limit)
    # A nearer warning of an end that was put off since by less than this one is ahead.
    nearer = notice.key.warning < warning
    return nearer and -slack(warning, limit) <= moved <= ahead(warning, limit)


def due(
    warnings: Collection[int],
    ends_at: float,
    limit: float,
    now: float,
    notices: Collection[Notice],
) -> Due | None:
    """The warning to be sent now, of an end by a check that allows `limit` seconds; `notices` are
    those of the session by the same channel."""
    warning = nearest(warnings, ends_at - now, limit)
    if warning is None:
        return None
    known = [one for one in notices if knows(one, warning, ends_at, limit)]
    if any(one.state is not NoticeState.WAITING for one in known):
        return None
    again = [one for one in known if one.key.warning == warning]
    return Due(warning, again[-1] if again else None)
