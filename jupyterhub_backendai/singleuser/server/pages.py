"""`E/open/{app}`: asks, starts the app, waits until it answers, and goes on to it by itself."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any
from urllib.parse import quote

from tornado import web

from . import tensorboard
from .access import Failure, SignedIn, SignedInOrKey, checked
from .apps import App
from .processes import NotStarted
from .tensorboard import Refused

AT_ONCE = 0.6  # seconds in which a quick app needs no page about its start
LONGEST = 15.0  # seconds that a POST waits
STATIC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "static")


def state(parts: Any, app: App) -> dict:
    """How far it is: `state` is ready, starting, failed, missing or waiting."""
    found: dict = {"ready": False, "state": "waiting", "why": "", "wrote": ""}
    failure = parts.processes.failure(app.name)
    if app.is_page and not app.why:
        found.update(ready=True, state="ready")
    elif app.why:
        found.update(state="missing", why=app.why)
    elif parts.processes.starting(app.name):
        found.update(state="starting", why=f"{app.title} is starting.")
        found["wrote"] = parts.processes.wrote(app.name)
    elif parts.apps.is_listening(app):
        found.update(ready=True, state="ready")
    elif failure is not None:
        found.update(state="failed", why=str(failure), wrote=failure.wrote)
    else:
        found["why"] = _nothing_yet(parts, app)
    return found


def _nothing_yet(parts: Any, app: App) -> str:
    if parts.processes.running(app.name) is not None:
        port = parts.apps.port(app)
        return f"{app.title} is running, and does not answer on its port {port} any more."
    if parts.apps.starts(app):
        return f"{app.title} is not running."
    return f"Nothing answers on port {app.port} yet. Start something there."


def open_url(parts: Any, app: App, query: str = "") -> str:
    return str(parts.url("open/" + quote(app.name, safe=""))) + query


def goal(parts: Any, app: App) -> str:
    """Where a browser goes in the end."""
    if app.is_page:
        return str(parts.base_url) + app.path
    return str(parts.apps.prefix(app)) + "/" + app.path.lstrip("/\\")


async def begin(parts: Any, app: App, arguments: dict | None, seconds: float) -> bool:
    """Starts it, and waits so long at most; whether it answers.

    Raises NotStarted; tensorboard.Refused for an argument.
    """
    task = asyncio.ensure_future(parts.apps.start(app, arguments))
    # who waits no longer finds its failure by `state`
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    done, _ = await asyncio.wait([task], timeout=seconds)
    if not done:
        return False
    task.result()
    return app.is_page or parts.apps.is_listening(app)


async def waiting(
    handler: SignedIn, app: App, where: str, start: bool = True, restart: bool = False
) -> None:
    """Ends the request with a page that goes on to `where` when the app answers.

    `start`: starts it where it does not run; `restart`: where it runs and does not answer, too.
    """
    parts = handler.parts
    starts, running = parts.apps.starts(app), parts.processes.running(app.name) is not None
    if app.asks and start and not (running or parts.processes.starting(app.name) or app.why):
        handler.redirect(open_url(parts, app))
        return
    if start and starts and not app.why and (restart or not running):
        try:
            if await begin(parts, app, None, AT_ONCE):
                handler.redirect(where)
                return
        except (NotStarted, Refused):
            pass  # `state` says so
    how = state(parts, app)
    if how["ready"]:
        handler.redirect(where)
        return
    titles = {
        "starting": f"{app.title} is starting…",
        "failed": f"{app.title} did not start",
        "missing": f"{app.title} is not available",
        "waiting": f"Nothing answers on port {app.port} yet",
    }
    if starts:
        titles["waiting"] = f"{app.title} {'does not answer' if running else 'is not running'}"
    handler.page(
        "wait.html", title=titles[how["state"]], app=app, how=how, goal=where,
        poll=open_url(parts, app), settled=open_url(parts, app, "?wait=1"),
        again=open_url(parts, app, "?again=1" if app.asks or running else ""),
        starts=starts, running=running,
    )  # fmt: skip


class OpenHandler(SignedInOrKey):
    """The page of an app that is to be opened; the service asks for it with POST and the key."""

    @property
    def takes_key(self) -> bool:  # type: ignore[override]
        return self.request.method == "POST"

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """A form that comes when the sign-in has run out leads to the sign-in, and to the page."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        late = not isinstance(error, Failure) or error.errors[0]["code"] == "sign_in"
        if status_code == 403 and late and self.request.method == "POST" and self.wants_page():
            where = self.parts.url("open/" + quote(self.path_args[0], safe=""))
            self.redirect(where, status=303)
        else:
            super().write_error(status_code, **kwargs)

    def _find(self, name: str) -> App:
        app = self.parts.apps.get(name)
        if app is None:
            raise Failure(404, "no_such_app", "There is no such app in this session.")
        return app

    @checked
    async def get(self, name: str) -> None:
        app = self._find(name)
        if not self.wants_page():
            self.answer(state(self.parts, app))
            return
        if app.protocol == "tcp":
            message = f"{app.title} has no page. Connect to it with a program."
            raise Failure(404, "no_page", message)
        if app.is_page and not app.why:
            self.redirect(goal(self.parts, app))
            return
        settled = bool(self.get_query_argument("wait", ""))
        running = self.parts.processes.running(app.name) is not None
        again = bool(self.get_query_argument("again", ""))
        if app.asks and not app.why and (again or not (running or settled)):
            self._ask(app, [])
        else:
            await waiting(self, app, goal(self.parts, app), start=not settled, restart=again)

    def _ask(self, app: App, errors: list, values: dict | None = None) -> None:
        said = values or {}
        running = self.parts.processes.running(app.name) is not None
        self.page(
            "ask.html", title=app.title, app=app, errors=errors, running=running,
            fields=[(ask.name, ask.title, said.get(ask.name, ask.value)) for ask in app.asks],
            action=open_url(self.parts, app), goal=goal(self.parts, app),
            xsrf=self.xsrf_token.decode("ascii"),
        )  # fmt: skip

    # ---- POST

    def _wants_json(self) -> bool:
        return self.by_key or "application/json" in self.request.headers.get("Accept", "")

    def wants_page(self) -> bool:
        return not self.by_key and super().wants_page()

    def _arguments(self, app: App) -> dict:
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
            said = {ask.name: self.get_body_argument(ask.name, None) for ask in app.asks}
            return {name: value for name, value in said.items() if value is not None}
        try:
            body = json.loads(self.request.body or b"{}")
        except ValueError:
            body = None
        arguments = body.get("arguments", {}) if isinstance(body, dict) else None
        if not isinstance(arguments, dict):
            raise Failure(400, "json", 'Send {"arguments": {}} as JSON.', "arguments")
        known = {ask.name for ask in app.asks}
        for name in arguments:
            if name not in known:
                message = f"{app.title} does not ask for that."
                raise Failure(400, "unknown", message, f"arguments.{name}")
        return arguments

    @checked
    async def post(self, name: str) -> None:
        app = self._find(name)
        arguments = self._arguments(app)
        try:
            ready = await begin(self.parts, app, arguments, LONGEST if self._wants_json() else 0.2)
        except Refused as error:
            if self._wants_json():
                raise Failure(400, error.code, str(error), tensorboard.FIELD) from error
            self.set_status(400)
            self._ask(app, [str(error)], arguments)
            return
        except NotStarted as error:
            ready, why = False, _with_log(error)
        else:
            why = "" if ready else state(self.parts, app)["why"]
        if self._wants_json():
            self.answer({"ready": ready, "why": why})
        else:
            self.redirect(open_url(self.parts, app, "?wait=1"), status=303)


def _with_log(error: NotStarted) -> str:
    return f"{error} It wrote last:\n{error.wrote}" if error.wrote else str(error)


class StaticHandler(SignedIn, web.StaticFileHandler):
    """Our own styles, scripts and icons."""

    needs = ()

    def initialize(self, parts: Any, path: str) -> None:  # type: ignore[override]
        self.parts = parts
        web.StaticFileHandler.initialize(self, path)

    def set_extra_headers(self, path: str) -> None:
        self.set_header("Cache-Control", "no-cache")  # they may be others after a restart

    @checked
    async def get(self, path: str, include_body: bool = True) -> None:
        await web.StaticFileHandler.get(self, path, include_body)

    @checked
    async def head(self, path: str) -> None:
        await self.get(path, include_body=False)


def handlers(parts):
    return [
        (parts.pattern(r"open/([^/]+)"), OpenHandler, {"parts": parts}),
        (parts.pattern(r"static/(.*)"), StaticHandler, {"parts": parts, "path": STATIC}),
    ]
