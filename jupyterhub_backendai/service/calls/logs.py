"""`api/sessions/{id}/logs`: what a container writes, as text; a part of it, followed, searched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import asdict

from tornado.iostream import StreamClosedError

from ...engine.base import EngineBusy, EngineError
from ...engine.logs import LogPart, as_text, search
from ...store import Kernel, Session
from ..base import Refused
from ..logs import NoLog, chunks
from ..queries import LogQuery
from .sessions import SessionHandler

QUIET = 2.0  # seconds without a byte after which a client is told that there is a log


class LogsHandler(SessionHandler):
    """One container's log. It goes through in pieces: no log is ever in memory as a whole."""

    _writing: asyncio.Task[None] | None = None
    _left = False  # whether the client went away

    async def get(self, id: str) -> None:
        session = await self.session(id)
        query = self.read_query(LogQuery)
        kernel = await self._kernel(session, query.kernel)
        self._writing = asyncio.ensure_future(self._send(session, kernel, query))
        try:
            await self._writing
        except asyncio.CancelledError:
            if not self._left:
                raise

    async def _kernel(self, session: Session, name: str) -> Kernel:
        for kernel in await self.site.db(self.site.store.kernels, session.id):
            if kernel.name == name:
                return kernel
        raise _no_log()

    async def _send(self, session: Session, kernel: Kernel, query: LogQuery) -> None:
        part = LogPart(query.tail, query.since, query.offset, query.limit, query.follow == "1")
        async with aclosing(chunks(self.site, session, kernel, query.kind, part)) as raw:  # type: ignore[type-var]
            text = _found(raw, query) if query.search else as_text(raw)
            async with aclosing(text) as pieces:  # type: ignore[type-var]
                await self._write_all(pieces, session, kernel, query)

    async def _write_all(
        self, pieces: AsyncIterator[str], session: Session, kernel: Kernel, query: LogQuery
    ) -> None:
        coming = asyncio.ensure_future(_next(pieces))
        try:
            # Until the first piece is there what goes wrong can be told by a status.
            await asyncio.wait({coming}, timeout=QUIET)
            if coming.done() and (error := coming.exception()) is not None:
                raise _refused(error) from None
            self._head(session, kernel, query)
            await self.flush()
            while (piece := await coming) is not None:
                self.write(piece)
                await self.flush()
                coming = asyncio.ensure_future(_next(pieces))
        except StreamClosedError:
            return
        except EngineError as error:
            # Too late for a status: the client sees that the answer breaks off.
            self.service.log.warning("A log broke off: %s", error)
            self.detach().close()
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    def _head(self, session: Session, kernel: Kernel, query: LogQuery) -> None:
        kind = "application/x-ndjson" if query.search else "text/plain"
        self.set_header("Content-Type", f"{kind}; charset=utf-8")
        self.set_header("X-Accel-Buffering", "no")
        if query.download == "1":
            name = f"{session.name}-logs-{kernel.name}.txt"  # ASCII without quotes, by our rules
            self.set_header("Content-Disposition", f'attachment; filename="{name}"')

    def on_connection_close(self) -> None:
        self._left = True
        if self._writing is not None:
            self._writing.cancel()


async def _next(pieces: AsyncIterator[str]) -> str | None:
    return await anext(pieces, None)


async def _found(raw: AsyncIterator[bytes], query: LogQuery) -> AsyncIterator[str]:
    async for hit in search(raw, query.search or "", query.offset):
        yield json.dumps(asdict(hit)) + "\n"


def _refused(error: BaseException) -> BaseException:
    if isinstance(error, NoLog):
        return _no_log()
    if isinstance(error, EngineBusy):
        return Refused(429, "busy", "Too many logs are being read. Try again in a moment.")
    if isinstance(error, EngineError):
        return Refused(503, "agent_unreachable", "Its machine does not answer. Try again later.")
    return error


def _no_log() -> Refused:
    return Refused(404, "no_log", "There is no such log, or it is not kept any more.")
