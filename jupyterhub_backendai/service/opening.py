"""Opens and closes the apps of one session, for whoever may: what the API and the pages share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jupyterhub.utils import get_browser_protocol

from ..model.status import Status
from ..store import Session, Wanted, Way
from ..store.ways import not_running
from .apps import Addresses, AppRow, Opened, Opening, SessionApps, WayRow
from .base import Handler, Refused
from .parts import NotReady
from .ways.asking import Busy
from .ways.rules import check_opening, port_message
from .ways.tunnel import Item, Place, Unreachable

if TYPE_CHECKING:
    from .app import Service


def addresses_for(handler: Handler) -> Addresses:
    """Addresses as whoever sent this request writes them. Raises `NotReady`."""
    if not handler.service.book.is_open:
        raise NotReady("starting", "The service that leads to apps is starting. Try again soon.")
    request = handler.request
    origin = f"{get_browser_protocol(request)}://{request.host}"
    settings = handler.service.book.settings
    return Addresses(settings, origin, request.host_name, handler.hub_auth)


class SessionDoors:
    """The apps of one session, as `by` has them, who may open this session's apps."""

    def __init__(self, service: Service, session: Session, by: str, addresses: Addresses) -> None:
        self._service, self._site = service, service.parts.site
        self._session, self._by, self._addresses = session, by, addresses
        self._asking = service.book.asking

    async def all(self) -> SessionApps:
        """All apps, and who may come to each; where the session does not tell, why."""
        session = self._session
        if session.status is not Status.RUNNING:
            return SessionApps(apps=[], reason=not_running(session.status).message)
        try:
            items = await self._asking.apps(await self._place())
        except Unreachable as error:
            return SessionApps(apps=[], reason=error.message)
        ways = await self._ways()
        rows = [AppRow.of(item, ways, self._addresses) for item in items]
        return SessionApps(apps=rows, reason=None)

    async def open(self, app: str, asked: Opening) -> Opened:
        """Opens an app. Raises `Refused`, `RequestError`."""
        if self._session.status is not Status.RUNNING:
            raise Refused(409, "not_running", not_running(self._session.status).message)
        try:
            place = await self._place()
            item = await self._item(place, app)
            self._check(item, asked)
            ready, why = True, ""
            if asked.public or asked.arguments:
                ready, why = await self._asking.start(place, item.name, asked.arguments)
        except Busy as error:
            raise Refused(429, "busy", str(error)) from None
        except Unreachable as error:
            raise Refused(503, error.code, error.message) from None
        way = None
        if asked.public or item.protocol == "tcp":
            way = await self._way(item, asked)
        return self._opened(item, way, asked, "" if ready else why or "It does not answer yet.")

    async def close(self, app: str) -> None:
        """Closes an app to all others. One that is not open to them is fine."""
        reason = f"{self._by} closed it."
        ways = [way for way in await self._ways() if way.app == app]
        close = self._service.book.close
        await asyncio.gather(*(close(self._site, way.id, self._by, reason) for way in ways))

    async def _place(self) -> Place:
        """Where the session's server is. Raises `Unreachable`."""
        kernels = await self._site.db(self._site.store.kernels, self._session.id)
        return Place.of_session(self._session, kernels)

    async def _ways(self) -> list[Way]:
        return list(await self._site.db(self._site.store.ways_of, self._session.id))

    async def _item(self, place: Place, app: str) -> Item:
        """The app of this name. Raises `Refused`, `Unreachable`."""
        items = await self._asking.apps(place)
        found = next((item for item in items if item.name == app), None)
        if found is None:
            raise Refused(404, "not_found", "This session has no such app.", "app")
        return found

    def _check(self, item: Item, asked: Opening) -> None:
        policy = self._site.policies.of(self._session.owner, self._session.owner_groups)
        settings = self._service.book.settings
        check_opening(item, asked.public, asked.preferred_port, policy, settings)

    async def _way(self, item: Item, asked: Opening) -> Way:
        has_port = item.protocol == "tcp" or asked.preferred_port is not None
        pool = self._service.book.settings.pool if has_port else None
        wanted = Wanted(
            self._session.id, item.name, self._by, item.protocol, pool, asked.preferred_port
        )
        way, _ = await self._service.book.open(self._site, wanted)
        return way

    def _opened(self, item: Item, way: Way | None, asked: Opening, why: str) -> Opened:
        addresses = self._addresses
        if way is None:
            url = addresses.of_item(self._session, item)
            return Opened(url=url, host=None, port=None, way=None, message=why)
        row = WayRow.of(way, addresses)
        said = port_message(way.number, asked.preferred_port, self._service.book.settings)
        message = " ".join(part for part in (said, why) if part)
        return Opened(url=row.url, host=row.host, port=row.port, way=row, message=message)
