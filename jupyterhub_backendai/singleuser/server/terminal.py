"""The web terminal: its page, its shells, and a socket for each window that looks at one.

    GET    E/terminal/                       the page
    GET    E/terminal/shells                 {"shells": ["shell-1"], "kind": "tmux" | "pty"}
    POST   E/terminal/shells                 another one: {"shell": "shell-2"}
    DELETE E/terminal/shells/{name}          ends it; 409 `running` if a program runs, or ?force=1
    WS     E/terminal/shells/{name}/socket   JSON lists, as terminado's, and a few more

From a window: `["stdin", text]`, `["set_size", rows, columns]`, `["drawn", characters]`. To it:
`["setup", {}]`, `["stdout", text]`, `["ready"]` after what was written before it came, `["again"]`
before that is sent once more, `["disconnect", 1]` when the shell has ended or was detached from.
"""

from __future__ import annotations

import os
import shutil
import time
from datetime import datetime, timezone
from typing import Any

from tornado.ioloop import PeriodicCallback

from . import seeds
from .access import Failure, SignedIn, checked

try:
    from . import shells
except ImportError:  # without terminado there is no terminal, and it says so
    shells = None  # type: ignore[assignment]

NO_TMUX = (
    "Shells end with the session's Jupyter server. To keep them through its restart, "
    "install tmux in the image."
)
NO_TERMINADO = "The image has no terminado. Install it there: pip install terminado"
SWITCHED_OFF = "Terminals are switched off in the configuration of this Jupyter server."

ACTIVITY = "backendai_terminal_last_activity"  # the server takes the latest of all such settings
LOOK_EVERY = 60_000  # milliseconds between two looks at when a shell last wrote something


def why_not(parts: Any) -> str:
    """Why this session has no terminal, and what to do; "" where it has."""
    server = parts.serverapp
    extensions = getattr(server, "jpserver_extensions", {})
    if not server.terminals_enabled or extensions.get("jupyter_server_terminals") is False:
        return SWITCHED_OFF
    return "" if shells else NO_TERMINADO


def item(parts: Any) -> dict[str, Any]:
    """What the terminal's item of `E/apps` has."""
    why = why_not(parts)
    return {
        "name": "terminal",
        "title": "Terminal",
        "category": "Development",
        "icon": "terminal",
        "protocol": "http",
        "port": None,
        "path": "backendai/terminal/",
        "available": not why,
        "why": why,
        "notes": [] if why or shutil.which("tmux") else [NO_TMUX],
        "shareable": False,
        "asks": [],
        "running": not why,
        "listening": not why,
    }


def handlers(parts: Any) -> list[Any]:
    """The terminal's routes; where there can be no terminal, the page alone, which says why."""
    if os.environ.get("BACKENDAI_SESSION_ID"):  # a plain server's home is not ours to fill
        seeds.sow(parts.log)
    page = parts.pattern("terminal/?")
    if why_not(parts):
        return [(page, Page, {"parts": parts, "terminal": None})]
    from .windows import Socket

    given = {"parts": parts, "terminal": Terminal(parts)}
    return [
        (page, Page, given),
        (parts.pattern("terminal/shells"), AllShells, given),
        (parts.pattern("terminal/shells/([^/]+)"), OneShell, given),
        (parts.pattern("terminal/shells/([^/]+)/socket"), Socket, given),
    ]


class Terminal:
    """The shells of this server, and when they were last used."""

    def __init__(self, parts: Any) -> None:
        self.settings = parts.serverapp.web_app.settings
        self.shells = shells.make(parts.serverapp)
        self._look = PeriodicCallback(self._look_at_output, LOOK_EVERY)

    def used(self, when: float) -> None:
        """Somebody typed, or a shell wrote, at that time (seconds since 1970)."""
        moment = datetime.fromtimestamp(when, timezone.utc)
        self.settings[ACTIVITY] = max(moment, self.settings.get(ACTIVITY, moment))
        if not self._look.is_running():
            self._look.start()

    async def _look_at_output(self) -> None:
        """What shells write counts, watched or not; what tmux draws by itself doesn't."""
        try:
            when = await self.shells.last_output()
        except (Failure, OSError, ValueError):
            return  # tmux is gone or busy: the next look tells
        if when:
            self.used(min(when, time.time()))


class Base(SignedIn):
    """Signed in; what all of the terminal's handlers have."""

    def initialize(self, parts: Any, terminal: Any = None) -> None:
        super().initialize(parts)
        self.terminal_of_session = terminal

    @property
    def shells(self) -> Any:
        return self.terminal_of_session.shells


class Page(Base):
    """`GET E/terminal/`"""

    # xterm.js draws with style elements of its own; there is no script but from files
    policy = SignedIn.policy.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")

    @checked
    async def get(self):
        if not self.request.path.endswith("/"):
            self.redirect(self.parts.url("terminal/"))
            return
        if why := why_not(self.parts):
            raise Failure(404, "terminal", why)
        hub = os.environ.get("JUPYTERHUB_BASE_URL", "")
        self.page(
            "terminal.html",
            root=self.parts.url("terminal/"),
            xsrf=self.xsrf_token.decode("ascii", "replace"),
            session=os.environ.get("BACKENDAI_SESSION_NAME", ""),
            kind=self.shells.kind,
            home=hub.rstrip("/") + "/hub/home" if hub else "",
            no_tmux=NO_TMUX,
        )


class AllShells(Base):
    """`E/terminal/shells`"""

    @checked
    async def get(self):
        self.answer({"shells": await self.shells.names(), "kind": self.shells.kind})

    @checked
    async def post(self):
        self.answer({"shell": await self.shells.new()}, 201)


class OneShell(Base):
    """`E/terminal/shells/{name}`"""

    @checked
    async def delete(self, name):
        if self.get_argument("force", "") != "1":
            program = await self.shells.running(name)
            if program:
                raise Failure(409, "running", program)
        await self.shells.close(name)
        self.set_status(204)
        self.finish()
