"""What pages say of sessions that are hibernated, or may be."""

from __future__ import annotations

from typing import Any

from ...model.hibernation import Hibernation
from ...model.status import Status
from ...store import Session
from ..hibernating import obstacle
from .base import Page


async def rest_of(page: Page, session: Session, may: bool) -> dict[str, Any]:
    """What a session's page says of its rest; `may`: who reads it may change the session."""
    rest: Hibernation | None = None
    if session.status is Status.HIBERNATED:
        rest = await page.site.db(page.site.store.hibernation, session.id)
    found = None
    # It ends what runs.
    offered = may and session.status is Status.RUNNING and page.may_end(session)
    offered = offered and session.type == "interactive"
    if offered:
        found = await obstacle(page.site, session)
    resumes = may and rest is not None
    return {
        "rest": None if rest is None else page.service.drops.told(rest),
        "can_hibernate": offered and found is None,
        "hibernate_url": page.page_of(session, "hibernate"),
        "resume_url": page.page_of(session, "resume") if resumes else "",
    }
