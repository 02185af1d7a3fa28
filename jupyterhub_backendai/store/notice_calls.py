"""Calls of the store about notices. One transaction a call, as with all of the store."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.exc import IntegrityError

from . import notices
from .base import StoreBase
from .notices import Notice, NoticeKey, NoticeState


class NoticeCalls(StoreBase):
    """See the head of this module. `run`: the id of a run of a process."""

    def notices(self) -> list[Notice]:
        """The notices of sessions that are not over, in the order in which they changed."""
        with self._db.query() as db:
            return notices.live(db)

    def claim_notice(self, key: NoticeKey, run: str, now: datetime) -> Notice | None:
        """Makes `run` the one that sends a notice, which is then sent by nobody else. None where
        it was sent, is being sent, or its session is forgotten."""
        try:
            with self._db.write() as db:
                return notices.claim(db, key, run, now)
        except IntegrityError:  # somebody else was as fast
            return None

    def note_notice(self, key: NoticeKey, run: str, state: NoticeState, now: datetime) -> None:
        """Notes what became of a notice that `run` has claimed; of another nothing."""
        with self._db.write() as db:
            notices.note(db, key, run, state, now)

    def settle_notices(self, run: str, now: datetime) -> int:
        """Notes that whatever an earlier run was sending when it ended may have gone out. Returns
        how many there were."""
        with self._db.write() as db:
            return notices.settle(db, run, now)
