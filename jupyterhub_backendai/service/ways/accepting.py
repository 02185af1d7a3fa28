"""Connections of visitors as they come in, each counted before a byte of it is read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from traitlets.log import get_logger

from .connections import Full

if TYPE_CHECKING:
    from .book import Book

BACKLOG = 128  # connections that the system keeps until they are accepted
PAUSE = 0.5  # seconds until one that could not be accepted is tried again
QUIET = 60.0  # seconds until the log says that again

Arrive = Callable[[socket.socket, Any], None]


class Door:
    """Accepts connections at sockets that listen, and hands each to `arrive`."""

    told = float("-inf")  # when the log said last that none can be accepted, by any

    def __init__(self, sockets: Sequence[socket.socket], arrive: Arrive) -> None:
        self._sockets, self._arrive = sockets, arrive
        self._loop = asyncio.get_running_loop()
        self._later: dict[socket.socket, asyncio.TimerHandle] = {}
        for one in sockets:
            self._open(one)

    def _open(self, one: socket.socket) -> None:
        self._later.pop(one, None)
        self._loop.add_reader(one, self._accept, one)

    def _accept(self, one: socket.socket) -> None:
        for _ in range(BACKLOG):
            try:
                connection, address = one.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # it is gone again
            except OSError as error:
                self._pause(one, error)
                return
            self._arrive(connection, address)

    def _pause(self, one: socket.socket, error: OSError) -> None:
        # It stays ready: the loop would do nothing else.
        self._loop.remove_reader(one)
        self._later[one] = self._loop.call_later(PAUSE, self._open, one)
        if self._loop.time() - Door.told > QUIET:
            Door.told = self._loop.time()
            get_logger().error(
                "Visitors of apps cannot be let in at the moment: %s. Allow the service more open "
                "files, if that is what it lacks.", error.strerror,
            )  # fmt: skip

    def stop(self) -> None:
        """Closes the sockets; what came in goes on."""
        for one in self._sockets:
            self._loop.remove_reader(one)
            if one in self._later:
                self._later.pop(one).cancel()
            one.close()


class _Counted(IOStream):
    """A visitor's connection that has its place until it is closed."""

    place: ExitStack

    def close_fd(self) -> None:
        super().close_fd()
        self.place.close()


class HttpDoor(Door):
    """The door of a server. `way`: the one that all lead to; "" where that is said later."""

    def __init__(
        self, book: Book, server: HTTPServer, sockets: Sequence[socket.socket], way: str = ""
    ) -> None:
        self._book, self._server, self._way = book, server, way
        super().__init__(sockets, self._come)

    def _come(self, connection: socket.socket, address: Any) -> None:
        connection.setblocking(False)
        server = self._server
        stream = _Counted(
            connection, max_buffer_size=server.max_buffer_size,
            read_chunk_size=server.read_chunk_size,
        )  # fmt: skip
        stream.place = ExitStack()
        owner = self._book.owner(self._way)
        try:
            stream.place.enter_context(self._book.visitors.one(self._way, owner, stream.close))
        except Full:
            stream.close()
            return
        server.handle_stream(stream, address)
