"""Tells sessions' own servers that they will be ended, for who is at work inside.

Only sessions that are warned of are told, so all others cost nothing: twice a minute, every few
seconds while a page is open there that shows it, and rarely where nobody answers.

A server may answer that somebody wants to keep the session. It is in the user's own container, and
its word is taken for no more than that: it keeps its own session alone, by its owner's policy,
while the owner is warned of it, and the history says where that came from.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...model.errors import RequestError
from ...model.moments import limit_words
from ...scheduling.idle import earliest
from ...site.runtime import Site
from ...store import NotFound
from ..ways import tunnel
from ..ways.tunnel import Place, Unreachable
from .keeping import keep
from .views import keeps_for, warnings_due
from .watch import Watch
from .watched import Watched
from .words import fate, instead, kept_in_short, reason_ahead

EVERY = 30.0  # seconds after which a server is told again
SOON = 5.0  # seconds, where somebody looks
RARELY = 120.0  # seconds, where nothing sensible was answered
MISSES = 3  # in a row, until that is so: a server that is busy for a moment is no such
AT_ONCE = 32  # sessions
PATIENCE = 5.0  # seconds for one session
DEADLINE = 10.0  # seconds after which no other is begun with; they are the first the next time
MOST_BYTES = 4096  # of an answer

Finds = Callable[[Watched], Awaitable[Place | None]]


class Reply(BaseModel):
    """Of a session's server."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    here: bool
    """Whether a page of it is open that would show what it is told."""
    keep: Annotated[str, Field(max_length=64)]
    """The name of a wish to keep it; "" where there is none. Each wish has another."""


@dataclass(slots=True)
class _Told:
    """When a server was told last, and where it is. `answer`: to its last wish, so that none is
    granted twice."""

    at: float = float("-inf")
    here: bool = False
    misses: int = 0
    place: Place | None = None
    answer: Mapping[str, Any] | None = None

    @property
    def silent(self) -> bool:
        """Whether it answers nothing sensible."""
        return self.misses >= MISSES


class Teller:
    """Tells the sessions of a site. `places`: where a session's server is."""

    def __init__(
        self, site: Site, places: Finds, patience: float = PATIENCE, deadline: float = DEADLINE
    ) -> None:
        self.site, self._places = site, places
        self._patience, self._deadline = patience, deadline
        self._told: dict[str, _Told] = {}
        self._made: aiohttp.ClientSession | None = None

    async def once(self, watch: Watch) -> None:
        """Tells those whose turn it is. Raises `Unavailable`."""
        # Who did not answer the last time keeps nobody waiting who did, and all have their turn.
        told = self._told
        due = sorted(
            self._due(watch),
            key=lambda one: (told[one.session.id].silent, told[one.session.id].at),
        )
        turns, count = iter(due), min(AT_ONCE, len(due))
        some = (self._some(watch, turns) for _ in range(count))
        for result in await asyncio.gather(*some, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def close(self) -> None:
        """Closes all connections."""
        if self._made is not None:
            await self._made.close()
        self._made = None

    def _due(self, watch: Watch) -> Iterator[Watched]:
        ahead, now = max(self.site.idle.warnings, default=0.0), watch.clock.now()
        for id in self._told.keys() - watch.sessions.keys():
            del self._told[id]
        for id, one in watch.sessions.items():
            warned = (
                one.ends_at is not None
                and one.ends_at - now <= ahead
                and warnings_due(self.site, one, now) > 0
            )
            told = self._told.get(id)
            if told is None:
                if not warned:
                    continue
                told = self._told[id] = _Told()
            wait = RARELY if told.silent else EVERY if warned and not told.here else SOON
            if now - told.at >= wait:
                yield one

    async def _some(self, watch: Watch, turns: Iterator[Watched]) -> None:
        ends = time.monotonic() + self._deadline
        for one in turns:
            await self._tell(watch, one)
            if time.monotonic() >= ends:
                return

    async def _tell(self, watch: Watch, one: Watched) -> None:
        told = self._told[one.session.id]
        reply = await self._say(watch, one, told)
        if reply is not None and reply.keep:
            if told.answer is None or told.answer["to"] != reply.keep:
                told.answer = {"to": reply.keep, **await self._keep(watch, one)}
            await self._say(watch, one, told)

    async def _say(self, watch: Watch, one: Watched, told: _Told) -> Reply | None:
        """What its server answers; None where that makes no sense."""
        told.at = watch.clock.now()
        ending = self._ending(one, told.at)
        if told.place is None:
            told.place = await self._places(one)
        reply = None if told.place is None else await self._put(told.place, ending, told.answer)
        told.here = reply is not None and reply.here
        told.misses = told.misses + 1 if reply is None else 0
        if reply is None:
            told.place = None  # it may be elsewhere now
        if ending is None and (reply is not None or told.silent):
            # Once is enough: what is not told again gets old there.
            self._told.pop(one.session.id, None)
        return reply

    def _ending(self, one: Watched, now: float) -> dict[str, Any] | None:
        """What its server is told; None where its owner is not to be warned."""
        first, ends_at = earliest(one.verdicts), one.ends_at
        if first is None or ends_at is None:
            return None
        warning, most = warnings_due(self.site, one, now), keeps_for(self.site, one, now)
        why = f"{reason_ahead(first, one.why_not)} {instead(first.check, one.why_not)}".rstrip()
        if warning and first.check.rests and one.why_not:
            warning += 1  # it is news to who was told that it is hibernated, and put that away
        return {
            "left": ends_at - now, "warning": warning, "fate": fate(first.check, one.why_not),
            "stays": kept_in_short(first.check, one.why_not), "why": why,
            "keep": limit_words(most) if most else "",
        } if warning else None  # fmt: skip

    async def _put(self, place: Place, ending: Any, answer: Any) -> Reply | None:
        said = {"ending": ending, "answer": answer}
        try:
            status, answered = await tunnel.ask(
                self._client, "PUT", place, ("ending", "told"), said, self._patience, MOST_BYTES
            )
            return Reply.model_validate(answered) if status == 200 else None
        except (Unreachable, ValidationError):
            return None

    async def _keep(self, watch: Watch, one: Watched) -> dict[str, Any]:
        """What comes of a wish to keep it."""
        if self._ending(one, watch.clock.now()) is None:
            return {"kept": False, "message": "Nothing ends it soon, so it need not be kept."}
        before = one.kept
        try:
            await keep(self.site, watch, one, None, f"{one.session.owner}, from inside,")
        except RequestError as error:
            return {"kept": False, "message": " ".join(e.message for e in error.errors)}
        except NotFound:
            return {"kept": False, "message": "The session is over."}
        return {"kept": True, "message": f"It is kept for {limit_words(one.kept - before)}."}

    @property
    def _client(self) -> aiohttp.ClientSession:
        """Each time anew, as servers come and go; without cookies."""
        if self._made is None:
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            jar = aiohttp.DummyCookieJar()
            self._made = aiohttp.ClientSession(
                connector=connector, cookie_jar=jar, auto_decompress=False
            )
        return self._made
