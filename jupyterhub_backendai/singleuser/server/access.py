"""Who may call: somebody signed in to this server, or the service with the session's key.

Every handler of ours derives from one of three classes:

* `SignedIn`: signed in to the Jupyter server, as for its own pages; XSRF is checked. The server's
  authorizer is asked too: whoever opens an app runs programs, as in Jupyter's own terminals.
* `SignedInOrKey`: the same, or the key in the header `X-Backendai-Key`.
* `KeyOnly`: the key, nothing else.

They need no decorator on their methods, but for `@checked`, which tells the Jupyter server so.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import json
from http.client import responses
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import ensure_async
from tornado import web

try:
    from jupyter_server.base.websocket import WebSocketMixin as WebSocketMixin
except ImportError:  # where it was before jupyter_server 2.1
    from jupyter_server.base.zmqhandlers import WebSocketMixin as WebSocketMixin

KEY_HEADER = "X-Backendai-Key"


class Key:
    """The session's key, of which only the SHA-256 is here."""

    def __init__(self, sha256: str = "") -> None:
        self._sha256 = sha256.lower().encode("ascii", "replace")

    def opens(self, given: str) -> bool:
        """Whether this is the key; never where the session has none."""
        found = hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
        return bool(self._sha256) and hmac.compare_digest(found.encode(), self._sha256)


def checked(method):
    """Marks a handler's method as one whose class looks who calls; the server warns otherwise."""
    setattr(method, "__allow_unauthenticated", False)
    return method


class Failure(web.HTTPError):
    """An answer that says what happened and what to do, as JSON or as a page."""

    def __init__(self, status: int, code: str, message: str, field: str = "") -> None:
        super().__init__(status)
        self.errors = [{"field": field or None, "code": code, "message": message}]

    def __str__(self) -> str:
        return str(self.errors[0]["message"])


class SignedIn(JupyterHandler):
    """Signed in to this server; answers errors as JSON, or as a page to whoever wants one."""

    takes_key = False
    takes_sign_in = True
    by_key = False  # whether this request came with the key
    needs: tuple[str, ...] = ("execute", "terminals")  # of the authorizer; () = nothing

    def initialize(self, parts: Any) -> None:
        self.parts = parts

    async def prepare(self):  # type: ignore[override]
        if self.takes_key and self._has_key():
            self.by_key = True
            self.current_user = "key"
            self._jupyter_current_user = self.current_user
            return
        if not self.takes_sign_in:
            raise Failure(403, "key", "This needs the session's key.")
        await self._sign_in()
        if self.needs and not self._finished:
            await self._authorize(*self.needs)

    async def _authorize(self, action: str, resource: str) -> None:
        may = self.authorizer.is_authorized(self, self.current_user, action, resource)
        if not await ensure_async(may):
            raise Failure(403, resource, "You may not run programs in this session.")

    async def _sign_in(self):
        prepared = super().prepare()
        if inspect.isawaitable(prepared):
            await prepared
        if self._finished or self.current_user:
            return
        if self.request.method in ("GET", "HEAD") and self.wants_page():
            web.authenticated(lambda _: None)(self)  # to the sign-in, and back here
        else:
            raise Failure(403, "sign_in", "Sign in first.")

    def _has_key(self) -> bool:
        given = self.request.headers.get(KEY_HEADER)
        if given is None:
            return False
        if not self.parts.key.opens(given):
            raise Failure(403, "key", "This is not the session's key.")
        return True

    def check_xsrf_cookie(self):
        """The key is in a header that no other site's page can send."""
        if not (self.takes_key and self._has_key()):
            super().check_xsrf_cookie()

    def wants_page(self) -> bool:
        """Whether a person's browser goes there, rather than a program or a script."""
        return "text/html" in self.request.headers.get("Accept", "")

    def answer(self, what: Any, status: int = 200) -> None:
        """Ends the request with JSON."""
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.finish(json.dumps(what))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        reason = responses.get(status_code, "Error")
        errors = getattr(error, "errors", None)
        if not errors:
            message = _said(error) if status_code < 500 else ""
            message = message or f"{reason}. What went wrong is in the server's log."
            errors = [{"field": None, "code": reason.lower().replace(" ", "_"), "message": message}]
        if self.wants_page():
            self.page("error.html", title=reason, errors=errors)
        else:
            self.answer({"errors": errors}, status_code)

    # ---- pages

    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )

    def page(self, template: str, **values: Any) -> None:
        """Ends the request with a page of ours."""
        html = self.parts.templates.get_template(template).render(
            static=self.parts.url("static/"), jupyter=self.parts.base_url, **values
        )
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", self.policy)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "same-origin")
        self.finish(html)


def _said(error: Any) -> str:
    """What an HTTPError says, with its values in it."""
    said, values = getattr(error, "log_message", None) or "", getattr(error, "args", ())
    try:
        return str(said % values)
    except (TypeError, ValueError):
        return str(said)


class SignedInOrKey(SignedIn):
    """Signed in, or with the key."""

    takes_key = True


class KeyOnly(SignedIn):
    """With the key; being signed in is not enough."""

    takes_key = True
    takes_sign_in = False

    def wants_page(self) -> bool:
        return False
