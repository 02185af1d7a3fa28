"""Calls of the store about idle checks. One transaction a call, as with all of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from ..model.errors import FieldError, Kind, RequestError
from ..model.status import Phase, Result, Status
from . import history, idle, sessions
from .base import StoreBase
from .history import Outcome
from .idle import ClockRecord, IdleRecord


class IdleCalls(StoreBase):
    """See the head of this module."""

    def idle_records(self) -> dict[str, IdleRecord]:
        """What idle checks know of the sessions that are not over."""
        with self._db.query() as db:
            return idle.live(db)

    def save_idle(
        self,
        records: Mapping[str, IdleRecord],
        clock: ClockRecord,
        since: Mapping[str, datetime | None],
    ) -> None:
        """Notes what they know now; of sessions in `since` if they run since then. What an owner
        keeps is not theirs to say, and stays."""
        with self._db.write() as db:
            idle.save(db, records, since)
            idle.save_clock(db, clock)

    def idle_clock(self) -> ClockRecord | None:
        """The clock of idle checks as it was noted last."""
        with self._db.query() as db:
            return idle.clock(db)

    def keep_session(
        self,
        session_id: str,
        otherwise: IdleRecord,
        extend: Callable[[IdleRecord], IdleRecord],
        sentence: str,
        now: datetime,
    ) -> IdleRecord:
        """Notes that an owner keeps a session: what `extend` makes of what is noted of it
        (`otherwise` where nothing is), and the sentence in its history. `extend` may raise, and
        then nothing is done. Raises `NotFound`; `RequestError` for one that does not run."""
        with self._write() as db:
            status = sessions.touch(db, session_id).status
            if status is not Status.RUNNING:
                message = f"It does not run: it is {status.value}."
                raise RequestError([FieldError("", "not_running", message, Kind.CONFLICT)])
            record = extend(idle.one(db, session_id) or otherwise)
            idle.keep(db, session_id, record)
            outcome = Outcome(Phase.KEEP, Result.SUCCESS, status, None, "kept", sentence)
            history.add(db, [outcome.values(session_id, now)])
            return record
