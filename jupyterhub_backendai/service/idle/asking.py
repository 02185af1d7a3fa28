"""Asks sessions' own servers when they were used last.

Whatever comes from there was written by a user's programs: it is read within bounds. One that does
not answer in time, or with nonsense, has said nothing, and holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..ways.tunnel import KEY, Place

ANSWER = 5.0  # seconds
AT_ONCE = 64
MOST_ANSWER = 4096  # bytes
ROUND = 20.0  # seconds for all of one round; who has not answered by then has said nothing
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Target:
    """A session's server."""

    id: str
    place: Place


class Answer(BaseModel):
    """Seconds since somebody used it, since anybody asked it anything, and since it was started."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=False)

    used: Seconds
    asked: Seconds
    uptime: Seconds


class Asker:
    """Asks them all, some at a time; connections are kept for the next time."""

    def __init__(self) -> None:
        self._made: aiohttp.ClientSession | None = None

    @property
    def _client(self) -> aiohttp.ClientSession:
        if self._made is None:
            connector = aiohttp.TCPConnector(limit=AT_ONCE, keepalive_timeout=90)
            self._made = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._made

    async def ask(self, targets: Collection[Target]) -> dict[str, Answer]:
        """What those say that answer, by their ids."""
        found: dict[str, Answer] = {}
        waiting = iter(targets)

        async def some() -> None:
            for target in waiting:
                answer = await self._one(target)
                if answer is not None:
                    found[target.id] = answer

        tasks = [asyncio.ensure_future(some()) for _ in range(min(AT_ONCE, len(targets)))]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=ROUND)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        return found

    async def _one(self, target: Target) -> Answer | None:
        timeout = aiohttp.ClientTimeout(total=ANSWER)
        headers = {KEY: target.place.key, "Accept": "application/json"}
        try:
            async with self._client.get(
                target.place.url("activity"), headers=headers, timeout=timeout,
                allow_redirects=False,
            ) as reply:  # fmt: skip
                if reply.status != 200:
                    return None
                said = bytearray()
                async for part in reply.content.iter_chunked(MOST_ANSWER):
                    said += part
                    if len(said) > MOST_ANSWER:
                        return None
                return Answer.model_validate_json(bytes(said))
        except (aiohttp.ClientError, asyncio.TimeoutError, ValidationError, ValueError):
            return None

    async def close(self) -> None:
        """Ends all connections."""
        if self._made is not None:
            await self._made.close()
            self._made = None
