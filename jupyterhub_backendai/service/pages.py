"""The pages that a browser sees: whether the service works, and the end of a session."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import HTTPError, RequestHandler

from ..model.status import IN_LINE
from .auth import DELETE
from .base import Handler
from .calls.sessions import find
from .ending import end
from .parts import NotReady

if TYPE_CHECKING:
    from .app import Service

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><link rel="stylesheet" href="{hub}static/css/style.min.css">
<script src="{hub}static/js/darkmode.js"></script></head>
<body><main class="container py-4"><h1>{title}</h1>{html}</main></body></html>
"""


class Shown(HubOAuthenticated, RequestHandler):
    """Answers that are pages."""

    @property
    def hub(self) -> str:
        """Where the Hub's own pages are, as a browser reaches them."""
        return f"{self.hub_auth.hub_host}{self.hub_auth.hub_prefix}"

    def show(self, title: str, html: str) -> None:
        """Writes a page; `title` is text, `html` the markup below it."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        hub = f"'self' {self.hub_auth.hub_host}"
        self.set_header(
            "Content-Security-Policy",
            f"default-src 'none'; style-src {hub}; script-src {hub}; img-src {hub} data:; "
            f"font-src {hub}; form-action {hub}; base-uri 'none'; frame-ancestors 'none'",
        )
        self.finish(PAGE.format(title=escape(title), hub=escape(self.hub), html=html))


class Callback(Shown, HubOAuthCallbackHandler):
    """Where a browser comes back to from the Hub's sign-in."""

    def initialize(self, service: Service) -> None:
        self.hub_auth = service.hub_auth

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        # What came in the address is told to the log only: anybody may have written it.
        again = f'<a href="{escape(self.hub_auth.base_url)}">Sign in again</a>'
        why = "The Hub does not answer. Wait a moment. " if status_code >= 500 else ""
        self.show("The sign-in did not work", f"<p>{why}{again}</p>")


class Page(Shown, Handler):
    """What all pages share: a browser that is not signed in is sent to the Hub, and errors are
    pages too."""

    async def _admit(self) -> None:
        if self.request.method not in ("GET", "POST"):
            raise HTTPError(405)
        if self.request.method == "GET" and await self.model() is None:
            self.redirect(self.get_login_url())
            return
        self._caller = await self.identify()

    def tell(self, error: object, status: int, errors: list[dict[str, str]]) -> None:
        if isinstance(error, NotReady):
            # The Hub counts a 5xx of the front page, while it starts, as one that is not there.
            self.set_status(200)
        title = "Not signed in" if status in (401, 403) else "This does not work"
        told = "<br>".join(escape(e["message"]).replace("\n", "<br>") for e in errors)
        self.show(title, f"<p>{told}</p>")


class Home(Page):
    """The service's front page."""

    async def get(self) -> None:
        problem = self.service.parts.problem
        if problem is not None:
            raise problem
        _ = self.xsrf_token  # sets the cookie that calls by cookie need
        prefix = escape(self.hub_auth.base_url)
        self.show(
            "Sessions", f"<p>The service works. Its API: <code>{prefix}api/openapi.json</code></p>"
        )


class EndPage(Page):
    """Asks whether a session is to be cancelled or ended, and does it. It needs no script, and
    nobody but who reads it can press its button."""

    async def get(self, id: str) -> None:
        session = await find(self.site, self.caller, id, DELETE)
        if session.status.is_final:
            self.redirect(f"{self.hub}home")
            return
        waits = session.status in IN_LINE
        word, loss = (
            ("Cancel", "It loses its place in line. Nothing of it has started yet.")
            if waits
            else ("End", "What it runs is stopped. Its folders stay, the rest of its files goes.")
        )
        action = f"?_xsrf={quote(self.xsrf_token.decode())}"
        self.show(
            f"{word} {session.name}?",
            f'<p>{loss}</p><form method="post" action="{action}">'
            f'<button class="btn btn-danger me-2" type="submit">{word} session</button>'
            f'<a class="btn btn-secondary" href="{escape(self.hub)}home">Keep it</a></form>',
        )

    async def post(self, id: str) -> None:
        session = await find(self.site, self.caller, id, DELETE)
        await end(self.site, self.service.hub, session, self.caller.name, None, force=False)
        self.redirect(f"{self.hub}home")
