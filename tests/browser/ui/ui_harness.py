"""The Hub's own pages with our templates, a made-up site behind them, on a loopback port.

`python tests/browser/ui/ui_harness.py` serves them for a look in a browser.
"""

from __future__ import annotations

import contextlib
import email.parser
import email.policy
import json
import mimetypes
import threading
import time
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH
from ui_payload import as_served

from jupyterhub_backendai.site.form_view import for_script

ROOT = Path(__file__).resolve().parents[3]
OURS = [ROOT / "templates", ROOT / "share/static"]
HUB = Path(DATA_FILES_PATH)


@lru_cache
def environment(*, stock: bool = False, enable_async: bool = False) -> Environment:
    """A Jinja environment as the Hub makes it; with `stock` without our templates."""
    hub = HUB / "templates"
    paths = [hub] if stock else [*OURS, hub]
    loader = ChoiceLoader(
        [PrefixLoader({"templates": FileSystemLoader(hub)}), FileSystemLoader(paths)]
    )
    return Environment(loader=loader, autoescape=True, enable_async=enable_async)


def options_form(view: dict[str, Any]) -> str:
    """The options form as the spawner renders it."""
    template = environment().get_template("backendai/options_form.html")
    view = as_served(view)
    return template.render(view=view, view_json=for_script(view))


def person(name: str, **attributes: Any) -> SimpleNamespace:
    """As much of a Hub user as the pages read."""
    spawner = SimpleNamespace(options_form="", name="", display_name="")
    return SimpleNamespace(
        name=name, escaped_name=name, json_escaped_name=name, spawner=spawner, spawners={},
        **attributes,
    )  # fmt: skip


def page_context(**more: Any) -> dict[str, Any]:
    """What the Hub gives every page."""
    return {
        "base_url": "/hub/", "prefix": "/", "user": person("mkim"), "login_url": "/hub/login",
        "logout_url": "/hub/logout", "static_url": lambda path, **_: f"/hub/static/{path}",
        "version_hash": "", "services": [], "parsed_scopes": {}, "no_spawner_check": True,
        "xsrf_token": "the-token", "xsrf": "the-token", **more,
    }  # fmt: skip


@dataclass
class Site:
    """What the pages show, and what they did. Tests change it between requests."""

    view: dict[str, Any] = field(default_factory=dict)
    stock: bool = False  # the Hub's templates instead of ours
    for_user: str = "mkim"
    viewer: str = "mkim"
    message: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)  # as of the making of the pending page
    hold: threading.Event = field(default_factory=threading.Event)  # end of the event stream
    server: dict[str, Any] | None = field(default_factory=dict)
    failed: dict[str, Any] = field(default_factory=dict)
    service: str = ""  # where the sessions service is; empty where there is none
    posts: list[dict[str, list[str]]] = field(default_factory=list)
    calls: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, token
    on_delete: Any = None

    def spawn_page(self) -> str:
        owner = person(self.for_user)
        return self.template("spawn.html").render(
            page_context(user=person(self.viewer)) | {
                "for_user": owner, "spawner": owner.spawner, "error_message": self.message,
                "spawner_options_form": options_form(self.view),
                "url": "/hub/spawn?_xsrf=the-token",
            }
        )  # fmt: skip

    def pending_page(self, user: str, name: str) -> str:
        if self.server and self.server.get("ready"):
            return "<h1>JupyterLab</h1>"  # the Hub's redirect
        spawner = SimpleNamespace(
            name=name, display_name="lab4-attention", user_options={}, told=self.told
        )
        progress = f"/hub/api/users/{user}/servers/{name}/progress?_xsrf=the-token"
        return self.template("spawn_pending.html").render(
            page_context(
                user=person(user),
                spawner=spawner,
                progress_url=progress,
                backendai_sessions=self.service,
            )
        )

    def not_running_page(self, user: str, name: str) -> str:
        return self.template("not_running.html").render(
            page_context(
                user=person(user), server_name=name, spawn_url=f"/hub/spawn/{user}/{name}",
                backendai_sessions=self.service,
            )
            | self.failed
        )  # fmt: skip

    def template(self, name: str) -> Any:
        return environment(stock=self.stock).get_template(name)


class Handler(BaseHTTPRequestHandler):
    """Answers like the Hub, as far as the pages can tell."""

    protocol_version = "HTTP/1.1"

    @property
    def site(self) -> Site:
        return self.server.site  # type: ignore[attr-defined, no-any-return]

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the browser went elsewhere
            super().handle()

    def log_message(self, *_: Any) -> None:
        pass

    def answer(
        self, body: bytes | str, kind: str = "text/html; charset=utf-8", status: int = 200
    ) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        static = self.path.startswith("/hub/static/")
        self.send_header("Cache-Control", "max-age=3600" if static else "no-store")
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        parts = path.strip("/").split("/")
        if path.startswith("/hub/static/"):
            self.static(HUB / "static" / path.removeprefix("/hub/static/"))
        elif path == "/hub/logo":
            self.static(HUB / "static/images/jupyterhub-80.png")
        elif path.endswith("/progress"):
            self.progress()
        elif path.startswith("/hub/api/"):
            self.api()
        elif parts[:2] == ["hub", "spawn-pending"]:
            self.answer(self.site.pending_page(parts[2], parts[3] if len(parts) > 3 else ""))
        elif parts[:2] == ["hub", "not-running"]:
            self.answer(self.site.not_running_page(parts[2], parts[3] if len(parts) > 3 else ""))
        elif parts[:2] == ["hub", "spawn"]:
            self.answer(self.site.spawn_page())
        else:
            self.answer("<h1>Elsewhere</h1>", status=200)

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        kind = self.headers["Content-Type"].encode()
        parser = email.parser.BytesParser(policy=email.policy.HTTP)
        message = parser.parsebytes(
            b"Content-Type: " + kind + b"\r\n\r\n" + self.rfile.read(length)
        )
        posted: dict[str, list[str]] = {}
        for part in message.iter_parts():
            name = part.get_param("name", header="content-disposition")
            posted.setdefault(str(name), []).append(part.get_payload(decode=True).decode())
        self.site.posts.append(posted)
        if self.site.view["errors"]:
            self.site.view["draft"] = posted
            self.answer(self.site.spawn_page(), status=400)
        else:
            self.answer("<h1>Launched</h1>")

    def do_DELETE(self) -> None:
        self.api()

    def api(self) -> None:
        url = urlsplit(self.path)
        token = dict(parse_qsl(url.query)).get("_xsrf") or self.headers.get("X-XSRFToken", "")
        self.site.calls.append((self.command, unquote(url.path), token))
        if self.command == "DELETE":
            if self.site.on_delete:
                self.site.on_delete()
            self.answer("", "text/plain", 204)
        elif self.site.server is None:
            self.answer('{"message": "Not Found"}', "application/json", 404)
        else:
            self.answer(json.dumps(self.site.server), "application/json")

    def progress(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(b"retry: 50\n\n")  # milliseconds until a browser asks again, not 3000
        sent = 0
        try:
            while True:
                ended = self.site.hold.is_set()
                for event in self.site.events[sent:]:
                    self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                    self.wfile.flush()
                sent = len(self.site.events)
                if ended:
                    return
                self.site.hold.wait(0.02)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def static(self, path: Path) -> None:
        if not path.is_file():
            self.answer("not found", status=404)
            return
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self.answer(path.read_bytes(), kind)


def serve(site: Site, port: int = 0) -> ThreadingHTTPServer:
    """A server for `site` in a thread of its own; its address is `server_address`."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.site = site  # type: ignore[attr-defined]
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


if __name__ == "__main__":
    from ui_payload import view

    started = serve(Site(view=view()), 8765)
    print(f"http://127.0.0.1:{started.server_address[1]}/hub/spawn")
    while True:
        time.sleep(3600)
