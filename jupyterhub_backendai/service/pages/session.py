"""One session: all there is to say about it, and why it is as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from ...model.slots import format_bytes
from ...model.status import IN_LINE, Phase, Status
from ...store import HistoryEntry, Session
from ..auth import READ, START
from ..calls.sessions import find
from ..charts import usage_of
from .idle import IdlePage
from .notices import tab_state
from .use import rows
from .words import entry_to, session_to

DETAIL = {
    "detail": "backendai/pages/session_detail.html",
    "start": "backendai/pages/session_start.html",
    "gpus": "backendai/pages/session_gpus.html",
    "idle": "backendai/pages/session_idle.html",
    "use": "backendai/pages/session_use.html",
}
NEWEST = 20  # rows of a history among which the latest try is looked for


class SessionPage(IdlePage):
    """What all pages of one session share."""

    async def session(self, id: str) -> Session:
        """The session of the address, for who may see it. Raises `Refused`."""
        return session_to(self.caller.name, await find(self.site, self.caller, id, READ))

    def events(self, session: Session) -> str:
        """Whose events tell of a session."""
        return "" if session.owner == self.caller.name else session.owner


class DetailPage(SessionPage):
    """The panel of a session, which is a page by itself too."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        if self.part == "start":
            self.write_page("", DETAIL, session=session, starts_at=await self._start(session))
            return
        if self.part == "idle":
            self.write_page("", DETAIL, **await self.idle(session))
            return
        db, store = self.site.db, self.site.store
        kernels, granted = await asyncio.gather(
            db(store.kernels, session.id), self.site.granted(session)
        )
        if self.part == "gpus":
            usage = await self.service.usages.of(self.site, session, kernels, granted)
            self.write_page("", DETAIL, session=session, usage=usage)
            return
        if self.part == "use":
            gpus = await self.service.usages.of(self.site, session, kernels, granted)
            now = self.service.sampling.now(session.id)
            used = await usage_of(self.site, session, granted, gpus, now, None)
            self.write_page("", DETAIL, rows=list(rows(used)))
            return
        earlier, later, (history, _) = await asyncio.gather(
            db(store.dependencies, session.id),
            db(store.dependents, session.id),
            db(store.history_page, session.id, limit=NEWEST),
        )
        caller = self.caller
        history = [entry_to(caller.name, row, session.owner) for row in history]
        self.write_page(
            "backendai/pages/session.html", DETAIL,
            session=session, kernels=kernels, granted=granted, depends_on=earlier, dependents=later,
            checks=latest_checks(session, history), events=self.events(session),
            can_end=self.may_end(session), readable=self.readable,
            can_rename=caller.may(START, session.owner, session.owner_groups),
            may_order=caller.may_all(START),
            mine=session.owner == caller.name, page_of=self.page_of,
            environment_of=self.environment_of,
            tab_state=tab_state, apps_url=self.page_of(session, "apps"), launch_url=self.launch_url,
            server_url=self.server_url(session), shm=format_bytes(session.request.shm),
        )  # fmt: skip

    async def _start(self, session: Session) -> datetime | None:
        if session.status is not Status.PENDING:
            return None
        return await self.service.estimates.of_session(self.site, self.caller.name, session)


def latest_checks(session: Session, history: Sequence[HistoryEntry]) -> HistoryEntry | None:
    """The newest row that says why a session that waits does; None for one that does not."""
    if session.status not in IN_LINE:
        return None
    rows = (row for row in history if row.phase is Phase.SCHEDULE and row.sub_steps)
    return next(rows, None)
