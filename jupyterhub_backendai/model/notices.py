"""How people are told of what happens to their sessions outside the pages: mail, and a webhook.

Addresses are a part of what RFC 5321 allows: letters, digits and the signs that stand in an address
without quotes, so that nothing of a name can become a header, a second recipient or a command.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from .configured import Model
from .idle import Span

Security = Literal["starttls", "tls", "none"]
PORTS: dict[Security, int] = {"starttls": 587, "tls": 465, "none": 25}
MOST_LOCAL, MOST_ADDRESS = 64, 254  # characters, by RFC 5321
MOST_TIMEOUT = 300  # seconds

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_LOCAL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*", re.ASCII)
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def is_address(text: str) -> bool:
    """Whether a text is one plain address of mail."""
    local, at, domain = text.rpartition("@")
    return (
        bool(at)
        and "=?" not in text  # which begins what mail programs decode, in a header
        and len(text) <= MOST_ADDRESS
        and len(local) <= MOST_LOCAL
        and _LOCAL.fullmatch(local) is not None
        and _DOMAIN.fullmatch(domain) is not None
    )


def _host(text: str) -> str:
    # a name, or an address in numbers
    if not re.fullmatch(r"[A-Za-z0-9._:-]{1,253}", text, re.ASCII):
        raise ValueError('write the name of a mail server, such as "smtp.example.org"')
    return text


def _address(text: str) -> str:
    if not is_address(text):
        raise ValueError('write one address alone, such as "jupyter@example.org"')
    return text


def _domain(text: str) -> str:
    if text and not _DOMAIN.fullmatch(text):
        raise ValueError('write what is after the @ of an address, such as "example.org"')
    return text


def _function(text: str) -> str:
    if not _FUNCTION.fullmatch(text):
        raise ValueError('write a module and a function in it, such as "my_site.people:address"')
    return text


def _path(text: str) -> str:
    if not text.startswith("/") or text.endswith("/") or "\0" in text:
        raise ValueError("write the absolute path of a file")
    return text


def _timeout(seconds: int) -> int:
    if seconds > MOST_TIMEOUT:
        raise ValueError(f"write {MOST_TIMEOUT} seconds at most")
    return seconds


def _url(text: str) -> str:
    try:
        place = urlsplit(text)
        good = place.scheme in ("http", "https") and place.hostname and place.port != 0
    except ValueError:
        good = False
    if not good or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError('write an address that begins with "https://" or "http://"')
    if place.username is not None or place.password is not None:
        raise ValueError("leave out user and password, which logs would show; use secret_file")
    return text


FilePath = Annotated[str, AfterValidator(_path)]
Patience = Annotated[Span, AfterValidator(_timeout)]


class Mail(Model):
    """A server that takes mail, and which address a user has: `address` says it, or their name
    with `domain` after it; with `domain` `""` their name is one."""

    host: Annotated[str, AfterValidator(_host)]
    port: int | None = Field(default=None, ge=1, le=65535)
    security: Security = "starttls"
    user: str | None = Field(default=None, min_length=1, max_length=256)
    password_file: FilePath | None = None
    ca_file: FilePath | None = None
    sender: Annotated[str, AfterValidator(_address)]
    domain: Annotated[str, AfterValidator(_domain)] | None = None
    address: Annotated[str, AfterValidator(_function)] | None = None
    timeout: Patience = 60

    @model_validator(mode="after")
    def _fits(self) -> Mail:
        if (self.domain is None) == (self.address is None):
            raise ValueError("write either domain or address, which say where a user's mail goes")
        if (self.user is None) != (self.password_file is None):
            raise ValueError("write both user and password_file, or none of them")
        if self.security == "none" and self.user is not None:
            raise ValueError('a password is not sent in the clear: use "starttls" or "tls"')
        return self

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port or PORTS[self.security]


class Webhook(Model):
    """An address that is told by a POST of JSON, signed where there is a secret."""

    url: Annotated[str, AfterValidator(_url)]
    secret_file: FilePath | None = None
    timeout: Patience = 10
