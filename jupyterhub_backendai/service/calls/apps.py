"""`api/sessions/{id}/apps`: what a session has to open, and who may come; `api/apps`: all of it."""

from __future__ import annotations

import asyncio

from ...model.status import Status
from ...store import Session, Wanted, Way
from ...store.ways import not_running
from ..apps import Addresses, AppRow, Opened, Opening, OpenWayRow, SessionApps, WayList, WayRow
from ..base import Handler, Refused
from ..ways import tunnel
from ..ways.rules import check_opening, port_message
from ..ways.tunnel import Item, Place, Unreachable
from .sessions import SessionHandler

MOST_NAME = 100  # characters of an app's name


class AppsHandler(Handler):
    """All that is open to others."""

    async def get(self) -> None:
        ways = await self.site.db(self.site.store.open_ways)
        addresses = _addresses(self)
        self.reply(WayList(items=[OpenWayRow.of_all(one, addresses) for one in ways]))


class SessionAppsHandler(SessionHandler):
    """The apps of one session."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        if session.status is not Status.RUNNING:
            self.reply(SessionApps(apps=[], reason=not_running(session.status).message))
            return
        try:
            items = await tunnel.apps(self.service.book.client, await self.place(session))
        except Unreachable as error:
            self.reply(SessionApps(apps=[], reason=error.message))
            return
        ways, addresses = await self.site.db(self.site.store.ways_of, session.id), _addresses(self)
        self.reply(
            SessionApps(apps=[AppRow.of(item, ways, addresses) for item in items], reason=None)
        )

    async def place(self, session: Session) -> Place:
        """Where the session's server is. Raises `Unreachable`."""
        return Place.of_session(session, await self.site.db(self.site.store.kernels, session.id))


class AppHandler(SessionAppsHandler):
    """One app of a session: opened, and closed to others again."""

    async def post(self, id: str, app: str = "") -> None:
        session = await self.session(id)
        asked = self.read_body(Opening)
        if session.status is not Status.RUNNING:
            raise Refused(409, "not_running", not_running(session.status).message)
        try:
            place = await self.place(session)
            item = await self._item(place, app)
            self._check(session, item, asked)
            ready, why = True, ""
            if asked.public or asked.arguments:
                client = self.service.book.client
                ready, why = await tunnel.start(client, place, item.name, asked.arguments)
        except Unreachable as error:
            raise Refused(503, error.code, error.message) from None
        way = None
        if asked.public or item.protocol == "tcp":
            way = await self._open(session, item, asked)
        self._show(session, item, way, asked, "" if ready else why or "It does not answer yet.")

    async def delete(self, id: str, app: str = "") -> None:
        session = await self.session(id)
        store, book = self.site.store, self.service.book
        reason = f"{self.caller.name} closed it."
        ways = [w for w in await self.site.db(store.ways_of, session.id) if w.app == app]
        await asyncio.gather(
            *(book.close(self.site, way.id, self.caller.name, reason) for way in ways)
        )
        self.set_status(self.call.status)
        self.finish()

    async def _item(self, place: Place, app: str) -> Item:
        """The app of this name. Raises `Refused`, `Unreachable`."""
        items = await tunnel.apps(self.service.book.client, place)
        found = next((item for item in items if item.name == app), None)
        if found is None:
            raise Refused(404, "not_found", "This session has no such app.", "app")
        return found

    def _check(self, session: Session, item: Item, asked: Opening) -> None:
        policy = self.site.policies.of(session.owner, session.owner_groups)
        settings = self.service.book.settings
        check_opening(item, asked.public, asked.preferred_port, policy, settings)

    async def _open(self, session: Session, item: Item, asked: Opening) -> Way:
        has_port = item.protocol == "tcp" or asked.preferred_port is not None
        pool = self.service.book.settings.pool if has_port else None
        wanted = Wanted(
            session.id, item.name, self.caller.name, item.protocol, pool, asked.preferred_port
        )
        way, _ = await self.service.book.open(self.site, wanted)
        return way

    def _show(
        self, session: Session, item: Item, way: Way | None, asked: Opening, why: str
    ) -> None:
        addresses = _addresses(self)
        if way is None:
            url = addresses.of_item(session, item)
            self.reply(Opened(url=url, host=None, port=None, way=None, message=why))
            return
        row = WayRow.of(way, addresses)
        said = port_message(way.number, asked.preferred_port, self.service.book.settings)
        message = " ".join(part for part in (said, why) if part)
        self.reply(Opened(url=row.url, host=row.host, port=row.port, way=row, message=message))


def _addresses(handler: Handler) -> Addresses:
    hub = handler.request.host_name
    return Addresses(handler.service.book.settings, hub, handler.hub_auth)
