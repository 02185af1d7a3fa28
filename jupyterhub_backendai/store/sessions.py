"""Sessions: how they come in, and every change of one. How they are found is in `queries`."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import delete, exists, func, select, text, update
from sqlalchemy.orm import Session as Transaction

from ..model.errors import FieldError, Kind, RequestError
from ..model.resolve import SessionRequest
from ..model.status import IllegalTransition, Phase, Result, Status, check_transition
from . import history
from .errors import NotFound
from .history import Outcome, storable
from .records import KernelFacts, Session, SessionResult, session_of
from .tables import LIVE, AllocationRow, KernelRow, SessionRow, table


@dataclass(frozen=True, slots=True)
class Submission:
    """A request with all that the queue has to know beside it."""

    request: SessionRequest
    owner: str
    owner_groups: Collection[str]
    server_name: str
    name: str
    driver: str | None
    max_pending: int | None
    not_before: datetime | None

    def row(self, now: datetime) -> SessionRow:
        """The row of the new session."""
        request = self.request
        return SessionRow(
            id=uuid.uuid4().hex,
            name=self.name,
            server_name=self.server_name,
            owner=self.owner,
            owner_groups=sorted(self.owner_groups),
            project=request.project,
            type=request.type,
            status=Status.PENDING.value,
            reason_code="",
            reason="",
            position=None,
            resource_group=request.resource_group,
            agent_wanted=request.agent,
            agent=None,
            priority=request.priority,
            spec=request.model_dump(mode="json"),
            cpu=request.cpu,
            mem=request.mem,
            shm=request.shm,
            fgpu=request.fgpu,
            result=SessionResult.UNDEFINED.value,
            exit_code=None,
            driver=self.driver,
            submitted_at=now,
            status_changed_at=now,
            not_before=self.not_before,
            version=1,
        )


def submit(db: Transaction, submission: Submission, now: datetime) -> Session:
    """Adds a session that waits. Raises `RequestError`, see `taken`."""
    errors = taken(db, submission)
    if errors:
        raise RequestError(errors)
    row = submission.row(now)
    db.add(row)
    db.flush()
    first = Outcome(
        Phase.SUBMIT, Result.SUCCESS, None, Status.PENDING, message=f"{Phase.SUBMIT.value} success"
    )
    history.record(db, row.id, first, now)
    return session_of(row)


def taken(db: Transaction, submission: Submission) -> list[FieldError]:
    """What stands in the way of a submission: its name, its server, too many that wait."""
    errors = []
    theirs = (text(LIVE), SessionRow.owner == submission.owner)
    if db.scalar(select(exists().where(*theirs, SessionRow.name == submission.name))):
        errors.append(name_in_use(submission.name))
    if db.scalar(select(exists().where(*theirs, SessionRow.server_name == submission.server_name))):
        message = "This server already has a session. End it first."
        errors.append(FieldError("", "server_in_use", message, Kind.CONFLICT))
    if submission.max_pending is not None:
        waiting = (*theirs, SessionRow.status == Status.PENDING.value)
        count = db.scalar(select(func.count()).select_from(SessionRow).where(*waiting)) or 0
        if count >= submission.max_pending:
            errors.append(_too_many_pending(count, submission.max_pending))
    return errors


def _too_many_pending(count: int, most: int) -> FieldError:
    sessions = "1 session waits" if count == 1 else f"{count} sessions wait"
    message = f"{sessions} already, and your limit is {most}. Start this one when fewer wait."
    if most == 0:
        message = "You cannot queue sessions."
    return FieldError("", "too_many_pending", message, Kind.FORBIDDEN)


def name_in_use(name: str) -> FieldError:
    """The error of a name that another live session of the owner has."""
    return FieldError(
        "name",
        "in_use",
        f"You already have a session named {name}. Choose another name, or leave it empty.",
        Kind.CONFLICT,
    )


def locked(db: Transaction, session_id: str) -> SessionRow:
    """The session's row, held by us until the end of the transaction. Raises `NotFound`."""
    row = db.scalars(
        select(SessionRow).where(SessionRow.id == session_id).with_for_update(key_share=True)
    ).one_or_none()
    if row is None:
        raise NotFound(session_id)
    return row


def move(
    db: Transaction,
    session_id: str,
    outcome: Outcome,
    *,
    now: datetime,
    reason_code: str = "",
    reason: str = "",
    expect: Status | None = None,
    exit_code: int | None = None,
    agent: str | None = None,
) -> Session:
    """Takes a session to `outcome.to_status`: the only place that writes a status.

    Raises `NotFound`; `IllegalTransition` too where the status is not what was expected.
    """
    assert outcome.to_status is not None
    row = locked(db, session_id)
    old, new = Status(row.status), outcome.to_status
    if expect is not None and old is not expect:
        raise IllegalTransition(old, new)
    check_transition(old, new)
    row.status = new.value
    row.reason_code, row.reason = reason_code, storable(reason)
    row.status_changed_at = now
    row.position = None
    row.version += 1
    if exit_code is not None:
        _exited(row, exit_code)
    if new is Status.SCHEDULED:
        row.placed_at, row.agent = now, agent
    elif new is Status.PENDING:
        row.placed_at = row.agent = None
    elif new is Status.RUNNING:
        row.running_at = now
    if new.is_final:
        row.ended_at, row.driver = now, None
    if not new.holds_resources:
        _free(db, session_id, now)
    history.record(db, session_id, replace(outcome, from_status=old), now)
    return session_of(row)


def _exited(row: SessionRow, exit_code: int) -> None:
    row.exit_code = exit_code
    if row.type == "batch":
        result = SessionResult.SUCCESS if exit_code == 0 else SessionResult.FAILURE
        row.result = result.value


def _free(db: Transaction, session_id: str, now: datetime) -> None:
    db.execute(
        update(AllocationRow)
        .where(AllocationRow.session_id == session_id, AllocationRow.freed_at.is_(None))
        .values(freed_at=now)
    )


def rename(db: Transaction, session_id: str, name: str) -> Session:
    """Changes the name that the owner reads. Raises `NotFound`, `RequestError` (in use)."""
    row = locked(db, session_id)
    if row.name == name:
        return session_of(row)
    others = (text(LIVE), SessionRow.owner == row.owner, SessionRow.name == name)
    if not Status(row.status).is_final and db.scalar(select(exists().where(*others))):
        raise RequestError([name_in_use(name)])
    row.name = name
    row.version += 1
    db.flush()
    return session_of(row)


def claim(db: Transaction, session_id: str, driver: str, held_by: str | None) -> bool:
    """Makes `driver` the one that works on a session, if that is `held_by` or `driver` now."""
    row = locked(db, session_id)
    if Status(row.status).is_final or row.driver not in (held_by, driver):
        return False
    row.driver = driver
    return True


def release(db: Transaction, session_id: str, driver: str) -> None:
    """Leaves a session to nobody, if `driver` works on it now."""
    row = locked(db, session_id)
    if row.driver == driver:
        row.driver = None


def set_kernel(db: Transaction, session_id: str, name: str, facts: KernelFacts) -> None:
    """Notes facts of a container, and that there is one. Raises `NotFound`."""
    unknown = set(facts) - KernelFacts.__annotations__.keys()
    if unknown:
        raise TypeError(f"a kernel has no {', '.join(sorted(unknown))}")
    locked(db, session_id)
    row = db.get(KernelRow, (session_id, name))
    if row is None:
        row = KernelRow(session_id=session_id, name=name)
        db.add(row)
    for key, value in facts.items():
        setattr(row, key, value.value if isinstance(value, Status) else value)


def forget(db: Transaction, before: datetime, most: int) -> int:
    """Removes up to `most` sessions that were over before that time; their other rows go with
    them. Returns how many it removed."""
    # What ended then was submitted before it: an index leads to the oldest.
    old = (
        select(SessionRow.id)
        .where(SessionRow.submitted_at < before, SessionRow.ended_at < before)
        .order_by(SessionRow.submitted_at)
        .limit(most)
    )
    rows = table(SessionRow)
    return db.connection().execute(delete(rows).where(rows.c.id.in_(old))).rowcount
