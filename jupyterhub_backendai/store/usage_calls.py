"""Calls of the store about what sessions used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from ..model.usage import Span, Step, Totals, step_of
from . import usage
from .base import StoreBase
from .records import RunningContainer


class UsageCalls(StoreBase):
    """See the head of this module. One transaction a call, as with all of the store."""

    def running_containers(self) -> list[RunningContainer]:
        """The main containers of all sessions that run, and what they were granted."""
        with self._db.query() as db:
            return usage.running(db)

    def add_usage(self, spans: Sequence[Span], *, before: datetime | None, now: datetime) -> None:
        """Notes steps of the finest size, and adds them to the totals of their sessions. Those of
        sessions that are forgotten are left out, and so is a second one of the same end.

        Makes coarser steps where one is over since `before`, when this was called last (None: not
        known), and drops what is kept no longer (`model.usage.KEPT`).
        """
        with self._db.write() as db:
            usage.add(db, spans)
            usage.tidy(db, before, now)

    def usage_spans(self, session_id: str, size: int, since: datetime) -> list[Span]:
        """The stored steps of a session, of one of `model.usage.SIZES`, that ended after `since`,
        oldest first."""
        with self._db.query() as db:
            return usage.spans(db, session_id, size, since)

    def usage_totals(self, session_id: str) -> Totals:
        """Sums, times and peaks of a session since its start."""
        with self._db.query() as db:
            return usage.totals(db, session_id)

    def usage_steps(self, session_ids: Collection[str], since: datetime) -> dict[str, list[Step]]:
        """The stored steps of sessions that ended after `since`, oldest first: of each time the
        finest that is kept. A session without any is left out."""
        with self._db.read() as db:
            found = usage.recent(db, session_ids, since)
        return {
            session_id: [step_of(span) for span in spans] for session_id, spans in found.items()
        }
