"""Sessions: how they come in, and every change of one. How they are found is in `queries`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, func, insert, select, text, update
from sqlalchemy.orm import Session as Transaction

from ..model.errors import FieldError, Kind, RequestError
from ..model.resolve import SessionRequest
from ..model.secrets import redacted
from ..model.status import IllegalTransition, Phase, Result, Status, check_transition
from . import history, launches
from .errors import Changed, NotFound
from .history import Outcome, storable
from .records import KernelFacts, Session, SessionResult, SubStep, session_of
from .tables import (
    LIVE,
    UNNUMBERED,
    AllocationRow,
    DependencyRow,
    HistoryRow,
    KernelRow,
    SessionRow,
    table,
)  # fmt: skip


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
    asked: Mapping[str, Any] | None

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
            not_before=request.not_before,
            version=1,
            asked=None if self.asked is None else redacted(self.asked),
            batch_started_at=None,
        )


def submit(
    db: Transaction,
    together: Sequence[Submission],
    now: datetime,
    left_waiting: Callable[[], Collection[str]],
) -> list[Session]:
    """Adds sessions of one owner that wait, all or none; they are one launch.

    `left_waiting` gives the ids of the owner's sessions that a pass would not start now. Raises
    `RequestError`, see `taken`; also for more that have to wait than may.
    """
    errors = taken(db, together)
    if errors:
        raise RequestError(errors)
    first = together[0]
    pending = _pending(db, first.owner)
    if first.asked is not None:
        launches.add(db, first.owner, first.name, first.asked, now)
    # A microsecond apart, so that they stand in line in their order.
    apart = timedelta(microseconds=1)
    added = [_add(db, one, now + number * apart) for number, one in enumerate(together)]
    if first.max_pending is not None and pending + len(added) > first.max_pending:
        # Not all of them wait: what was submitted a moment ago, this too, may start at once.
        waiting = set(left_waiting())
        before = waiting.difference(one.id for one in added)
        if len(waiting) > first.max_pending:
            more = len(waiting) - len(before) or len(added)
            raise RequestError([_too_many_pending(len(before), more, first.max_pending)])
    return added


def _pending(db: Transaction, owner: str, *more: ColumnElement[bool]) -> int:
    mine = (text(LIVE), SessionRow.owner == owner, SessionRow.status == Status.PENDING.value)
    return db.scalar(select(func.count()).select_from(SessionRow).where(*mine, *more)) or 0


def _add(db: Transaction, submission: Submission, now: datetime) -> Session:
    row = submission.row(now)
    db.add(row)
    db.flush()
    for earlier in submission.request.depends_on:
        db.add(DependencyRow(session_id=row.id, depends_on=earlier))
    first = Outcome(
        Phase.SUBMIT, Result.SUCCESS, None, Status.PENDING, message=f"{Phase.SUBMIT.value} success"
    )
    history.record(db, row.id, first, now)
    return session_of(row)


def taken(db: Transaction, together: Sequence[Submission]) -> list[FieldError]:
    """What stands in the way of submissions of one owner: a name, a server, too many that a pass
    left waiting, and a session to wait for that is not there any more."""
    errors = []
    first = together[0]
    theirs = (text(LIVE), SessionRow.owner == first.owner)
    names = [submission.name for submission in together]
    for name in db.scalars(select(SessionRow.name).where(*theirs, SessionRow.name.in_(names))):
        errors.append(name_in_use(name))
    servers = [submission.server_name for submission in together]
    if db.scalar(select(exists().where(*theirs, SessionRow.server_name.in_(servers)))):
        message = "This server already has a session. End it first."
        errors.append(FieldError("", "server_in_use", message, Kind.CONFLICT))
    if first.max_pending is not None:
        count = _pending(db, first.owner, SessionRow.reason_code != "")
        if count >= max(first.max_pending, 1):
            errors.append(_too_many_pending(count, len(together), first.max_pending))
    for index, earlier in enumerate(first.request.depends_on):
        if db.get(SessionRow, earlier) is None:
            message = "This session is not there any more. Leave it out."
            errors.append(FieldError(f"depends_on.{index}", "unknown", message))
    return errors


def _too_many_pending(count: int, more: int, most: int) -> FieldError:
    sessions = "1 session waits" if count == 1 else f"{count} sessions wait"
    these = "this one" if more == 1 else f"these {more}"
    message = f"{sessions} already, and your limit is {most}. Start {these} when fewer wait."
    if more > most > 0:
        message = f"These are {more} sessions, and at most {most} of yours may wait. Start fewer."
    if most == 0:
        message = "There is no room for it now, and your sessions may not wait. Try again later."
    return FieldError("", "too_many_pending", message, Kind.FORBIDDEN)


def name_in_use(name: str) -> FieldError:
    """The error of a name that another live session of the owner has."""
    return FieldError(
        "name",
        "in_use",
        f"You already have a session named {name}. Choose another name, or leave it empty.",
        Kind.CONFLICT,
    )


def locked(db: Transaction, session_id: str, version: int | None = None) -> SessionRow:
    """The session's row, held by us until the end of the transaction.

    Raises `NotFound`; `Changed` where it has another version than the one given.
    """
    row = db.scalars(
        select(SessionRow).where(SessionRow.id == session_id).with_for_update(key_share=True)
    ).one_or_none()
    if row is None:
        raise NotFound(session_id)
    if version is not None and row.version != version:
        raise Changed(session_id, row.version)
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
    result_of_work: SessionResult | None = None,
    version: int | None = None,
) -> Session:
    """Takes a session to `outcome.to_status`: with `place` the only one that writes a status.

    Raises `NotFound`, `Changed`; `IllegalTransition` too where the status is not what was expected.
    """
    assert outcome.to_status is not None
    row = locked(db, session_id, version)
    old, new = Status(row.status), outcome.to_status
    if expect is not None and old is not expect:
        raise IllegalTransition(old, new)
    check_transition(old, new)
    row.status = new.value
    row.reason_code, row.reason = reason_code, storable(reason)
    row.status_changed_at = now
    row.position = None
    row.version += 1
    if exit_code is not None and row.result == SessionResult.UNDEFINED.value:
        row.exit_code = exit_code  # else its command's is known, which is the one that counts
    if result_of_work is not None:
        row.result = result_of_work.value
    if new is Status.PENDING:
        row.placed_at = row.agent = row.batch_started_at = None
    elif new is Status.RUNNING:
        row.running_at = now
    if new.is_final:
        row.ended_at, row.driver = now, None
    if not new.holds_resources:
        _free(db, session_id, now)
    history.record(db, session_id, replace(outcome, from_status=old), now)
    return session_of(row)


def _free(db: Transaction, session_id: str, now: datetime) -> None:
    db.execute(
        update(AllocationRow)
        .where(AllocationRow.session_id == session_id, AllocationRow.freed_at.is_(None))
        .values(freed_at=now)
    )


def rename(db: Transaction, session_id: str, name: str, version: int | None) -> Session:
    """Changes the name that the owner reads. Raises `NotFound`, `Changed`, `RequestError`."""
    row = locked(db, session_id, version)
    if row.name == name:
        return session_of(row)
    others = (text(LIVE), SessionRow.owner == row.owner, SessionRow.name == name)
    if not Status(row.status).is_final and db.scalar(select(exists().where(*others))):
        raise RequestError([name_in_use(name)])
    row.name = name
    row.version += 1
    db.flush()
    return session_of(row)


def place(
    db: Transaction,
    agents: Mapping[str, str],
    steps: Callable[[Session], Sequence[SubStep]],
    now: datetime,
) -> list[Session]:
    """Grants places, as agents by session id, to those of these sessions that still wait: the
    same as many moves to SCHEDULED, in few statements. `steps` are what each one's row in the
    history is made of. The caller notes what they hold."""
    check_transition(Status.PENDING, Status.SCHEDULED)
    placed = []
    for some in _portions(list(agents)):
        query = select(SessionRow).where(
            SessionRow.id.in_(some), SessionRow.status == Status.PENDING.value
        )
        rows = {row.id: row for row in db.scalars(query.with_for_update(key_share=True))}
        for session_id in some:
            if session_id in rows:
                _place(rows[session_id], agents[session_id], now)
                placed.append(session_of(rows[session_id]))
    outcome = Outcome(
        Phase.SCHEDULE, Result.SUCCESS, Status.PENDING, Status.SCHEDULED, message="schedule success"
    )
    db.flush()
    if placed:
        values = [replace(outcome, sub_steps=steps(s)).values(s.id, now) for s in placed]
        db.connection().execute(insert(table(HistoryRow)), values)
    return placed


def _place(row: SessionRow, agent: str, now: datetime) -> None:
    row.status = Status.SCHEDULED.value
    row.reason_code = row.reason = ""
    row.status_changed_at = row.placed_at = now
    row.agent, row.position = agent, None
    row.version += 1


def _portions(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """A statement has a bounded number of values."""
    for start in range(0, len(ids), 10_000):
        yield ids[start : start + 10_000]


def mark_batch_started(db: Transaction, session_id: str, at: datetime) -> Session:
    """Notes when the command began, unless that is known."""
    row = locked(db, session_id)
    if row.batch_started_at is None:
        row.batch_started_at = at
        row.version += 1
        db.flush()
    return session_of(row)


def mark_batch_ended(
    db: Transaction, session_id: str, exit_code: int | None, result: SessionResult
) -> Session:
    """Notes what became of the command, unless that is known."""
    row = locked(db, session_id)
    if row.result == SessionResult.UNDEFINED.value:
        row.result = result.value
        if exit_code is not None:
            row.exit_code = exit_code
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
    locked(db, session_id).seq = UNNUMBERED
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
