"""Bytes both ways: a socket of ours, a connection that was Tornado's, and one spliced to another.

What is read goes on as it comes, in large pieces, and nothing more is read before that is written:
so whoever is slow slows the other end, and nobody's memory grows.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from tornado.iostream import IOStream, StreamClosedError

from ..._within import within

FIRST, MOST = 16 * 1024, 1024 * 1024  # bytes of a buffer: at first, and when that was full
AHEAD = 64 * 1024  # bytes that are read to find the end of a line or of a head
LOOK = 256  # bytes that are read to see what begins
# After so many bytes, pieces or seconds others on the loop have their turn.
TURN, PIECES, LONG = 4 * 1024 * 1024, 64, 0.005
HALF_OPEN = 300.0  # seconds that one direction goes on when the other is over


class Broken(Exception):
    """The other end is gone, or did not say what it has to."""


class End(Protocol):
    """One end of a connection."""

    async def receive(self, into: memoryview) -> int:
        """Bytes that have come; 0 at the end. Raises `Broken`."""

    async def send(self, data: bytes | memoryview) -> None:
        """Until they are on their way. Raises `Broken`."""

    def end(self) -> None:
        """Says that nothing more is sent."""

    def abort(self) -> None:
        """Ends it at once; whoever reads or writes it is told. To be called from anywhere."""


class Stream:
    """A connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._ahead = bytearray()
        self._turn = self._pieces = 0
        self._since = self._loop.time()
        self._aborted = False

    def has(self, count: int) -> bool:
        """Whether so many bytes have been read ahead."""
        return len(self._ahead) >= count

    def has_line(self) -> bool:
        """Whether a line has been read ahead."""
        return b"\r\n" in self._ahead

    async def receive(self, into: memoryview) -> int:
        """See `End`."""
        if self._ahead:
            count = min(len(into), len(self._ahead))
            into[:count] = self._ahead[:count]
            del self._ahead[:count]
            await self._turns(count)
            return count
        return await self._read(into)

    async def read_until(self, mark: bytes, most: int) -> bytes:
        """What comes up to this mark, and the mark. Raises `Broken`, also when it is not in the
        first `most` bytes."""
        piece, looked = None, 0
        while (found := self._ahead.find(mark, max(0, looked - len(mark)))) < 0:
            looked = len(self._ahead)
            if looked > most:
                raise Broken("it says too much at once")
            piece = memoryview(bytearray(AHEAD)) if piece is None else piece
            count = await self._read(piece)
            if not count:
                raise Broken("it ended before its time")
            self._ahead += piece[:count]
        end = found + len(mark)
        if end > most:
            raise Broken("it says too much at once")
        said = bytes(self._ahead[:end])
        del self._ahead[:end]
        return said

    async def look(self, is_clear: Callable[[bytes], bool]) -> bytes:
        """What comes first, as soon as that is enough or all; it stays to be read. Raises
        `Broken`."""
        piece = memoryview(bytearray(LOOK))
        while not is_clear(bytes(self._ahead)):
            if not (count := await self._read(piece)):
                break
            self._ahead += piece[:count]
        return bytes(self._ahead)

    async def _read(self, into: memoryview) -> int:
        try:
            count = await self._loop.sock_recv_into(self._socket, into)
        except OSError as error:
            raise Broken(error.strerror or "it broke off") from None
        if self._aborted:
            raise Broken("it was closed")
        await self._turns(count)
        return count

    async def send(self, data: bytes | memoryview) -> None:
        """See `End`."""
        try:
            await self._loop.sock_sendall(self._socket, data)
        except OSError as error:
            raise Broken(error.strerror or "it broke off") from None
        await self._turns(len(data))

    async def _turns(self, count: int) -> None:
        # A socket that is always ready would never let go of the loop.
        self._turn += count
        self._pieces += 1
        late = self._loop.time() - self._since > LONG
        if late or self._turn >= TURN or self._pieces >= PIECES:
            self._turn = self._pieces = 0
            await asyncio.sleep(0)
            self._since = self._loop.time()

    def end(self) -> None:
        """See `End`."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """See `End`."""
        # Not closed: whoever waits for it would wait for ever.
        self._aborted = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Gives the socket back, when nobody reads or writes it any more."""
        self._socket.close()


class Detached:
    """A connection that Tornado has read the head of a request from."""

    def __init__(self, stream: IOStream) -> None:
        self._stream = stream

    async def receive(self, into: memoryview) -> int:
        """See `End`."""
        try:
            return await self._stream.read_into(into, partial=True)  # type: ignore[arg-type]
        except StreamClosedError:
            return 0

    async def send(self, data: bytes | memoryview) -> None:
        """See `End`."""
        try:
            await self._stream.write(data)
        except StreamClosedError:
            raise Broken("it is closed") from None

    def end(self) -> None:
        """Closes it: with Tornado's there is no half of a connection."""
        self._stream.close()

    def abort(self) -> None:
        """See `End`."""
        self._stream.close()


async def connect(host: str, port: int, seconds: float) -> Stream:
    """A connection. Raises `Broken` where there is none in that time."""
    loop, last = asyncio.get_running_loop(), "nothing answers"
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Broken(error.strerror or "there is no such address") from None
    for family, kind, protocol, _, address in found:
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        try:
            await within(seconds, loop.sock_connect(opened, address))
        except asyncio.TimeoutError:
            opened.close()
            last = "it does not answer"
        except OSError as error:
            opened.close()
            last = error.strerror or str(error)
        except BaseException:
            opened.close()
            raise
        else:
            return Stream(opened)
    raise Broken(last)


async def splice(one: End, other: End) -> None:
    """Passes on what either end sends, until both have ended or one breaks."""
    ways = [
        asyncio.ensure_future(_pass_on(one, other)),
        asyncio.ensure_future(_pass_on(other, one)),
    ]
    try:
        done, left = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if left and all(way.exception() is None for way in done):
            await asyncio.wait(left, timeout=HALF_OPEN)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pass_on(source: End, sink: End) -> None:
    try:
        buffer = memoryview(bytearray(FIRST))
        while count := await source.receive(buffer):
            await sink.send(buffer[:count])
            buffer = larger(buffer, count)
    finally:
        sink.end()


def larger(buffer: memoryview, count: int) -> memoryview:
    """The buffer to read with next, when `count` bytes came: one that was full is too small. Most
    connections say little, and there may be many."""
    full = count == len(buffer) and count < MOST
    return memoryview(bytearray(min(MOST, 4 * count))) if full else buffer
