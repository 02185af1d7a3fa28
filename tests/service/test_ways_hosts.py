"""Public apps on hosts of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from tornado.httputil import HTTPHeaders

from jupyterhub_backendai.service.ways.cookies import Cookies

from .running import until
from .ways import Open, free_ports, opened

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ways(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Open]:
    (port,) = free_ports(1)
    traits = {
        "public_app_url": "https://*.apps.example.org", "public_app_listen": f"127.0.0.1:{port}",
    }  # fmt: skip
    async with opened(tmp_path_factory.mktemp("hosts"), **traits) as made:
        yield made


async def ask(ways: Open, host: str, path: str = "/", **options: Any) -> tuple[Any, Any]:
    listen = ways.service.service.book.settings.listen
    headers = {"Host": host, **options.pop("headers", {})}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client:
        url, more = f"http://{listen}{path}", {"allow_redirects": False, **options}
        async with client.get(url, headers=headers, **more) as reply:
            text = await reply.text()
    return reply, json.loads(text) if text[:1] == "{" else None


async def test_an_app_has_its_host(ways: Open) -> None:
    reply = await ways.open(public=True)
    way = reply.json["way"]
    assert reply.json["url"] == way["url"] == f"https://{way['id']}.apps.example.org/"
    host = f"{way['id']}.apps.example.org"
    reply, told = await ask(
        ways, host, "/x?y", headers={"X-Forwarded-For": "9.9.9.9", "Authorization": "Basic eDp5"}
    )
    assert (reply.status, told["path"]) == (200, "/x?y")
    headers = {name.lower(): value for name, value in told["headers"]}
    assert headers["host"] == host
    assert (headers["x-forwarded-proto"], headers["x-forwarded-port"]) == ("https", "443")
    assert headers["x-forwarded-for"] == "9.9.9.9"
    assert headers["authorization"] == "Basic eDp5", "it is its own host"
    assert "x-forwarded-prefix" not in headers
    for name in ("Content-Security-Policy", "Access-Control-Allow-Origin"):
        assert name not in reply.headers, "it is no other host's"


async def test_cookies_stay_with_their_host(ways: Open) -> None:
    way = (await ways.open(public=True)).json["way"]
    host = f"{way['id']}.apps.example.org"
    params = [
        ("set", "Set-Cookie: a=1; Domain=apps.example.org; Path=/x; SameSite=None; Secure"),
        ("set", "Set-Cookie: b=2"),
        ("set", "Strict-Transport-Security: max-age=1; includeSubDomains"),
        ("set", f"Location: http://{host}/y"),
    ]
    reply, _ = await ask(ways, host, params=params)
    prefix = f"__Host-backendai-app-{way['id']}-"
    assert reply.headers.getall("Set-Cookie") == [
        f"{prefix}a=1; Path=/; Secure; SameSite=None", f"{prefix}b=2; Path=/; Secure"
    ]  # fmt: skip
    assert "Strict-Transport-Security" not in reply.headers
    assert reply.headers["Location"] == "/y"
    had = f"jupyterhub-session-id=x; {prefix}a=1; backendai-app-{way['id']}-a=of-a-host-beside"
    _, told = await ask(ways, host, headers={"Cookie": had})
    assert ["Cookie", "a=1"] in told["headers"]


async def test_an_app_on_its_own_host_says_who_may_keep_its_answers(ways: Open) -> None:
    host = f"{(await ways.public())['id']}.apps.example.org"
    params = [("set", "Cache-Control: public, max-age=9"), ("set", "X-Accel-Redirect: /x")]
    headers = {"Referer": f"https://{host}/page"}
    reply, told = await ask(ways, host, params=params, headers=headers)
    assert reply.headers["Cache-Control"] == "public, max-age=9"
    assert "X-Accel-Redirect" not in reply.headers
    assert ["Referer", f"https://{host}/page"] in told["headers"]


async def test_cookies_without_https_have_the_path_that_the_app_says() -> None:
    answer = HTTPHeaders({"Set-Cookie": "a=1; Path=/x"})
    assert Cookies("w", None).outward(answer, []) == ["backendai-app-w-a=1; Path=/x"]


async def test_connections_are_counted_before_they_ask(
    ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = ways.service.service.book
    await until(lambda: not book.visitors)
    monkeypatch.setattr(book.visitors, "_most", 1)
    host, _, port = book.settings.listen.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    await until(lambda: len(book.visitors) == 1)
    other, closing = await asyncio.open_connection(host, int(port))
    assert await asyncio.wait_for(other.read(), 5) == b""
    for one in (writer, closing):
        one.close()
    await until(lambda: not book.visitors)


async def test_other_hosts_lead_nowhere(ways: Open) -> None:
    way = (await ways.open(public=True)).json["way"]
    for host in (
        "apps.example.org", f"{way['id']}.example.org", f"x{way['id']}.apps.example.org",
        f"{way['id']}.apps.example.org.evil", "127.0.0.1", way["id"],
    ):  # fmt: skip
        reply, _ = await ask(ways, host)
        assert reply.status == 404, host
    reply, _ = await ask(ways, f"{way['id'].upper()}.Apps.example.org")
    assert reply.status == 200, "hosts know no capitals"


async def test_a_websocket(ways: Open) -> None:
    way = (await ways.open(public=True)).json["way"]
    listen = ways.service.service.book.settings.listen
    headers = {"Host": f"{way['id']}.apps.example.org", "Origin": "https://x"}
    async with ways.service.client.ws_connect(f"http://{listen}/socket", headers=headers) as socket:
        assert (await socket.receive_json())["Origin"] == "https://x"
