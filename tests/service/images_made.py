"""Images in a service's store, made by the store's own calls, and agents that make them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from jupyterhub_backendai.model.hibernation import IMAGE_NAME
from jupyterhub_backendai.model.images import CommitStatus, CustomImage, reference_of
from jupyterhub_backendai.model.slots import GIB
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Commit, Made, Session, Wish

from .image_shelf import shelf_of
from .running import Running

MOST = 3
MOST_REST = 100  # the tests of one module share a service, and what rests there
KEPT = timedelta(days=14)


def with_engine(running: Running) -> None:
    """Has the service's agents make images."""
    shelf = shelf_of(running)
    shelf.written = 2 * GIB


def begin(running: Running, session: Session, name: str) -> Commit:
    """The making of an image, which waits."""
    wish = Wish(name, session.owner, "c0ffee", 2 * GIB)
    return running.store.begin_commit(session.id, wish, MOST, reference_of, utcnow())


def begin_rest(running: Running, session: Session) -> Commit:
    """The hibernating of a session, which waits."""
    wish = Wish(IMAGE_NAME, session.owner, "c0ffee", 2 * GIB, hibernates=True)
    return running.store.begin_hibernation(session.id, wish, MOST_REST, reference_of, utcnow())


def rest(running: Running, session: Session, kept: timedelta | None = KEPT) -> Session:
    """A session that is hibernated."""
    commit = move(running, begin_rest(running, session), CommitStatus.COMMITTING)
    made = Made("sha256:1", "sha256:0", 7 * GIB, 2 * GIB, session.agent)
    now = utcnow()
    running.store.finish_hibernation(commit.id, made, None if kept is None else now + kept, now)
    told = running.store.get(session.id)
    return running.store.move(
        session.id, Status.TERMINATED, phase=Phase.TERMINATE, now=now,
        reason_code=told.reason_code, reason=told.reason,
    )  # fmt: skip


def move(running: Running, commit: Commit, *statuses: CommitStatus, **more: Any) -> Commit:
    """On through these statuses."""
    for status in statuses:
        commit = running.store.move_commit(commit.id, status, utcnow(), **more)
    return commit


def make(running: Running, session: Session, name: str) -> CustomImage:
    """An image that is made, on the agent of its session."""
    commit = move(running, begin(running, session, name), CommitStatus.COMMITTING)
    made = Made("sha256:1", "sha256:0", 7 * GIB, 2 * GIB, session.agent)
    return running.store.finish_commit(commit.id, made, utcnow())
