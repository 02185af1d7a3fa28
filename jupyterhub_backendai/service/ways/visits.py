"""Visitors' requests: each is passed to the app of a way, and its answer back, as both come."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tornado.iostream import IOStream, StreamClosedError
from tornado.web import HTTPError, RequestHandler, stream_request_body

from ...store import OpenWay
from . import heads, notices
from .bodies import pieces
from .connections import Full
from .heads import BadRequest, Front, Pairs
from .streams import Broken, Detached, Stream, splice
from .tunnel import MOST_HEAD, Place, Unreachable, open_tunnel

if TYPE_CHECKING:
    from .book import Book

NO_LIMIT = 2**62  # bytes of a body: an app says itself what is too much
# Seconds that a visitor may send nothing of a body, or take for so many bytes of an answer:
PATIENCE = 120.0
WRITE = 128 * 1024
MOST_1XX = 10  # answers before the one that counts


@stream_request_body
class Visit(RequestHandler):
    """One request of a visitor. Nobody signs in here: whoever knows the address may come."""

    SUPPORTED_METHODS = (
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS",
        "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH",
    )  # fmt: skip

    def initialize(self, book: Book) -> None:
        self.book = book
        self._held = ExitStack()
        self._stream: Stream | None = None
        self._visitor: Detached | None = None
        self._answering: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._waits: float | None = None  # since when an answer is being written
        self._silent: float | None = None  # since when more of the request is waited for
        self._watch: asyncio.Task[None] | None = None
        self._takes = True  # whether the app takes more of the body
        self._chunked = False
        self._way = ""
        self._framed = heads.Framing(None, False)
        self._body_comes = True  # whether more of the request is to be read
        self._was_read = asyncio.Event()  # all of the request, or there is nothing more to come
        self._own: tuple[int, Pairs, bytes] | None = None  # an answer of ours

    def locate(self) -> tuple[OpenWay | None, Front, str]:
        """The way that the request is for, how it is seen from outside, and what of its address is
        the app's. Raises `BadRequest`."""
        raise NotImplementedError

    # ---- to the app -----------------------------------------------------------------------------

    async def prepare(self) -> None:
        self.request.connection.set_max_body_size(NO_LIMIT)  # type: ignore[union-attr]
        try:
            self._framed = framed = heads.framing(self.request)
            way, front, target = self.locate()
            head = heads.request_head(self.request, front, target, framed)
        except BadRequest:
            self._refuse()
            return
        if not self.book.is_open:
            self.tell(503, *notices.starting(), again=True)
        elif way is None:
            self.tell(404, *notices.closed())
        elif front.sandboxed and heads.is_preflight(self.request):
            allowed = heads.preflight_pairs(self.request.headers)
            self._say(204, [*heads.kept_apart(), *allowed])
        elif front.sandboxed and "Service-Worker" in self.request.headers:
            self.tell(403, "Not here", ["A service worker would be one of the whole host."])
        else:
            await self._begin(way, front, head, framed)

    async def _begin(self, way: OpenWay, front: Front, head: bytes, framed: heads.Framing) -> None:
        with ExitStack() as stack:
            try:
                place = self.book.connections.one(way.way.id, way.owner, self.abort)
                stack.enter_context(place)
                stream = await open_tunnel(Place.of_way(way), way.way.app)
                stack.callback(stream.close)
                await stream.send(head)
            except Full:
                self.tell(503, *notices.full(), again=True)
            except Unreachable as error:
                self.tell(503, *notices.silent(error.message), again=True)
            except Broken as error:
                self.tell(503, *notices.silent(f"It broke off: {error}."), again=True)
            else:
                if way.way.id not in self.book.ways:  # closed meanwhile
                    self.tell(404, *notices.closed())
                    return
                self._stream, self._chunked = stream, framed.chunked
                self._way = way.way.id
                self._held = stack.pop_all()
                self._silent = None if framed.is_empty else _now()
                self._watch = asyncio.ensure_future(self._until_stuck())
                self._answering = asyncio.ensure_future(self._answer(stream, front))

    async def data_received(self, chunk: bytes) -> None:
        if self._stream is None:
            return
        self._silent = None
        async with self._sending:
            await self._send(b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._chunked else chunk)
        self._silent = _now()

    async def _send(self, data: bytes) -> None:
        if self._stream is None or not self._takes:
            return
        try:
            await self._stream.send(data)
        except Broken:
            self._takes = False  # it may have answered all the same

    async def _respond(self, *_args: str, **_kwargs: str) -> None:
        self._body_comes, self._silent = False, None
        self._was_read.set()
        if self._answering is not None:
            if self._chunked:
                async with self._sending:
                    await self._send(b"0\r\n\r\n")
            await self._answering
        if self._own is not None:
            self._say(*self._own)

    get = head = post = put = patch = delete = options = _respond
    propfind = proppatch = mkcol = copy = move = lock = unlock = report = search = _respond

    # ---- from the app ---------------------------------------------------------------------------

    async def _answer(self, stream: Stream, front: Front) -> None:
        try:
            await self._read_answer(stream, front)
        finally:
            if self._watch is not None:
                self._watch.cancel()
            stream.abort()
            async with self._sending:  # whoever sends to it has been told that it is over
                self._takes = False
                self._held.close()

    async def _read_answer(self, stream: Stream, front: Front) -> None:
        try:
            answer = await _head_of(stream)
            if answer.upgraded and heads.is_websocket(self.request):
                await self._become_websocket(stream, answer, front)
                return
            if answer.status == 101:
                raise Broken("it speaks something else")
            framed = answer.framing(self.request.method or "")
            pairs = heads.answer_pairs(answer, front, self.request, framed)
        except Broken as error:
            if self._way not in self.book.ways:
                self.tell(404, *notices.closed())
            elif not self._finished:
                self.tell(503, *notices.silent(f"It broke off: {error}."), again=True)
            return
        await self._pass_on(stream, answer, framed, pairs)

    async def _pass_on(
        self, stream: Stream, answer: heads.Answer, framed: heads.Framing, pairs: Pairs
    ) -> None:
        if self._framed.is_empty:
            # An answer that is over before Tornado has the request as read ends the connection,
            # which nobody was told of: the Hub's proxy would use it for the next one.
            await self._was_read.wait()
        elif self._body_comes:
            pairs = [*pairs, ("Connection", "close")]
        self._set_head(answer.status, pairs, answer.reason)
        whole = False
        try:
            await self.flush()
            async for piece in pieces(stream, framed):
                for begin in range(0, len(piece), WRITE):
                    await self._write(piece[begin : begin + WRITE])
            whole = True
        except (Broken, StreamClosedError):
            pass  # it is cut
        finally:
            if not whole:
                self._cut()
        self.finish()

    async def _write(self, piece: memoryview) -> None:
        """Past the handler's own buffer, which would copy it; until it is on its way."""
        connection: Any = self.request.connection
        self._waits = _now()
        await connection.write(piece)
        self._waits = None

    async def _until_stuck(self) -> None:
        """Ends what the visitor sends nothing of, or takes next to nothing of."""
        while not self._is_stuck():  # noqa: ASYNC110
            await asyncio.sleep(PATIENCE / 4)
        self._watch = None  # what follows ends the rest
        self.abort()
        self._cut()

    def _is_stuck(self) -> bool:
        # An app that has begun to answer knows what more it waits for.
        silent = None if self._headers_written else self._silent
        return any(one is not None and _now() - one >= PATIENCE for one in (self._waits, silent))

    async def _become_websocket(self, stream: Stream, answer: heads.Answer, front: Front) -> None:
        pairs = heads.answer_pairs(answer, front, self.request, heads.Framing(None, False))
        pairs += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        head = "".join(f"{name}: {value}\r\n" for name, value in pairs)
        self._visitor = visitor = Detached(self.detach())
        with suppress(Broken):
            await visitor.send(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode("latin-1"))
            await splice(visitor, stream)

    # ---- ends -----------------------------------------------------------------------------------

    def abort(self) -> None:
        """Ends it at once: the way is closed, or the visitor has gone."""
        if self._stream is not None:
            self._stream.abort()
        if self._visitor is not None:
            self._visitor.abort()
        elif self._headers_written:
            self._cut()

    def _cut(self) -> None:
        """Ends the visitor's connection, so that half an answer does not look like one."""
        stream: IOStream | None = getattr(self.request.connection, "stream", None)
        if stream is not None:
            stream.close()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._was_read.set()
        self.abort()

    def on_finish(self) -> None:
        self.book.sign()

    def _log(self) -> None:
        """Nothing: whoever reads the address of an app in a log could use it."""

    def log_exception(
        self,
        typ: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """What is wrong here, without the address."""
        if typ is not None and value is not None and not isinstance(value, HTTPError):
            self.book.log.error("A visitor could not be served", exc_info=(typ, value, tb))

    # ---- what is ours to say --------------------------------------------------------------------

    def set_default_headers(self) -> None:
        for name in ("Server", "Date", "Content-Type"):
            self.clear_header(name)

    def compute_etag(self) -> None:
        return None

    def _refuse(self) -> None:
        """Answers what can be read in more than one way, and reads nothing more of what came."""
        body = notices.page("This cannot be read", ["The request is not clear."], again=False)
        pairs = [*notices.page_pairs(), ("Content-Length", str(len(body))), ("Connection", "close")]
        lines = ["HTTP/1.1 400 Bad Request", *(f"{name}: {value}" for name, value in pairs)]
        # With the handler's own answer, what came behind the request would be read as another.
        stream = self.detach()
        stream.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        stream.close()

    def _set_head(self, status: int, pairs: Pairs, reason: str | None = None) -> None:
        self.clear()
        self.set_status(status, reason or None)
        for name, value in pairs:
            self.add_header(name, value)

    def tell(self, status: int, title: str, told: list[str], *, again: bool = False) -> None:
        """Answers with a page of ours."""
        pairs = notices.page_pairs()
        if again:
            pairs.append(("Retry-After", str(notices.AGAIN)))
        self._say(status, pairs, notices.page(title, told, again=again))

    def _say(self, status: int, pairs: Pairs, body: bytes = b"") -> None:
        """Answers by ourselves: when all of the request was read, or at once where that may take
        long, and then nothing more can come over this connection."""
        if self._body_comes and self._framed.is_empty:
            self._own = (status, pairs, body)
            return
        self._set_head(status, [*pairs, ("Connection", "close")] if self._body_comes else pairs)
        self.finish(body or None)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Whatever went wrong here: it is told at once."""
        self._framed = heads.Framing(None, True)
        if status_code == 405:
            self.tell(405, "Not here", ["This method does not go through here."])
        else:
            self.tell(status_code, "This does not work", ["Try again, and tell the admin."])


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _head_of(stream: Stream) -> heads.Answer:
    for _ in range(MOST_1XX):
        answer = heads.read_answer(await stream.read_until(b"\r\n\r\n", MOST_HEAD))
        if answer.status >= 200 or answer.status == 101:
            return answer
    raise Broken("it does not come to an answer")
