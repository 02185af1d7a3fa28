"""What becomes of a session whose start failed: one more try, or the end of trying."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, exists, func, select

from ..model.status import (
    MAX_TRIES,
    ON_THE_WAY,
    RETRYABLE,
    IllegalTransition,
    Phase,
    Result,
    Status,
)
from . import sessions
from .history import Outcome
from .records import Session, SubStep
from .tables import HISTORY


def retry_or_give_up(
    db: Connection,
    session_id: str,
    phase: Phase,
    error_code: str,
    *,
    reason: str,
    message: str,
    now: datetime,
    sub_steps: Sequence[SubStep],
    version: int | None,
) -> Session:
    """Back in line where another try may help, else to its end; see `Store.retry_or_give_up`."""
    session = sessions.locked(db, session_id, version)
    if session.status not in ON_THE_WAY:
        raise IllegalTransition(session.status, Status.PENDING)
    tries = _tries(db, session, phase) + 1
    again = error_code in RETRYABLE and tries < MAX_TRIES
    if error_code in RETRYABLE and not again:
        reason += f" It was tried {tries} times. Start it again later, or tell your admin."
    outcome = Outcome(
        phase,
        Result.NEED_RETRY if again else Result.GIVE_UP,
        to_status=Status.PENDING if again else Status.TERMINATING,
        error_code=error_code,
        message=message or reason,
        sub_steps=sub_steps,
    )
    return sessions.move(db, session, outcome, now=now, reason_code=error_code, reason=reason)


_TRIES = select(func.coalesce(func.sum(HISTORY.c.attempts), 0)).where(
    HISTORY.c.session_id == bindparam("of"),
    # Of this life of it: one that is resumed is submitted anew.
    HISTORY.c.created_at >= bindparam("since"),
    HISTORY.c.phase == bindparam("in_phase"),
    HISTORY.c.result == Result.NEED_RETRY.value,
    HISTORY.c.to_status == Status.PENDING.value,
)


_WAS_RETRIED = select(
    exists().where(
        HISTORY.c.session_id == bindparam("of"),
        HISTORY.c.result == Result.NEED_RETRY.value,
        HISTORY.c.to_status.is_not(None),
    )
)


def was_retried(db: Connection, session_id: str) -> bool:
    """Whether a start of the session broke off and was tried again."""
    return bool(db.execute(_WAS_RETRIED, {"of": session_id}).scalar_one())


def _tries(db: Connection, session: Session, phase: Phase) -> int:
    """How often this phase of the session was to be tried again."""
    of = {"of": session.id, "since": session.submitted_at, "in_phase": phase.value}
    return db.execute(_TRIES, of).scalar_one()
