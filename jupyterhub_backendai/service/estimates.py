"""When a session would start: of a spec that is not launched yet."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ..model.resolve import Context, SessionRequest
from ..scheduling.estimate import Forecast, expected_length, forecast
from ..site.clock import utcnow
from ..site.options import candidate, with_limits
from ..site.runtime import Site
from .schemas import Outlook


async def outlook_of(site: Site, request: SessionRequest, context: Context) -> Outlook:
    """What would happen to this request if it were launched now."""
    now = utcnow()
    known = await site.db(site.store.outlook, site.policies, site.catalog, now)
    past = await site.db(site.store.lengths, now)
    limit = request.batch.timeout if request.batch else None
    lasts = expected_length(limit, past.of(context.user, request.type, request.environment))
    mine = candidate(
        context, request.slots, request.resource_group, known.snapshot.now,
        request.project, request.priority,
    )  # fmt: skip
    if request.not_before is not None:
        mine = replace(mine, not_before=request.not_before.timestamp())
    seen = replace(known, snapshot=with_limits(known.snapshot, context))
    # Up to a second of arithmetic: not on the loop.
    return _told(await asyncio.to_thread(forecast, seen, mine, lasts), known.snapshot.now)


def _told(found: Forecast, now: float) -> Outlook:
    starts_in = None if found.starts_at is None else max(0.0, round(found.starts_at - now, 1))
    return Outlook(code=found.code, text=found.reason, ahead=found.ahead, starts_in=starts_in)
