"""Cookies of an app that shares its host with others: each has a prefix in its name that is its
way's alone, and only those with that prefix go in to the app, without it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tornado.httputil import HTTPHeaders

MOST = 16  # of one way; a browser has room for so many of a host, and drops those of others
MOST_SIZE = 4096  # bytes of a name and a value
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}")
_VALUE = re.compile(r"[\x20-\x3a\x3c-\x7e\x80-\xff]*")
_KEPT = frozenset({"expires", "max-age", "httponly", "secure", "partitioned"})


@dataclass(frozen=True, slots=True)
class Cookies:
    """Those of one way. `path`: the one path that they are sent to, on a host of others; where the
    app has its own host (None) it may say which, if that has no HTTPS (`secure`): with it, they are
    that host's alone, whatever hosts beside it set. `none`: it has none at all."""

    way: str
    path: str | None
    none: bool = False
    secure: bool = False

    @property
    def prefix(self) -> str:
        """What their names begin with."""
        # A browser takes it from the host itself only, by HTTPS, and for all of its paths.
        return f"{'__Host-' if self.secure else ''}backendai-app-{self.way}-"

    def inward(self, headers: Iterable[str]) -> str:
        """The `Cookie` header that the app gets; empty where none is its own."""
        return "; ".join(f"{name}={value}" for name, value in self._own(headers))

    def _own(self, headers: Iterable[str]) -> list[tuple[str, str]]:
        if self.none:
            return []
        pairs = (pair.strip().partition("=") for said in headers for pair in said.split(";"))
        return [
            (name.removeprefix(self.prefix), value)
            for name, equals, value in pairs
            if equals and name.startswith(self.prefix) and name != self.prefix
        ]

    def outward(self, answer: HTTPHeaders, had: Iterable[str]) -> list[str]:
        """The `Set-Cookie` headers that the visitor gets, who sent those in `had`."""
        if self.none:
            return []
        names, found = {name for name, _ in self._own(had)}, []
        for said in answer.get_list("Set-Cookie"):
            name, cookie = self._renamed(said)
            if not name or (name not in names and len(names) >= MOST):
                continue
            names.add(name)
            found.append(cookie)
        return found

    def _renamed(self, said: str) -> tuple[str, str]:
        pair, *attributes = said.split(";")
        name, equals, value = (part.strip(" \t") for part in pair.partition("="))
        good = equals and _NAME.fullmatch(name) and _VALUE.fullmatch(value)
        if not good or len(name) + len(value) > MOST_SIZE:
            return "", ""
        kept, path, same_site = [], "/", ""
        for attribute in attributes:
            key, _, given = (part.strip(" \t") for part in attribute.partition("="))
            if key.lower() in _KEPT and _VALUE.fullmatch(given):
                kept.append(f"{key}={given}" if given else key)
            elif key.lower() == "path" and given.startswith("/") and _VALUE.fullmatch(given):
                path = given
            elif key.lower() == "samesite":
                same_site = given.lower()
        if self.path is not None:
            # One for all, so that all of them are counted; and never for what others' pages ask.
            path, same_site = self.path, "strict" if same_site == "strict" else "lax"
        if self.secure:
            path = "/"
            kept = [*(one for one in kept if one.partition("=")[0].lower() != "secure"), "Secure"]
        if same_site in ("strict", "lax", "none"):
            kept.append(f"SameSite={same_site.capitalize()}")
        return name, "; ".join([f"{self.prefix}{name}={value}", f"Path={path}", *kept])
