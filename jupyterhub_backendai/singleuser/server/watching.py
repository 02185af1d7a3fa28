"""When a client last used this server, and when one last asked it anything at all.

It looks at what is over: tornado tells an application of each request that was answered
(`Application.log_request`), of a websocket when it begins. From then on the messages of that
handler pass by here. `polling` judges both; what apps and SSH get is told by `proxy` and `tunnel`.

    GET E/activity    with the key: {"used": 12.5, "asked": 0.8, "uptime": 3600.2}

All in seconds, by the monotonic clock. Where something could not be watched, `used` and `asked`
are null from then on: who does not know must not say that nobody was there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tornado.websocket import WebSocketHandler

from . import activity, polling
from .access import KeyOnly, checked


class Watch:
    """The moments of this server. `use` and `ask` may be called from any thread."""

    def __init__(self, parts: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = parts.log
        self._base: str = parts.base_url
        self._root: str = parts.root
        self._clock = clock
        self._began = self._used = self._asked = clock()
        self._requests = polling.Requests(self._base)
        self._known = True

    def use(self) -> None:
        """Somebody does something."""
        self._used = self._asked = self._clock()

    def ask(self) -> None:
        """A client is there."""
        self._asked = self._clock()

    def note(self, judged: int) -> None:
        """What `polling` said."""
        if judged == polling.USED:
            self.use()
        elif judged == polling.ASKED:
            self.ask()

    def lost(self, what: str, error: Exception) -> None:
        """From now on nothing is known."""
        if self._known:
            self._known = False
            self._log.warning("Backend.AI: the last use is not known any more: %s: %s", what, error)

    def said(self) -> dict[str, float | None]:
        """The seconds since each moment."""
        now = self._clock()
        known = self._known
        return {
            "used": now - self._used if known else None,
            "asked": now - self._asked if known else None,
            "uptime": now - self._began,
        }

    def judging(self, what: str, judge: Callable[..., int]) -> Callable[..., None]:
        """What notes how `judge` judges. It never fails: whoever calls it has others to serve."""

        def judged(*said: Any) -> None:
            try:
                self.note(judge(*said))
            except Exception as error:  # of another extension's handler, or a server unlike ours
                self.lost(what, error)

        return judged

    # ---- what is asked of this server

    def install(self, web_app: Any) -> None:
        """Looks at all requests from now on."""
        log, judge = web_app.log_request, self.judging("a request", self._answered)

        def log_request(handler: Any) -> None:
            judge(handler)
            log(handler)

        web_app.log_request = log_request

    def _answered(self, handler: Any) -> int:
        if not is_client(handler):
            return polling.NOTHING
        status = handler.get_status()
        if status == 101 and isinstance(handler, WebSocketHandler):
            self._follow(handler)
            return polling.ASKED
        if status >= 400:
            return polling.NOTHING if status in (401, 403) else polling.ASKED
        if getattr(handler, "watched", False):  # it was when it began
            return polling.NOTHING
        return self._judge(handler, handler.request.body)

    def begun(self, handler: Any) -> None:
        """A request of somebody signed in, which may take long, has begun."""
        handler.watched = True
        self.judging("a request of an app", self._judge)(handler, None)

    def _judge(self, handler: Any, body: bytes | None) -> int:
        request = handler.request
        return self._requests(request.method, request.path, request.query, request.headers, body)

    # ---- websockets

    def _follow(self, handler: Any) -> None:
        """Looks at a websocket's messages, on their way to the handler."""
        take = handler.on_message
        judge = self.judging("a websocket's message", self._judge_of(handler))

        def on_message(message: str | bytes) -> Any:
            judge(message)
            return take(message)

        handler.on_message = on_message

    def _judge_of(self, handler: Any) -> Callable[[Any], int]:
        path = handler.request.path
        rest = path[len(self._base) :]
        if rest.startswith("api/kernels/"):
            protocol = getattr(handler, "selected_subprotocol", None)
            return lambda message: polling.kernel_message(message, protocol)
        if rest.startswith(("terminals/websocket/", "backendai/terminal/")):
            return polling.terminal_message
        if rest.startswith("api/events/"):
            return lambda _: polling.NOTHING
        if path == self._root + "ssh":
            return self._bulk()
        beats = polling.Heartbeats(self._clock)
        return lambda message: beats(len(message))

    def _bulk(self) -> Callable[[Any], int]:
        heard = self.bulk()

        def judge(message: Any) -> int:
            heard(message)
            return polling.NOTHING

        return judge

    # ---- connections that are passed on

    def bulk(self, also: Callable[[], Any] = lambda: None) -> Callable[[Any], None]:
        """To be called with what a client sends, where keep-alives are to be told from work; of
        work `also` is told."""

        def used() -> None:
            self.use()
            also()

        heard = activity.Bulk(used, self._clock)

        def moved(data: Any) -> None:
            self.ask()
            heard(data)

        return moved

    def messages(self) -> Callable[[int], None]:
        """To be called with the size of each part of a message to an app's websocket."""
        return self.judging("an app's websocket", polling.Heartbeats(self._clock))


def is_client(handler: Any) -> bool:
    """Whether somebody asked who is signed in, and neither our service nor another one."""
    if getattr(handler, "by_key", False):
        return False
    try:
        user = handler.current_user
    except Exception:  # as in the server's own log: it was refused before anybody looked who it is
        return False
    of_the_hub = user if isinstance(user, dict) else getattr(user, "hub_user", None)
    is_service = isinstance(of_the_hub, dict) and of_the_hub.get("kind") == "service"
    return bool(user) and not is_service


class ActivityHandler(KeyOnly):
    """`GET E/activity`"""

    @checked
    async def get(self) -> None:
        self.answer(self.parts.watch.said())


def handlers(parts: Any) -> list[Any]:
    try:
        parts.watch.install(parts.serverapp.web_app)
    except AttributeError as error:
        parts.watch.lost("this server's requests", error)
    return [(parts.pattern("activity"), ActivityHandler, {"parts": parts})]
