"""The scheduling history: what was tried, how it went, how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session as Transaction

from ..model.status import Phase, Result, Status
from .records import HistoryEntry, SubStep, entry_of
from .tables import HistoryRow


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


def record(db: Transaction, session_id: str, outcome: Outcome, now: datetime) -> None:
    """Notes an outcome: counts it in the latest row where it repeats that, else adds a row.

    The caller holds the session's row, so that nobody else notes at the same time.
    """
    latest = db.scalars(
        select(HistoryRow)
        .where(HistoryRow.session_id == session_id)
        .order_by(HistoryRow.id.desc())
        .limit(1)
    ).first()
    if latest is not None and outcome.repeats(
        latest.phase, latest.error_code, latest.to_status, latest.result
    ):
        latest.attempts += 1
        latest.updated_at = now
    else:
        db.add(HistoryRow(**outcome.values(session_id, now)))
    db.flush()


def entries(db: Transaction, session_id: str) -> list[HistoryEntry]:
    """The history of a session, newest first."""
    rows = db.scalars(
        select(HistoryRow).where(HistoryRow.session_id == session_id).order_by(HistoryRow.id.desc())
    )
    return [entry_of(row) for row in rows]


HistoryOrder = Literal["updated_at", "created_at", "phase", "result", "attempts"]

_ORDERS = {
    "updated_at": HistoryRow.updated_at,
    "created_at": HistoryRow.created_at,
    "phase": HistoryRow.phase,
    "result": HistoryRow.result,
    "attempts": HistoryRow.attempts,
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
                wanted.append(getattr(HistoryRow, name) == value.value)
        if self.error_code is not None:
            wanted.append(HistoryRow.error_code == self.error_code)
        if self.message is not None:
            wanted.append(HistoryRow.message.icontains(self.message, autoescape=True))
        return wanted


def page(
    db: Transaction,
    session_id: str,
    wanted: HistoryFilter,
    order: HistoryOrder,
    descending: bool,
    limit: int,
    offset: int,
) -> tuple[list[HistoryEntry], int]:
    """One page of a session's history, and how many rows the whole has."""
    conditions = [HistoryRow.session_id == session_id, *wanted.conditions()]
    total = db.scalar(select(func.count()).select_from(HistoryRow).where(*conditions)) or 0
    key = _ORDERS[order]
    ordered = [key.desc(), HistoryRow.id.desc()] if descending else [key, HistoryRow.id]
    rows = db.scalars(
        select(HistoryRow).where(*conditions).order_by(*ordered).limit(limit).offset(offset)
    )
    return [entry_of(row) for row in rows], total


def storable(sentence: str) -> str:
    """Text of any origin, such as an exception's, without what no database can hold."""
    return sentence.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
