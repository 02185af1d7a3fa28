"""`E/app/{app}/…`: an app's pages and websockets, for who is signed in.

Bodies are streamed both ways, however large. A websocket's handshake is passed on, and its
connection is spliced with the app's: what they say to each other is theirs.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from tornado import web
from tornado.httputil import HTTPHeaders
from tornado.iostream import StreamClosedError

from . import activity, pages, rewriting, splice, upstream
from .access import Failure, SignedIn, checked
from .apps import App

NO_LIMIT = 1 << 62  # bytes of a request's body


@web.stream_request_body
class AppHandler(SignedIn):
    """A request for an app."""

    SUPPORTED_METHODS = (
        *SignedIn.SUPPORTED_METHODS, "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK",
        "UNLOCK", "REPORT",
    )  # fmt: skip

    _app: App
    _upstream: upstream.Upstream | None = None
    _relaying: asyncio.Task | None = None
    _sending: asyncio.Task | None = None
    _chunked = False
    _prepared = False
    _headed = False  # whether the answer's head is out
    _switched: HTTPHeaders | None = None  # those of a 101
    _failure: Failure | None = None

    def set_default_headers(self) -> None:
        """The answers are the app's; what this server says of its own pages is not for them."""

    def check_xsrf_cookie(self) -> None:
        """That is the app's. Other sites' forms are refused in `prepare`."""

    async def prepare(self):  # type: ignore[override]
        self._connection.set_max_body_size(NO_LIMIT)
        await super().prepare()
        if self._finished:
            return
        try:
            elsewhere = self._is_from_elsewhere()
        except ValueError:  # an origin that is none
            elsewhere = True
        if elsewhere:
            raise Failure(403, "origin", "This request comes from another site.")
        # what is written in parts would wait for the client's word that it has the first
        self._connection.stream.set_nodelay(True)
        self._app, rest = self._find()
        if not rest:
            query = "?" + self.request.query if self.request.query else ""
            self.redirect(self._prefix + "/" + query)
            return
        activity.note(self.settings)
        self.parts.watch.begun(self)
        await self._connect(rest)
        self._prepared = True

    def finish(self, *args: Any) -> Any:
        """What is answered before the request was read ends the connection: the client is told."""
        if not self._prepared:
            self.set_header("Connection", "close")
        return super().finish(*args)

    # ---- what is asked

    @property
    def _connection(self) -> Any:
        return self.request.connection

    @property
    def _prefix(self) -> str:
        return str(self.parts.apps.prefix(self._app))

    def _find(self) -> tuple[App, str]:
        """The app, and the rest of the path as it was asked."""
        app = self.parts.apps.get(self.path_args[0])
        if app is None or app.port is None or app.protocol != "http":
            raise Failure(404, "no_such_app", "There is no such app in this session.")
        below = self.request.path[len(self.parts.url("app/")) :]
        _, slash, rest = below.partition("/")
        return app, slash + rest

    def _is_websocket(self) -> bool:
        asked = self.request.headers
        tokens = [token.strip().lower() for token in asked.get("Connection", "").split(",")]
        return "upgrade" in tokens and asked.get("Upgrade", "").lower() == "websocket"

    def _is_from_elsewhere(self) -> bool:
        """Whether a page of another site asks, and not a person who follows a link. What an app
        lets others read is its own choice, and not enough: they would read with the cookie."""
        if self.token_authenticated:
            return False
        asked = self.request.headers
        if self.request.method == "OPTIONS" and "Origin" in asked:  # of these Jupyter lets all pass
            return urlsplit(asked["Origin"].lower()).netloc != self._host.lower()
        if not self.check_origin():
            return True
        elsewhere = asked.get("Sec-Fetch-Site", "") in ("same-site", "cross-site")
        visit = asked.get("Sec-Fetch-Mode", "") == "navigate"
        follows = visit and self.request.method in ("GET", "HEAD")
        return "Origin" not in asked and elsewhere and not follows

    def _is_visit(self) -> bool:
        return self.request.method == "GET" and self.wants_page()

    async def _connect(self, rest: str) -> None:
        """Sends the request's head, and begins to relay the answer."""
        apps = self.parts.apps
        try:
            port = apps.target(self._app)
            self._upstream = await upstream.Upstream.open(port)
            await self._upstream.send(self._head(rest))
        except OSError:
            await self._nothing_answers()
            return
        self._rewriting = rewriting.Answers(self._prefix, self._host, port, self._app.strips)
        self._relaying = asyncio.ensure_future(self._relay())

    async def _nothing_answers(self) -> None:
        if self._is_visit():
            self.set_status(503)
            await pages.waiting(self, self._app, self.request.uri or "")
            return
        why = self._app.why or f"{self._app.title} does not answer."
        raise Failure(503, "not_answering", f"{why} Open it in a browser to see why.")

    @property
    def _host(self) -> str:
        return str(self.request.headers.get("Host", ""))

    def _head(self, rest: str) -> bytes:
        request = self.request
        by_token = self.token_authenticated
        prefix = self._prefix
        headers = rewriting.request_headers(request, prefix, by_token, self._host)
        if "Transfer-Encoding" in request.headers:
            self._chunked = True
            headers["Transfer-Encoding"] = "chunked"
        elif "Content-Length" in request.headers:
            headers["Content-Length"] = request.headers["Content-Length"]
        if self._is_websocket():
            headers["Connection"], headers["Upgrade"] = "Upgrade", "websocket"
        else:
            headers["Connection"] = "close"
        target = rest if self._app.strips else prefix + rest
        if request.query:
            target += "?" + request.query
        if by_token or len(self.get_query_arguments("token")) > 1:
            target = rewriting.without_token(target)
        return rewriting.raw_head(f"{request.method} {target} HTTP/1.1", headers.get_all())

    async def data_received(self, chunk: bytes) -> None:
        """A part of the request's body; where the app takes no more of it, that is dropped."""
        await self._send(b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._chunked else chunk)

    async def _send(self, data: bytes) -> None:
        if self._upstream is None or self._relaying is None or self._relaying.done():
            return
        sending = self._sending = asyncio.ensure_future(self._upstream.send(data))
        await asyncio.wait([sending, self._relaying], return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():  # it has answered, and takes no more
            sending.cancel()
        await asyncio.wait([sending])
        if not sending.cancelled():
            sending.exception()  # its answer says more

    # ---- what is answered

    async def _relay(self) -> None:
        """The app's answer; all that the client is to see of its failures too."""
        assert self._upstream is not None
        try:
            start, headers = await self._upstream.head()
            if start.code == 101:
                if not self._is_websocket():
                    raise upstream.Broken("It changed the protocol unasked.")
                self._switched = headers  # in the method the request has been read
                return
            self._begin(start, headers)
            body = self._upstream.body(self.request.method or "", start, headers)
            if not self._upstream.has_more:  # else the head goes with the first of the body
                await self.flush()
            async for chunk in body:
                self.write(chunk)
                await self.flush()
        except StreamClosedError:
            pass  # the client is gone
        except (upstream.Broken, ValueError) as error:
            self._broken(error)

    def _begin(self, start: Any, headers: Any) -> None:
        for name in list(self._headers.keys()):
            self.clear_header(name)
        self.set_status(start.code, start.reason or None)
        has_length = "Transfer-Encoding" not in headers
        for name, value in self._rewriting.headers(headers, has_length):
            self.add_header(name, value)
        self.add_header("Content-Security-Policy", self._framing())
        self._headed = True

    def _framing(self) -> str:
        """Who may show an app's pages in a frame: this site, or whom the server's policy names.
        With the app's own policy both hold. Apps have frames of their own, so `'none'` of the
        server's pages is not for them."""
        said = str(self.settings.get("headers", {}).get("Content-Security-Policy", ""))
        for rule in map(str.strip, said.split(";")):
            if rule.lower().startswith("frame-ancestors ") and "'none'" not in rule.lower():
                return rule
        return "frame-ancestors 'self'"

    def _broken(self, error: Exception) -> None:
        if self._headed:
            self._connection.close()  # so that nobody takes it for the whole
            return
        self._failure = Failure(502, "no_answer", f"{self._app.title} does not work. {error}")

    async def _method(self, *_: Any) -> None:
        """When the request's body has come to its end."""
        if self._relaying is None:
            return
        if self._chunked:
            await self._send(b"0\r\n\r\n")
        await asyncio.wait([self._relaying])
        if self._relaying.cancelled() or self._finished:
            return
        if self._failure is not None:
            raise self._failure
        self._relaying.result()
        if self._switched is not None:
            self._splice(self._switched)
        elif self._headed:
            self.finish()

    get = head = post = put = patch = delete = options = checked(_method)
    propfind = proppatch = mkcol = copy = move = lock = unlock = report = get

    def _splice(self, headers: Any) -> None:
        assert self._upstream is not None
        try:
            self.parts.splices.take()
        except splice.Full:
            message = "There are too many connections to this session already."
            raise Failure(503, "too_many", message) from None
        answer = self._rewriting.headers(headers, True)
        answer += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        head = rewriting.raw_head("HTTP/1.1 101 Switching Protocols", answer)
        taken, self._upstream = self._upstream, None
        settings = self.settings
        stream = self.detach()
        watched = self.parts.watch.messages()
        heard = activity.Messages(lambda: activity.note(settings), watched)
        self.parts.splices.splice(stream, taken.link, head + taken.take(), heard)

    # ---- the end

    def on_connection_close(self) -> None:
        """The client is gone; so the app is told."""
        super().on_connection_close()
        self._end()

    def on_finish(self) -> None:
        self._end()

    def _end(self) -> None:
        taken, self._upstream = self._upstream, None
        tasks = [t for t in (self._relaying, self._sending) if t is not None and not t.done()]
        for task in tasks:
            task.cancel()
        if taken is not None:
            asyncio.ensure_future(_close(taken, tasks))


async def _close(taken: upstream.Upstream, tasks: list[asyncio.Task]) -> None:
    """When nobody reads or writes there any more."""
    if tasks:
        await asyncio.wait(tasks)
    taken.close()


def handlers(parts):
    return [(parts.pattern(r"app/([^/]+)(?:/.*)?"), AppHandler, {"parts": parts})]
