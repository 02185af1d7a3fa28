"""The scheduling history of a session: what was tried, how it went, and where the time went."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import Field

from ...model.status import Phase, Result, Status
from ...site.clock import utcnow
from ...store import HistoryFilter, Session
from .lists import ListSettings
from .session import SessionPage
from .words import entry_to

_COLUMNS = [  # title, class, what it is sorted by
    ("Phase", "", "phase"), ("Result", "", "result"), ("From, to", "", ""), ("Message", "", ""),
    ("Attempts", "", "attempts"), ("Updated", "", "updated_at"), ("Created", "", "created_at"),
]  # fmt: skip
HISTORY = {"history": "backendai/pages/history_list.html"}


class HistoryListQuery(ListSettings):
    """Which rows of a history are shown."""

    phase: Phase | Literal[""] | None = None
    result: Result | Literal[""] | None = None
    from_status: Status | Literal[""] | None = None
    to_status: Status | Literal[""] | None = None
    error_code: str | None = Field(default=None, max_length=255)
    message: str | None = Field(default=None, max_length=255)
    sort: Literal[
        "updated_at", "-updated_at", "created_at", "-created_at", "phase", "-phase",
        "result", "-result", "attempts", "-attempts",
    ] | None = None  # fmt: skip

    @property
    def usual_sort(self) -> str:
        return "-updated_at"

    @property
    def wanted(self) -> HistoryFilter:
        """The filter as the store takes it."""
        return HistoryFilter(
            **{name: getattr(self, name) or None for name in HistoryFilter.__slots__}
        )


class HistoryListPage(SessionPage):
    """What was tried for a session, how it went, and where the time went."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        query = self.read_query(HistoryListQuery)
        db, store = self.site.db, self.site.store
        (rows, total), (_, whole), moves = await asyncio.gather(
            db(store.history_page, session.id, query.wanted, **query.part()),
            db(store.history_page, session.id, limit=0),
            db(store.moves, session.id),
        )  # fmt: skip
        if (last := query.within(total)) != query:
            query = last
            rows, total = await db(store.history_page, session.id, query.wanted, **query.part())
        here = self.page_of(session, "history")
        self.write_page(
            "backendai/pages/history.html", HISTORY,
            session=session, whole=whole, query=query,
            rows=[entry_to(self.caller.name, row, session.owner) for row in rows],
            stretches=stretches(session, moves), events=self.events(session),
            page_of=self.page_of, phases=list(Phase), results=list(Result), statuses=list(Status),
            columns=list(query.columns(here, _COLUMNS)), here_url=here,
            **query.pages(here, total),
        )  # fmt: skip


@dataclass(frozen=True)
class Stretch:
    """Time that went by until a session ran, or ended without; `share` in thousandths of it all."""

    title: str
    kind: str
    seconds: float
    at: int
    share: int


_STRETCHES = {
    Status.PENDING: ("In line", "line"),
    Status.SCHEDULED: ("Being started", "start"),
    Status.PREPARING: ("Being prepared", "prepare"),
    Status.PULLING: ("Image", "image"),
    Status.CREATING: ("Container and server", "kernel"),
}


def stretches(session: Session, moves: Sequence[tuple[Status, datetime]]) -> list[Stretch]:
    """Where the time went until a session ran; a try that failed counts as what it was at.
    `moves`: the statuses that it came to, and when, oldest first."""
    begun = session.submitted_at
    over = session.running_at or session.ended_at or utcnow()
    whole = (over - begun).total_seconds()
    if whole <= 0:
        return []
    found: list[Stretch] = []
    status, since = Status.PENDING, begun
    for next_, at in [*moves, (None, over)]:
        until = min(over, at)
        seconds = (until - since).total_seconds()
        if status in _STRETCHES and seconds > 0:
            place = round(1000 * (since - begun).total_seconds() / whole)
            share = max(2, round(1000 * seconds / whole))
            found.append(Stretch(*_STRETCHES[status], seconds, place, share))
        if next_ is not None:
            status, since = next_, max(since, until)
    return found
