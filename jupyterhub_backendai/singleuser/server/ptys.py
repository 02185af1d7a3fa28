"""Ptys and the sockets that look at them: terminado's, made fit for slow windows and long output.

A window says how much of the output it has drawn. What it has not drawn is bounded: `Attached`, a
pty for each window, waits for it, since tmux behind it goes on all the same; `Shared` leaves out
what is too much and sends the last of it again later, so no window holds up a program.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from terminado.management import NamedTermManager, TermManagerBase, UniqueTermManager
from tornado.ioloop import IOLoop

WRITERS = 16  # threads for input: a program that reads none keeps one of them busy
UNSEEN = 400_000  # characters that a window may be behind
KEPT = 250  # reads, of 4 KiB at most each, that a window gets when it attaches


class _Manager(TermManagerBase):
    """What both have: the environment of a shell, and no waiting on the event loop."""

    def __init__(self, command: list[str], environment: dict[str, str | None], folder: str):
        super().__init__(
            shell_command=command,  # type: ignore[arg-type]  # a list, as it has always been
            extra_env=environment,
            term_settings={"cwd": folder},
            blocking_io_executor=ThreadPoolExecutor(WRITERS, "terminal"),
        )
        self.last_output = 0.0  # seconds since 1970

    def on_eof(self, ptywclients: Any) -> None:
        """As terminado does, but for the closing, which waits for the program to end."""
        fd = ptywclients.ptyproc.fd
        if self.ptys_by_fd.pop(fd, None):
            IOLoop.current().remove_handler(fd)
            self.blocking_io_executor.submit(ptywclients.ptyproc.close)

    def behind(self, pty: Any, window: Any) -> None:
        """A window has more to draw than it should."""

    def caught_up(self, pty: Any, window: Any) -> None:
        """That window has drawn what it had."""


class Shared(NamedTermManager, _Manager):
    """A pty for each name; every window of that name has the same."""

    def __init__(self, command: list[str], environment: dict[str, str | None], folder: str):
        _Manager.__init__(self, command, environment, folder)
        self.max_terminals = None
        self.terminals: dict[str, Any] = {}

    def new_terminal(self, **kwargs: Any) -> Any:
        pty = super().new_terminal(**kwargs)
        pty.read_buffer = deque(maxlen=KEPT)
        return pty

    def get_terminal(self, term_name: str) -> Any:  # type: ignore[override]
        return self.terminals[term_name]  # one that has just ended is not made anew

    def pre_pty_read_hook(self, ptywclients: Any) -> None:
        self.last_output = time.time()

    def end(self, name: str) -> None:
        """Hangs up on the shell, which ends it and what it runs in front; its windows are told."""
        pty = self.terminals[name]
        self.on_eof(pty)
        for window in list(pty.clients):
            window.on_pty_died()

    def caught_up(self, pty: Any, window: Any) -> None:
        if window.left_out:
            window.again("".join(pty.read_buffer))


class Attached(UniqueTermManager, _Manager):
    """A pty for each window, with a program in it that attaches to what the window names."""

    def __init__(self, command: list[str], environment: dict[str, str | None], folder: str):
        _Manager.__init__(self, command, environment, folder)
        self.max_terminals = None
        self.attach = command
        self._held: dict[Any, Any] = {}  # ptys that are not read now, by their window

    def get_terminal(self, url_component: Any = None) -> Any:
        pty = self.new_terminal(shell_command=[*self.attach, f"={url_component}"])
        pty.read_buffer = deque(maxlen=0)  # tmux draws it anew for whoever attaches
        self.start_reading(pty)
        return pty

    def behind(self, pty: Any, window: Any) -> None:
        if window not in self._held and pty.ptyproc.fd in self.ptys_by_fd:
            self._held[window] = pty
            IOLoop.current().remove_handler(pty.ptyproc.fd)

    def caught_up(self, pty: Any, window: Any) -> None:
        held = self._held.pop(window, None)
        if held is not None:
            self.start_reading(held)

    def client_disconnected(self, websocket: Any) -> None:
        self.caught_up(websocket.terminal, websocket)
        with contextlib.suppress(ProcessLookupError):  # it may have ended by itself just now
            super().client_disconnected(websocket)
