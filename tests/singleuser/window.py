"""A window that looks at a shell, as the terminal's page does, but for the drawing."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any
from urllib.parse import quote

from tornado.httpclient import HTTPRequest
from tornado.websocket import (
    WebSocketClientConnection,
    WebSocketClosedError,
    websocket_connect,
)

from .jupyter import TOKEN, Server

PATIENCE = 20  # seconds; nothing here takes two


class Window:
    """Reads what comes, and says that it has drawn it, unless it is `slow`."""

    def __init__(self, socket: WebSocketClientConnection, slow: bool = False) -> None:
        self.socket, self.slow = socket, slow
        self.text = ""
        self.kinds: list[str] = []
        self.closed = False
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while (message := await self.socket.read_message()) is not None:
            kind, *rest = json.loads(message)
            self.kinds.append(kind)
            if kind in ("again", "setup"):
                self.text = ""
            if kind == "stdout":
                self.text += rest[0]
                if not self.slow:
                    with contextlib.suppress(WebSocketClosedError):  # more was to be read of it
                        self.send("drawn", len(rest[0]))
        self.closed = True

    def send(self, *message: Any) -> None:
        self.socket.write_message(json.dumps(message))

    def type(self, text: str) -> None:
        self.send("stdin", text)

    async def sees(self, text: str) -> None:
        await self.until(lambda: text in self.text, text)

    async def until(self, condition: Any, what: str) -> None:
        for _ in range(PATIENCE * 50):
            if condition():
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{what!r} is not in {self.text[-2000:]!r} after {self.kinds[-5:]}")

    async def run(self, command: str, sees: str) -> None:
        """Types a command; what it is to write must not be in it as it is typed."""
        self.type(command + "\r")
        await self.sees(sees)

    async def close(self) -> None:
        self.socket.close()
        await self._reader


async def attach(
    server: Server, name: str, rows: int = 24, columns: int = 80, slow: bool = False, **headers: str
) -> Window:
    """A window of that size on that shell, which is ready."""
    url = server.url.replace("http", "ws", 1)
    request = HTTPRequest(
        f"{url}terminal/shells/{quote(name)}/socket?rows={rows}&columns={columns}",
        headers=headers or {"Authorization": f"token {TOKEN}"},
    )
    window = Window(await websocket_connect(request, max_message_size=1 << 26), slow)
    await window.until(lambda: "ready" in window.kinds, "ready")
    return window
