"""From a body to sessions that wait in the queue: the one check, then the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..model.resolve import Context, resolve
from ..model.rules import numbered
from ..site.clock import utcnow
from ..site.naming import random_name, server_name
from ..site.runtime import Site
from ..store import Session
from .auth import Caller
from .owners import owner_of

if TYPE_CHECKING:
    from .app import Service


async def context_of(service: Service, caller: Caller, options: object, scope: str) -> Context:
    """All that a request is checked against, for the owner that it names or who asks.

    Raises `RequestError` for an owner that the caller may not act for, or that is none;
    `HubRefused`, `HubUnavailable`.
    """
    site = service.parts.site
    owner = await owner_of(service, caller, options, scope)
    return await site.context(owner.name, owner.groups, owner.admin, options)


async def launch(
    site: Site, caller: Caller, options: Mapping[str, Any], context: Context
) -> list[Session]:
    """Queues what was asked, all of it or nothing. It is among the recent launches of who asked;
    a service has none, so there it is the owner's. Raises `RequestError` with every error."""
    request = resolve(options, context)
    names = numbered(request.name or random_name(), request.count)
    sessions = await site.db(
        site.store.submit_many,
        request,
        owner=context.user,
        owner_groups=context.groups,
        names={server_name(name): name for name in names},
        driver=None,
        max_pending=context.policy.max_pending,
        now=utcnow(),
        asked=options,
        launched_by=caller.name if caller.is_user else None,
        policies=site.policies,
        catalog=site.catalog,
    )
    site.queue.kick()
    return sessions
