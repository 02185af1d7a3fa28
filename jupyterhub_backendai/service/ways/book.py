"""The book of open ways: what this process does with them, kept in step with the table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from tornado.netutil import bind_sockets
from traitlets.log import get_logger

from ..._within import within
from ...model.errors import FieldError, Kind, RequestError
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import NotFound, OpenWay, Pool, Wanted, Way
from .accepting import BACKLOG, Door, HttpDoor
from .asking import Asking
from .connections import MOST_OF_ONE, Connections
from .ports import Ports, Taken
from .public import host_server
from .rules import may_stay
from .settings import Settings

LOOK_INTERVAL = 0.5  # seconds between two looks at whether anything changed
MOST_VISITORS = MOST_OF_ONE + 64  # connections of one way: some ask nothing more for a moment
MOST_TRIES = 50  # ports of other programs that are passed over


class Book:
    """All open ways of this service. `sign` is called whenever a visitor's request is over."""

    def __init__(self, sign: Callable[[], None] = lambda: None) -> None:
        self.log = get_logger()
        self.sign = sign
        self.ways: dict[str, OpenWay] = {}
        self.connections = Connections()
        self.visitors = Connections(MOST_VISITORS)  # whether they ask for something or not
        self.settings = Settings()
        self.is_open = False  # whether it was read
        self._ports = Ports(self, "")
        self._hosts: Door | None = None
        self._told = False
        self._writing = asyncio.Lock()
        self._news = asyncio.Event()
        self.asking = Asking()

    def public(self, way_id: str) -> OpenWay | None:
        """The way of this id, if it has an address of its own; one with a port has none."""
        found = self.ways.get(way_id)
        return found if found is not None and found.way.kind == "public" else None

    def owner(self, way_id: str) -> str:
        """Whose way this is; empty where it is not open."""
        found = self.ways.get(way_id)
        return found.owner if found is not None else ""

    # ---- open and close -------------------------------------------------------------------------

    async def open(self, site: Site, wanted: Wanted) -> tuple[Way, bool]:
        """Opens a way, and whether it is new. Raises `NotFound`, `RequestError`, `Unavailable`."""
        store = site.store
        async with self._writing:
            way, is_new = await site.db(store.open_way, wanted, now=utcnow())
            try:
                if wanted.pool is not None and is_new:
                    way = await self._listen(site, way, wanted.pool)
                self.ways[way.id] = await site.db(store.open_way_of, way.id)
            except NotFound:
                self._forget(way.id)
                message = "The session ended, or this was closed, just now."
                failure = FieldError("", "not_running", message, Kind.CONFLICT)
                raise RequestError([failure]) from None
            except BaseException:
                if is_new:
                    self._forget(way.id)
                raise
            finally:
                self._news.set()  # the table may have more than was noted here
        if is_new:
            self.log.info("%s opened %s of session %s", way.opened_by, way.app, way.session_id)
        return way, is_new

    async def _listen(self, site: Site, way: Way, pool: Pool) -> Way:
        """Listens at the way's port, or at the next one that no other program has."""
        busy: set[int] = set()
        for _ in range(MOST_TRIES):
            assert way.number is not None
            try:
                self._ports.listen(way.id, way.number, way.protocol)
                return way
            except Taken:
                busy.add(way.number)
            except OSError as error:
                await self._strike(site, way.id, None, "Its port could not be opened.")
                self.log.error(
                    "Port %d cannot be opened to an app at %s: %s. Look at "
                    "c.BackendAI.app_ports_address.", way.number, self.settings.address, error,
                )  # fmt: skip
                message = "The port cannot be opened. Tell your admin."
                failure = FieldError("", "no_port", message, Kind.CONFLICT)
                raise RequestError([failure]) from None
            try:
                take = site.store.take_another_port
                way = await site.db(take, way.id, pool, busy, now=utcnow())
            except BaseException:
                await self._strike(site, way.id, None, "No port was free.")
                raise
        await self._strike(site, way.id, None, "No port was free.")
        message = "Other programs have the ports that were tried for it. Tell your admin."
        raise RequestError([FieldError("", "no_port", message, Kind.CONFLICT)])

    async def close(self, site: Site, way_id: str, by: str | None, reason: str) -> None:
        """Closes a way, and all that goes on over it. One that is closed already is fine."""
        async with self._writing:
            await self._strike(site, way_id, by, reason)

    async def _strike(self, site: Site, way_id: str, by: str | None, reason: str) -> None:
        with suppress(NotFound):  # its session is forgotten
            await site.db(site.store.close_way, way_id, by=by, reason=reason, now=utcnow())
        self._forget(way_id)

    def _forget(self, way_id: str) -> None:
        if self.ways.pop(way_id, None) is not None:
            self.log.info("The way %s… is closed", way_id[:6])
        self._ports.end(way_id)
        self.connections.end(way_id)
        self.visitors.end(way_id)

    # ---- in step with the table -----------------------------------------------------------------

    async def run(self, site: Site) -> None:
        """The endless work. What it knows stays in use while the database does not answer."""
        if not self.is_open:
            self.settings = Settings.of(site)
            self._ports = Ports(self, self.settings.address)
            self._warn()
            await self._close_what_may_not_be(site)
        while True:
            self._news.clear()
            seq = await site.db(site.store.seq)
            await self.read(site)
            await self._until_news(site, seq)

    def _warn(self) -> None:
        """What an admin should know of these settings."""
        if self.settings.pool is not None and not self.settings.host:
            self.log.warning(
                "The ports of apps are at the Hub's own host name, and browsers send the Hub's "
                "cookies to all ports of a host. Set c.BackendAI.app_ports_host to another name "
                "of this machine."
            )

    async def read(self, site: Site) -> None:
        """Reads the table once, and does what follows."""
        async with self._writing:
            found = {one.way.id: one for one in await site.db(site.store.open_ways)}
            for gone in (self.ways.keys() | self._ports.ways) - found.keys():
                self._forget(gone)
            self.ways = found
            for way_id, one in found.items():
                if one.way.number is not None and way_id not in self._ports:
                    self._ports.listen_again(way_id, one.way.number, one.way.protocol)
            self._listen_for_hosts()
            self.is_open = True

    async def _until_news(self, site: Site, seq: int) -> None:
        while self.ways or self._wants_hosts:
            try:
                await within(LOOK_INTERVAL, self._news.wait())
                return
            except asyncio.TimeoutError:
                if self._wants_hosts or await site.db(site.store.seq) != seq:
                    return
                if any(one.way.number and id not in self._ports for id, one in self.ways.items()):
                    return
        await self._news.wait()

    async def _close_what_may_not_be(self, site: Site) -> None:
        """What the configuration does not allow any more."""
        for one in await site.db(site.store.open_ways):
            policy = site.policies.of(one.owner, one.owner_groups)
            number, pool = one.way.number, self.settings.pool
            if number is not None and (pool is None or number not in pool):
                await self.close(site, one.way.id, None, "The site has this port no more.")
            elif not may_stay(one.way, policy):
                await self.close(site, one.way.id, None, "The policy allows no public apps.")

    # ---- hosts of their own ---------------------------------------------------------------------

    @property
    def _wants_hosts(self) -> bool:
        return bool(self.settings.url) and self._hosts is None

    def _listen_for_hosts(self) -> None:
        if not self._wants_hosts:
            return
        place = urlsplit(f"//{self.settings.listen}")
        try:
            sockets = bind_sockets(place.port or 0, place.hostname, backlog=BACKLOG)
            self._hosts = HttpDoor(self, host_server(self), sockets)
        except OSError as error:
            if not self._told:
                self._told = True
                self.log.error(
                    "The hosts of public apps cannot be listened for at %s: %s. Set "
                    "c.BackendAI.public_app_listen to a free port.", self.settings.listen, error,
                )  # fmt: skip

    async def stop(self) -> None:
        """Ends all that goes on; the ways stay open for the next process."""
        self._ports.keep(set())
        if self._hosts is not None:
            self._hosts.stop()
        self.connections.end_all()
        self.visitors.end_all()
        await self.asking.close()
