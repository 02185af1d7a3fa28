"""How many of an owner's sessions wait, and how many more may."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select, text

from ..model.errors import FieldError, Kind, RequestError
from ..model.status import Status
from .records import Session
from .tables import LIVE, SESSIONS

_ALL = SESSIONS.c
_WAITS = _ALL.status == Status.PENDING.value
_STANDING = select(
    func.count().filter(_WAITS).label("pending"),
    func.count().filter(_WAITS, _ALL.reason_code != "").label("left_waiting"),
    func.count()
    .filter(_ALL.server_name.in_(bindparam("servers", expanding=True)))
    .label("on_servers"),
).where(text(LIVE), _ALL.owner == bindparam("whose"))


class Standing(NamedTuple):
    """How many live sessions an owner has: that wait, that a pass has left waiting, and on the
    servers that are wanted."""

    pending: int
    left_waiting: int
    on_servers: int


def standing(db: Connection, owner: str, servers: Sequence[str] = ()) -> Standing:
    """What an owner has, on these servers too."""
    return Standing(*db.execute(_STANDING, {"whose": owner, "servers": servers}).one())


def check(
    added: Sequence[Session],
    before: Standing,
    most: int | None,
    left_waiting: Callable[[], Collection[str]],
) -> None:
    """Whether as many sessions of an owner may wait as do, now that these do, too. Raises
    `RequestError`."""
    if most is None or before.pending + len(added) <= most:
        return
    # Not all of them wait: what came a moment ago, this too, may start at once.
    waiting = set(left_waiting())
    others = waiting.difference(one.id for one in added)
    if len(waiting) > most:
        more = len(waiting) - len(others) or len(added)
        raise RequestError([_too_many_pending(len(others), more, most)])


def left_too_many(before: Standing, more: int, most: int | None) -> list[FieldError]:
    """What stands in the way of more sessions of an owner where passes have left too many
    waiting."""
    if most is None or before.left_waiting < max(most, 1):
        return []
    return [_too_many_pending(before.left_waiting, more, most)]


def _too_many_pending(count: int, more: int, most: int) -> FieldError:
    sessions = "1 session waits" if count == 1 else f"{count} sessions wait"
    these = "this one" if more == 1 else f"these {more}"
    message = f"{sessions} already, and your limit is {most}. Start {these} when fewer wait."
    if more > most > 0:
        message = f"These are {more} sessions, and at most {most} of yours may wait. Start fewer."
    if most == 0:
        message = "There is no room for it now, and your sessions may not wait. Try again later."
    return FieldError("", "too_many_pending", message, Kind.FORBIDDEN)
