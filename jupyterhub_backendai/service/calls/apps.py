"""`api/sessions/{id}/apps`: what a session has to open, and who may come; `api/apps`: all of it."""

from __future__ import annotations

from ..apps import Opening, OpenWayRow, WayList
from ..base import Handler
from ..opening import SessionDoors, addresses_for
from .sessions import SessionHandler


class AppsHandler(Handler):
    """All that is open to others."""

    async def get(self) -> None:
        ways = await self.site.db(self.site.store.open_ways)
        addresses = addresses_for(self)
        self.reply(WayList(items=[OpenWayRow.of_all(one, addresses) for one in ways]))


class SessionAppsHandler(SessionHandler):
    """The apps of one session."""

    async def doors(self, id: str) -> SessionDoors:
        """The apps of a session, for who may do this with it. Raises `Refused`."""
        session = await self.session(id)
        return SessionDoors(self.service, session, self.caller.name, addresses_for(self))

    async def get(self, id: str) -> None:
        self.reply(await (await self.doors(id)).all())


class AppHandler(SessionAppsHandler):
    """One app of a session: opened, and closed to others again."""

    async def post(self, id: str, app: str = "") -> None:
        self.reply(await (await self.doors(id)).open(app, self.read_body(Opening)))

    async def delete(self, id: str, app: str = "") -> None:
        await (await self.doors(id)).close(app)
        self.set_status(self.call.status)
        self.finish()
