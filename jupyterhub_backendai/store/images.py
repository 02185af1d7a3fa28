"""Images that users make, and the making of them: every statement on their tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, text, update

from ..model.errors import FieldError, Kind, RequestError
from ..model.hibernation import not_hibernatable, too_many
from ..model.images import (
    COMMIT_TRANSITIONS,
    CommitStatus,
    CustomImage,
    ImageStatus,
    is_customized,
    not_committable,
    place_of,
    too_many_images,
)
from ..model.status import Phase, Result, Status
from . import history, kept, queries, remains
from .errors import NotFound
from .history import Outcome, storable
from .image_records import Commit, IllegalCommit, Made, Wish
from .image_tables import COMMITS, IMAGES, UNDER_WAY
from .records import Session
from .tables import LIVE, SESSIONS, UNNUMBERED

_I, _C = IMAGES.c, COMMITS.c
_IMAGE_NAMES = tuple(field.name for field in fields(CustomImage))
_COMMIT_NAMES = tuple(field.name for field in fields(Commit))
_ONE = select(IMAGES).where(_I.id == bindparam("of"))
_OF_OWNER = select(IMAGES).where(_I.owner == bindparam("whose")).order_by(_I.name, _I.id)
_BY_REFERENCE = select(IMAGES).where(_I.reference == bindparam("which"))
_EVERYONES = select(IMAGES).order_by(_I.owner, _I.name, _I.id)
_DELETED = select(IMAGES).where(_I.status == ImageStatus.DELETING.value).order_by(_I.id)
_COMMIT = select(COMMITS).where(_C.id == bindparam("of"))
_LOCK = _COMMIT.with_for_update()
_LATEST = (
    select(COMMITS)
    .where(_C.session_id == bindparam("of"))
    .order_by(_C.began_at.desc(), _C.id)
    .limit(1)
)
_UNDER_WAY = select(COMMITS).where(text(UNDER_WAY)).order_by(_C.began_at, _C.id)
_GOING_TO_REST = (
    select(_C.id)
    .join(SESSIONS, SESSIONS.c.id == _C.session_id)
    .where(
        _C.hibernates,
        _C.status == CommitStatus.DONE.value,
        SESSIONS.c.status == Status.TERMINATING.value,
    )
)
_THEIRS_UNDER_WAY = select(COMMITS).where(text(UNDER_WAY), _C.owner == bindparam("whose"))
_SINCE = (
    select(COMMITS)
    .where(
        _C.owner == bindparam("whose"),
        _C.began_at >= bindparam("since"),
        _C.hibernates.is_(False),
    )
    .order_by(_C.began_at.desc(), _C.id)
)
_USERS = (
    select(SESSIONS.c.name, SESSIONS.c.spec)
    .where(text(LIVE), SESSIONS.c.owner == bindparam("whose"))
    .order_by(SESSIONS.c.submitted_at)
)
_USED = update(IMAGES).where(_I.reference == bindparam("which")).values(used_at=bindparam("at"))
_NEWS = update(SESSIONS).where(SESSIONS.c.id == bindparam("of")).values(seq=UNNUMBERED)
_CHANGE = update(COMMITS).where(_C.id == bindparam("of"))
_CHANGE_IMAGE = update(IMAGES).where(_I.id == bindparam("of"))
_ADD, _ADD_IMAGE = insert(COMMITS), insert(IMAGES)


def under_way() -> FieldError:
    """The error of a second image that is asked for while one is made."""
    message = "An image of this session is being made already. Wait for its end, or cancel it."
    return FieldError("", "under_way", message, Kind.CONFLICT)


@dataclass(frozen=True, slots=True)
class _Base:
    environment: str | None
    version: str | None
    base: str

    @property
    def place(self) -> tuple[str | None, str]:
        return place_of(self.environment, self.base)


def check(
    db: Connection, session: Session, name: str, most: int
) -> tuple[_Base, CustomImage | None]:
    """What an image of a session is made from, and the owner's image whose place it takes. Raises
    `RequestError` where none can be made of it under this name."""
    running = session.status is Status.RUNNING and session.agent is not None
    if (error := not_committable(session.type, running)) is not None:
        raise RequestError([error])
    theirs = _under_way_of(db, session)
    base = _base(db, session)
    image = _replaced(db, session.owner, name, base.place)
    if any((one.name, place_of(one.environment, one.base)) == (name, base.place) for one in theirs):
        message = "An image of this name is being made already. Choose another name, or wait."
        raise RequestError([FieldError("name", "name_under_way", message, Kind.CONFLICT)])
    if image is None:
        ready = [i for i in of_owner(db, session.owner) if i.status is ImageStatus.READY]
        count = len(ready) + sum(1 for one in theirs if one.is_new)
        if count >= most:
            raise RequestError([too_many_images(count, most)])
    return base, image


def check_rest(db: Connection, session: Session, most: int) -> None:
    """Raises `RequestError` where a session cannot be hibernated; `most`: how many of its owner's
    may be."""
    running = session.status is Status.RUNNING and session.agent is not None
    if (error := not_hibernatable(session.type, running)) is not None:
        raise RequestError([error])
    _under_way_of(db, session)
    others = kept.resting(db, session.owner).get(session.owner, set()) - {session.id}
    if (error := too_many(len(others), most)) is not None:
        raise RequestError([error])


def _under_way_of(db: Connection, session: Session) -> list[Commit]:
    """Images that are made of the owner's sessions, to be kept as such. Raises `RequestError` where
    one is made of this session."""
    theirs = [_commit_of(row) for row in db.execute(_THEIRS_UNDER_WAY, {"whose": session.owner})]
    if any(one.session_id == session.id for one in theirs):
        raise RequestError([under_way()])
    return [one for one in theirs if not one.hibernates]


def begin(
    db: Connection,
    session: Session,
    wish: Wish,
    most: int,
    reference: Callable[[str, str], str],
    now: datetime,
) -> Commit:
    """Adds the making of an image; the caller holds the owner, and the session. Raises
    `RequestError`, see `check`."""
    if wish.hibernates:
        check_rest(db, session, most)
        base, image = _base(db, session), None
    else:
        base, image = check(db, session, wish.name, most)
    image_id = uuid.uuid4().hex if image is None else image.id
    commit = Commit(
        id=uuid.uuid4().hex, session_id=session.id, owner=session.owner, asked_by=wish.by,
        image_id=image_id, is_new=image is None, name=wish.name,
        reference=reference(base.base, image_id) if image is None else image.reference,
        environment=base.environment, version=base.version, base=base.base,
        agent=str(session.agent), container_id=wish.container_id, status=CommitStatus.WAITING,
        cancel_asked=False, tries=0, error_code="", message="", size=wish.size, done=None,
        began_at=now, status_changed_at=now, ended_at=None, hibernates=wish.hibernates,
        reason_code=wish.reason_code, reason=wish.reason,
    )  # fmt: skip
    db.execute(_ADD, {name: _stored(getattr(commit, name)) for name in _COMMIT_NAMES})
    message = f"{wish.by} makes the image {wish.name} of it."
    if wish.hibernates:
        why = wish.reason or f"{wish.by} hibernates it."
        message = f"{why} An image of it is made."
    _tell(db, commit, Result.SUCCESS, "image_begun", message, now)
    return commit


def _base(db: Connection, session: Session) -> _Base:
    """What an image of a session is made from, as people know it: below an image of the owner's
    own it is what that was made from."""
    request = session.request
    own = by_reference(db, request.image)
    if own is not None and own.owner == session.owner:
        return _Base(own.environment, own.version, own.base)
    return _Base(request.environment, request.version, request.image)


def _replaced(
    db: Connection, owner: str, name: str, place: tuple[str | None, str]
) -> CustomImage | None:
    """The owner's image that one of this name takes the place of. Raises `RequestError`."""
    for image in of_owner(db, owner):
        if (image.name, image.place) != (name, place):
            continue
        if image.status is ImageStatus.DELETING:
            message = f"The image {name} is being deleted. Wait a moment, or choose another name."
            raise RequestError([FieldError("name", "deleting", message, Kind.CONFLICT)])
        return image
    return None


def move(
    db: Connection,
    commit_id: str,
    to: CommitStatus,
    now: datetime,
    error_code: str = "",
    message: str = "",
) -> Commit:
    """Takes one to another status. Raises `IllegalCommit`, `NotFound`."""
    found = _locked(db, commit_id)
    if to not in COMMIT_TRANSITIONS[found.status]:
        raise IllegalCommit(found.status, to)
    values: dict[str, Any] = {"status": to.value, "status_changed_at": now}
    if to.is_final:
        values |= {"ended_at": now, "error_code": error_code, "message": storable(message)}
    db.execute(_CHANGE.values(values), {"of": commit_id})
    if found.status is CommitStatus.PUSHING and to is not CommitStatus.DONE:
        remains.add(db, found.reference, None, now)  # the registry may have it all the same
    if to is CommitStatus.FAILED:
        _tell(db, found, Result.FAILURE, error_code, message, now)
    elif to is CommitStatus.CANCELLED:
        _tell(db, found, Result.SKIPPED, error_code or "image_cancelled", message, now)
    else:
        db.execute(_NEWS, {"of": found.session_id})
    return commit(db, commit_id)


def finish(db: Connection, commit_id: str, made: Made, now: datetime) -> CustomImage:
    """Ends one in success, with its image. Raises `IllegalCommit`, `NotFound`."""
    found = move(db, commit_id, CommitStatus.DONE, now)
    facts = {
        "environment": found.environment, "version": found.version, "base": found.base,
        **{field.name: getattr(made, field.name) for field in fields(Made)},
        "status": ImageStatus.READY.value, "reason": "", "made_at": now,
    }  # fmt: skip
    earlier = db.execute(_ONE, {"of": found.image_id}).first()
    if earlier is None:
        named = {"id": found.image_id, "owner": found.owner, "name": found.name}
        db.execute(_ADD_IMAGE, {**named, "reference": found.reference, "used_at": None, **facts})
    else:
        db.execute(_CHANGE_IMAGE.values(facts), {"of": found.image_id})
        if earlier.digest not in (None, made.digest):
            remains.add(db, earlier.reference, earlier.digest, now)
    _tell(db, found, Result.SUCCESS, "image_made", f"The image {found.name} is made.", now)
    return one(db, found.image_id)


def ask_cancel(db: Connection, commit_id: str, now: datetime) -> Commit:
    """Has one given up: at once where nothing was begun. Raises `NotFound`."""
    found = _locked(db, commit_id)
    if found.status is CommitStatus.WAITING:
        return move(db, commit_id, CommitStatus.CANCELLED, now, message="It was cancelled.")
    if not found.status.is_final:
        db.execute(_CHANGE.values(cancel_asked=True), {"of": commit_id})
        db.execute(_NEWS, {"of": found.session_id})
    return commit(db, commit_id)


def note(
    db: Connection, commit_id: str, size: int | None, done: int | None, more_tries: int
) -> None:
    """Notes how far one is. Raises `NotFound`."""
    found = _locked(db, commit_id)
    new = {"size": size, "done": done}
    values: dict[str, Any] = {name: value for name, value in new.items() if value is not None}
    values["tries"] = found.tries + more_tries
    db.execute(_CHANGE.values(values), {"of": commit_id})
    db.execute(_NEWS, {"of": found.session_id})


def commit(db: Connection, commit_id: str) -> Commit:
    """Raises `NotFound`."""
    row = db.execute(_COMMIT, {"of": commit_id}).one_or_none()
    if row is None:
        raise NotFound(commit_id, "image")
    return _commit_of(row)


def latest_commit(db: Connection, session_id: str) -> Commit | None:
    """The one that began last."""
    row = db.execute(_LATEST, {"of": session_id}).one_or_none()
    return None if row is None else _commit_of(row)


def commits_under_way(db: Connection) -> list[Commit]:
    """Oldest first."""
    return [_commit_of(row) for row in db.execute(_UNDER_WAY)]


def going_to_rest(db: Connection) -> frozenset[str]:
    """Ids of those that are made and whose session, which stands still, is still being ended."""
    return frozenset(db.scalars(_GOING_TO_REST))


def commits_of(db: Connection, owner: str, since: datetime) -> list[Commit]:
    """Newest first."""
    return [_commit_of(row) for row in db.execute(_SINCE, {"whose": owner, "since": since})]


def forget_commits(db: Connection, before: datetime) -> int:
    """How many were over before then, and are forgotten now."""
    return db.execute(delete(COMMITS).where(_C.ended_at < before)).rowcount


def take(db: Connection, owner: str, reference: str, now: datetime) -> None:
    """Notes that a session is started from an image, if it is one that was made by somebody; the
    caller holds the owner. Raises `RequestError` where it cannot be used (any more)."""
    if not is_customized(reference):
        return
    image = by_reference(db, reference)
    if image is not None and image.owner == owner and image.status is not ImageStatus.READY:
        message = "This image was deleted a moment ago. Choose another."
        raise RequestError([FieldError("image", "unknown", message)])
    db.execute(_USED, {"which": reference, "at": now})


def begin_deletion(db: Connection, image_id: str) -> CustomImage:
    """The caller holds the owner. Raises `NotFound`, `RequestError`."""
    image = one(db, image_id)
    names = users(db, image)
    if names:
        others = "" if len(names) == 1 else f" and {len(names) - 1} more"
        message = f"The session {names[0]}{others} uses it. End that first."
        raise RequestError([FieldError("", "in_use", message, Kind.CONFLICT)])
    theirs = db.execute(_THEIRS_UNDER_WAY, {"whose": image.owner})
    if any(row.image_id == image_id for row in theirs):
        message = "It is being made anew. Wait for the end of that, or cancel it."
        raise RequestError([FieldError("", "under_way", message, Kind.CONFLICT)])
    db.execute(_CHANGE_IMAGE.values(status=ImageStatus.DELETING.value), {"of": image_id})
    return one(db, image_id)


def note_deletion(db: Connection, image_id: str, reason: str) -> None:
    """Raises `NotFound`."""
    one(db, image_id)
    db.execute(_CHANGE_IMAGE.values(reason=storable(reason)), {"of": image_id})


def drop(db: Connection, image_id: str) -> None:
    """Forgets an image."""
    db.execute(delete(IMAGES).where(_I.id == image_id))


def users(db: Connection, image: CustomImage) -> list[str]:
    """Names of its owner's live sessions that are, or will be, of this image."""
    rows = db.execute(_USERS, {"whose": image.owner})
    return [row.name for row in rows if row.spec.image == image.reference]


def of_owner(db: Connection, owner: str) -> list[CustomImage]:
    """By name."""
    return [_image_of(row) for row in db.execute(_OF_OWNER, {"whose": owner})]


def everyones(db: Connection) -> list[CustomImage]:
    """By owner and name."""
    return [_image_of(row) for row in db.execute(_EVERYONES)]


def deleted(db: Connection) -> list[CustomImage]:
    """Those that wait to be removed."""
    return [_image_of(row) for row in db.execute(_DELETED)]


def one(db: Connection, image_id: str) -> CustomImage:
    """Raises `NotFound`."""
    row = db.execute(_ONE, {"of": image_id}).one_or_none()
    if row is None:
        raise NotFound(image_id, "image")
    return _image_of(row)


def by_reference(db: Connection, reference: str) -> CustomImage | None:
    """The image of that reference, whoever's it is."""
    if not is_customized(reference):
        return None
    row = db.execute(_BY_REFERENCE, {"which": reference}).one_or_none()
    return None if row is None else _image_of(row)


def _tell(
    db: Connection, found: Commit, result: Result, code: str, message: str, now: datetime
) -> None:
    """Notes it in the session's history, where it is news; unless that is forgotten."""
    there = db.scalar(
        select(func.count()).select_from(SESSIONS).where(SESSIONS.c.id == found.session_id)
    )
    if not there:
        return
    db.execute(_NEWS, {"of": found.session_id})
    session = queries.get(db, found.session_id)
    phase = Phase.HIBERNATE if found.hibernates else Phase.COMMIT
    outcome = Outcome(phase, result, session.status, None, code or None, message)
    history.add(db, [outcome.values(found.session_id, now)])


def _locked(db: Connection, commit_id: str) -> Commit:
    row = db.execute(_LOCK, {"of": commit_id}).one_or_none()
    if row is None:
        raise NotFound(commit_id, "image")
    return _commit_of(row)


def _commit_of(row: Row[Any]) -> Commit:
    values = {name: getattr(row, name) for name in _COMMIT_NAMES}
    return Commit(**{**values, "status": CommitStatus(values["status"])})


def _image_of(row: Row[Any]) -> CustomImage:
    values = {name: getattr(row, name) for name in _IMAGE_NAMES}
    return CustomImage(**{**values, "status": ImageStatus(values["status"])})


def _stored(value: Any) -> Any:
    return value.value if isinstance(value, CommitStatus) else value
