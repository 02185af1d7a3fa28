"""Questions to sessions' servers about their apps: a few at a time each, so that one which does
not answer keeps nobody waiting but its owner."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import aiohttp

from . import tunnel
from .tunnel import Item, Place

MOST = 4  # apps that are being started of one session, or asked to


class Busy(Exception):
    """As many as may be are asked for already. The message is for people."""


class Asking:
    """All that is asked of sessions' servers."""

    def __init__(self) -> None:
        self._made: aiohttp.ClientSession | None = None
        self._looks: dict[Place, asyncio.Task[list[Item]]] = {}
        self._starts: Counter[Place] = Counter()

    @property
    def _client(self) -> aiohttp.ClientSession:
        """Each time anew, as servers come and go; without cookies; as many as are asked for."""
        if self._made is None:
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            jar = aiohttp.DummyCookieJar()
            self._made = aiohttp.ClientSession(connector=connector, cookie_jar=jar)
        return self._made

    async def apps(self, place: Place) -> list[Item]:
        """The apps of a session: whoever asks meanwhile gets the same answer. Raises
        `Unreachable`."""
        look = self._looks.get(place)
        if look is None:
            look = self._looks[place] = asyncio.ensure_future(tunnel.apps(self._client, place))
            look.add_done_callback(lambda done: self._seen(place, done))
        return await asyncio.shield(look)

    def _seen(self, place: Place, look: asyncio.Task[list[Item]]) -> None:
        del self._looks[place]
        if not look.cancelled():
            look.exception()  # all who asked may be gone

    async def start(self, place: Place, app: str, arguments: Mapping[str, str]) -> tuple[bool, str]:
        """See `tunnel.start`. Raises `Busy` besides."""
        if self._starts[place] >= MOST:
            raise Busy("This session is starting several apps already. Try again in a moment.")
        self._starts[place] += 1
        try:
            return await tunnel.start(self._client, place, app, arguments)
        finally:
            self._starts[place] -= 1
            if not self._starts[place]:
                del self._starts[place]

    async def close(self) -> None:
        """Ends all that is being asked."""
        looks = list(self._looks.values())
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)
        if self._made is not None:
            await self._made.close()
