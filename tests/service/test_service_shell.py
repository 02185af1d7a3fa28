"""What is around every page, wherever a Hub is: addresses, the menu, and what a page may load."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

from jupyterhub_backendai._data import data_paths
from jupyterhub_backendai.service import menu
from jupyterhub_backendai.service.pages.shell import _below, for_browsers

from .running import Running, running, until_open

LINK = re.compile(r'(?:href|src|action)="([^"#?]+)')
LOADED = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="((?!data:)[^"]+)"')


@asynccontextmanager
async def opened(folder: Path, **more: Any) -> AsyncIterator[Running]:
    async with running(folder, **more) as started:
        await until_open(started)
        yield started


def policy_of(headers: Any) -> dict[str, list[str]]:
    """The sources of a content security policy, by directive."""
    parts = (part.split() for part in headers["Content-Security-Policy"].split(";"))
    return {name: sources for name, *sources in parts}


async def test_a_script_of_a_user_s_server_is_none_of_ours(tmp_path: Path) -> None:
    """A Hub without subdomains has all on one host, so a policy of hosts would let it in."""
    async with opened(tmp_path) as service:
        for path in ("", "launch", "notices", "sessions/0"):
            reply = await service.call("GET", path, "alice")
            policy = policy_of(reply.headers)
            host = urlsplit(service.url).netloc
            allowed = [one for one in policy["script-src"] if not one.startswith("'sha256-")]
            assert allowed == [
                f"{host}/services/backendai/{service.service.shell.static.path}/",
                f"{host}/hub/static/",
            ]
            # A page looks as it does also where a proxy has changed the name of the host.
            assert policy["style-src"] == policy["font-src"] == ["'self'"]
            assert policy["connect-src"] == [f"{host}/services/backendai/"]
            assert policy["default-src"] == policy["frame-ancestors"] == ["'none'"]


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("hub.example.org", "hub.example.org/a/"), ("hub:8443", "hub:8443/a/"),
        ("127.0.0.1:8000", "127.0.0.1:8000/a/"),
        # What a policy cannot name, or must not be made of.
        ("10.0.0.5:8000", "'self'"), ("[::1]:8000", "'self'"), ("", "'self'"),
        ("a;script-src *", "'self'"), ("a b", "'self'"), ("*.org", "'self'"),
    ],
)  # fmt: skip
def test_hosts_that_a_policy_can_name(host: str, source: str) -> None:
    assert _below(host, "/a/") == source


async def test_below_a_prefix_every_address_is(tmp_path: Path) -> None:
    async with opened(tmp_path, base="/jhub/") as service:
        for path in ("", "launch", "notices"):
            reply = await service.call("GET", path, "alice")
            links = set(LINK.findall(reply.json))
            assert {"/jhub/hub/home", "/jhub/hub/logout", "/jhub/services/backendai/"} <= links
            ours = [link for link in links if link.startswith("/")]
            assert [link for link in ours if not link.startswith("/jhub/")] == []
            for address in LOADED.findall(reply.json):
                async with service.client.get(urljoin(service.url, address)) as got:
                    assert got.status == 200, address
            host = urlsplit(service.url).netloc
            assert f"{host}/jhub/hub/static/" in policy_of(reply.headers)["script-src"]


async def test_where_services_have_a_host_of_their_own(tmp_path: Path) -> None:
    """Fonts of another host are not taken: all that the shell loads comes from ours."""
    async with opened(tmp_path, hub_host="https://hub.example.org") as service:
        reply = await service.call("GET", "", "alice")
        loaded = LOADED.findall(reply.json)
        elsewhere = [address for address in loaded if "//" in address]
        assert elsewhere == ["https://hub.example.org/hub/logo"]
        (style,) = [address for address in loaded if "css/style.min.css" in address]
        assert style.startswith("/services/backendai/static/hub/css/style.min.css?v=")
        style = urljoin(service.url, style)
        for found in (r'"([^"]+/solid.css)"', r"url\(\"?([^)\"]+woff2)"):  # as a browser goes on
            async with service.client.get(style) as got:
                style = urljoin(style, re.findall(found, await got.text())[0])
        assert style.startswith(f"{service.url}static/hub/")
        async with service.client.get(style) as got:
            assert (got.status, got.headers["Cache-Control"]) == (200, "no-cache")
        policy = policy_of(reply.headers)
        host = urlsplit(service.url).netloc
        assert f"{host}/services/backendai/static/hub/" in policy["script-src"]
        assert "https://hub.example.org" not in policy["script-src"]
        assert "https://hub.example.org" in policy["img-src"]
        assert 'href="https://hub.example.org/hub/home"' in reply.json


# --- the menu of services

OPEN = {"name": "grafana", "url": "http://127.0.0.1:1"}
LABS = {"name": "labs", "url": "http://127.0.0.1:2"}
OTHERS = [
    {"name": "hidden", "url": "http://127.0.0.1:3", "display": False},
    {"name": "no-page"},
]
ROLES = [
    {"name": "lab", "scopes": ["access:services!service=labs"], "groups": ["lab"]},
    {"name": "bobs", "scopes": ["access:services"], "users": ["bob"]},
]


def told(roles: list[dict[str, Any]] = ROLES, extra: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    href = {name: f"/services/{name}/" for name in ("grafana", "labs", "hidden", "no-page")}
    return menu.entries([OPEN, LABS, *OTHERS], roles, extra, href)


@pytest.mark.parametrize(
    ("who", "shown"),
    [("alice", ["labs"]), ("bob", ["grafana", "labs"]), ("admin", ["grafana", "labs"])],
)
async def test_the_menu_has_the_services_that_one_may_use(
    tmp_path: Path, who: str, shown: list[str]
) -> None:
    async with opened(tmp_path, look={"services": told()}) as service:
        page = (await service.call("GET", "", who)).json
        links = re.findall(r'class="dropdown-item" href="(/services/(?!backendai)[^"]+)"', page)
        assert links == [f"/services/{name}/" for name in shown]


@pytest.mark.parametrize(
    ("roles", "extra", "everybody"),
    [
        ([], (), []),
        ([], ("access:services!service=labs",), ["labs"]),
        ([{"name": "user", "scopes": ["self", "access:services"]}], (), ["grafana", "labs"]),
        # The Hub does not read the scopes that it is to add to a role that somebody wrote.
        ([{"name": "user", "scopes": ["self"]}], ("access:services",), []),
    ],
)
def test_what_everybody_may_use(
    roles: list[dict[str, Any]], extra: tuple[str, ...], everybody: list[str]
) -> None:
    assert [entry["name"] for entry in told(roles, extra) if entry["everybody"]] == everybody


def test_admins_whose_role_says_less() -> None:
    roles = [{"name": "admin", "scopes": ["admin:users", "access:services!service=labs"]}]
    assert [entry["name"] for entry in told(roles) if entry["admins"]] == ["labs"]


def test_a_menu_is_never_too_large_to_be_handed_over() -> None:
    many = [f"user-{number}" for number in range(5000)]
    roles = [{"name": "many", "scopes": ["access:services"], "users": many, "groups": ["lab"]}]
    assert sum(len(entry["users"]) + len(entry["groups"]) for entry in told(roles)) == 1000


def test_what_browsers_are_sent_is_less_to_read_and_the_same_to_run() -> None:
    """No text goes over several lines: then its indents, or what looks like a comment, would be
    part of it."""
    root = Path(data_paths()[1]) / "backendai"
    ours = [path for path in root.rglob("*.*") if "vendor" not in path.parts]
    assert len(ours) > 20
    for path in ours:
        text = path.read_text()
        assert len(for_browsers(text)) <= len(text)
        if path.suffix == ".js":
            for literal in re.findall(r"`[^`]*`", text):
                assert "\n" not in literal, (path, literal)
