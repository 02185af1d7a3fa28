"""`api/sessions`: launch and list; one session: look, rename, end, its history."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, cast

from ...model.status import FINAL, LIVE, Status
from ...site.runtime import Site
from ...store import Changed, Filter, HistoryFilter, NotFound, Session
from ...store.history import HistoryOrder
from ...store.queries import Order
from ..auth import READ, Caller
from ..base import Handler, Refused, not_found
from ..ending import end
from ..estimates import start_of
from ..launching import context_of, launch
from ..queries import EndQuery, HistoryQuery, LookQuery, SessionQuery
from ..schemas import (
    HistoryPage,
    HistoryRow,
    Launched,
    Rename,
    SessionDetail,
    SessionPage,
    SessionRow,
)

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

    async def post(self) -> None:
        options = self.object_body()
        context = await context_of(self.service, self.caller, options, self.call.scope)
        sessions = await launch(self.site, options, context)
        self.reply(Launched(sessions=[SessionRow.of(session) for session in sessions]))


class SessionHandler(Handler):
    """One session, for its owner or for whoever may do the same for everybody."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        wanted = self.read_query(LookQuery).estimate == "1" and session.status is Status.PENDING
        await self.show(session, await start_of(self.site, session) if wanted else None)

    async def patch(self, id: str) -> None:
        session = await self.session(id)
        name = self.read_body(Rename).name
        version = self.wanted_version(session)
        await self.show(await self.site.db(self.site.store.rename, session.id, name, version))

    async def delete(self, id: str) -> None:
        session = await self.session(id)
        query = self.read_query(EndQuery)
        version = self.wanted_version(session)
        await self.show(
            await end(
                self.site, self.service.hub, session, self.caller.name, version, query.force == "1"
            )
        )

    async def session(self, id: str) -> Session:
        """The session that the address names, if the caller may do this with it: else 404."""
        return await find(self.site, self.caller, id, self.call.scope)

    def wanted_version(self, session: Session) -> int | None:
        """The version that `If-Match` asks for. Raises `Changed` for one that never was."""
        wanted = self.request.headers.get("If-Match", "*").strip()
        if wanted == "*":
            return None
        if wanted != _etag(session):
            raise Changed(session.id, session.version)
        return session.version

    async def show(self, session: Session, may_start_at: datetime | None = None) -> None:
        """Answers with all there is to say about a session."""
        db, store = self.site.db, self.site.store
        kernels, earlier, later = await asyncio.gather(
            db(store.kernels, session.id),
            db(store.dependencies, session.id),
            db(store.dependents, session.id),
        )
        self.set_header("Etag", _etag(session))
        self.reply(SessionDetail.of_all(session, kernels, earlier, later, may_start_at))


class HistoryHandler(SessionHandler):
    """What was tried for a session."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        query = self.read_query(HistoryQuery)
        rows, total = await self.site.db(
            self.site.store.history_page,
            session.id,
            HistoryFilter(**_named(query, HistoryFilter.__slots__)),
            order=cast(HistoryOrder, query.sort.lstrip("-")),
            descending=query.sort.startswith("-"),
            limit=query.limit,
            offset=query.offset,
        )
        self.reply(
            HistoryPage(
                items=[HistoryRow.of(row) for row in rows],
                total=total,
                limit=query.limit,
                offset=query.offset,
            )
        )


async def find(site: Site, caller: Caller, id: str, scope: str) -> Session:
    """The session of this id, for who may do with it what needs `scope`. Raises `Refused`: 404
    for one that the caller may not even see."""
    try:
        session = await site.db(site.store.get, id)
    except NotFound:
        raise not_found() from None
    if not caller.may(READ, session.owner):
        raise not_found()
    if not caller.may(scope, session.owner):
        raise Refused(403, "missing_scope", f"Your token does not have the scope {scope}.")
    return session


def _etag(session: Session) -> str:
    return f'"{session.version}"'


def _named(query: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(query, name) for name in names}


def _wanted(query: SessionQuery, caller: Caller) -> Filter:
    statuses = query.status
    if query.state is not None:
        group = LIVE if query.state == "live" else FINAL
        statuses = [s for s in (statuses or group) if s in group]
    return Filter(
        owner=whose(query.owner, caller),
        statuses=statuses,
        **_named(
            query,
            ("type", "resource_group", "project", "name", "submitted_from", "submitted_until"),
        ),
    )


def whose(owner: str | None, caller: Caller) -> str | None:
    """The owner that a list is of; None is everybody. Raises `Refused`."""
    if owner == EVERYBODY:
        if caller.may_all(READ):
            return None
    elif caller.may(READ, owner or caller.name):
        return owner or caller.name
    raise Refused(403, "not_yours", "You can see your own sessions only.", "owner")
