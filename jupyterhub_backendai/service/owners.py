"""For whom a call is: the owner that it names, where whoever asks may act for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..model.errors import FieldError, Kind, RequestError, shown
from .auth import READ, Caller
from .base import Refused
from .hub import HubUser, NoSuchUser

if TYPE_CHECKING:
    from .app import Service

EVERYBODY = "*"


async def owner_of(service: Service, caller: Caller, options: object, scope: str) -> HubUser:
    """Whom a request is for: the owner in it, else who asks. Raises `RequestError`,
    `HubRefused`, `HubUnavailable`."""
    named = options.get("owner") if isinstance(options, Mapping) else None
    if named in (None, "", caller.name) and caller.is_user:
        return HubUser(caller.name, caller.admin, caller.groups)
    if not isinstance(named, str) or not named:
        message = "Say for whom: a service has no sessions of its own."
        raise RequestError([FieldError("owner", "missing", message)])
    if not await may_for(service, caller, scope, named):
        message = "You can do this for yourself only."
        raise RequestError([FieldError("owner", "not_owner", message, Kind.FORBIDDEN)])
    try:
        return await service.hub.user(named)
    except NoSuchUser:
        message = f"There is no user {shown(named)}. Check the name."
        raise RequestError([FieldError("owner", "unknown", message)]) from None


async def whose(service: Service, caller: Caller, owner: str | None) -> str | None:
    """The owner that a list is of; None is everybody. Raises `Refused`, `HubRefused`,
    `HubUnavailable`."""
    if owner == EVERYBODY:
        if caller.may_all(READ):
            return None
    elif await may_for(service, caller, READ, owner or caller.name):
        return owner or caller.name
    raise Refused(403, "not_yours", "You can see your own sessions only.", "owner")


async def may_for(service: Service, caller: Caller, scope: str, owner: str) -> bool:
    """Whether this scope is held for this owner; the Hub is asked only where it says in which
    groups an owner is."""
    if caller.may(scope, owner):
        return True
    if not caller.may_for_groups(scope):
        return False
    try:
        return caller.may(scope, owner, (await service.hub.user(owner)).groups)
    except NoSuchUser:
        return False
