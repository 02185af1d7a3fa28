"""From a body to sessions that wait in the queue: the one check, then the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
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

MOST_OWN, MOST_KNOWN = 20, 2000  # forms of one user that are known, and of all of them


class Once:
    """Forms that were launched: the same one that comes again, from a double click or a reload,
    is the same launch. The newest of them, for as long as this process lives."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Hashable], asyncio.Future[str]] = {}  # the oldest first

    async def launch(self, user: str, form: Hashable, work: Callable[[], Awaitable[str]]) -> str:
        """What `work` gives for this form of this user, or what it gave; whatever it raises
        makes the form a new one again."""
        key = (user, form)
        if (found := self._known.get(key)) is None:
            found = self._known[key] = asyncio.ensure_future(work())
            self._drop([k for k in self._known if k[0] == user][:-MOST_OWN])
            self._drop(list(self._known)[:-MOST_KNOWN])
        try:
            # Who sends it twice closes the first connection: the launch is not theirs alone.
            return await asyncio.shield(found)
        except BaseException:
            if found.done() and self._known.get(key) is found:
                del self._known[key]
            raise

    def _drop(self, keys: list[tuple[str, Hashable]]) -> None:
        for key in keys:
            del self._known[key]


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
