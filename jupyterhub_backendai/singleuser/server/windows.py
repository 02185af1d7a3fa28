"""The socket of a window that looks at a shell; `terminal` tells what goes through it."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from jupyter_server.utils import ensure_async
from terminado import websocket

from . import ptys
from .access import WebSocketMixin, checked
from .terminal import Base

TermSocket: Any = websocket.TermSocket
LARGEST = 1000  # rows or columns


class Socket(WebSocketMixin, Base, TermSocket):
    """`E/terminal/shells/{name}/socket`"""

    def initialize(self, parts: Any, terminal: Any = None) -> None:
        Base.initialize(self, parts, terminal)
        TermSocket.initialize(self, terminal.shells.manager)
        self.unseen = 0  # characters sent that the window has not said to have drawn
        self.left_out = False

    async def prepare(self):  # type: ignore[override]
        await Base.prepare(self)  # the mixin's own asks a plain JupyterHandler, in other words

    def origin_check(self, origin=None):
        return True  # terminado's own, of old: `check_origin` has done it

    @checked
    async def get(self, name):
        await self.shells.ready(name)
        await ensure_async(super().get(name))

    def open(self, name):
        rows = size(self.get_query_argument("rows", ""), 24)
        self.size = (rows, size(self.get_query_argument("columns", ""), 80))
        try:
            super().open(name)
        except (OSError, KeyError) as error:
            self.log.warning("Backend.AI: nobody attaches to %s: %s", name, error)
            self.close()
            return
        self.terminal.resize_to_smallest()
        self.send_json_message(["ready"])

    async def on_message(self, message):
        said = read(message)
        if said is None or self.terminal is None:
            return
        word, first, second = said
        if word == "stdin":
            self.terminal_of_session.used(time.time())
            await self.type(first)
        elif word == "set_size":
            self.size = (size(first, 24), size(second, 80))
            self.terminal.resize_to_smallest()
        elif word == "drawn":
            self.drawn(size(first, 0, self.unseen))

    async def type(self, text: str) -> None:
        # where the shell has just ended, the window hears of that next
        with contextlib.suppress(OSError, ValueError):
            await ensure_async(self.stdin_to_ptyproc(text))

    def on_pty_read(self, text):
        if self.left_out:
            return
        if self.unseen > ptys.UNSEEN:
            self.left_out = True
            return
        self.unseen += len(text)
        super().on_pty_read(text)
        if self.unseen > ptys.UNSEEN:
            self.term_manager.behind(self.terminal, self)

    def drawn(self, characters: int) -> None:
        """The window has drawn that many more."""
        self.unseen -= characters
        if self.unseen < ptys.UNSEEN // 4:
            self.term_manager.caught_up(self.terminal, self)

    def again(self, text: str) -> None:
        """The last that the shell wrote, where something before it was left out."""
        if self.left_out:
            self.left_out = False
            self.send_json_message(["again"])
            self.on_pty_read(text)
            self.send_json_message(["ready"])

    def write_message(self, message, binary=False):
        if self.ws_connection is not None:  # a window that is closing misses nothing
            return super().write_message(message, binary)


def read(message: Any) -> Any:
    """A window's message as (word, first, second); None for what is none."""
    try:
        said = json.loads(message)
        word, first, second = [*said, None][:3]
        if word != "stdin":
            return word, first, second
        return word, first.encode("utf-8", "replace").decode("utf-8"), second
    except (ValueError, TypeError, AttributeError):
        return None


def size(said: Any, otherwise: int, most: int = LARGEST) -> int:
    """A number from a window, between 1 and the most."""
    try:
        return max(1, min(int(said), most)) if most else otherwise
    except (ValueError, TypeError, OverflowError):
        return otherwise
