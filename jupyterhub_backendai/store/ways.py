"""Ways: apps that are open beyond their owners' own sign-in, and the ports that they have."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from sqlalchemy import Connection, Select, and_, bindparam, delete, insert, select, text, update

from ..model.errors import FieldError, Kind, RequestError
from ..model.status import Status
from .errors import NotFound
from .history import storable
from .records import OpenWay, Session, Way, open_way_of, way_of
from .tables import KERNELS, OPEN, SESSIONS, WAYS

MAIN = "main1"  # the container whose server leads to a session's apps
ENDED = "The session ended."
KEPT = timedelta(days=1)  # that a way stays in the table when it is closed; longer to cool down

_ALL = WAYS.c
_OF_SESSION = (
    select(WAYS)
    .where(text(OPEN), _ALL.session_id == bindparam("of"))
    .order_by(_ALL.opened_at, _ALL.id)
)
_THIS = select(WAYS).where(_ALL.id == bindparam("which"))
_OPEN_WAYS = (
    select(
        WAYS, SESSIONS.c.owner, SESSIONS.c.owner_groups, SESSIONS.c.name,
        SESSIONS.c.server_name, SESSIONS.c.status, KERNELS.c.address, KERNELS.c.apps_key,
    )
    .join(SESSIONS, SESSIONS.c.id == _ALL.session_id)
    .outerjoin(KERNELS, and_(KERNELS.c.session_id == _ALL.session_id, KERNELS.c.name == MAIN))
    .where(_ALL.closed_at.is_(None))
    .order_by(_ALL.opened_at, _ALL.id)
)  # fmt: skip
# Those that have a port, or had one a moment ago.
_HELD = _ALL.number.is_not(None) & (
    _ALL.closed_at.is_(None) | (_ALL.closed_at > bindparam("since"))
)
_NUMBERS = select(_ALL.number, _ALL.closed_at).where(_HELD)
_OF_OWNER = (
    select(_ALL.session_id, _ALL.closed_at)
    .join(SESSIONS, SESSIONS.c.id == _ALL.session_id)
    .where(SESSIONS.c.owner == bindparam("owner"), _ALL.closed_at.is_(None) | _HELD)
)
_FORGET = delete(WAYS).where(_ALL.closed_at < bindparam("before"))
_ADD = insert(WAYS)
_TAKE = update(WAYS).where(_ALL.id == bindparam("which")).values(number=bindparam("port"))
_CLOSE = (
    update(WAYS)
    .where(text(OPEN), _ALL.id == bindparam("which"))
    .values(closed_at=bindparam("at"), closed_by=bindparam("who"), reason=bindparam("why"))
)
_CLOSE_OF_SESSION = (
    update(WAYS)
    .where(text(OPEN), _ALL.session_id == bindparam("of"))
    .values(closed_at=bindparam("at"), closed_by=None, reason=ENDED)
)
_FORGET_KEY = (
    update(KERNELS)
    .where(KERNELS.c.session_id == bindparam("of"), KERNELS.c.apps_key.is_not(None))
    .values(apps_key=None)
)


_NEVER = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Pool:
    """Ports to be given out: from `first` to `last`; none for so many seconds (`cool_down`) after
    the way that had it was closed, for who knew that one may come again."""

    first: int
    last: int
    cool_down: float

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= self.last

    def choose(
        self, wanted: int | None, taken: Collection[int], cooling: Mapping[int, datetime]
    ) -> int | None:
        """The port that is wanted, else the next one that is free, once round; else, of those that
        cool down since then, the one that did so for longest. None without any."""
        begin = self.first if wanted is None or wanted not in self else wanted
        free = [port for port in self._round(begin) if port not in taken]
        cool = (port for port in free if port not in cooling)
        return next(cool, min(free, key=lambda port: cooling.get(port, _NEVER), default=None))

    def _round(self, begin: int) -> Sequence[int]:
        return [*range(begin, self.last + 1), *range(self.first, begin)]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A way that is asked for. `pool`: where it is to have a port; `port`: which, if possible."""

    session_id: str
    app: str
    by: str
    protocol: str = "http"
    pool: Pool | None = None
    port: int | None = None

    @property
    def kind(self) -> str:
        """What kind of way it is."""
        return "public" if self.pool is None else "port"

    def is_met_by(self, way: Way) -> bool:
        """Whether a way of this session is what is asked for."""
        if (way.app, way.kind) != (self.app, self.kind):
            return False
        return self.port is None or self.port in (way.number, way.wanted)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many ways are open at a time; a port that cools down counts too."""

    session: int = 32
    owner: int = 64


def open_(
    db: Connection,
    session: Session,
    wanted: Wanted,
    busy: Collection[int],
    limits: Limits,
    now: datetime,
) -> tuple[Way, bool]:
    """The way that is asked for, and whether it is new. The caller holds the session's row, and
    holds back others that open one.

    Raises `RequestError` where the session does not run, it or its owner has too many ways
    already, or no port is free.
    """
    if session.status is not Status.RUNNING:
        raise RequestError([not_running(session.status)])
    for way in of_session(db, session.id):
        if wanted.is_met_by(way):
            return way, False
    cools = timedelta(seconds=0 if wanted.pool is None else wanted.pool.cool_down)
    db.execute(_FORGET, {"before": now - max(KEPT, cools)})
    _check_limits(db, session, limits, now - cools)
    number = None
    if wanted.pool is not None:
        number = _port(db, wanted.pool, wanted.port, busy, now)
    way = Way(
        id=new_id(), session_id=session.id, app=wanted.app, kind=wanted.kind,
        protocol=wanted.protocol, number=number, wanted=wanted.port, opened_by=wanted.by,
        opened_at=now, closed_at=None, closed_by=None, reason="",
    )  # fmt: skip
    db.execute(_ADD, {name: getattr(way, name) for name in Way.__slots__})
    return way, True


def _check_limits(db: Connection, session: Session, limits: Limits, since: datetime) -> None:
    """Raises `RequestError` where there are as many as may be."""
    there = db.execute(_OF_OWNER, {"owner": session.owner, "since": since}).all()
    of_session = [row for row in there if row.session_id == session.id]
    for who, most, rows in (
        ("This session", limits.session, of_session), (session.owner, limits.owner, there),
    ):  # fmt: skip
        if len(rows) < most:
            continue
        if sum(row.closed_at is None for row in rows) >= most:
            message = f"{who} has {most} open ways already. Close one first."
        else:
            message = f"{who} has had {most} ways in a short time. Try again in a minute."
        raise RequestError([FieldError("", "too_many_ways", message, Kind.CONFLICT)])


def take_another_port(
    db: Connection, way_id: str, pool: Pool, busy: Collection[int], now: datetime
) -> Way:
    """Gives an open way another port, as something else has the one that it was given. Raises as
    `open_` does; `NotFound` where it is closed."""
    way = _get(db, way_id)
    number = _port(db, pool, way.number, busy, now)
    db.execute(_TAKE, {"which": way_id, "port": number})
    return _get(db, way_id)


def close(db: Connection, way_id: str, by: str | None, reason: str, now: datetime) -> str:
    """Closes a way; one that is closed stays as it is. The id of its session. Raises `NotFound`."""
    way = db.execute(_THIS, {"which": way_id}).one_or_none()
    if way is None:
        raise NotFound(way_id)
    db.execute(_CLOSE, {"which": way_id, "at": now, "who": by, "why": storable(reason)})
    return str(way.session_id)


def end_with(db: Connection, session_id: str, now: datetime) -> None:
    """Closes all ways of a session that is over, and forgets the key of its apps."""
    db.execute(_CLOSE_OF_SESSION, {"of": session_id, "at": now})
    db.execute(_FORGET_KEY, {"of": session_id})


def of_session(db: Connection, session_id: str) -> list[Way]:
    """The open ways of a session, oldest first."""
    return [way_of(row) for row in db.execute(_OF_SESSION, {"of": session_id})]


def all_open(db: Connection) -> list[OpenWay]:
    """All open ways, oldest first, and where they lead."""
    return [open_way_of(row) for row in db.execute(_OPEN_WAYS)]


def one(db: Connection, way_id: str) -> OpenWay:
    """An open way and where it leads. Raises `NotFound`, also for one that is closed."""
    query: Select[tuple[object, ...]] = _OPEN_WAYS.where(_ALL.id == bindparam("which"))
    row = db.execute(query, {"which": way_id}).one_or_none()
    if row is None:
        raise NotFound(way_id)
    return open_way_of(row)


def not_running(status: Status) -> FieldError:
    """The error of a session whose apps cannot be reached now."""
    message = f"The session does not run: it is {status.value}. Its apps can be opened while it is."
    return FieldError("", "not_running", message, Kind.CONFLICT)


def new_id() -> str:
    """26 letters and digits that nobody guesses: 128 bits."""
    return base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()


def _get(db: Connection, way_id: str) -> Way:
    row = db.execute(_THIS, {"which": way_id}).one_or_none()
    if row is None or row.closed_at is not None:
        raise NotFound(way_id)
    return way_of(row)


def _port(
    db: Connection, pool: Pool, wanted: int | None, busy: Collection[int], now: datetime
) -> int:
    since = now - timedelta(seconds=pool.cool_down)
    taken, cooling = set(busy), dict[int, datetime]()
    for row in db.execute(_NUMBERS, {"since": since}):
        if row.closed_at is None:
            taken.add(row.number)
        else:
            cooling[row.number] = max(row.closed_at, cooling.get(row.number, _NEVER))
    number = pool.choose(wanted, taken, cooling)
    if number is None:
        message = (
            f"All ports from {pool.first} to {pool.last} are in use. Close a way that is not "
            "needed, or try again later."
        )
        raise RequestError([FieldError("preferred_port", "no_port", message, Kind.CONFLICT)])
    return number
