"""`api/sessions`: launch and list; one session: look, rename, end, its history."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from ...model.status import FINAL, LIVE, Status
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import Changed, Filter, HistoryFilter, NewPriority, NotFound, Session
from ..auth import READ, SCOPES, START, Caller
from ..base import Handler, Refused, not_found
from ..ending import end
from ..etags import etag, matches
from ..launching import context_of, launch
from ..owners import whose
from ..queries import EndQuery, HistoryQuery, LookQuery, PageQuery, SessionQuery
from ..schemas import (
    Change,
    HistoryPage,
    HistoryRow,
    Launched,
    Page,
    SessionDetail,
    SessionPage,
    SessionRow,
)

R = TypeVar("R")
ID = re.compile(r"[0-9a-f]{32}")


class Listing(Handler):
    """Answers with a page of a list."""

    async def reply_page(
        self,
        query: PageQuery,
        page: type[Page],
        row: Callable[[R], object],
        find: Callable[..., tuple[Sequence[R], int]],
        *wanted: object,
    ) -> None:
        """The rows that this call of the store finds, for the page that the query asks for."""
        rows, total = await self.site.db(find, *wanted, **query.page())
        items = [row(one) for one in rows]
        self.reply(page(items=items, total=total, limit=query.limit, offset=query.offset))  # type: ignore[call-arg]


class SessionsHandler(Listing):
    """All sessions that one may see, and new ones."""

    async def get(self) -> None:
        query = self.read_query(SessionQuery)
        wanted = _wanted(query, await whose(self.service, self.caller, query.owner))
        find = self.site.store.list_sessions
        await self.reply_page(query, SessionPage, self._row, find, wanted)

    def _row(self, session: Session) -> SessionRow:
        return SessionRow.of(session, self.service.used(session.id))

    async def post(self) -> None:
        options = self.object_body()
        context = await context_of(self.service, self.caller, options, self.call.scope)
        sessions = await launch(self.site, self.caller, options, context)
        self.made_sessions = [session.id for session in sessions]
        self.reply(Launched(sessions=[SessionRow.of(session) for session in sessions]))


class SessionHandler(Listing):
    """One session, for its owner or for whoever may do the same for them."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        start = None
        if self.read_query(LookQuery).estimate == "1" and session.status is Status.PENDING:
            estimates = self.service.estimates
            start = await estimates.of_session(self.site, self.caller.name, session)
        await self.show(session, start)

    async def patch(self, id: str) -> None:
        session = await self.session(id)
        wanted = self.read_body(Change)
        version = self.wanted_version(session)
        if wanted.priority is not None and not self.caller.may_all(START):
            message = "The order of the line is for those who may start everybody's sessions."
            raise Refused(403, "not_yours", message, "priority")
        place = None
        if wanted.priority is not None:
            place = NewPriority(wanted.priority, self.caller.name, utcnow())
        store = self.site.store
        session = await self.site.db(store.change, session.id, wanted.name, place, version)
        if wanted.priority is not None:
            self.site.queue.kick()
        await self.show(session)

    async def delete(self, id: str) -> None:
        session = await self.session(id)
        query = self.read_query(EndQuery)
        version = self.wanted_version(session)
        await self.show(
            await end(
                self.site,
                self.service.hub,
                session,
                self.caller.name,
                version,
                query.force == "1",
                query.rests == "again",
            )
        )

    async def session(self, id: str) -> Session:
        """The session that the address names, if the caller may do this with it: else 404."""
        return await find(self.site, self.caller, id, *self.call.scopes)

    def wanted_version(self, session: Session) -> int | None:
        """The version that `If-Match` asks for, if it does. Raises `Changed`, `Refused`."""
        wanted = self.request.headers.get("If-Match")
        if wanted is None or wanted.strip() == "*":
            return None
        try:
            same = matches(wanted, session.version)
        except ValueError:
            message = "Write the ETag as you read it, with its quotes."
            raise Refused(400, "bad_etag", message, "If-Match") from None
        if not same:
            raise Changed(session.id, session.version)
        return session.version

    async def show(self, session: Session, may_start_at: datetime | None = None) -> None:
        """Answers with all there is to say about a session."""
        db, store = self.site.db, self.site.store
        kernels, granted, earlier, later = await asyncio.gather(
            db(store.kernels, session.id),
            self.site.granted(session),
            db(store.dependencies, session.id),
            db(store.dependents, session.id),
        )
        self.set_header("Etag", etag(session.version))
        readable = self.caller.may(READ, session.owner, session.owner_groups)
        self.reply(
            SessionDetail.of_all(
                session,
                kernels,
                earlier,
                later,
                may_start_at,
                readable=readable,
                granted=granted,
                used=self.service.used(session.id),
            )  # fmt: skip
        )


class HistoryHandler(SessionHandler):
    """What was tried for a session."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        query = self.read_query(HistoryQuery)
        wanted = HistoryFilter(**_named(query, HistoryFilter.__slots__))
        find = self.site.store.history_page
        await self.reply_page(query, HistoryPage, HistoryRow.of, find, session.id, wanted)


async def find(site: Site, caller: Caller, id: str, *scopes: str) -> Session:
    """The session of this id, for who may do with it what needs `scopes`. Raises `Refused`: 404
    for somebody else's with which the caller may do nothing at all."""
    if not ID.fullmatch(id):
        raise not_found()
    try:
        session = await site.db(site.store.get, id)
    except NotFound:
        raise not_found() from None
    may = {each: caller.may(each, session.owner, session.owner_groups) for each in SCOPES}
    missing = [scope for scope in scopes if not may[scope]]
    if not missing:
        return session
    if any(may.values()) or (caller.is_user and caller.name == session.owner):
        raise Refused(403, "missing_scope", f"Your token does not have the scope {missing[0]}.")
    raise not_found()


def _named(query: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(query, name) for name in names}


def _wanted(query: SessionQuery, owner: str | None) -> Filter:
    statuses = query.status
    if query.state is not None:
        group = LIVE if query.state == "live" else FINAL
        statuses = [s for s in (statuses or group) if s in group]
    return Filter(
        owner=owner,
        statuses=statuses,
        **_named(
            query,
            ("type", "resource_group", "project", "name", "submitted_from", "submitted_until"),
        ),
    )
