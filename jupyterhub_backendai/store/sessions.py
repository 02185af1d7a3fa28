"""Sessions: how they come in, and every change of one. How they are found is in `queries`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from sqlalchemy import Connection, bindparam, exists, insert, select, text, update

from ..model.errors import FieldError, Kind, RequestError
from ..model.resolve import SessionRequest
from ..model.secrets import redacted
from ..model.status import PHASES, IllegalTransition, Phase, Result, Status, check_transition
from . import history, images, kept, launches, waiting, ways
from .errors import Changed, NotFound
from .history import Outcome, storable
from .records import Session, SessionResult, SubStep, session_of
from .tables import ALLOCATIONS, DEPENDENCIES, LIVE, SESSIONS, UNNUMBERED
from .waiting import Standing

_ALL = SESSIONS.c
_ADD = insert(SESSIONS)
_CHANGE = update(SESSIONS).where(_ALL.id == bindparam("of"))
_LOCK = select(SESSIONS).where(_ALL.id == bindparam("of")).with_for_update(key_share=True)
_LOCK_WAITING = (
    select(SESSIONS)
    .where(_ALL.id.in_(bindparam("some", expanding=True)), _ALL.status == Status.PENDING.value)
    .with_for_update(key_share=True)
)
_THEIRS = (text(LIVE), _ALL.owner == bindparam("whose"))
_NAMES = select(_ALL.name).where(*_THEIRS, _ALL.name.in_(bindparam("names", expanding=True)))
_EXISTS = select(exists().where(_ALL.id == bindparam("of")))
_ADD_DEPENDENCIES = insert(DEPENDENCIES)
_FREE = (
    update(ALLOCATIONS)
    .where(ALLOCATIONS.c.session_id == bindparam("of"), ALLOCATIONS.c.freed_at.is_(None))
    .values(freed_at=bindparam("at"))
)


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
    launched_by: str | None = None  # where that is not the owner

    def session(self, now: datetime) -> Session:
        """The new session."""
        request = self.request
        return Session(
            id=uuid.uuid4().hex,
            name=self.name,
            server_name=self.server_name,
            owner=self.owner,
            owner_groups=tuple(sorted(self.owner_groups)),
            project=request.project,
            type=request.type,
            status=Status.PENDING,
            reason_code="",
            reason="",
            position=None,
            resource_group=request.resource_group,
            agent=None,
            priority=request.priority,
            request=request,
            result=SessionResult.UNDEFINED,
            exit_code=None,
            driver=self.driver,
            submitted_at=now,
            status_changed_at=now,
            placed_at=None,
            running_at=None,
            ended_at=None,
            not_before=request.not_before,
            version=1,
            asked=None if self.asked is None else redacted(self.asked),
            batch_started_at=None,
        )


def submit(
    db: Connection,
    together: Sequence[Submission],
    now: datetime,
    left_waiting: Callable[[], Collection[str]],
) -> list[Session]:
    """Adds sessions of one owner that wait, all or none; they are one launch.

    `left_waiting` gives the ids of the owner's sessions that a pass would not start now. Raises
    `RequestError`, see `taken`; also for more that have to wait than may.
    """
    before = standing_of(db, together)
    errors = taken(db, together, before)
    if errors:
        raise RequestError(errors)
    first = together[0]
    images.take(db, first.owner, first.request.image, now)
    if first.asked is not None:
        launches.add(db, first.launched_by or first.owner, first.name, first.asked, now)
    # A microsecond apart, so that they stand in line in their order.
    apart = timedelta(microseconds=1)
    added = [_add(db, one, now + number * apart) for number, one in enumerate(together)]
    waiting.check(added, before, first.max_pending, left_waiting)
    return added


def _add(db: Connection, submission: Submission, now: datetime) -> Session:
    session, request = submission.session(now), submission.request
    values = {field.name: stored(getattr(session, field.name)) for field in fields(session)}
    del values["request"]
    db.execute(_ADD, {
        **values, "agent_wanted": request.agent,
        "spec": request.model_dump(mode="json"), "shm": request.shm, **session.slots.as_dict(),
    })  # fmt: skip
    earlier = [{"session_id": session.id, "depends_on": each} for each in request.depends_on]
    if earlier:
        db.execute(_ADD_DEPENDENCIES, earlier)
    first = Outcome(
        Phase.SUBMIT, Result.SUCCESS, None, Status.PENDING, message=f"{Phase.SUBMIT.value} success"
    )
    history.add(db, [first.values(session.id, now)])
    return session


def _change(db: Connection, session: Session, **new: Any) -> Session:
    """Writes what is new of a session, by its names in the record, which the columns have too."""
    db.execute(_CHANGE, {"of": session.id} | {name: stored(new[name]) for name in new})
    return replace(session, **new)


def _without_secrets(db: Connection, session: Session) -> Session:
    """Empties the variables that look secret: nothing is started with them any more."""
    env = redacted({"env": session.request.env})["env"]
    if env == session.request.env:
        return session
    request = session.request.model_copy(update={"env": env})
    db.execute(_CHANGE, {"of": session.id, "spec": request.model_dump(mode="json")})
    return replace(session, request=request)


def stored(value: Any) -> Any:
    """A fact as its column has it."""
    return value.value if isinstance(value, Enum) else value


def touch(db: Connection, session_id: str) -> Session:
    """Makes it news that something of a session changed, and holds it. Raises `NotFound`."""
    session = locked(db, session_id)
    db.execute(_CHANGE, {"of": session_id, "seq": UNNUMBERED})
    return session


def standing_of(db: Connection, together: Sequence[Submission]) -> Standing:
    """What the owner of submissions has before them."""
    return waiting.standing(
        db, together[0].owner, [submission.server_name for submission in together]
    )


def taken(db: Connection, together: Sequence[Submission], before: Standing) -> list[FieldError]:
    """What stands in the way of submissions of one owner: a name, a server, too many that a pass
    left waiting, and a session to wait for that is not there any more."""
    errors = []
    first = together[0]
    names = [submission.name for submission in together]
    for name in db.scalars(_NAMES, {"whose": first.owner, "names": names}):
        errors.append(name_in_use(name))
    if before.on_servers:
        message = "This server already has a session. End it first."
        errors.append(FieldError("", "server_in_use", message, Kind.CONFLICT))
    errors += waiting.left_too_many(before, len(together), first.max_pending)
    for index, earlier in enumerate(first.request.depends_on):
        if not db.scalar(_EXISTS, {"of": earlier}):
            message = "This session is not there any more. Leave it out."
            errors.append(FieldError(f"depends_on.{index}", "unknown", message))
    return errors


def name_in_use(name: str) -> FieldError:
    """The error of a name that another live session of the owner has."""
    return FieldError(
        "name",
        "in_use",
        f"You already have a session named {name}. Choose another name, or leave it empty.",
        Kind.CONFLICT,
    )


def locked(db: Connection, session_id: str, version: int | None = None) -> Session:
    """The session, held by us until the end of the transaction.

    Raises `NotFound`; `Changed` where it has another version than the one given.
    """
    row = db.execute(_LOCK, {"of": session_id}).one_or_none()
    if row is None:
        raise NotFound(session_id)
    if version is not None and row.version != version:
        raise Changed(session_id, row.version)
    return session_of(row)


def move(
    db: Connection,
    session: Session,
    outcome: Outcome,
    *,
    now: datetime,
    reason_code: str = "",
    reason: str = "",
    expect: Status | None = None,
    exit_code: int | None = None,
    result_of_work: SessionResult | None = None,
) -> Session:
    """Takes a session, which is `locked`, to `outcome.to_status`: with `place` the only one that
    writes a status. What would be the end of one that is kept is its rest: HIBERNATED. Raises
    `IllegalTransition`, also where the status is not what was expected.
    """
    assert outcome.to_status is not None
    old, new = session.status, outcome.to_status
    if expect is not None and old is not expect:
        raise IllegalTransition(old, new)
    rest = kept.current(db, session.id) if new.is_final else None
    if rest is not None:
        new = Status.HIBERNATED
        outcome = replace(outcome, to_status=new)
    check_transition(old, new)
    changes: dict[str, Any] = {
        "status": new, "reason_code": reason_code, "reason": storable(reason),
        "status_changed_at": now, "position": None, "version": session.version + 1,
    }  # fmt: skip
    if exit_code is not None and session.result is SessionResult.UNDEFINED:
        changes["exit_code"] = exit_code  # else its command's is known, which is what counts
    if result_of_work is not None:
        changes["result"] = result_of_work
    if new is Status.PENDING:
        changes |= {"placed_at": None, "agent": None, "batch_started_at": None}
    elif new is Status.RUNNING:
        changes["running_at"] = now
    if new.is_final:
        changes |= {"ended_at": now, "driver": None}
    elif new is Status.HIBERNATED:
        changes["driver"] = None
        if rest is not None:
            changes["agent"] = rest.agent  # which a start that came to nothing may not have had
            if session.submitted_at > rest.made_at:
                kept.rest_again(db, rest, now)
    session = _change(db, session, **changes)
    if new.is_final:
        session = _without_secrets(db, session)
    if not new.holds_resources and session.agent is not None:  # else it was never open
        ways.end_with(db, session.id, now)
    if not new.holds_resources:
        db.execute(_FREE, {"of": session.id, "at": now})
    # Never one more attempt of the latest row: that led to the old status, or to none.
    history.add(db, [replace(outcome, from_status=old).values(session.id, now)])
    return session


def advance(
    db: Connection, session_id: str, to: Status, now: datetime, sub_steps: Sequence[SubStep] = ()
) -> Session:
    """A move with which the phase of the status before ends in success."""
    session = locked(db, session_id)
    phase = PHASES.get(session.status, Phase.START)
    outcome = Outcome(
        phase, Result.SUCCESS, to_status=to, message=f"{phase.value} success", sub_steps=sub_steps
    )
    return move(db, session, outcome, now=now)


@dataclass(frozen=True, slots=True)
class NewPriority:
    """How soon it is to be a session's turn, who says so, and when."""

    priority: int
    by: str
    now: datetime


def change(
    db: Connection,
    session_id: str,
    name: str | None,
    place: NewPriority | None,
    version: int | None,
) -> Session:
    """Changes the name that the owner reads, or the priority; what is None stays. Raises
    `NotFound`, `Changed`, `RequestError`."""
    session = locked(db, session_id, version)
    new: dict[str, Any] = {}
    if name not in (None, session.name):
        others = db.scalars(_NAMES, {"whose": session.owner, "names": [name]})
        if not session.status.is_final and others.first() is not None:
            raise RequestError([name_in_use(str(name))])
        new["name"] = name
    if place is not None and place.priority != session.priority:
        if session.status is not Status.PENDING:
            message = "It does not wait any more, so it has no place in line."
            raise RequestError([FieldError("priority", "not_pending", message, Kind.CONFLICT)])
        new["priority"] = place.priority
        message = f"{place.by} changed its priority from {session.priority} to {place.priority}."
        moved = Outcome(Phase.SCHEDULE, Result.SUCCESS, session.status, None, None, message)
        history.record(db, session_id, moved, place.now)
    return _change(db, session, **new, version=session.version + 1) if new else session


def place(
    db: Connection,
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
        rows = {row.id: row for row in db.execute(_LOCK_WAITING, {"some": some})}
        for session_id in some:
            if session_id in rows:
                session = session_of(rows[session_id])
                placed.append(_place(db, session, agents[session_id], now))
    outcome = Outcome(
        Phase.SCHEDULE, Result.SUCCESS, Status.PENDING, Status.SCHEDULED, message="schedule success"
    )
    history.add(db, [replace(outcome, sub_steps=steps(s)).values(s.id, now) for s in placed])
    return placed


def _place(db: Connection, session: Session, agent: str, now: datetime) -> Session:
    return _change(
        db, session, status=Status.SCHEDULED, reason_code="", reason="", status_changed_at=now,
        placed_at=now, agent=agent, position=None, version=session.version + 1,
    )  # fmt: skip


def _portions(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """A statement has a bounded number of values."""
    for start in range(0, len(ids), 10_000):
        yield ids[start : start + 10_000]


def mark_batch_started(db: Connection, session_id: str, at: datetime) -> Session:
    """Notes when the command began, unless that is known."""
    session = locked(db, session_id)
    if session.batch_started_at is not None:
        return session
    return _change(db, session, batch_started_at=at, version=session.version + 1)


def mark_batch_ended(
    db: Connection, session_id: str, exit_code: int | None, result: SessionResult
) -> Session:
    """Notes what became of the command, unless that is known."""
    session = locked(db, session_id)
    if session.result is not SessionResult.UNDEFINED:
        return session
    known = {} if exit_code is None else {"exit_code": exit_code}
    return _change(db, session, result=result, **known)


def claim(db: Connection, session_id: str, driver: str, held_by: str | None) -> Session | None:
    """Makes `driver` the one that works on a session, if that is `held_by` or `driver` now."""
    session = locked(db, session_id)
    if session.status.is_final or session.driver not in (held_by, driver):
        return None
    return session if session.driver == driver else _change(db, session, driver=driver)


def release(db: Connection, session_id: str, driver: str) -> None:
    """Leaves a session to nobody, if `driver` works on it now."""
    session = locked(db, session_id)
    if session.driver == driver:
        _change(db, session, driver=None)
