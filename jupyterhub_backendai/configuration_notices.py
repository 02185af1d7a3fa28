"""What the configuration says of how people are told outside the pages."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from textwrap import dedent
from typing import Any, TypeVar

from traitlets import Dict, HasTraits

from .configuration_values import read_as, wrong
from .model.configured import Model
from .model.notices import Mail, Webhook

M = TypeVar("M", bound=Model)
MOST_SECRET = 4096  # bytes of a file with a password


class NoticeTraits(HasTraits):
    """These traits of `c.BackendAI`."""

    notices_mail = Dict(
        help=dedent(
            """
            Send owners a mail ahead of an end by idle checks, at the times of `idle_warnings`.
            Keys: `host` and `sender`, and as needed `port`, `security` (`"starttls"`, `"tls"` or
            `"none"`), `user` with `password_file` (which nobody but the Hub's user may read),
            `ca_file` and `timeout`. To whom: `domain` is put after the user's name (`""`: their
            names are addresses), or `address` names a function, `module:function`, that is given
            the name and returns the address, or None for no mail; it may be `async`. Its module has
            to be installed, or on `PYTHONPATH`. Example::

                c.BackendAI.notices_mail = {
                    "host": "smtp.example.org",
                    "user": "jupyter",
                    "password_file": "/etc/jupyterhub/mail-password",
                    "sender": "jupyter@example.org",
                    "domain": "example.org",
                }
            """
        ),
    ).tag(config=True)

    notices_webhook = Dict(
        help=dedent(
            """
            Tell this address the same by a POST of JSON. Keys: `url`, `timeout`, and
            `secret_file`, by which each is signed, so that its receiver knows that it comes from
            here. Example::

                c.BackendAI.notices_webhook = {
                    "url": "https://chat.example.org/hooks/jupyter",
                    "secret_file": "/etc/jupyterhub/webhook-secret",
                }
            """
        ),
    ).tag(config=True)


def read_mail(given: NoticeTraits) -> Mail | None:
    """The mail server; None without one. Raises `ConfigurationError`."""
    return _read("notices_mail", given.notices_mail, Mail)


def read_webhook(given: NoticeTraits) -> Webhook | None:
    """The webhook; None without one. Raises `ConfigurationError`."""
    return _read("notices_webhook", given.notices_webhook, Webhook)


def _read(trait: str, given: Mapping[str, Any], shape: type[M]) -> M | None:
    if not given:
        return None
    known = list(shape.model_fields)
    for key in given:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            meant = f"Did you mean {near[0]!r}? " if near else ""
            raise wrong(
                f"{trait}.{key}", given[key], f"There is no key {key!r} here.",
                f"{meant}Use only: {', '.join(sorted(known))}.",
            )  # fmt: skip
    if callable(function := given.get("address")):
        raise wrong(
            f"{trait}.address", function,
            "The sessions service is a process of its own, and cannot be given a function.",
            'Put it into a module that is installed, and write "module:function".',
        )  # fmt: skip
    return read_as(trait, dict(given), shape)


def check_notices(given: NoticeTraits) -> None:
    """Raises `ConfigurationError` for the first of these traits that is wrong."""
    read_mail(given)
    read_webhook(given)


def check_what_is_named(given: NoticeTraits) -> None:
    """Looks at what these traits name, where they are used: a file that is not there or may be
    read by others, a function that is not there. Blocking. Raises `ConfigurationError`."""
    mail, webhook = read_mail(given), read_webhook(given)
    if mail is not None:
        _check_file("notices_mail.password_file", mail.password_file)
        _check_ca("notices_mail.ca_file", mail.ca_file)
        if mail.address is not None:
            _check_function(mail.address)
    if webhook is not None:
        _check_file("notices_webhook.secret_file", webhook.secret_file)


def read_secret(path: str) -> bytes:
    """What is in a file that nobody else may read, less the end of its line. Blocking. Raises
    `OSError`, `ValueError` with what is wrong."""
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("It is not a file.")
        if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError("Others than its owner may read or write it.")
        found = file.read(MOST_SECRET + 1).rstrip(b"\r\n")
    if not found or len(found) > MOST_SECRET:
        raise ValueError(f"It is empty, or longer than {MOST_SECRET} bytes.")
    return found


def address_function(name: str) -> Callable[[str], Any]:
    """The function that `module:function` names. Raises `ImportError`, `TypeError`, and whatever
    the module raises."""
    module, _, function = name.partition(":")
    found = getattr(import_module(module), function, None)
    if found is None:
        raise ImportError(f"{module} has no {function}")
    if not callable(found):
        raise TypeError(f"{function} of {module} is no function")
    return found


def _check_file(place: str, path: str | None) -> None:
    if path is None:
        return
    try:
        read_secret(path)
    except OSError as error:
        raise wrong(
            place, path, f"It cannot be read: {error.strerror or error}.",
            "Make it, for the user that the Hub runs as.",
        ) from None  # fmt: skip
    except ValueError as error:
        raise wrong(
            place, path, str(error), f"Put the secret alone in it, and run: chmod 600 {path}"
        ) from None


def _check_ca(place: str, path: str | None) -> None:
    if path is None:
        return
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise wrong(
            place, path, f"It cannot be used: {error}.", "Write a file of certificates (PEM)."
        ) from None


def _check_function(name: str) -> None:
    try:
        address_function(name)
    except Exception as error:  # whatever the admin's own module raises
        raise wrong(
            "notices_mail.address", name, f"It cannot be loaded: {type(error).__name__}: {error}.",
            "Install its module, or name its folder in PYTHONPATH, for the Hub and what it starts.",
        ) from error  # fmt: skip
