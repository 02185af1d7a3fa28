"""The scheduling history: what was tried, how it went, how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, bindparam, func, insert, select, update

from ..model.status import Phase, Result, Status
from .records import HistoryEntry, SubStep, entry_of
from .tables import HISTORY


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a phase went, as it is to be noted. `to_status` is None where the status stays."""

    phase: Phase
    result: Result
    from_status: Status | None = None
    to_status: Status | None = None
    error_code: str | None = None
    message: str = ""
    sub_steps: Sequence[SubStep] = ()

    def repeats(
        self, phase: str, error_code: str | None, to_status: str | None, result: str
    ) -> bool:
        """Whether this is one more attempt of what the latest row, given here, tells.

        A skip (it was not its turn) is never an attempt, so that waiting behind others does not
        count towards giving up. `from_status` and the other results do not matter.
        """
        here = self.to_status.value if self.to_status else None
        if (phase, error_code, to_status) != (self.phase.value, self.error_code, here):
            return False
        return (result == Result.SKIPPED.value) == (self.result is Result.SKIPPED)

    def values(self, session_id: str, now: datetime) -> dict[str, Any]:
        """The columns of a first row for this outcome."""
        return {
            "session_id": session_id,
            "phase": self.phase.value,
            "from_status": self.from_status.value if self.from_status else None,
            "to_status": self.to_status.value if self.to_status else None,
            "result": self.result.value,
            "error_code": self.error_code,
            "message": storable(self.message),
            "sub_steps": [step.as_dict() for step in self.sub_steps],
            "attempts": 1,
            "created_at": now,
            "updated_at": now,
        }


_ALL = HISTORY.c
_OF_SESSION = select(HISTORY).where(_ALL.session_id == bindparam("of")).order_by(_ALL.id.desc())
_MOVES = (
    select(_ALL.to_status, _ALL.created_at)
    .where(_ALL.session_id == bindparam("of"), _ALL.to_status.is_not(None))
    .order_by(_ALL.id)
)
_LATEST = (
    select(_ALL.id, _ALL.phase, _ALL.error_code, _ALL.to_status, _ALL.result)
    .where(_ALL.session_id == bindparam("of"))
    .order_by(_ALL.id.desc())
    .limit(1)
)
_ADD = insert(HISTORY)
_ONCE_MORE = (
    update(HISTORY)
    .where(_ALL.id == bindparam("of"))
    .values(attempts=_ALL.attempts + 1, updated_at=bindparam("at"))
)


def record(db: Connection, session_id: str, outcome: Outcome, now: datetime) -> None:
    """Notes an outcome: counts it in the latest row where it repeats that, else adds a row.

    The caller holds the session's row, so that nobody else notes at the same time.
    """
    latest = db.execute(_LATEST, {"of": session_id}).first()
    if latest is not None and outcome.repeats(
        latest.phase, latest.error_code, latest.to_status, latest.result
    ):
        count_again(db, [latest.id], now)
    else:
        add(db, [outcome.values(session_id, now)])


def add(db: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows as `Outcome.values` gives them."""
    if rows:
        db.execute(_ADD, rows)


def count_again(db: Connection, rows: Sequence[int], now: datetime) -> None:
    """Counts one more attempt in each of these rows, by their ids."""
    if rows:
        db.execute(_ONCE_MORE, [{"of": row, "at": now} for row in rows])


def entries(db: Connection, session_id: str) -> list[HistoryEntry]:
    """The history of a session, newest first."""
    return [entry_of(row) for row in db.execute(_OF_SESSION, {"of": session_id})]


def moves(db: Connection, session_id: str) -> list[tuple[Status, datetime]]:
    """The statuses that a session came to, and when, oldest first."""
    rows = db.execute(_MOVES, {"of": session_id})
    return [(Status(row.to_status), row.created_at) for row in rows]


HistoryOrder = Literal["updated_at", "created_at", "phase", "result", "attempts"]

_ORDERS = {
    "updated_at": _ALL.updated_at,
    "created_at": _ALL.created_at,
    "phase": _ALL.phase,
    "result": _ALL.result,
    "attempts": _ALL.attempts,
}


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which rows of a history are wanted; None is all. `message` is any part of one."""

    phase: Phase | None = None
    result: Result | None = None
    from_status: Status | None = None
    to_status: Status | None = None
    error_code: str | None = None
    message: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as conditions of a query."""
        wanted: list[ColumnElement[bool]] = []
        for name in ("phase", "result", "from_status", "to_status"):
            value = getattr(self, name)
            if value is not None:
                wanted.append(_ALL[name] == value.value)
        if self.error_code is not None:
            wanted.append(_ALL.error_code == self.error_code)
        if self.message is not None:
            wanted.append(_ALL.message.icontains(self.message, autoescape=True))
        return wanted


def page(
    db: Connection,
    session_id: str,
    wanted: HistoryFilter,
    order: HistoryOrder,
    descending: bool,
    limit: int,
    offset: int,
) -> tuple[list[HistoryEntry], int]:
    """One page of a session's history, and how many rows the whole has."""
    conditions = [_ALL.session_id == session_id, *wanted.conditions()]
    total = db.scalar(select(func.count()).select_from(HISTORY).where(*conditions)) or 0
    key = _ORDERS[order]
    ordered = [key.desc(), _ALL.id.desc()] if descending else [key, _ALL.id]
    rows = db.execute(
        select(HISTORY).where(*conditions).order_by(*ordered).limit(limit).offset(offset)
    )
    return [entry_of(row) for row in rows], total


def storable(sentence: str) -> str:
    """Text of any origin, such as an exception's, without what no database can hold."""
    return sentence.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
