"""When a session would start: of one that waits, and of a spec that is not launched yet."""

from __future__ import annotations

from datetime import datetime

from ..model.resolve import Context, SessionRequest
from ..site.clock import utcnow
from ..site.runtime import Site
from ..store import Session
from .schemas import Outlook


async def outlook_of(site: Site, request: SessionRequest, context: Context) -> Outlook:
    """What would happen to this request if it were launched now."""
    now = utcnow()
    found = await site.db(
        site.store.forecast,
        request,
        owner=context.user,
        owner_groups=context.groups,
        policies=site.policies,
        catalog=site.catalog,
        now=now,
    )
    starts_in = None if found.starts_at is None else max(0.0, found.starts_at - now.timestamp())
    return Outlook(code=found.code, text=found.reason, ahead=found.ahead, starts_in=starts_in)


async def start_of(site: Site, session: Session) -> datetime | None:
    """When a session that waits may start, as far as that can be known."""
    return await site.db(site.store.estimate, session.id, site.policies, site.catalog, utcnow())
