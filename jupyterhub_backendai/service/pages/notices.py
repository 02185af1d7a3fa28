"""Notifications: what became of one's own sessions, newest first, until a while after their end."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from ...model.images import CommitStatus
from ...model.status import FINAL, LIVE, Status
from ...site.clock import utcnow
from ...store import Commit, Filter, Session, SessionResult
from ..owners import whose
from .base import Page
from .words import exit_words, session_to

KEPT = timedelta(days=2)  # how long one that is over is told of
MOST = 20  # of those that are not over, and of those that are
PARTS = {"notices": "backendai/pages/notices.html"}


class NoticesPage(Page):
    """What the drawer of each page shows, and a page by itself without a script."""

    async def get(self) -> None:
        db, store, now = self.site.db, self.site.store, utcnow()
        mine = await whose(self.service, self.caller, None)
        (live, _), (over, _), images = await asyncio.gather(
            db(store.list_sessions, Filter(owner=mine, statuses=LIVE), limit=MOST),
            db(
                store.list_sessions, Filter(owner=mine, statuses=FINAL), order="ended_at",
                limit=MOST,
            ),
            db(store.commits_of, mine or self.caller.name, now - KEPT),
        )  # fmt: skip
        recent = [s for s in over if s.ended_at is not None and now - s.ended_at < KEPT]
        told: list[Session | Commit] = [session_to(self.caller.name, s) for s in (*live, *recent)]
        told += images[:MOST]
        told.sort(key=lambda one: one.status_changed_at, reverse=True)
        self.write_page(
            "backendai/pages/notices_page.html", PARTS,
            told=told, title_of=title_of, image_title=image_title,
            server_url=self.server_url, launch_url=self.launch_url,
        )  # fmt: skip


def title_of(session: Session) -> str:
    """What became of a session, as the headline of its notification."""
    name, status = session.name, session.status
    if status is Status.PENDING:
        return f"{name} is in line"
    if status is Status.RUNNING:
        return f"{name} is ready" if session.type == "interactive" else f"{name} runs"
    if status is Status.HIBERNATED:
        return f"{name} is hibernated"
    if status is Status.TERMINATING:
        return f"{name} is being ended"
    if status is Status.CANCELLED:
        return f"{name} was cancelled"
    if status is Status.ERROR or (status is Status.TERMINATED and session.running_at is None):
        return f"{name} could not start"
    if session.result is SessionResult.SUCCESS:
        return f"{name} finished"
    if session.result is SessionResult.FAILURE:
        code = session.exit_code
        return f"{name} failed" + (f" with {exit_words(code)}" if code and code > 0 else "")
    return f"{name} was ended" if status is Status.TERMINATED else f"{name} is starting"


def image_title(commit: Commit) -> str:
    """What became of the making of an image, as the headline of its notification."""
    name, status = commit.name, commit.status
    if status is CommitStatus.DONE:
        return f"The image {name} is made"
    if status is CommitStatus.FAILED:
        return f"The image {name} was not made"
    was = status is CommitStatus.CANCELLED
    return f"The image {name} was cancelled" if was else f"The image {name} is being made"


def tab_state(session: Session) -> str:
    """What the icon of a browser's tab tells of a session."""
    if session.status is Status.PENDING:
        return "waiting"
    if session.status is Status.RUNNING or session.result is SessionResult.SUCCESS:
        return "ready"
    if session.status is Status.ERROR or session.result is SessionResult.FAILURE:
        return "failed"
    rests = session.status.is_final or session.status is Status.HIBERNATED
    return "" if rests else "starting"
