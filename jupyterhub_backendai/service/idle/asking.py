"""When sessions were last used, asked of their own servers.

Each is in a user's container: it may say nothing, anything, or nothing for a long time. So answers
are bounded and checked, each session has a few seconds, and each answer counts as it comes. Who
does not answer is unknown, never idle.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..ways import tunnel
from ..ways.tunnel import Place, Unreachable

AT_ONCE = 64  # sessions
PATIENCE = 5.0  # seconds for one session
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

    def __init__(self, patience: float = PATIENCE, most_kept: int | None = None) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        # This process needs files for others too.
        self._most_kept = max(1, files // 4) if most_kept is None else most_kept
        self._patience = patience
        self._asked: OrderedDict[str, float] = OrderedDict()  # when; those with a connection kept
        self._kept: aiohttp.ClientSession | None = None
        self._once: aiohttp.ClientSession | None = None

    async def ask(self, session: Target) -> Answer | None:
        """What its server says; None where that is not known."""
        if self._kept is None or self._once is None:
            self._kept = _client(aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT))
            self._once = _client(aiohttp.TCPConnector(limit=0, force_close=True))
        client = self._kept if self._keeps(session.session_id) else self._once
        try:
            status, said = await tunnel.ask(
                client, "GET", session.place, ("activity",), None, self._patience, MOST_BYTES
            )
            return Answer.model_validate(said) if status == 200 else None
        except (Unreachable, ValidationError):
            return None

    async def close(self) -> None:
        """Closes all connections."""
        for client in (self._kept, self._once):
            if client is not None:
                await client.close()
        self._kept = self._once = None

    def _keeps(self, session_id: str) -> bool:
        """Whether its connection is kept: it is one of those already, or one of them is closed."""
        now = time.monotonic()
        if session_id not in self._asked and len(self._asked) >= self._most_kept:
            first = next(iter(self._asked.values()))
            if now - first < KEPT + self._patience:
                return False
            self._asked.popitem(last=False)
        self._asked[session_id] = now
        self._asked.move_to_end(session_id)
        return True


class Line:
    """Sessions that are to be asked, in the order in which they came, `at_once` of them at a time.
    One that stands in it, or is just asked, is there once."""

    def __init__(self, ask: Callable[[str], Awaitable[None]], at_once: int = AT_ONCE) -> None:
        self._ask, self._at_once = ask, at_once
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._asked: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, session_ids: Iterable[str]) -> None:
        """Those that are to be asked, too."""
        self._waiting.update(dict.fromkeys(id for id in session_ids if id not in self._asked))
        for _ in range(min(self._at_once - len(self._tasks), len(self._waiting))):
            self._tasks.add(asyncio.ensure_future(self._some()))

    async def wait(self, seconds: float) -> None:
        """Until all were asked, but no longer than this. Raises what asking raised."""
        if not self._tasks:
            return
        done, _ = await asyncio.wait(self._tasks, timeout=seconds)
        self._tasks -= done
        failed = [error for task in done if (error := task.exception()) is not None]
        if failed:
            raise failed[0]

    async def close(self) -> None:
        """Asks no more."""
        tasks, self._tasks = self._tasks, set()
        self._waiting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _some(self) -> None:
        """One after the other, as long as there are any."""
        while self._waiting:
            id, _ = self._waiting.popitem(last=False)
            self._asked.add(id)
            try:
                await self._ask(id)
            finally:
                self._asked.discard(id)


def _client(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    """Without cookies, and without what grows when it is unpacked."""
    jar = aiohttp.DummyCookieJar()
    return aiohttp.ClientSession(connector=connector, cookie_jar=jar, auto_decompress=False)
