"""What all pages share: who is sent to sign in, how they are written, and errors as pages."""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from jupyterhub.utils import url_path_join
from tornado.web import HTTPError, RequestHandler, StaticFileHandler

from ...site.options import environment_name
from ...store import Session
from ..addresses import server_url
from ..auth import DELETE, READ, START, Caller
from ..base import Handler, Refused
from ..parts import NotReady
from .shell import for_browsers

if TYPE_CHECKING:
    from ..app import Service

MOST_FIELDS = 1000  # of one form
PART = "part"  # the setting of a page's address that asks for a part of it


class Shown(HubOAuthenticated, RequestHandler):
    """Answers that are pages."""

    service: Service

    def show(self, template: str, caller: Caller | None = None, **more: Any) -> None:
        """Writes a page made from a template; `more` is what that needs."""
        html, policy = self.service.shell.page(
            template, caller, self.xsrf_token.decode(), self.request.host, **more
        )
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", policy)
        self.finish(html)


class Callback(Shown, HubOAuthCallbackHandler):
    """Where a browser comes back to from the Hub's sign-in."""

    def initialize(self, service: Service) -> None:
        self.service, self.hub_auth = service, service.hub_auth

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        # What came in the address is told to the log only: anybody may have written it.
        why = ["The Hub does not answer. Wait a moment."] if status_code >= 500 else []
        title = "The sign-in did not work"
        self.show("backendai/pages/message.html", title=title, told=why, again="Sign in again")


class Page(Shown, Handler):
    """A page for who is signed in. A browser that is not is sent to the Hub.

    `part` names a part of it: then only that is written, for the page that is open to take in.
    """

    not_settings = Handler.not_settings | {PART}

    @property
    def launch_url(self) -> str:
        """Where a session is launched."""
        return url_path_join(self.hub_auth.base_url, "launch")

    @property
    def acts_for_others(self) -> bool:
        """Whether who asks may start sessions of anybody else."""
        return self.caller.may_all(START) or self.caller.may_for_groups(START)

    def page_of(self, session: Session, name: str = "") -> str:
        """The address of one of a session's pages."""
        return url_path_join(self.hub_auth.base_url, "sessions", session.id, name).rstrip("/")

    def server_url(self, session: Session) -> str:
        """Where a session's own server is."""
        return server_url(self.hub_auth, session)

    def readable(self, session: Session) -> bool:
        """Whether who asks may read what a session was told to do."""
        return self.caller.may(READ, session.owner, session.owner_groups)

    def may_end(self, session: Session) -> bool:
        """Whether who asks may end a session, which is not over."""
        may = self.caller.may(DELETE, session.owner, session.owner_groups)
        return may and not session.status.is_final

    def environment_of(self, session: Session) -> str:
        """The environment of a session as its owner knows it."""
        return environment_name(session.request, self.site.catalog)

    @property
    def _hub(self) -> str:
        return f"{self.hub_auth.hub_host}{self.hub_auth.hub_prefix}"

    @property
    def part(self) -> str:
        """The part that is asked for; empty for the whole page."""
        values = self.request.query_arguments.get(PART, [b""])
        return values[-1].decode("ascii", "replace")

    def form(self) -> dict[str, list[str]]:
        """The fields of a form that was sent, each with its values. Raises `Refused`."""
        found: dict[str, list[str]] = {}
        try:
            text = self.body().decode()
        except ValueError:
            raise Refused(400, "bad_request", "The request cannot be read.") from None
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError:
            told = f"A form has at most {MOST_FIELDS} fields."
            raise Refused(400, "too_many_fields", told) from None
        for name, value in pairs:
            found.setdefault(name, []).append(value)
        return found

    async def _admit(self) -> None:
        if self.request.method not in ("GET", "HEAD", "POST"):
            raise HTTPError(405)
        if self.request.method == "GET" and not self.part and await self.model() is None:
            self.redirect(self.get_login_url())
            return
        self._caller = await self.identify()
        if not self._caller.is_user:
            raise Refused(403, "not_a_user", "Pages are for people. A service has the API.")

    def write_page(self, template: str, parts: dict[str, str], **more: Any) -> None:
        """The page of this template, or the part of it that was asked for; `parts` are templates
        by name."""
        if not self.part:
            self.show(template, self.caller, **more)
            return
        if self.part not in parts:
            raise HTTPError(404)
        html = self.service.shell.part(
            parts[self.part], self.xsrf_token.decode(), caller=self.caller, **more
        )
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(html)

    def tell(self, error: object, status: int, errors: list[dict[str, str]]) -> None:
        if self.part:
            super().tell(error, status, errors)
            return
        if isinstance(error, NotReady):
            # The Hub counts a 5xx of the front page, while it starts, as one that is not there.
            self.set_status(200)
        title = {401: "Not signed in", 403: "Not for you"}.get(status, "This does not work")
        told = [line for e in errors for line in e["message"].split("\n")]
        self.show("backendai/pages/message.html", self._caller, title=title, told=told)


class Asset(StaticFileHandler):
    """Style sheets and scripts; an address never has another content, so it is kept for good. Ours
    go without what is for who reads the files."""

    @classmethod
    def get_content(
        cls, abspath: str, start: int | None = None, end: int | None = None
    ) -> Generator[bytes, None, None]:
        if _is_ours(abspath):
            yield _sent(abspath)[start:end]
        else:
            yield from super().get_content(abspath, start, end)

    def get_content_size(self) -> int:
        path = self.absolute_path or ""
        return len(_sent(path)) if _is_ours(path) else super().get_content_size()

    def set_extra_headers(self, path: str) -> None:
        _keep_for_good(self)


def _is_ours(path: str) -> bool:
    return path.endswith((".js", ".css")) and "/vendor/" not in path


@lru_cache
def _sent(path: str) -> bytes:
    return for_browsers(Path(path).read_text("utf-8")).encode()


class HubAsset(StaticFileHandler):
    """Style sheets, scripts and fonts of the Hub's own pages. Those without a version in their
    address are asked for again each time, as at the Hub."""

    def set_extra_headers(self, path: str) -> None:
        if "v" not in self.request.arguments:
            self.set_header("Cache-Control", "no-cache")
        _never_a_page(self)


class Script(RequestHandler):
    """A module that is put together from several files."""

    def initialize(self, body: str) -> None:
        self._body = body

    def get(self) -> None:
        self.set_header("Content-Type", "text/javascript; charset=utf-8")
        _keep_for_good(self)
        self.finish(self._body)


def _keep_for_good(handler: RequestHandler) -> None:
    handler.set_header("Cache-Control", "public, max-age=31536000, immutable")
    _never_a_page(handler)


def _never_a_page(handler: RequestHandler) -> None:
    handler.set_header("X-Content-Type-Options", "nosniff")
    handler.set_header("Content-Security-Policy", "default-src 'none'")
    handler.clear_header("Server")
