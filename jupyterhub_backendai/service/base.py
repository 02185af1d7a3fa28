"""What all handlers share: who asks, what they may, what they sent, and errors as JSON."""

from __future__ import annotations

import http
import json
import re
from asyncio import Future
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from jupyterhub.services.auth import HubOAuthenticated
from pydantic import BaseModel, ValidationError
from tornado.web import HTTPError, MissingArgumentError, RequestHandler, stream_request_body

from ..model.errors import FieldError, Kind, RequestError, shown
from ..site.runtime import Site
from ..store import Changed, NotFound, Unavailable
from . import audit
from .auth import METRICS, Caller
from .hub import HubRefused, HubUnavailable
from .parts import NotReady
from .queries import NoQuery
from .table import JSON, Call, Who

if TYPE_CHECKING:
    from .app import Service

M = TypeVar("M", bound=BaseModel)
MAX_BODY = 1024 * 1024  # bytes; more is refused before it is read
# Bytes of a body that did not say how long it is. Whoever sends on cannot read an answer, so what
# is too large is thrown away up to here, and answered at its end.
MOST_READ = 16 * MAX_BODY


class Refused(Exception):
    """An answer that is no success, in the API's one shape."""

    def __init__(self, status: int, code: str, message: str, field: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.errors = [FieldError(field, code, message).as_dict()]


# What is told to the caller, and is no defect that the log would have to tell.
EXPECTED = (
    Refused, RequestError, NotReady, Unavailable, NotFound, Changed, HubRefused, HubUnavailable,
)  # fmt: skip


def not_found() -> Refused:
    """One answer for what is not there and for what is somebody else's."""
    return Refused(404, "not_found", "There is no such session.", "id")


@stream_request_body
class Handler(HubOAuthenticated, RequestHandler):
    """Base of everything the service answers.

    A request's body is read here, so that one that is too large is refused before it is sent.
    """

    not_settings = frozenset({"_xsrf", "token"})  # of the query: they are about who asks

    def initialize(self, service: Service, calls: Mapping[str, Call]) -> None:
        self.service = service
        self.calls = dict(calls)
        if "GET" in calls and calls["GET"].media == JSON:  # a stream would have no end
            self.calls["HEAD"] = calls["GET"]
        self.hub_auth = service.hub_auth
        self._caller: Caller | None = None
        self.made_sessions: Sequence[str] = ()  # ids, for the audit log
        self._reads_body = False
        self._chunks: list[bytes] = []
        self._size = 0

    # ---- who asks -----------------------------------------------------------------------------

    @property
    def site(self) -> Site:
        """The open site. Raises `NotReady`."""
        return self.service.parts.site

    @property
    def call(self) -> Call:
        """The row of the table that this request is."""
        return self.calls[self.request.method or ""]

    @property
    def caller(self) -> Caller:
        """Who asks; only in calls that are not for anybody."""
        assert self._caller is not None, "a call for anybody asked who asks"
        return self._caller

    @property
    def known(self) -> Caller | None:
        """Who asks, if that is known."""
        return self._caller

    async def prepare(self) -> None:
        await self._admit()
        self._reads_body = True

    async def _admit(self) -> None:
        if self.request.method not in self.calls:
            raise HTTPError(405)
        self._check_length()
        if self.call.who is not Who.ANYBODY:
            self._caller = await self.identify()
            _ = self.site  # raises while there is none, and tells admins why
            self._check_scope(self._caller)
        if self.call.query is None:
            self.read_query(NoQuery)

    def _check_length(self) -> None:
        lengths = re.split(r",\s*", self.request.headers.get("Content-Length", "0"))
        if len(set(lengths)) > 1 or not re.fullmatch(r"[0-9]+", lengths[0]):
            raise HTTPError(400)
        if len(lengths[0]) > 18 or int(lengths[0]) > MAX_BODY:
            raise _too_large()

    def _check_scope(self, caller: Caller) -> None:
        scope = self.call.scope
        if self.call.who is Who.ADMIN:
            if not caller.may_all(scope):
                whose = "" if scope == METRICS else " for everybody's servers"
                message = f"This is for admins: it takes the scope {scope}{whose}."
                raise Refused(403, "not_yours", message)
            return
        own = self.call.who is Who.OWN
        for scope in self.call.scopes:
            if not (caller.may(scope, caller.name) if own else caller.may_for_somebody(scope)):
                raise Refused(
                    403, "missing_scope",
                    f"Your token does not have the scope {scope}. Make one that has it.",
                )  # fmt: skip

    async def model(self) -> Mapping[str, Any] | None:
        """Who asks as the Hub tells it; None for nobody. Raises `Refused`."""
        try:
            model: Mapping[str, Any] | None = await self.hub_auth.get_user(self, sync=False)
        except HTTPError as error:
            self.service.log.error("The Hub does not say who asks: %s", error.log_message)
            raise _hub_away() from None
        return model

    async def identify(self) -> Caller:
        """The caller by token or cookie. Raises `Refused`."""
        model = await self.model()
        if model is None:
            raise self._nobody()
        if not self.hub_auth.check_scopes(self.hub_scopes, model):
            raise Refused(403, "missing_scope", "Your token may not be used for this service.")
        return Caller.of(model)

    async def identify_anew(self) -> Caller:
        """The caller as the Hub knows them now, of a request that has gone on for long. Raises
        `Refused`."""
        self.__dict__.pop("_cached_hub_user", None)  # with it the Hub's library would not ask
        return await self.identify()

    def _nobody(self) -> Refused:
        if self.hub_auth.get_token(self) and not self.hub_auth.get_token(self, in_cookie=False):
            try:
                self.check_xsrf_cookie()
            except HTTPError:
                return Refused(403, "xsrf", "Reload the page, then try again.")
        return Refused(401, "not_signed_in", "Sign in, or send a token of the Hub.")

    # ---- what they sent -----------------------------------------------------------------------

    def data_received(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size <= MAX_BODY:
            self._chunks.append(chunk)
        elif self._size > MOST_READ and not self._finished:
            # One that did not say how long it is, and may have no end: this closes the connection.
            self._reads_body = False
            error = _too_large()
            self.send_error(error.status, exc_info=(Refused, error, None))

    def body(self) -> bytes:
        """The body. Raises `Refused` for one that is too large."""
        if self._size > MAX_BODY:
            raise _too_large()
        return b"".join(self._chunks)

    def json_body(self) -> Any:
        """The body as JSON. Raises `Refused`."""
        body = self.body()
        try:
            return json.loads(body, parse_constant=_no_constant)
        except RecursionError:
            raise Refused(400, "too_deep", "This is nested too deeply.") from None
        except ValueError:
            raise Refused(400, "not_json", "Write the body as JSON.") from None

    def object_body(self) -> dict[str, Any]:
        """The body as a JSON object. Raises `Refused`."""
        body = self.json_body()
        if not isinstance(body, dict):
            raise Refused(400, "not_an_object", "Write the body as an object.")
        return body

    def read_body(self, model: type[M]) -> M:
        """The body as what the table says it is. Raises `Refused`, `RequestError`."""
        return _read(model, self.object_body())

    def read_query(self, model: type[M]) -> M:
        """The query as what the table says it is. Raises `RequestError`."""
        given: dict[str, Any] = {}
        for name in self.request.query_arguments:
            if name in self.not_settings:
                continue
            values = self.get_query_arguments(name, strip=False)
            field = model.model_fields.get(name)
            given[name] = values if field and _is_list(field.annotation) else values[-1]
        return _read(model, given)

    async def head(self, *args: str, **kwargs: str) -> None:
        """What the same `GET` would answer, less its body, which the server leaves out."""
        await self.get(*args, **kwargs)  # type: ignore[misc]

    # ---- answers ------------------------------------------------------------------------------

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> Future[None]:
        """What is answered before the request was read ends the connection. Who asks is told: the
        Hub's proxy keeps connections, and its next request would fail on one that just closes."""
        if not self._reads_body:
            self.set_header("Connection", "close")
        return super().finish(chunk)

    def on_finish(self) -> None:
        self.service.life.sign()
        audit.note(self)

    def set_default_headers(self) -> None:
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.clear_header("Server")

    def reply(self, model: BaseModel) -> None:
        """Writes the answer, with the status of the table."""
        self.set_status(self.call.status)
        self.finish(model.model_dump_json())

    def check_etag_header(self) -> bool:
        return False  # an ETag is a version here, for If-Match; there is nothing to cache

    def compute_etag(self) -> None:
        return None

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if not isinstance(value, EXPECTED):
            super().log_exception(typ, value, tb)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Whatever went wrong, in the one shape."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        status, errors = self._explained(error, status_code)
        self.service.metrics.note_error(status, errors[0]["code"])
        self.set_status(status)
        if status == 405:
            self.set_header("Allow", ", ".join(sorted(self.calls)))
        if status == 503:
            self.set_header("Retry-After", "5")
        if status == 401:
            self.set_header("WWW-Authenticate", "token")
        self.tell(error, status, errors)

    def tell(self, error: object, status: int, errors: list[dict[str, str]]) -> None:
        """Writes what went wrong."""
        self.finish(json.dumps({"errors": errors}))

    def _explained(self, error: object, status: int) -> tuple[int, list[dict[str, str]]]:
        if isinstance(error, Refused):
            return error.status, error.errors
        if isinstance(error, RequestError):
            return error.status, error.as_dict()["errors"]
        if isinstance(error, NotFound):
            return 404, not_found().errors
        if isinstance(error, Changed):
            message = "Somebody changed it since you read it. Read it again."
            return 412, Refused(412, "changed", message).errors
        if isinstance(error, HubUnavailable):
            self.service.log.error("%s", error)
            return 503, _hub_away().errors
        if isinstance(error, HubRefused):
            return 409, Refused(409, "hub_refused", error.message).errors
        if isinstance(error, NotReady):
            admin = self._caller is not None and self._caller.admin
            told = (error.detail or error.message) if admin else error.message
            return 503, Refused(503, error.code, told).errors
        if isinstance(error, Unavailable):
            self.service.log.error("%s", error)
            return 503, Refused(503, "unavailable", "Not now. Try again in a moment.").errors
        if isinstance(error, MissingArgumentError) or (
            isinstance(error, HTTPError) and status == 400
        ):
            return 400, Refused(400, "bad_request", "The request cannot be read.").errors
        return status, Refused(status, *_PLAIN.get(status, _plain(status))).errors


def _plain(status: int) -> tuple[str, str]:
    if status >= 500:
        return "internal", "Something went wrong here. Try again, and tell your admin."
    return "refused", f"{http.HTTPStatus(status).phrase}."


_PLAIN = {
    404: ("not_found", "There is nothing at this address."),
    405: ("bad_method", "This cannot be done at this address."),
}


class Nowhere(Handler):
    """Every address that the service does not have."""

    async def prepare(self) -> None:
        raise HTTPError(404)


def _is_list(annotation: Any) -> bool:
    """Whether a setting of a query may be there several times."""
    return any(get_origin(kind) is list for kind in (annotation, *get_args(annotation)))


def _hub_away() -> Refused:
    return Refused(503, "hub_unavailable", "The Hub does not answer. Try again in a moment.")


def _too_large() -> Refused:
    return Refused(413, "too_large", f"A body has at most {MAX_BODY} bytes.")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _read(model: type[M], data: Mapping[str, Any]) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as failure:
        raise RequestError(
            FieldError(
                ".".join(shown(step, 64) for step in error["loc"]),
                str(error["type"]),
                _message(error),
                Kind.INVALID,
            )
            for error in failure.errors(include_url=False, include_input=False)[:100]
        ) from None


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "There is no such setting. Remove it."
    return shown(str(error["msg"]).removeprefix("Value error, "), 200)
