"""From a body to sessions that wait in the queue: the one check, then the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..model.errors import FieldError, Kind, RequestError, shown
from ..model.resolve import Context, resolve
from ..model.rules import numbered
from ..site.clock import utcnow
from ..site.naming import random_name, server_name
from ..site.runtime import Site
from ..store import Session
from .auth import Caller
from .hub import HubUser, NoSuchUser

if TYPE_CHECKING:
    from .app import Service


async def context_of(service: Service, caller: Caller, options: object, scope: str) -> Context:
    """All that a request is checked against, for the owner that it names or who asks.

    Raises `RequestError` for an owner that the caller may not act for, or that is none;
    `HubRefused`, `HubUnavailable`.
    """
    site = service.parts.site
    owner = await _owner(service, caller, options, scope)
    return await site.context(owner.name, owner.groups, owner.admin, options)


async def launch(site: Site, options: Mapping[str, Any], context: Context) -> list[Session]:
    """Queues what was asked, all of it or nothing. Raises `RequestError` with every error."""
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
        policies=site.policies,
        catalog=site.catalog,
    )
    site.queue.kick()
    return sessions


async def _owner(service: Service, caller: Caller, options: object, scope: str) -> HubUser:
    named = options.get("owner") if isinstance(options, Mapping) else None
    if named in (None, "", caller.name) and caller.is_user:
        return HubUser(caller.name, caller.admin, caller.groups)
    if not isinstance(named, str) or not named:
        message = "Say for whom: a service has no sessions of its own."
        raise RequestError([FieldError("owner", "missing", message)])
    if not caller.may(scope, named):
        message = "You can do this for yourself only."
        raise RequestError([FieldError("owner", "not_owner", message, Kind.FORBIDDEN)])
    try:
        return await service.hub.user(named)
    except NoSuchUser:
        message = f"There is no user {shown(named)}. Check the name."
        raise RequestError([FieldError("owner", "unknown", message)]) from None
