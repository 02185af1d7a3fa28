"""Ports of this machine that lead to apps: one listener each, made anew after a restart."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from tornado.netutil import bind_sockets
from traitlets.log import get_logger

from .accepting import BACKLOG, Door, HttpDoor
from .connections import Full
from .greeting import Visitor
from .public import port_server
from .rules import asks_itself
from .streams import Broken, Stream, splice
from .tunnel import Place, Unreachable, open_tunnel

if TYPE_CHECKING:
    from .book import Book


class Taken(Exception):
    """Another program has this port."""


class Ports:
    """The listeners of this process, by the ids of their ways."""

    def __init__(self, book: Book, address: str) -> None:
        self.log = get_logger()
        self._book, self._address = book, address
        self._open: dict[str, Door] = {}
        self._told: set[str] = set()

    def __contains__(self, way: str) -> bool:
        return way in self._open

    def listen(self, way: str, port: int, protocol: str) -> None:
        """Listens for a way. Raises `Taken`, `OSError`."""
        if way in self._open:
            return
        try:
            sockets = bind_sockets(port, self._address, backlog=BACKLOG)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise Taken(error.strerror or "") from None
            raise
        if protocol == "tcp":
            self._open[way] = TcpDoor(self._book, way, sockets)
        else:
            server = port_server(self._book, way)
            self._open[way] = HttpDoor(self._book, server, sockets, way)

    def listen_again(self, way: str, port: int, protocol: str) -> None:
        """As `listen`, for a way that people know: where that cannot be, the log says so once, and
        it is tried again."""
        try:
            self.listen(way, port, protocol)
            self._told.discard(way)
        except (Taken, OSError) as error:
            if way not in self._told:
                self._told.add(way)
                self.log.error(
                    "Port %d leads to an app, and cannot be listened at: %s. It is tried again "
                    "until it can.", port, error,
                )  # fmt: skip

    def end(self, way: str) -> None:
        """Nobody comes in there any more."""
        listener = self._open.pop(way, None)
        if listener is not None:
            listener.stop()
        self._told.discard(way)

    @property
    def ways(self) -> set[str]:
        """The ways that are listened for."""
        return set(self._open)

    def keep(self, ways: set[str]) -> None:
        """Ends the listeners of all other ways."""
        for way in self._open.keys() - ways:
            self.end(way)


class TcpDoor(Door):
    """The port of an app that speaks anything: each connection is spliced to it."""

    def __init__(self, book: Book, way: str, sockets: list[socket.socket]) -> None:
        self._book, self._way = book, way
        self._tasks: set[asyncio.Task[None]] = set()
        super().__init__(sockets, self._come)

    def _come(self, connection: socket.socket, _address: object) -> None:
        stream, place, owner = Stream(connection), ExitStack(), self._book.owner(self._way)
        place.callback(stream.close)
        try:
            place.enter_context(self._book.connections.one(self._way, owner, stream.abort))
        except Full:
            place.close()
            return
        task = asyncio.ensure_future(self._serve(stream, place))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, stream: Stream, place: ExitStack) -> None:
        with place as stack, suppress(Unreachable, Broken):
            way = self._book.ways.get(self._way)
            if way is None:
                return
            ssh = asks_itself(way.way.app, way.way.protocol)
            visitor = Visitor(stream, ssh=ssh)
            stack.callback(visitor.close)
            if ssh:
                await visitor.hear()
            app = await open_tunnel(Place.of_way(way), way.way.app)
            stack.callback(app.close)
            if self._way in self._book.ways:
                await splice(visitor, app)
