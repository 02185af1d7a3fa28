"""What is at the other end of ways: a session's server that tunnels, and an app that tells what it
gets. Both are real servers on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import WSMsgType, web

KEY = "hush-hush"


def item(name: str, port: int | None, **more: Any) -> dict[str, Any]:
    """An app as the session's server tells of it."""
    return {
        "name": name, "title": name.title(), "category": "Other", "icon": "", "protocol": "http",
        "port": port, "path": f"backendai/open/{name}", "available": True, "why": "", "notes": [],
        "shareable": True, "asks": [], "running": True, "listening": True, **more,
    }  # fmt: skip


@dataclass
class SessionServer:
    """Below `/user/<owner>/<server>/backendai/`: `apps`, `activity`, `ending/told`, `open/{app}`,
    `tunnel/{app}`."""

    items: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, body
    starts: dict[str, tuple[int, Any]] = field(default_factory=dict)  # answers of `open`
    open_tunnels: int = 0
    activity: Any = None  # what `activity` answers; None: it knows nothing of that
    told: Any = None  # what `ending/told` answers; None: it knows nothing of that
    address: str = ""
    path: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.asked.append((method, path, body.decode()))
        if headers.get("x-backendai-key") != KEY:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        self.path, _, rest = path.partition("/backendai/")
        verb, _, app = rest.partition("/")
        found = next((one for one in self.items if one["name"] == unquote(app)), None)
        if verb == "apps":
            self._answer(writer, 200, {"apps": self.items})
        elif verb == "activity" and self.activity is not None:
            self._answer(writer, 200, self.activity)
        elif verb == "ending" and self.told is not None:
            self._answer(writer, 200, self.told)
        elif verb == "open":
            self._answer(writer, *self.starts.get(app, (200, {"ready": True, "why": ""})))
        elif found is None:
            self._fail(writer, 404, "There is no such app.")
        else:
            await self._tunnel(reader, writer, found["port"])

    async def _tunnel(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            self._fail(writer, 502, f"Nothing listens at port {port}.")
            return
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
            b"Upgrade: backendai-tcp\r\n\r\n"
        )
        self.open_tunnels += 1
        try:
            await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))
        finally:
            self.open_tunnels -= 1
            there[1].close()

    def _answer(self, writer: asyncio.StreamWriter, status: int, model: Any) -> None:
        body = json.dumps(model).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    def _fail(self, writer: asyncio.StreamWriter, status: int, message: str) -> None:
        errors = [{"field": "", "code": "x", "message": message}]
        self._answer(writer, status, {"errors": errors})


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(2**18):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except (ConnectionError, OSError):
        writer.close()


@asynccontextmanager
async def session_server() -> AsyncIterator[SessionServer]:
    """One that runs."""
    made = SessionServer()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=2**18)
    made.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()


@asynccontextmanager
async def plain_server() -> AsyncIterator[int]:
    """The port of an app that speaks no HTTP: it says back each line that it hears."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                writer.write(b"heard " + line)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


# ---- an app -----------------------------------------------------------------------------------

PIECE = b"x" * 2**20


@dataclass
class App:
    """An app with pages of many kinds."""

    port: int = 0
    received: int = 0
    sockets: int = 0

    async def echo(self, request: web.Request) -> web.Response:
        """What it got; `?set=` are headers that it answers with."""
        told = {
            "method": request.method, "path": request.raw_path,
            "headers": [[k.decode(), v.decode("latin-1")] for k, v in request.raw_headers],
            "body": (await request.text()),
        }  # fmt: skip
        answer = web.json_response(told, status=int(request.query.get("status", 200)))
        for one in request.query.getall("set", ()):
            name, _, value = one.partition(":")
            answer.headers.add(name, value)
        return answer

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """So many megabytes."""
        answer = web.StreamResponse()
        count = int(request.match_info["count"])
        if "length" in request.query:
            answer.content_length = count * len(PIECE)
        await answer.prepare(request)
        for _ in range(count):
            await answer.write(PIECE)
        return answer

    async def take(self, request: web.Request) -> web.Response:
        """Counts what is sent."""
        self.received = 0
        async for chunk in request.content.iter_any():
            self.received += len(chunk)
        return web.json_response(self.received)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """An event, and never an end."""
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: one\n\n")
        await asyncio.Event().wait()
        return answer

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        """Says all back."""
        made = web.WebSocketResponse(max_msg_size=0, protocols=("chat",))
        await made.prepare(request)
        self.sockets += 1
        await made.send_json(dict(request.headers))
        async for message in made:
            if message.type is WSMsgType.TEXT:
                await made.send_str(message.data)
            elif message.type is WSMsgType.BINARY:
                await made.send_bytes(message.data)
        self.sockets -= 1
        return made


@asynccontextmanager
async def app_server() -> AsyncIterator[App]:
    """One that runs."""
    made = App()
    application = web.Application(client_max_size=2**40)
    routes = (("/stream/{count}", made.stream), ("/take", made.take), ("/events", made.events),
              ("/socket", made.socket), ("/{rest:.*}", made.echo))  # fmt: skip
    for path, handler in routes:
        application.router.add_route("*", path, handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1, auto_decompress=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()
