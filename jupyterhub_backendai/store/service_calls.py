"""Calls of the store that the service brought: the change feed, launches, dependencies, outlook."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from ..model.catalog import Catalog
from ..model.policy import Policies
from ..model.request import KnownSession, SessionRequest
from ..model.status import Status
from ..scheduling.snapshot import Pending
from . import feed, history, launches, metrics, outlook, passes, queries
from .base import StoreBase
from .feed import Change
from .history import HistoryFilter, HistoryOrder
from .launches import Launch
from .metrics import Beginning, Ended, GpuHolder, Live, Progress
from .outlook import Ahead
from .records import AgentState, HistoryEntry, Session


class ServiceCalls(StoreBase):
    """See the head of this module. One transaction a call, as with all of the store."""

    # -- the change feed

    def seq(self) -> int:
        """The number of the latest change of any session; 0 before the first."""
        with self._db.query() as db:
            return feed.latest(db)

    def changes(
        self, after_seq: int, owner: str | None = None, limit: int = 1000
    ) -> Sequence[Change]:
        """Sessions that changed after that number, of one owner or of all, each as it is now and
        once, by the number of its latest change. Go on with the number of the last one."""
        with self._db.query() as db:
            return feed.changes(db, after_seq, owner, limit)

    def agent_changes(self, after_seq: int) -> list[AgentState]:
        """Agents that began or ceased to answer or to take sessions after that number, each as it
        is now. Read it after `changes`, then it lacks none that came before those."""
        with self._db.query() as db:
            return feed.agent_changes(db, after_seq)

    def queue_news(self, after_seq: int) -> tuple[int, bool]:
        """The number of the latest change, and whether one after `after_seq` may let a session
        start: a pass and a look at what is placed are due then."""
        with self._db.query() as db:
            return feed.queue_news(db, after_seq)

    # -- recent launches

    def launches(self, owner: str) -> list[Launch]:
        """The owner's five newest launches that are not pinned and all that are, newest first."""
        with self._db.query() as db:
            return launches.of(db, owner)

    def change_launch(
        self, owner: str, launch_id: int, *, name: str | None = None, pinned: bool | None = None
    ) -> Launch:
        """Gives a launch another name, or keeps it for ever, or no longer; what is None stays.
        Raises `NotFound`, `RequestError` (`too_many`)."""
        with self._changing(owner) as db:
            return launches.change(db, owner, launch_id, name=name, pinned=pinned)

    def remove_launch(self, owner: str, launch_id: int) -> None:
        """Forgets a launch. Raises `NotFound`."""
        with self._write() as db:
            launches.remove(db, owner, launch_id)

    # -- sessions and their history

    def find_sessions(self, owner: str, references: Collection[str]) -> Mapping[str, KnownSession]:
        """The owner's sessions of these ids or names (the newest of a name), by what was asked
        for; what is not there is left out."""
        with self._db.query() as db:
            return queries.find(db, owner, references)

    def dependencies(self, session_id: str) -> list[Session]:
        """Sessions that this one waits or waited for, oldest first."""
        with self._db.query() as db:
            return queries.dependencies(db, session_id)

    def dependents(self, session_id: str) -> list[Session]:
        """Sessions that wait or waited for this one, oldest first."""
        with self._db.query() as db:
            return queries.dependents(db, session_id)

    def moves(self, session_id: str) -> list[tuple[Status, datetime]]:
        """The statuses that a session came to, and when, oldest first."""
        with self._db.query() as db:
            return history.moves(db, session_id)

    def history_page(
        self,
        session_id: str,
        wanted: HistoryFilter = HistoryFilter(),  # noqa: B008 - frozen
        *,
        order: HistoryOrder = "updated_at",
        descending: bool = True,
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[list[HistoryEntry], int]:
        """One page of what was tried for a session, and how many rows the whole has."""
        with self._db.read() as db:
            return history.page(db, session_id, wanted, order, descending, limit, offset)

    # -- when what waits may start

    def ahead(self, policies: Policies, catalog: Catalog, now: datetime) -> Ahead:
        """All that estimates are made from, of any sessions."""
        with self._db.read() as db:
            return outlook.ahead(db, policies, catalog, now)

    def candidate(self, request: SessionRequest, owner: str, now: datetime) -> Pending:
        """A session of this owner as it would wait if it were submitted at that time."""
        with self._db.read() as db:
            return passes.candidate(db, request, owner, now)

    # -- what metrics are made from

    def live_counts(self) -> list[Live]:
        """Sessions that are not over, by resource group and status."""
        with self._db.query() as db:
            return metrics.live(db)

    def ended_counts(self, since: datetime) -> list[Ended]:
        """Sessions that ended since then, by status and reason."""
        with self._db.query() as db:
            return metrics.ended(db, since)

    def beginning(self) -> Beginning:
        """Where who counts sessions from now on begins."""
        with self._db.read() as db:
            return metrics.beginning(db)

    def progress_after(self, after_seq: int, limit: int) -> list[Progress]:
        """How far sessions have come that changed after that number, each once, in the order of
        their changes. Go on with the number of the last one."""
        with self._db.query() as db:
            return metrics.changed(db, after_seq, limit)

    def gpu_holders(self) -> list[GpuHolder]:
        """Sessions that hold GPUs now, in the order in which they were given them."""
        with self._db.query() as db:
            return metrics.gpu_holders(db)
