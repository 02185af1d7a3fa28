"""When sessions were last used, asked of their own servers.

Each is in a user's container: it may say nothing, anything, or nothing for a long time. So answers
are bounded and checked, each session has a few seconds, and those that did not answer the last
time are asked after all others. Who does not answer is unknown, never idle.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..ways import tunnel
from ..ways.tunnel import Place, Unreachable

AT_ONCE = 64  # sessions
PATIENCE = 5.0  # seconds for one session
DEADLINE = 40.0  # seconds for all of them, however many do not answer
KEPT = 150.0  # seconds that a connection is kept for the next time
MOST_BYTES = 4096  # of an answer

Seconds = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Target:
    """A session that is to be asked: its id, and where its server is."""

    session_id: str
    place: Place


class Answer(BaseModel):
    """Of a session's server, in seconds by its own monotonic clock."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    used: Seconds
    """Since somebody last used it; since it started, where nobody has."""
    asked: Seconds
    """Since a client last asked anything, polling included; since it started, where none has."""
    uptime: Seconds
    """Since it started."""

    @model_validator(mode="after")
    def _in_order(self) -> Answer:
        """Use is asking too, and both came after the start."""
        if not self.asked <= self.used <= self.uptime:
            raise ValueError("not in order")
        return self


class Asker:
    """Asks sessions' servers; its connections stay open from one time to the next."""

    def __init__(self, patience: float = PATIENCE, deadline: float = DEADLINE) -> None:
        self._patience, self._deadline = patience, deadline
        self._silent: set[str] = set()  # ids of those that did not answer the last time
        self._kept: aiohttp.ClientSession | None = None
        self._once: aiohttp.ClientSession | None = None
        self._most_kept = max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)

    async def ask(self, sessions: Collection[Target]) -> dict[str, Answer]:
        """The answers by session, within the deadline. Left out are those that are not known."""
        found: dict[str, Answer] = {}
        if not sessions:
            return found
        ordered = sorted(sessions, key=lambda target: target.session_id in self._silent)
        self._open()
        turns = iter(enumerate(ordered))
        count = min(AT_ONCE, len(ordered))
        asking = [asyncio.ensure_future(self._some(turns, found)) for _ in range(count)]
        try:
            await asyncio.wait(asking, timeout=self._deadline)
        finally:
            for task in asking:
                task.cancel()
            results = await asyncio.gather(*asking, return_exceptions=True)
        self._silent = {target.session_id for target in sessions} - found.keys()
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        return found

    async def ask_one(self, session: Target) -> Answer | None:
        """The answer of one that somebody waits for; None where it is not known."""
        self._open()
        return await self._one(0, session)

    async def close(self) -> None:
        """Closes all connections."""
        for client in (self._kept, self._once):
            if client is not None:
                await client.close()
        self._kept = self._once = None

    def _open(self) -> None:
        if self._kept is None or self._once is None:
            self._kept = _client(aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT))
            self._once = _client(aiohttp.TCPConnector(limit=0, force_close=True))

    async def _some(self, turns: Iterator[tuple[int, Target]], found: dict[str, Answer]) -> None:
        """One after the other, as long as there are any."""
        for number, target in turns:
            answer = await self._one(number, target)
            if answer is not None:
                found[target.session_id] = answer

    async def _one(self, number: int, target: Target) -> Answer | None:
        # this process needs files for others too
        client = self._kept if number < self._most_kept else self._once
        assert client is not None
        try:
            status, said = await tunnel.ask(
                client, "GET", target.place, ("activity",), None, self._patience, MOST_BYTES
            )
            return Answer.model_validate(said) if status == 200 else None
        except (Unreachable, ValidationError):
            return None


def _client(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    """Without cookies, and without what grows when it is unpacked."""
    jar = aiohttp.DummyCookieJar()
    return aiohttp.ClientSession(connector=connector, cookie_jar=jar, auto_decompress=False)
