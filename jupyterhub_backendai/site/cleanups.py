"""Clean-ups of starts that were given up: in the background, and in order for each server.

The Hub gives a cancelled start one second, and may make a new spawner for the next one. What a
clean-up still needs is its own; the next start of the server waits until it is through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runtime import Site

Server = tuple[str, str]  # owner and name of a server


class Cleanups:
    """What is still being ended, by server."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._last: dict[Server, asyncio.Task[None]] = {}

    def add(self, server: Server, work: Callable[[], Awaitable[None]]) -> None:
        """Begins `work` as soon as the clean-ups of this server before it are over."""
        task = self.site.background(self._after(self._last.get(server), work))
        self._last[server] = task
        task.add_done_callback(lambda done: self._forget(server, done))

    async def over(self, server: Server, timeout: float) -> bool:
        """Whether nothing of the server's earlier starts is being ended any more, after at most
        `timeout` seconds. A failure is in the log, and what it left is the reconciler's."""
        last = self._last.get(server)
        if last is None:
            return True
        done, _ = await asyncio.wait([last], timeout=timeout)
        return bool(done)

    @staticmethod
    async def _after(
        earlier: asyncio.Task[None] | None, work: Callable[[], Awaitable[None]]
    ) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        await work()

    def _forget(self, server: Server, done: asyncio.Task[None]) -> None:
        if self._last.get(server) is done:
            del self._last[server]
