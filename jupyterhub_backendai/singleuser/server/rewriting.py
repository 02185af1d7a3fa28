"""What of a request an app gets to see, and what of its answer a browser does."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from tornado.httputil import HTTPHeaders, HTTPServerRequest

HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade", "http2-settings",
}  # fmt: skip
# set by us, or what opens this server and the Hub
_NOT_PASSED = {
    "x-backendai-key", "x-xsrftoken", "x-csrftoken", "expect", "forwarded", "x-forwarded-for",
    "x-forwarded-host", "x-forwarded-proto", "x-forwarded-prefix", "x-forwarded-port",
    "x-forwarded-context", "x-real-ip", "x-scheme", "content-length", "cookie", "authorization",
    "referer",
}  # fmt: skip
# of answers, what acts on everything of the host that they come from: the Hub and the server too
_OF_THE_HOST = {
    "accept-ch", "alt-svc", "clear-site-data", "nel", "origin-agent-cluster", "public-key-pins",
    "public-key-pins-report-only", "report-to", "reporting-endpoints", "service-worker-allowed",
    "speculation-rules", "strict-transport-security",
}  # fmt: skip
_COOKIES_OF_OURS = re.compile(r"(?:jupyterhub-|jupyter-hub|username-|_xsrf\Z|service-)", re.I)
_LOCAL = {"127.0.0.1", "localhost", "0.0.0.0", "[::1]", "::1"}


def request_headers(
    request: HTTPServerRequest, prefix: str, token_signed_in: bool, host: str
) -> HTTPHeaders:
    """A request's headers for the app, but for those of its body and of the connection."""
    headers = HTTPHeaders()
    dropped = HOP_BY_HOP | _NOT_PASSED | _named(request.headers)
    for name, value in request.headers.get_all():
        if name.lower() not in dropped:
            headers.add(name, value)
    cookie = cookies(request.headers.get("Cookie", ""))
    if cookie:
        headers["Cookie"] = cookie
    authorization = request.headers.get("Authorization", "")
    kind = authorization.partition(" ")[0].lower()
    if authorization and kind != "token" and not token_signed_in:
        headers["Authorization"] = authorization
    if "Referer" in request.headers:
        headers["Referer"] = without_token(request.headers["Referer"])
    for header, value in (
        ("X-Forwarded-For", request.remote_ip or ""),
        ("X-Forwarded-Host", host),
        ("X-Forwarded-Proto", request.protocol),
        ("X-Forwarded-Prefix", prefix),
    ):
        headers[header] = value
    return headers


def _named(headers: HTTPHeaders) -> set[str]:
    """Those that `Connection` says are for the next hop only."""
    return {name.strip().lower() for name in headers.get("Connection", "").split(",")}


def cookies(header: str) -> str:
    """A `Cookie` header without what is this server's or the Hub's."""
    kept = []
    for pair in header.split(";"):
        name = pair.partition("=")[0].strip().strip('"')
        if pair.strip() and not _COOKIES_OF_OURS.match(name):
            kept.append(pair.strip())
    return "; ".join(kept)


def without_token(url: str) -> str:
    """A URL without `token` in its query."""
    before, mark, query = url.partition("?")
    query, hashed, fragment = query.partition("#")
    kept = "&".join(pair for pair in query.split("&") if not _is_token(pair))
    return before + (mark if kept else "") + kept + hashed + fragment


def _is_token(pair: str) -> bool:
    return unquote_plus(pair.partition("=")[0]) == "token"


class Answers:
    """Rewrites an app's headers, so that what is at its root is below `prefix`."""

    def __init__(self, prefix: str, host: str, port: int, strips: bool) -> None:
        self.prefix, self.host, self.port, self.strips = prefix, host.lower(), port, strips

    def headers(self, given: HTTPHeaders, has_length: bool) -> list[tuple[str, str]]:
        dropped = HOP_BY_HOP | _OF_THE_HOST | _named(given)
        if not has_length:
            dropped = dropped | {"content-length"}
        found: list[tuple[str, str]] = []
        for name, value in given.get_all():
            low = name.lower()
            if low in dropped:
                continue
            if low in ("location", "content-location"):
                value = self.location(value)
            elif low == "set-cookie":
                value = self.cookie(value)
                if not value:
                    continue
            found.append((name, value))
        return found

    def location(self, value: str) -> str:
        """A place in the app as one below its prefix; other sites as they are."""
        try:
            parts = urlsplit(value)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return value
        if parts.scheme not in ("", "http", "https"):
            return value
        here = parts.netloc.lower() == self.host or (host in _LOCAL and port == self.port)
        if parts.netloc and not here:
            return value
        if not parts.netloc and not parts.path.startswith("/"):
            return value  # from where the browser is
        return urlunsplit(("", "", self._below(parts.path or "/"), parts.query, parts.fragment))

    def _below(self, path: str) -> str:
        path = "/" + path.lstrip("/\\")  # `//host` would be another site
        if not self.strips or path == self.prefix or path.startswith(self.prefix + "/"):
            return path  # it knows its prefix
        return self.prefix + path

    def cookie(self, value: str) -> str:
        """A `Set-Cookie` for the app's own pages only; "" for one of this server's names."""
        first, *attributes = value.split(";")
        if _COOKIES_OF_OURS.match(first.partition("=")[0].strip()):
            return ""
        kept, path = [first], ""
        for attribute in attributes:
            name, _, said = attribute.strip().partition("=")
            if name.lower() == "path":
                path = said.strip()
            elif name.lower() != "domain":
                kept.append(attribute)
        kept.append(" Path=" + self._below(path or "/"))
        return ";".join(kept)


def raw_head(first: str, headers: Any) -> bytes:
    """A request's or a response's head as bytes."""
    lines = [first, *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin1", "replace")
