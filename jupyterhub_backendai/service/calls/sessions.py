"""`api/sessions`: launch and list; one session: look, rename, end."""

from __future__ import annotations

from typing import cast

from ...model.status import FINAL, LIVE
from ...store import Filter
from ...store.queries import Order
from ..auth import READ, Caller
from ..base import Handler, Refused
from ..schemas import SessionPage, SessionQuery, SessionRow

EVERYBODY = "*"


class SessionsHandler(Handler):
    """All sessions that one may see, and new ones."""

    async def get(self) -> None:
        query = self.read_query(SessionQuery)
        rows, total = await self.site.db(
            self.site.store.list_sessions,
            _wanted(query, self.caller),
            order=cast(Order, query.sort.lstrip("-")),
            descending=query.sort.startswith("-"),
            limit=query.limit,
            offset=query.offset,
        )
        self.reply(
            SessionPage(
                items=[SessionRow.of(row) for row in rows],
                total=total,
                limit=query.limit,
                offset=query.offset,
            )
        )


def _wanted(query: SessionQuery, caller: Caller) -> Filter:
    statuses = query.status
    if query.state is not None:
        group = LIVE if query.state == "live" else FINAL
        statuses = [s for s in (statuses or group) if s in group]
    return Filter(
        owner=whose(query.owner, caller),
        statuses=statuses,
        type=query.type,
        resource_group=query.resource_group,
        project=query.project,
    )


def whose(owner: str | None, caller: Caller) -> str | None:
    """The owner that a list is of; None is everybody. Raises `Refused`."""
    if owner == EVERYBODY:
        if not caller.may_all(READ):
            raise Refused(403, "not_yours", "You can list your own sessions only.", "owner")
        return None
    owner = owner or caller.name
    if not caller.may(READ, owner):
        raise Refused(403, "not_yours", "You can list your own sessions only.", "owner")
    return owner
