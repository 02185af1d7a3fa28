"""Where visitors come to: an address below the service's own, a host for each way, or a port."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jupyterhub.utils import get_browser_protocol, url_path_join
from tornado.httpserver import HTTPServer
from tornado.web import Application

from ...store import OpenWay
from .cookies import Cookies
from .heads import BadRequest, Front, kept_apart
from .visits import Visit

if TYPE_CHECKING:
    from .book import Book

ID = "[a-z2-7]{26}"
READ = 256 * 1024  # bytes of a body that are read at a time
IDLE = 10.0  # seconds for the head of a request, also of the next one over the same connection


class PathVisit(Visit):
    """Below `<prefix>public/<way>/`, on the Hub's own host."""

    def locate(self) -> tuple[OpenWay | None, Front, str]:
        """See `Visit`."""
        root = public_path("")
        found = re.match(rf"{re.escape(root)}({ID})(?=[/?]|$)", self.request.uri or "")
        if found is None:
            return None, _front(self, "", sandboxed=True, cookies=Cookies("", "/", none=True)), "/"
        way, prefix = found[1], found[0]
        target = (self.request.uri or "")[found.end() :]
        cookies = Cookies(way, f"{prefix}/")
        front = _front(self, prefix, sandboxed=True, cookies=cookies)
        # Below the service's path a page's own addresses begin behind the slash.
        return self.book.public(way), front, target if target.startswith("/") else f"/{target}"

    async def prepare(self) -> None:
        """Leads to the address with its slash, where a page's own addresses are right."""
        path, query, rest = (self.request.uri or "").partition("?")
        if re.fullmatch(f"{re.escape(public_path(''))}{ID}", path) and self.request.method in (
            "GET", "HEAD",
        ):  # fmt: skip
            leads = [("Location", f"{path}/{query}{rest}"), ("Cache-Control", "no-store")]
            self._say(302, [*leads, *kept_apart()])
            return
        await super().prepare()


class HostVisit(Visit):
    """On a host of its way's own: the first label of its name is the way."""

    def locate(self) -> tuple[OpenWay | None, Front, str]:
        """See `Visit`."""
        pattern = urlsplit(self.book.settings.url)
        way, _, rest = self.request.host_name.partition(".")
        known = rest == (pattern.hostname or "").removeprefix("*.")
        cookies = Cookies(way, None, secure=pattern.scheme == "https")
        front = Front(pattern.scheme, self.request.host, "", False, cookies)
        return self.book.public(way) if known else None, front, _whole(self)


class PortVisit(Visit):
    """On a port of its way's own, of a host that others share."""

    def initialize(self, book: Book, way: str = "") -> None:
        super().initialize(book)
        self._way = way

    def locate(self) -> tuple[OpenWay | None, Front, str]:
        """See `Visit`."""
        # Cookies know no ports: what this app set would go to the Hub too.
        cookies = Cookies(self._way, "/", none=True)
        front = Front("http", self.request.host, "", True, cookies)
        return self.book.ways.get(self._way), front, _whole(self)


def _front(visit: Visit, prefix: str, *, sandboxed: bool, cookies: Cookies) -> Front:
    scheme = get_browser_protocol(visit.request)
    return Front(scheme, visit.request.host, prefix, sandboxed, cookies)


def _whole(visit: Visit) -> str:
    target = visit.request.uri or ""
    if not target.startswith("/"):
        raise BadRequest
    return target


def public_path(way: str) -> str:
    """Where a way is on the Hub's host; without its slash at the end."""
    return url_path_join(os.environ["JUPYTERHUB_SERVICE_PREFIX"], "public/") + way


def host_server(book: Book) -> HTTPServer:
    """What listens for the hosts of ways; behind a proxy, which says who comes."""
    routes = [(".*", HostVisit, {"book": book})]
    application = Application(routes)
    return HTTPServer(application, xheaders=True, chunk_size=READ, idle_connection_timeout=IDLE)


def port_server(book: Book, way: str) -> HTTPServer:
    """What listens at the port of an HTTP app."""
    routes = [(".*", PortVisit, {"book": book, "way": way})]
    return HTTPServer(Application(routes), chunk_size=READ, idle_connection_timeout=IDLE)
