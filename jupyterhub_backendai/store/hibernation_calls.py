"""Calls of the store about hibernated sessions. One transaction a call, as with all of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from sqlalchemy.exc import IntegrityError

from ..model.catalog import Catalog
from ..model.errors import RequestError
from ..model.hibernation import Hibernation, not_resumable
from ..model.policy import Policies
from ..model.status import Status
from . import images, kept, passes, queries, resting, sessions
from .base import StoreBase
from .image_records import Commit, Made, Wish
from .records import Session
from .resting import Return


class HibernationCalls(StoreBase):
    """See the head of this module."""

    def check_hibernation(self, session_id: str, most: int) -> None:
        """Whether a session may be hibernated now; see `begin_hibernation`."""
        with self._db.read() as db:
            images.check_rest(db, queries.get(db, session_id), most)

    def resting(self) -> dict[str, set[str]]:
        """By owner the ids of the sessions that count as hibernated."""
        with self._db.query() as db:
            return kept.resting(db)

    def begin_hibernation(
        self,
        session_id: str,
        wish: Wish,
        most: int,
        reference: Callable[[str, str], str],
        now: datetime,
    ) -> Commit:
        """Notes that a session is to be hibernated; `most`: how many of its owner's may be.
        `reference` makes the image's full name of its base and its id.

        Raises `NotFound`; `RequestError`: the session is none that can be (`batch`,
        `not_running`), an image of it is being made (`under_way`), one too many
        (`too_many_hibernated`).
        """
        with self._db.query() as db:
            owner = queries.get(db, session_id).owner
        try:
            with self._changing(owner) as db:
                session = sessions.touch(db, session_id)
                return images.begin(db, session, wish, most, reference, now)
        except IntegrityError:
            raise RequestError([images.under_way()]) from None

    def finish_hibernation(
        self, commit_id: str, made: Made, drop_at: datetime | None, now: datetime
    ) -> Session:
        """The image is made: in the same step it and the home are kept, and the session goes to
        its rest. Raises `CommitCancelled`, `IllegalCommit`, `IllegalTransition`, `NotFound`."""
        with self._write() as db:
            return resting.finish(db, commit_id, made, drop_at, now)

    def hibernation(self, session_id: str) -> Hibernation | None:
        """What is kept of a session that is hibernated, or on its way back from that."""
        with self._db.query() as db:
            return kept.current(db, session_id)

    def is_kept(self, session_id: str) -> bool:
        """Whether its home and image are to stay, whatever becomes of it now."""
        with self._db.query() as db:
            return kept.is_kept(db, session_id)

    def kept_sessions(self) -> frozenset[str]:
        """Ids of all sessions of which something is kept."""
        with self._db.query() as db:
            return kept.ids(db)

    def hibernations(self) -> list[Hibernation]:
        """All there are, those of which only an image is left included."""
        with self._db.query() as db:
            return kept.every(db)

    def hibernations_dropping(
        self, owner: str | None, before: datetime | None = None
    ) -> list[tuple[Hibernation, str]]:
        """What is kept of one owner's hibernated sessions, or of all, until some time, before the
        one given; with the sessions' names, the next first."""
        with self._db.query() as db:
            return kept.dropping(db, owner, before)

    def hibernations_back(self, before: datetime) -> list[str]:
        """Ids of sessions that run again since then or longer, and are kept still."""
        with self._db.query() as db:
            return kept.back(db, before)

    def back_for_good(self, session_id: str) -> None:
        """One that runs again is its own from now on: its end will be one. One that does not run
        any more stays as it is. Raises `NotFound`."""
        with self._write() as db:
            if sessions.locked(db, session_id).status is Status.RUNNING:
                kept.let_go(db, session_id)

    def drop_if_due(self, session_id: str, reason_code: str, reason: str, now: datetime) -> bool:
        """Lets go of what is kept of a hibernated session whose time is over; whether it did: its
        owner may have resumed it since anybody looked. Raises `NotFound`."""
        with self._write() as db:
            session, rest = sessions.locked(db, session_id), kept.current(db, session_id)
            if session.status is not Status.HIBERNATED or rest is None or not rest.is_due(now):
                return False
            resting.let_go(db, session, reason_code, reason)
            return True

    def drop_hibernation_at(self, session_id: str, then: datetime | None) -> None:
        """Says until when a session is kept; None: for good. Raises `NotFound`."""
        with self._write() as db:
            sessions.touch(db, session_id)
            kept.drop_at(db, session_id, then)

    def hibernations_over(self) -> list[Hibernation]:
        """Those of which only the image is left, which nothing runs from."""
        with self._db.query() as db:
            return kept.over(db)

    def forget_hibernation(self, id: str) -> None:
        """Its image is removed; what is not there is fine."""
        with self._db.write() as db:
            kept.forget(db, id)

    def resume(
        self,
        session_id: str,
        back: Return,
        now: datetime,
        policies: Policies = Policies(),  # noqa: B008 - frozen
        catalog: Catalog = Catalog(),  # noqa: B008 - frozen
    ) -> Session:
        """Has a hibernated session wait for a place on the agent that has its home; its owner's
        groups are those of now. Raises `NotFound`; `RequestError` where it is not hibernated, and
        where more would wait than may (`too_many_pending`), as with `submit`."""
        with self._db.query() as db:
            owner = queries.get(db, session_id).owner
        with self._changing(owner) as db:
            session = sessions.locked(db, session_id)
            rest = kept.current(db, session_id)
            if session.status is not Status.HIBERNATED or rest is None:
                raise RequestError([not_resumable(session.status)])
            left_waiting = partial(passes.left_waiting, db, owner, policies, catalog, now)
            return resting.resume(db, session, rest, back, now, left_waiting)

    def let_go(
        self, session_id: str, reason_code: str, reason: str, version: int | None = None
    ) -> Session:
        """What was kept of a session is kept no longer, whatever it is doing: one that is
        hibernated, or just going to be, only waits to be removed. Raises `NotFound`, `Changed`."""
        with self._write() as db:
            session = sessions.locked(db, session_id, version)
            return resting.let_go(db, session, reason_code, reason)
