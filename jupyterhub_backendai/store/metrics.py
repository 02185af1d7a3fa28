"""What is told of the whole site: counts of now, sessions that changed since the last look, and who
holds GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Integer, Row, bindparam, func, select, text

from ..model.gpus import Granted
from ..model.status import Status
from . import feed
from .tables import ALLOCATIONS, HELD, KERNELS, LIVE, SESSIONS


@dataclass(frozen=True, slots=True)
class Live:
    """How many sessions of a resource group have this status; since when the first of them has
    waited."""

    resource_group: str
    status: Status
    count: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Ended:
    """How many sessions ended in this status for this reason."""

    status: Status
    reason_code: str
    count: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a session has come, as of the change of this number."""

    seq: int
    id: str
    status: Status
    reason_code: str
    resource_group: str
    submitted_at: datetime
    not_before: datetime | None
    placed_at: datetime | None
    running_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where counting begins: the latest change, the latest end, and all that is not over."""

    seq: int
    ended_at: datetime | None
    live: tuple[Progress, ...]


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A session that holds GPUs or MIG devices, and its container, if there is one."""

    session_id: str
    name: str
    owner: str
    status: Status
    container_id: str | None
    devices: tuple[Granted, ...]


_ALL = SESSIONS.c
_LIVE = (
    select(_ALL.resource_group, _ALL.status, func.count(), func.min(_ALL.submitted_at))
    .where(text(LIVE))
    .group_by(_ALL.resource_group, _ALL.status)
)
_ENDED = (
    select(_ALL.status, _ALL.reason_code, func.count())
    .where(_ALL.ended_at >= bindparam("since"))
    .group_by(_ALL.status, _ALL.reason_code)
)
_ROWS = select(
    _ALL.seq, _ALL.id, _ALL.status, _ALL.reason_code, _ALL.resource_group, _ALL.submitted_at,
    _ALL.not_before, _ALL.placed_at, _ALL.running_at, _ALL.ended_at,
)  # fmt: skip
_LIVE_ROWS = _ROWS.where(text(LIVE))
_CHANGED = _ROWS.where(_ALL.seq > bindparam("after")).order_by(_ALL.seq)
_CHANGED = _CHANGED.limit(bindparam("most", type_=Integer))
_LAST_END = select(func.max(_ALL.ended_at))

_HELD = ALLOCATIONS.c
_HOLDERS = (
    select(_ALL.id, _ALL.name, _ALL.owner, _ALL.status, KERNELS.c.container_id, _HELD.devices)
    .join(ALLOCATIONS, _HELD.session_id == _ALL.id)
    .outerjoin(
        KERNELS, (KERNELS.c.session_id == _HELD.session_id) & (KERNELS.c.name == _HELD.kernel)
    )
    .where(text(HELD))
    .order_by(_HELD.id)
)


def live(db: Connection) -> list[Live]:
    """Sessions that are not over, by resource group and status."""
    return [Live(group, Status(status), n, at) for group, status, n, at in db.execute(_LIVE)]


def ended(db: Connection, since: datetime) -> list[Ended]:
    """Sessions that ended since then, by status and reason."""
    rows = db.execute(_ENDED, {"since": since})
    return [Ended(Status(status), code, count) for status, code, count in rows]


def beginning(db: Connection) -> Beginning:
    """Where who counts from now on begins."""
    seq, last = feed.latest(db), db.execute(_LAST_END).scalar_one()
    return Beginning(seq, last, tuple(_progress(row) for row in db.execute(_LIVE_ROWS)))


def changed(db: Connection, after: int, most: int) -> list[Progress]:
    """Sessions that changed after that number, each once, in the order of their changes."""
    return [_progress(row) for row in db.execute(_CHANGED, {"after": after, "most": most})]


def _progress(row: Row) -> Progress:
    values = row._asdict()
    return Progress(**{**values, "status": Status(values["status"])})


def gpu_holders(db: Connection) -> list[GpuHolder]:
    """Sessions that hold GPUs now, in the order in which they were given them."""
    return [
        GpuHolder(id, name, owner, Status(status), container, devices)
        for id, name, owner, status, container, devices in db.execute(_HOLDERS)
        if devices
    ]
