"""A session's way to its rest and back: what changes together with what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, update

from ..model.errors import RequestError
from ..model.hibernation import Hibernation, hibernated_by
from ..model.images import CommitStatus
from ..model.status import Phase, Result, Status
from . import images, kept, sessions, waiting
from .history import Outcome, storable
from .idle_tables import IDLE
from .image_records import CommitCancelled, Made
from .records import Session
from .tables import SESSIONS

CODE = "hibernated"
_AGAIN = (
    update(SESSIONS)
    .where(SESSIONS.c.id == bindparam("of"))
    .values(
        agent_wanted=bindparam("there"),
        submitted_at=bindparam("at"),
        owner_groups=bindparam("groups"),
    )
)
_CHANGE = update(SESSIONS).where(SESSIONS.c.id == bindparam("of"))
_NOT_IDLE = delete(IDLE).where(IDLE.c.session_id == bindparam("of"))


def finish(
    db: Connection, commit_id: str, made: Made, drop_at: datetime | None, now: datetime
) -> Session:
    """See `HibernationCalls.finish_hibernation`."""
    session = sessions.locked(db, images.commit(db, commit_id).session_id)
    done = images.move(db, commit_id, CommitStatus.DONE, now)
    if done.cancel_asked:
        raise CommitCancelled(commit_id)
    by = done.reason or hibernated_by(done.asked_by)
    outcome = Outcome(
        Phase.HIBERNATE, Result.SUCCESS, to_status=Status.TERMINATING, message=by
    )  # fmt: skip
    session = sessions.move(
        db,
        session,
        outcome,
        now=now,
        expect=Status.RUNNING,
        reason_code=done.reason_code or CODE,
        reason=by,
    )
    kept.add(db, Hibernation(
        id=done.image_id, session_id=session.id, owner=session.owner, agent=done.agent,
        reference=done.reference, engine_id=made.engine_id, size=made.size, own=made.own,
        made_at=now, drop_at=drop_at, current=True,
    ))  # fmt: skip
    return session


@dataclass(frozen=True, slots=True)
class Return:
    """Who has a session resumed, and what its owner is by now: which groups they are in, and how
    many of theirs may wait. `vouched`: it is an admin, who says that it is that owner's."""

    by: str
    owner_groups: Collection[str]
    max_pending: int | None
    vouched: bool = False


def resume(
    db: Connection,
    session: Session,
    rest: Hibernation,
    back: Return,
    now: datetime,
    left_waiting: Callable[[], Collection[str]],
) -> Session:
    """See `HibernationCalls.resume`. It stands in line behind all who wait, and its idle checks
    begin anew."""
    before, groups = waiting.standing(db, session.owner), tuple(sorted(back.owner_groups))
    if errors := waiting.left_too_many(before, 1, back.max_pending):
        raise RequestError(errors)
    outcome = Outcome(
        Phase.RESUME, Result.SUCCESS, to_status=Status.PENDING, message=f"{back.by} resumed it."
    )
    session = sessions.move(db, session, outcome, now=now)
    # The newest that came in says in which groups its owner is: all of theirs go by that.
    db.execute(_AGAIN, {"of": session.id, "there": rest.agent, "at": now, "groups": groups})
    db.execute(_NOT_IDLE, {"of": session.id})
    if back.vouched:
        kept.vouch(db, rest, now)
    waiting.check([session], before, back.max_pending, left_waiting)
    return replace(session, submitted_at=now, owner_groups=groups)


def let_go(db: Connection, session: Session, reason_code: str, reason: str) -> Session:
    """See `HibernationCalls.let_go`. The first reason counts, as with every end; why it was to rest
    is none."""
    was_kept = kept.is_kept(db, session.id)
    kept.let_go(db, session.id)
    if session.status not in (Status.HIBERNATED, Status.TERMINATING) or not was_kept:
        return session
    session = replace(
        session, reason_code=reason_code, reason=storable(reason), version=session.version + 1
    )
    db.execute(_CHANGE, {
        "of": session.id, "reason_code": session.reason_code, "reason": session.reason,
        "version": session.version,
    })  # fmt: skip
    return session
