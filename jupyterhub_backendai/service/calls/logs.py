"""`api/sessions/{id}/logs`: what a container writes, as text; a part of it, followed, searched."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import asdict

from tornado.iostream import StreamClosedError

from ..._within import within
from ...engine.base import EngineBusy, EngineError
from ...engine.logs import LogPart, as_text, search
from ...store import NotFound, Session, Unavailable
from ..base import Refused
from ..feed import LIFETIME
from ..logs import NoCommand, NoLog, NoTimes, NotStarted, chunks
from ..parts import NotReady
from ..places import Places
from ..queries import LogQuery
from .sessions import SessionHandler

QUIET = 2.0  # seconds without a byte after which a client is told that there is a log
PATIENCE = 60.0  # seconds in which a client takes something, or is cut off
AT_ONCE = 64 * 1024  # characters written at once, of which a client is to take some in time
MOST_LOGS = 200  # of everybody
MOST_OWN = 8  # of one user


def log_places() -> Places:
    """Room for logs that are read."""
    told = f"At most {MOST_OWN} logs are read by one user at a time. Close one first."
    return Places(MOST_OWN, MOST_LOGS, "too_many_logs", told)


class _ComeAgain(Exception):
    """Whoever reads a log is to ask for it again."""


class LogsHandler(SessionHandler):
    """One container's log. It goes through in pieces: no log is ever in memory as a whole."""

    _writing: asyncio.Task[None] | None = None
    _left = False  # whether the client went away
    _asked = 0.0  # when it was last asked who reads, in the loop's time
    _quiet = True  # whether nothing came since

    async def prepare(self) -> None:
        await super().prepare()
        self._asked = asyncio.get_running_loop().time()

    async def get(self, id: str) -> None:
        session = await self.session(id)
        query = self.read_query(LogQuery)
        with self.service.logs.one(self.caller.name):
            self._writing = asyncio.ensure_future(self._send(session, query))
            try:
                await self._writing
            except asyncio.CancelledError:
                if not self._left:
                    raise

    async def _send(self, session: Session, query: LogQuery) -> None:
        log = chunks(self.site, session, query.kernel, _part(query))
        async with aclosing(log) as raw:  # type: ignore[type-var]
            text = _found(raw, query) if query.search else as_text(raw)
            async with aclosing(text) as made:  # type: ignore[type-var]
                await self._write_all(made, session, query)

    async def _write_all(
        self, pieces: AsyncIterator[str], session: Session, query: LogQuery
    ) -> None:
        coming = asyncio.ensure_future(_next(pieces))
        try:
            # Until the first piece is there what goes wrong can be told by a status.
            await asyncio.wait({coming}, timeout=QUIET)
            if coming.done() and (error := coming.exception()) is not None:
                raise _refused(error) from None
            self._head(session, query)
            await self.flush()
            while (piece := await self._allowed(coming, session.id)) is not None:
                for at in range(0, len(piece), AT_ONCE):
                    self.write(piece[at : at + AT_ONCE])
                    await within(PATIENCE, self.flush())
                coming = asyncio.ensure_future(_next(pieces))
        except StreamClosedError:
            return
        except asyncio.TimeoutError:
            self._break_off("its reader takes nothing")
        except _ComeAgain as why:
            self._break_off(why, logging.INFO)
        except (EngineError, Unavailable) as error:
            if not self._headers_written:
                raise
            self._break_off(error)
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    async def _allowed(self, coming: asyncio.Future[str | None], id: str) -> str | None:
        """The next piece; now and then who reads is asked anew. Raises `_ComeAgain` for those who
        may not any more, and where nothing came since: they may have gone, which nothing tells."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.wait({coming}, timeout=max(0, self._asked + LIFETIME - loop.time()))
            if loop.time() < self._asked + LIFETIME:
                self._quiet = False
                return coming.result()
            if self._quiet and not coming.done():
                raise _ComeAgain("nothing was written for long")
            try:
                self._caller = await self.identify_anew()
                await self.session(id)
            except (Refused, NotFound, NotReady) as error:
                raise _ComeAgain(f"its reader may not read it any more: {error}") from None
            self._asked, self._quiet = loop.time(), True

    def _break_off(self, why: object, level: int = logging.WARNING) -> None:
        """Too late for a status: the client sees that the answer has no end."""
        self.service.log.log(level, "A log broke off: %s", why)
        self.detach().close()

    def _head(self, session: Session, query: LogQuery) -> None:
        # What the system holds for a client hides that it takes nothing.
        stream = self.request.connection.stream  # type: ignore[union-attr]
        if not stream.closed():
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, AT_ONCE)
        kind = "application/x-ndjson" if query.search else "text/plain"
        self.set_header("Content-Type", f"{kind}; charset=utf-8")
        self.set_header("X-Accel-Buffering", "no")
        if query.download == "1":
            name = f"{session.name}-logs-{query.kernel}.txt"  # ASCII without quotes, by our rules
            self.set_header("Content-Disposition", f'attachment; filename="{name}"')

    def on_connection_close(self) -> None:
        self._left = True
        if self._writing is not None:
            self._writing.cancel()


def _part(query: LogQuery) -> LogPart:
    offset, limit = query.offset, query.limit
    if query.search:  # which counts the lines before `offset`, too
        offset, limit = 0, None if limit is None else offset + limit
    return LogPart(
        query.tail, query.since, offset, limit, query.follow == "1", query.kind == "command"
    )


async def _next(pieces: AsyncIterator[str]) -> str | None:
    return await anext(pieces, None)


async def _found(raw: AsyncIterator[bytes], query: LogQuery) -> AsyncIterator[str]:
    async for hit in search(raw, query.search or "", query.offset):
        yield json.dumps(asdict(hit)) + "\n"


def _refused(error: BaseException) -> BaseException:
    match error:
        case NoCommand():
            return Refused(404, "no_log", "It has no command: it is no batch session.", "kind")
        case NoLog():
            return Refused(404, "no_log", "There is no such log, or it is not kept any more.")
        case NotStarted():
            return Refused(
                409, "not_started", f"It has no container yet: it is {error.status.value}. Try "
                "again later, or with follow=1, which waits for it.",
            )  # fmt: skip
        case NoTimes():
            return Refused(
                400, "no_times", "Its container is gone, and its log is kept without times. Ask "
                "without since.", "since",
            )  # fmt: skip
        case EngineBusy():
            return Refused(429, "busy", "Too many logs are being read. Try again in a moment.")
        case EngineError():
            return Refused(
                503, "agent_unreachable", "Its machine does not answer. Try again later."
            )
    return error
