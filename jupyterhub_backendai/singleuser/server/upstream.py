"""A request to an app, as HTTP/1.1 on one connection; nothing of a body is kept.

Tornado's own client reads a body without a length as a whole, and copies each byte a few times.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

from tornado.httputil import (
    HTTPHeaders,
    HTTPInputError,
    ResponseStartLine,
    parse_response_start_line,
)

from . import ports

CHUNK = 1 << 20  # bytes of a read at most
HEAD_MAX = 1 << 18  # bytes of a response's head, and of a line of a chunked body


class Broken(Exception):
    """The app did not answer in HTTP, or ended in the middle."""


class Upstream:
    """A connection to an app, for one request."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self._loop = asyncio.get_running_loop()
        self._read = b""  # what was read and not used yet

    @classmethod
    async def open(cls, port: int) -> Upstream:
        """Raises OSError where nothing listens."""
        return cls(await ports.connect(port))

    def close(self) -> None:
        """When nobody is reading or writing any more."""
        self.link.close()

    async def send(self, data: bytes) -> None:
        """Raises OSError when the app is gone."""
        await self._loop.sock_sendall(self.link, data)

    def take(self) -> bytes:
        """What came after the head already."""
        rest, self._read = self._read, b""
        return rest

    async def head(self) -> tuple[ResponseStartLine, HTTPHeaders]:
        """The response's head, without those that only say "go on". Raises Broken."""
        while True:
            raw = await self._until(b"\r\n\r\n", b"\n\n")
            try:
                first, _, rest = raw.decode("latin1").lstrip("\r\n").partition("\n")
                first = first.rstrip("\r")
                if first.count(" ") == 1:  # without a reason, as some write it
                    first += " "
                start = parse_response_start_line(first)
                headers = HTTPHeaders.parse(rest)
            except (HTTPInputError, ValueError) as error:
                raise Broken("It answered, but not in HTTP.") from error
            if start.code == 101 or start.code >= 200:
                return start, headers

    async def body(
        self, method: str, start: ResponseStartLine, headers: HTTPHeaders
    ) -> AsyncIterator[bytes]:
        """The response's body as it comes. Raises Broken where it ends too early."""
        if method == "HEAD" or start.code in (204, 304):
            return
        if "chunked" in headers.get("Transfer-Encoding", "").lower():
            while True:
                size = self._size(await self._until(b"\n"))
                if not size:
                    break
                async for chunk in self._exactly(size):
                    yield chunk
                await self._until(b"\n")
        elif "Content-Length" in headers:
            length = headers["Content-Length"].split(",")[0].strip()
            if not length.isdigit():
                raise Broken("It answered with a wrong Content-Length.")
            async for chunk in self._exactly(int(length)):
                yield chunk
        else:
            while True:
                chunk = await self._some(CHUNK)
                if not chunk:
                    break
                yield chunk

    @staticmethod
    def _size(line: bytes) -> int:
        try:
            return int(line.split(b";")[0].strip(), 16)
        except ValueError as error:
            raise Broken("It sent a body that is not in chunks.") from error

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        while size:
            chunk = await self._some(min(size, CHUNK))
            if not chunk:
                raise Broken("It ended in the middle of its answer.")
            size -= len(chunk)
            yield chunk

    async def _some(self, most: int) -> bytes:
        if self._read:
            chunk, self._read = self._read[:most], self._read[most:]
            return chunk
        try:
            return await self._loop.sock_recv(self.link, most)
        except OSError as error:
            raise Broken(f"The connection to it broke: {error}.") from error

    async def _until(self, *ends: bytes) -> bytes:
        """Up to the first of these, with it."""
        while True:
            found = [(self._read.find(end), end) for end in ends]
            places = [place + len(end) for place, end in found if place >= 0]
            if places:
                place = min(places)
                line, self._read = self._read[:place], self._read[place:]
                return line
            if len(self._read) > HEAD_MAX:
                raise Broken("It answered, but not in HTTP.")
            try:
                more = await self._loop.sock_recv(self.link, HEAD_MAX)
            except OSError as error:
                raise Broken(f"The connection to it broke: {error}.") from error
            if not more:
                raise Broken("It ended the connection without an answer.")
            self._read += more
