"""What visitors of a port say first, which is looked at before anything goes on.

Cookies know no ports: a browser that is sent to a port of the Hub's host sends the Hub's cookies
there, and takes new ones from it. So no request of a browser gets to what speaks no HTTP; and what
would answer one says nothing before the visitor did, or has been silent.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ..._within import within
from .streams import Broken, Stream

QUIET = 1.0  # seconds after which an app may speak first, as databases do
PATIENCE = 120.0  # seconds that nobody need say anything
SSH = b"SSH-"
# What a browser begins with by itself; others it asks for first, with OPTIONS.
_REQUESTS = tuple(
    f"{method} ".encode()
    for method in (
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE",
    )
)  # fmt: skip


def is_request(begin: bytes) -> bool:
    """Whether these bytes begin an HTTP request."""
    return begin.startswith(_REQUESTS)


def _is_clear(begin: bytes) -> bool:
    """Whether it can be told what these bytes begin."""
    return is_request(begin) or not any(one.startswith(begin) for one in _REQUESTS)


class Visitor:
    """A visitor's end of a connection. `ssh`: nothing else than that goes on, either way."""

    def __init__(self, stream: Stream, *, ssh: bool) -> None:
        self._stream, self._ssh = stream, ssh
        self._spoke, self._opened = asyncio.Event(), False
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._give_up)

    async def hear(self) -> None:
        """Waits for what is said first. Raises `Broken` where that does not belong here."""
        if self._spoke.is_set():
            return
        begin = await self._stream.look(self._is_clear)
        if is_request(begin) or (self._ssh and not begin.startswith(SSH)):
            raise Broken("that is not what this port is for")
        if begin:
            self._timer.cancel()
        self._spoke.set()

    def _is_clear(self, begin: bytes) -> bool:
        return not SSH.startswith(begin) or begin == SSH if self._ssh else _is_clear(begin)

    async def receive(self, into: memoryview) -> int:
        """See `End`."""
        await self.hear()
        return await self._stream.receive(into)

    async def send(self, data: bytes | memoryview) -> None:
        """See `End`."""
        if not self._opened:
            with suppress(asyncio.TimeoutError):
                await within(QUIET, self._spoke.wait())
            self._opened = True
            self._timer.cancel()
        await self._stream.send(data)

    def end(self) -> None:
        """See `End`."""
        self._stream.end()

    def abort(self) -> None:
        """See `End`."""
        self._stream.abort()

    def _give_up(self) -> None:
        """Nobody said anything: the place is for others."""
        self._stream.abort()

    def close(self) -> None:
        """Waits for nothing any more."""
        self._timer.cancel()
