"""The pages that a browser sees: for now the one that says whether the service works."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from jupyterhub.services.auth import HubOAuthCallbackHandler
from tornado.web import HTTPError

from .base import Handler, Refused
from .parts import NotReady

if TYPE_CHECKING:
    from .app import Service

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""


class Callback(HubOAuthCallbackHandler):
    """Where a browser comes back to from the Hub's sign-in."""

    def initialize(self, service: Service) -> None:
        self.hub_auth = service.hub_auth


class Home(Handler):
    """The service's front page; signs in a browser that is not."""

    async def prepare(self) -> None:
        if self.request.method != "GET":
            raise HTTPError(405)
        if await self.hub_auth.get_user(self, sync=False) is None:
            self.redirect(self.get_login_url())
            return
        self._caller = await self.identify()

    async def get(self) -> None:
        problem = self.service.parts.problem
        if problem is not None:
            raise problem
        _ = self.xsrf_token  # sets the cookie that calls by cookie need
        prefix = escape(self.hub_auth.base_url)
        self.show("Sessions", f"The service works. Its API: <code>{prefix}api/openapi.json</code>")

    def show(self, title: str, text: str) -> None:
        """Writes a page; `text` is HTML."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(PAGE.format(title=escape(title), text=text))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        status, errors = self._explained(error, status_code)
        # The Hub counts a 5xx of this very page, while it starts, as a service that is not there.
        self.set_status(200 if isinstance(error, NotReady) else status)
        title = "Not signed in" if isinstance(error, Refused) else "Sessions do not work"
        self.show(title, "<br>".join(escape(e["message"]).replace("\n", "<br>") for e in errors))
