"""Heads of requests and answers on their way between a visitor and an app.

Each is read once, by whoever received it, and written anew from what was read: nothing of the bytes
that came goes on. What would act on the Hub's own pages stays here, in both directions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tornado.httputil import HTTPHeaders, HTTPServerRequest

from .cookies import Cookies
from .streams import Broken

SANDBOX = (
    "sandbox allow-downloads allow-forms allow-modals allow-orientation-lock allow-pointer-lock "
    "allow-popups allow-popups-to-escape-sandbox allow-presentation allow-scripts"
)
MOST_LINES = 200  # of an answer's head
PREFLIGHT_AGE = "600"  # seconds

Pairs = list[tuple[str, str]]

# Of one connection, not of what is sent over it (RFC 9110, 7.6.1).
HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
# Of requests, what only we say, and what is for us.
_OURS = frozenset({
    "host", "content-length", "expect", "cookie", "cookie2", "forwarded", "x-scheme", "x-real-ip",
    "http2-settings",
})  # fmt: skip
_OUR_PREFIXES = ("proxy-", "x-forwarded-", "x-backendai-")
# Of answers, what acts on more than the page that it comes with: on everything of the same host.
_OF_THE_HOST = frozenset({
    "accept-ch", "alt-svc", "clear-site-data", "critical-ch", "expect-ct", "nel",
    "origin-agent-cluster", "origin-trial", "public-key-pins", "public-key-pins-report-only",
    "report-to", "reporting-endpoints", "sec-session-registration", "secure-session-registration",
    "service-worker-allowed", "set-cookie2", "set-login", "speculation-rules",
    "strict-transport-security", "use-as-dictionary", "x-sendfile",
})  # fmt: skip
# And what is for a browser's maker, or for a proxy before us.
_OF_THE_HOST_PREFIXES = ("attribution-reporting-", "x-accel-")
_CACHING = frozenset({"cache-control", "expires", "pragma"})
# And on the Hub's host besides: a browser would ask for a password there, or keep it.
_OF_SIGNING_IN = frozenset({
    "www-authenticate", "proxy-authenticate", "authentication-info", "proxy-authentication-info",
})  # fmt: skip
_FRAMING = frozenset({"content-length", "set-cookie", "location", "content-location"})
_CORS = "access-control-"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1", "0.0.0.0"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"/[\x21-\x7e]*")


class BadRequest(Exception):
    """A request that can be read in more than one way, or in none."""


@dataclass(frozen=True, slots=True)
class Front:
    """How an app is seen from outside: `scheme`, `host` (with its port) and `prefix` (of paths; no
    slash at its end) of its address; whether its pages are kept apart from the host that they come
    from (`sandboxed`), as others have it too; and its cookies."""

    scheme: str
    host: str
    prefix: str
    sandboxed: bool
    cookies: Cookies

    @property
    def origin(self) -> str:
        """Where its pages come from."""
        return f"{self.scheme}://{self.host}"


@dataclass(frozen=True, slots=True)
class Framing:
    """How long a request's body is: `length` in bytes; None and `chunked` where nobody knows."""

    length: int | None
    chunked: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is no body."""
        return not self.chunked and not self.length


def framing(request: HTTPServerRequest) -> Framing:
    """How long the body of a request is. Raises `BadRequest` where that was said twice."""
    headers = request.headers
    lengths, codings = headers.get_list("Content-Length"), headers.get_list("Transfer-Encoding")
    if len(lengths) + len(codings) > 1 or len(headers.get_list("Host")) > 1:
        raise BadRequest
    if codings:
        if codings[0].lower() != "chunked" or request.version != "HTTP/1.1":
            raise BadRequest
        return Framing(None, True)
    if lengths and not re.fullmatch("[0-9]{1,18}", lengths[0]):
        raise BadRequest
    return Framing(int(lengths[0]) if lengths else None, False)


def is_websocket(request: HTTPServerRequest) -> bool:
    """Whether a request is to become a websocket."""
    headers = request.headers
    return (
        request.method == "GET"
        and request.version == "HTTP/1.1"
        and headers.get("Upgrade", "").lower() == "websocket"
        and "upgrade" in _named(headers.get_list("Connection"))
    )


def is_preflight(request: HTTPServerRequest) -> bool:
    """Whether a browser asks what a page of another origin may send."""
    return (
        request.method == "OPTIONS"
        and "Origin" in request.headers
        and "Access-Control-Request-Method" in request.headers
    )


def request_head(request: HTTPServerRequest, front: Front, target: str, framed: Framing) -> bytes:
    """The head of a request as the app gets it; `target` is the path and query that it is for.
    Raises `BadRequest`."""
    target = re.sub(r"[\x80-\xff]", lambda byte: f"%{ord(byte[0]):02X}", target)
    method = request.method or ""
    if not _TARGET.fullmatch(target) or not _TOKEN.fullmatch(method):
        raise BadRequest
    gone = HOP_BY_HOP | _named(request.headers.get_list("Connection"))
    pairs: Pairs = [("Host", front.host)]
    for name, value in request.headers.get_all():
        low = name.lower()
        if low in gone or low in _OURS or low.startswith(_OUR_PREFIXES):
            continue
        if low == "authorization" and front.sandboxed and not _is_bearer(value):
            continue
        if low == "referer" and not value.startswith(f"{front.origin}{front.prefix}/"):
            continue  # a page of ours, or somebody else's: its address is none of the app's
        if low == "origin" and front.sandboxed and value == "null":
            value = front.origin  # which it would be if its pages were not kept apart
        pairs.append((name, value))
    if own := front.cookies.inward(request.headers.get_list("Cookie")):
        pairs.append(("Cookie", own))
    pairs += _forwarded(request, front)
    if is_websocket(request):
        pairs += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
    else:
        pairs.append(("Connection", "close"))
    if framed.chunked:
        pairs.append(("Transfer-Encoding", "chunked"))
    elif framed.length is not None:
        pairs.append(("Content-Length", str(framed.length)))
    return _written(f"{method} {target} HTTP/1.1", pairs)


def _forwarded(request: HTTPServerRequest, front: Front) -> Pairs:
    try:
        port = urlsplit(f"//{front.host}").port or (443 if front.scheme == "https" else 80)
    except ValueError:
        raise BadRequest from None
    said = [
        ("X-Forwarded-For", str(request.remote_ip)), ("X-Forwarded-Host", front.host),
        ("X-Forwarded-Port", str(port)), ("X-Forwarded-Proto", front.scheme),
        ("X-Real-Ip", str(request.remote_ip)), ("X-Scheme", front.scheme),
    ]  # fmt: skip
    return [*said, ("X-Forwarded-Prefix", front.prefix)] if front.prefix else said


def _is_bearer(value: str) -> bool:
    return value.partition(" ")[0].lower() == "bearer"


def _named(values: Iterable[str]) -> frozenset[str]:
    """The words of a header that is a list."""
    return frozenset(word.strip().lower() for value in values for word in value.split(","))


def _written(first: str, pairs: Pairs) -> bytes:
    for name, value in pairs:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise BadRequest
    lines = [first, *(f"{name}: {value}" for name, value in pairs)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


# ---- answers ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an app's answer, as it came."""

    status: int
    reason: str
    headers: HTTPHeaders

    @property
    def upgraded(self) -> bool:
        """Whether the connection is a websocket from here on."""
        return self.status == 101 and self.headers.get("Upgrade", "").lower() == "websocket"

    def framing(self, method: str) -> Framing:
        """How long its body is; None and not `chunked`: until the app closes. Raises `Broken`."""
        if method == "HEAD" or self.status in (204, 304):
            return Framing(0, False)
        lengths = self.headers.get_list("Content-Length")
        codings = self.headers.get_list("Transfer-Encoding")
        if codings:
            if [coding.lower() for coding in codings] != ["chunked"] or lengths:
                raise Broken("its answer can be read in more than one way")
            return Framing(None, True)
        if len(set(lengths)) > 1 or not all(re.fullmatch("[0-9]{1,18}", one) for one in lengths):
            raise Broken("its answer can be read in more than one way")
        return Framing(int(lengths[0]) if lengths else None, False)


def read_answer(head: bytes) -> Answer:
    """The head of an answer. Raises `Broken` for one that is none."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    found = re.fullmatch(r"HTTP/1\.[01] ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?", first)
    if found is None:
        raise Broken("what it answers is no HTTP")
    if len(lines) > MOST_LINES:
        raise Broken("it says too much at once")
    headers = HTTPHeaders()
    for line in lines:
        name, colon, value = line.partition(":")
        value = value.strip(" \t").replace("\t", " ")
        if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise Broken("what it answers is no HTTP")
        headers.add(name, value)
    return Answer(int(found[1]), re.sub("[^ -~]", "?", found[2] or ""), headers)


def answer_pairs(answer: Answer, front: Front, asked: HTTPServerRequest, framed: Framing) -> Pairs:
    """The headers of an answer as the visitor gets them, less those of its connection."""
    gone = HOP_BY_HOP | _named(answer.headers.get_list("Connection")) | _OF_THE_HOST | _FRAMING
    if front.sandboxed:
        gone |= _OF_SIGNING_IN | _CACHING | {"cross-origin-resource-policy"}
    gone_prefixes = (*_OF_THE_HOST_PREFIXES, *((_CORS,) if front.sandboxed else ()))
    pairs: Pairs = []
    for name, value in answer.headers.get_all():
        low = name.lower()
        if low not in gone and not low.startswith(gone_prefixes):
            pairs.append((name, value))
    if front.sandboxed:
        pairs.append(("Cache-Control", _caching(answer)))
    for name in ("Location", "Content-Location"):
        for value in answer.headers.get_list(name)[:1]:
            pairs.append((name, location(value, front)))
    had = asked.headers.get_list("Cookie")
    pairs += [("Set-Cookie", one) for one in front.cookies.outward(answer.headers, had)]
    if length := _told_length(answer, asked, framed):
        pairs.append(("Content-Length", length))
    return pairs + (kept_apart() if front.sandboxed else [])


def _caching(answer: Answer) -> str:
    """Who may keep an answer: nobody without asking again, as a way may be closed by then, and
    another be at its port."""
    said = {word.partition("=")[0] for word in _named(answer.headers.get_list("Cache-Control"))}
    if "no-store" in said:
        return "no-store"
    return "private, no-cache" if "private" in said else "no-cache"


def _told_length(answer: Answer, asked: HTTPServerRequest, framed: Framing) -> str | None:
    if asked.method == "HEAD" and answer.status not in (204, 304):
        lengths = answer.headers.get_list("Content-Length")
        return lengths[0] if lengths and re.fullmatch("[0-9]{1,18}", lengths[0]) else None
    if answer.status in (204, 304) or framed.length is None:
        return None
    return str(framed.length)


def kept_apart() -> Pairs:
    """What keeps a page apart from its host, and lets it load what is its own all the same: to a
    browser that comes from somewhere else then."""
    return [
        ("Content-Security-Policy", SANDBOX), ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Expose-Headers", "*"), ("Cross-Origin-Resource-Policy", "cross-origin"),
    ]  # fmt: skip


def preflight_pairs(headers: Mapping[str, str]) -> Pairs:
    """The answer to a page that is kept apart, on what it may send: all but cookies."""
    method = headers["Access-Control-Request-Method"]
    wanted = headers.get("Access-Control-Request-Headers", "")
    pairs = [("Access-Control-Max-Age", PREFLIGHT_AGE), ("Vary", "Access-Control-Request-Headers")]
    if _TOKEN.fullmatch(method):
        pairs.append(("Access-Control-Allow-Methods", method))
    if names := [name for name in _named([wanted]) if _TOKEN.fullmatch(name)]:
        pairs.append(("Access-Control-Allow-Headers", ", ".join(sorted(names))))
    return pairs


def location(value: str, front: Front) -> str:
    """An address that an app gave, as it is from outside: its own root is below the prefix."""
    try:
        parts = urlsplit(value)
        name = parts.hostname
    except ValueError:
        return value
    if parts.scheme not in ("", "http", "https") or (parts.scheme and not parts.netloc):
        return value
    if parts.netloc:
        if parts.netloc.lower() != front.host.lower() and name not in _LOOPBACK:
            return value
        rest = value.partition("//")[2].removeprefix(parts.netloc)
        path = rest if rest.startswith("/") else f"/{rest}"
    elif value.startswith("/"):
        path = value
    else:
        return value
    inside = path == front.prefix or path.startswith((f"{front.prefix}/", f"{front.prefix}?"))
    return path if front.prefix and inside else f"{front.prefix}{path}"
