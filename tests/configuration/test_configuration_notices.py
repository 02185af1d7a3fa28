"""What the traits of notices refuse: the trait, the value and the remedy are told."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traitlets.config import Config

from jupyterhub_backendai.configuration import BackendAI, read_configuration
from jupyterhub_backendai.configuration_notices import (
    address_function,
    check_what_is_named,
    read_secret,
)
from jupyterhub_backendai.model.errors import ConfigurationError
from jupyterhub_backendai.model.notices import is_address
from jupyterhub_backendai.service.handover import pack, unpack

MAIL = {"host": "smtp.example.org", "sender": "hub@example.org", "domain": "example.org"}
HOOK = {"url": "https://chat.example.org/hook?x=1"}


def read(**traits: Any) -> BackendAI:
    """As a site is opened."""
    found = read_configuration(Config({"BackendAI": traits}))
    check_what_is_named(found)
    return found


def secret(folder: Path, text: bytes = b"s3cret\n", mode: int = 0o600) -> str:
    path = folder / "secret"
    path.write_bytes(text)
    path.chmod(mode)
    return str(path)


def test_what_is_read(tmp_path: Path) -> None:
    path = secret(tmp_path)
    login = {"user": "hub", "password_file": path}
    found = read(
        notices_mail={**MAIL, **login, "timeout": "30s"},
        notices_webhook={**HOOK, "secret_file": path},
    )
    mail, hook = found.mail(), found.webhook()
    assert mail is not None
    assert hook is not None
    assert (mail.place, mail.security, mail.timeout) == (("smtp.example.org", 587), "starttls", 30)
    assert hook.timeout == 10
    assert read_secret(path) == b"s3cret"
    for security, port in (("tls", 465), ("none", 25)):
        other = read(notices_mail={**MAIL, "security": security}).mail()
        assert other is not None
        assert other.place[1] == port
    assert read().mail() is None
    assert read().webhook() is None


def test_it_reaches_the_service() -> None:
    given = {"notices_mail": {**MAIL, "domain": ""}, "notices_webhook": HOOK}
    there = read_configuration(unpack(pack({"BackendAI": given})))
    assert there.mail() == read(**given).mail()
    assert there.webhook() == read(**given).webhook()


@pytest.mark.parametrize(
    ("given", "place", "remedy"),
    [
        ({"hots": "x"}, "notices_mail.hots", "Did you mean 'host'?"),
        ({"colour": "x"}, "notices_mail.colour", "Use only: address"),
        ({"host": "a b"}, "notices_mail.host", "example"),
        ({"port": 0}, "notices_mail.port", "example"),
        ({"security": "ssl"}, "notices_mail.security", "example"),
        ({"sender": "Hub <hub@example.org>"}, "notices_mail.sender", "example"),
        ({"sender": "hub@example.org\nBcc: x@y"}, "notices_mail.sender", "example"),
        ({"domain": "example.org\r\n"}, "notices_mail.domain", "example"),
        ({"domain": None}, "notices_mail", "example"),
        ({"address": "os.path:basename"}, "notices_mail", "example"),
        ({"domain": None, "address": "os.path"}, "notices_mail.address", "example"),
        ({"domain": None, "address": "no.such:thing"}, "notices_mail.address", "PYTHONPATH"),
        ({"domain": None, "address": "os.path:nothing"}, "notices_mail.address", "PYTHONPATH"),
        ({"domain": None, "address": "os:name"}, "notices_mail.address", "PYTHONPATH"),
        ({"domain": None, "address": str.lower}, "notices_mail.address", '"module:function"'),
        ({"user": "hub"}, "notices_mail", "example"),
        ({"user": "hub", "password_file": "secret"}, "notices_mail.password_file", "example"),
        ({"user": "hub", "password_file": "/no/such"}, "notices_mail.password_file", "Make it"),
        ({"timeout": "1h"}, "notices_mail.timeout", "example"),
        ({"timeout": 0}, "notices_mail.timeout", "example"),
        ({"ca_file": "/no/such"}, "notices_mail.ca_file", "PEM"),
    ],
)
def test_mail_that_makes_no_sense(given: dict[str, Any], place: str, remedy: str) -> None:
    values = {key: value for key, value in {**MAIL, **given}.items() if value is not None}
    with pytest.raises(ConfigurationError) as caught:
        read(notices_mail=values)
    assert caught.value.trait == f"BackendAI.{place}"
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"url": "chat.example.org"}, "url"),
        ({"url": "ftp://chat.example.org/"}, "url"),
        ({"url": "https:///hook"}, "url"),
        ({"url": "https://chat.example.org:99999/"}, "url"),
        ({"url": "https://me:secret@chat.example.org/"}, "url"),
        ({"url": "https://chat.example.org/\r\nX: y"}, "url"),
        ({"secret": "abc"}, "secret"),
        ({"secret_file": "/no/such"}, "secret_file"),
    ],
)
def test_a_webhook_that_makes_no_sense(given: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(notices_webhook={**HOOK, **given})
    assert caught.value.trait == f"BackendAI.notices_webhook.{place}"


def test_a_password_is_not_sent_in_the_clear(tmp_path: Path) -> None:
    login = {"user": "hub", "password_file": secret(tmp_path), "security": "none"}
    with pytest.raises(ConfigurationError, match="in the clear"):
        read(notices_mail={**MAIL, **login})


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (b"x", 0o640, "Others"), (b"x", 0o604, "Others"), (b"x", 0o602, "Others"),
        (b"\n", 0o600, "empty"), (b"x" * 5000, 0o600, "longer"),
    ],
)  # fmt: skip
def test_a_secret_that_others_may_read(tmp_path: Path, text: bytes, mode: int, said: str) -> None:
    path = secret(tmp_path, text, mode)
    for traits in (
        {"notices_mail": {**MAIL, "user": "hub", "password_file": path}},
        {"notices_webhook": {**HOOK, "secret_file": path}},
    ):
        with pytest.raises(ConfigurationError, match=said) as caught:
            read(**traits)
        assert f"chmod 600 {path}" in caught.value.remedy
        assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"read|file"):
        read(notices_webhook={**HOOK, "secret_file": str(tmp_path)})


def test_a_function_is_found() -> None:
    assert address_function("os.path:basename")("a/b") == "b"


@given(st.text(max_size=80))
def test_whatever_is_an_address_is_one_alone(name: str) -> None:
    address = f"{name}@example.org"
    if is_address(address):
        allowed = set(string.ascii_letters + string.digits + ".!#$%&'*+/=?^_`{|}~-")
        assert set(name) <= allowed
        assert 1 <= len(name) <= 64
    assert is_address("a.b+c@x.example.org")
    for odd in ("a@b@c.org", "a b@c.org", "a,b@c.org", ".a@c.org", "<a@c.org>", '"a"@c.org', "a@"):
        assert not is_address(odd)
