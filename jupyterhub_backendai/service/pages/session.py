"""One session: all there is to say about it, and why it is as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ...model.images import CommitStatus, ImageStatus
from ...model.slots import format_bytes
from ...model.status import IN_LINE, Phase, Status
from ...site.clock import utcnow
from ...store import Commit, HistoryEntry, NotFound, Session
from ..auth import READ, START
from ..calls.sessions import find
from ..charts import usage_of
from ..image_rows import CommitRow
from .idle import IdlePage
from .images import images_url, launch_link
from .notices import KEPT, tab_state
from .resting import rest_of
from .use import rows
from .words import entry_to, said_to, session_to

DETAIL = {
    "detail": "backendai/pages/session_detail.html",
    "start": "backendai/pages/session_start.html",
    "gpus": "backendai/pages/session_gpus.html",
    "idle": "backendai/pages/session_idle.html",
    "use": "backendai/pages/session_use.html",
}
NOT_HERE = frozenset({"engine_cannot", "under_way"})  # the one is never, the other is shown anyway
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
        may = self.caller.may(START, session.owner, session.owner_groups)
        earlier, later, (history, _), image, rest = await asyncio.gather(
            db(store.dependencies, session.id),
            db(store.dependents, session.id),
            db(store.history_page, session.id, limit=NEWEST),
            self._image(session),
            rest_of(self, session, may),
        )
        caller = self.caller
        history = [entry_to(caller.name, row, session.owner) for row in history]
        self.write_page(
            "backendai/pages/session.html", DETAIL,
            session=session, kernels=kernels, granted=granted, depends_on=earlier, dependents=later,
            checks=latest_checks(session, history), events=self.events(session),
            can_end=self.may_end(session), readable=self.readable,
            can_rename=may,
            may_order=caller.may_all(START),
            mine=session.owner == caller.name, page_of=self.page_of,
            environment_of=self.environment_of,
            tab_state=tab_state, apps_url=self.page_of(session, "apps"), launch_url=self.launch_url,
            **image, **rest,
            server_url=self.server_url(session), shm=format_bytes(session.request.shm),
        )  # fmt: skip

    async def _image(self, session: Session) -> dict[str, Any]:
        """Of the image that was made of it last, or may be made."""
        reader, owner = self.caller.name, session.owner
        commit = await self.site.db(self.site.store.commit_of, session.id)
        may = self.caller.may(START, owner, session.owner_groups)
        obstacle = None
        if may and session.status is Status.RUNNING:
            obstacle = await self.service.images.obstacle(self.site, session)
        row = None if commit is None else CommitRow.of(commit)
        # What can be made of no session here at all is not offered.
        offered = may and session.status is Status.RUNNING and session.type == "interactive"
        offered = offered and (obstacle is None or obstacle.code not in NOT_HERE)
        return {
            "commit": row if row is not None and shown(row) else None,
            "commit_url": self.page_of(session, "commit") if may else "",
            "can_commit": offered and obstacle is None,
            "no_image": said_to(reader, obstacle.message, owner) if offered and obstacle else "",
            "images_url": images_url(self.hub_auth.base_url, reader, owner),
            "launch_image": await self._launch_image(commit),
        }  # fmt: skip

    async def _launch_image(self, commit: Commit | None) -> str:
        """Where a session is launched from what was made; empty where that is gone."""
        if commit is None or commit.status is not CommitStatus.DONE:
            return ""
        db, store = self.site.db, self.site.store
        try:
            image, agents = await asyncio.gather(db(store.image, commit.image_id), db(store.agents))
        except NotFound:
            return ""
        return launch_link(self, image, agents) if image.status is ImageStatus.READY else ""

    async def _start(self, session: Session) -> datetime | None:
        if session.status is not Status.PENDING:
            return None
        return await self.service.estimates.of_session(self.site, self.caller.name, session)


def shown(commit: CommitRow) -> bool:
    """Whether the making of an image is still news beside its session. One that has hibernated is
    none: the session says so itself."""
    if commit.hibernates and commit.status is CommitStatus.DONE:
        return False
    return commit.ended_at is None or utcnow() - commit.ended_at < KEPT


def latest_checks(session: Session, history: Sequence[HistoryEntry]) -> HistoryEntry | None:
    """The newest row that says why a session that waits does; None for one that does not."""
    if session.status not in IN_LINE:
        return None
    rows = (row for row in history if row.phase is Phase.SCHEDULE and row.sub_steps)
    return next(rows, None)
