"""When this server was last used, as its idle checks and the Hub see it.

What a client sends counts; what only keeps a connection alive does not:

* A request for an app's page counts, one in the background too, as Jupyter's own do.
* On a websocket to an app each message of the client that is not empty counts. Pings and pongs
  don't; nor does what the app sends by itself.
* On a bare connection to an app that speaks its own protocol, all that the client sends counts.
* By SSH, whichever way, and on the connections of an app that is open to others, more than 512
  bytes from the client within a minute count. Keep-alives are less; somebody who types is more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

MORE_THAN = 512  # bytes
WITHIN = 60.0  # seconds


def note(settings: dict) -> None:
    """Somebody uses this server."""
    settings.setdefault("last_activity_times", {})["backendai"] = datetime.now(timezone.utc)


class Bulk:
    """Calls `used` when more than a keep-alive has come from the client."""

    def __init__(
        self, used: Callable[[], Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._used, self._clock = used, clock
        self._began, self._size = clock(), 0

    def __call__(self, data: Any) -> None:
        now = self._clock()
        if now - self._began > WITHIN:
            self._began, self._size = now, 0
        self._size += len(data)
        if self._size > MORE_THAN:
            self._used()


class Messages:
    """Calls `used` when a part of a websocket's message from the client is not empty.

    `each` is called with the size of every such part, in bytes as they were sent. It is fed the
    connection's bytes in order, however they are cut (RFC 6455, 5.2).
    """

    def __init__(
        self, used: Callable[[], Any], each: Callable[[int], Any] = lambda _: None
    ) -> None:
        self._used, self._each = used, each
        self._head = bytearray()  # of the frame that comes next
        self._left = 0  # bytes of the frame's payload that are to come

    def __call__(self, data: Any) -> None:
        at, end, used = 0, len(data), False
        while at < end:
            if self._left:
                passed = min(self._left, end - at)
                self._left -= passed
                at += passed
                continue
            self._head.append(data[at])
            at += 1
            size = self._size()
            if size is not None:
                # compressed, an empty message is one byte
                if self._head[0] & 0x0F < 8 and size > bool(self._head[0] & 0x40):
                    used = True
                    self._each(size)
                self._left = size
                self._head.clear()
        if used:
            self._used()

    def _size(self) -> int | None:
        """The payload's length once the frame's head is whole."""
        head = self._head
        if len(head) < 2:
            return None
        short = head[1] & 0x7F
        more = {126: 2, 127: 8}.get(short, 0)
        if len(head) < 2 + more + (4 if head[1] & 0x80 else 0):
            return None
        return int.from_bytes(head[2 : 2 + more], "big") if more else short
