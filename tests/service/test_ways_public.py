"""Visitors of public apps: what goes in, what comes out, and what never does."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio

from jupyterhub_backendai.service.ways import visits
from jupyterhub_backendai.service.ways.bodies import pieces
from jupyterhub_backendai.service.ways.connections import MOST, SHARE, Connections, Full
from jupyterhub_backendai.service.ways.heads import Framing
from jupyterhub_backendai.service.ways.streams import Stream

from .running import until
from .session_server import KEY, PIECE
from .ways import Open, end, opened

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ways(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Open]:
    async with opened(tmp_path_factory.mktemp("ways")) as made:
        yield made


async def ask(
    ways: Open, path: str = "", method: str = "GET", **options: Any
) -> tuple[aiohttp.ClientResponse, Any, dict[str, str]]:
    """The answer, what the app was sent, and the headers of that by their names in small."""
    url = ways.url(await ways.public(), path)
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client,
        client.request(method, url, allow_redirects=False, **options) as reply,
    ):
        text = await reply.text()
    told = json.loads(text) if text[:1] == "{" else None
    return reply, told, {n.lower(): v for n, v in told["headers"]} if told else {}


def answering(*headers: str, status: int = 200) -> dict[str, Any]:
    """The app answers with these headers."""
    return {"params": [("status", str(status)), *(("set", header) for header in headers)]}


async def raw(ways: Open, sent: bytes, *, port: int | None = None) -> bytes:
    """All that is answered to these bytes; `{path}` in them is the way's."""
    way = await ways.public()
    place = urlsplit(ways.url(way))
    reader, writer = await asyncio.open_connection("127.0.0.1", port or place.port)
    writer.write(sent.replace(b"{path}", place.path.encode()))
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


# ---- what goes in -----------------------------------------------------------------------------


async def test_the_app_is_told_where_it_is(ways: Open) -> None:
    reply, told, headers = await ask(
        ways, "some/page?x=%20&y",
        headers={"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Host": "evil", "Forwarded": "for=6",
                 "X-Real-IP": "6.6.6.6", "Proxy-Authorization": "Basic x", "Via": "1.1 mine",
                 "X-Forwarded-Prefix": "/evil", "X-Backendai-Key": "guess", "TE": "trailers",
                 "Connection": "close, X-Gone", "X-Gone": "x", "X-Stays": "y"},
    )  # fmt: skip
    way = await ways.public()
    place = urlsplit(ways.url(way))
    assert (reply.status, told["path"]) == (200, "/some/page?x=%20&y")
    assert headers["host"] == headers["x-forwarded-host"] == place.netloc
    assert headers["x-forwarded-prefix"] == place.path.rstrip("/")
    assert (headers["x-forwarded-proto"], headers["x-forwarded-port"]) == ("http", str(place.port))
    assert (headers["x-forwarded-for"], headers["x-real-ip"]) == ("127.0.0.1", "127.0.0.1")
    assert (headers["x-stays"], headers["via"], headers["connection"]) == ("y", "1.1 mine", "close")
    assert not {"x-gone", "te", "forwarded", "proxy-authorization", "x-backendai-key"} & set(
        headers
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"])
async def test_methods_and_bodies(method: str, ways: Open) -> None:
    _, told, headers = await ask(ways, "x", method, data="hello")
    assert (told["method"], told["body"], headers["content-length"]) == (method, "hello", "5")

    async def parts() -> AsyncIterator[bytes]:
        yield b"hel"
        yield b"lo"

    _, told, headers = await ask(ways, "x", method, data=parts())
    assert (told["body"], headers["transfer-encoding"]) == ("hello", "chunked")


async def test_other_methods_do_not_go_through(ways: Open) -> None:
    for method in ("TRACE", "FOO"):
        reply, told, _ = await ask(ways, "x", method)
        assert (reply.status, told) == (405, None)


async def test_a_head_has_no_body(ways: Open) -> None:
    async with ways.service.client.head(ways.url(await ways.public(), "x")) as reply:
        assert (reply.status, await reply.read()) == (200, b"")
        assert int(reply.headers["Content-Length"]) > 0
    for status in (204, 304):
        reply, _, _ = await ask(ways, "x", **answering(status=status))
        assert reply.status == status


async def test_no_cookie_and_no_sign_in_of_the_hub_goes_in(ways: Open) -> None:
    cookies = "jupyterhub-session-id=a; _xsrf=b; service-backendai=c; backendai-app-other-x=d"
    for given, goes_in in (
        ("token secret", None), ("Basic eDp5", None), ("Bearer of-the-app", "Bearer of-the-app"),
    ):  # fmt: skip
        _, told, headers = await ask(ways, headers={"Cookie": cookies, "Authorization": given})
        assert headers.get("authorization") == goes_in
        assert "cookie" not in headers
        assert "secret" not in json.dumps(told)


async def test_cookies_of_the_app_are_its_own(ways: Open) -> None:
    way = await ways.public()
    path = urlsplit(ways.url(way)).path
    reply, _, _ = await ask(
        ways, "x",
        **answering(
            "Set-Cookie: a=1; Path=/; Domain=127.0.0.1; HttpOnly", "Set-Cookie: b=2; SameSite=None",
            "Set-Cookie: jupyterhub-session-id=evil; Path=/hub/", "Set-Cookie: nameless",
            "Set-Cookie: c=3; SameSite=Strict; Max-Age=5; Priority=High",
        ),
    )  # fmt: skip
    prefix = f"backendai-app-{way['id']}-"
    assert reply.headers.getall("Set-Cookie") == [
        f"{prefix}a=1; Path={path}; HttpOnly; SameSite=Lax",
        f"{prefix}b=2; Path={path}; SameSite=Lax",
        f"{prefix}jupyterhub-session-id=evil; Path={path}; SameSite=Lax",
        f"{prefix}c=3; Path={path}; Max-Age=5; SameSite=Strict",
    ]
    _, _, headers = await ask(
        ways, headers={"Cookie": f"x=1; {prefix}a=1; {prefix}jupyterhub-session-id=evil; y=2"}
    )
    assert headers["cookie"] == "a=1; jupyterhub-session-id=evil"


async def test_an_app_cannot_push_out_the_hubs_cookies(ways: Open) -> None:
    way = await ways.public()
    many = [f"Set-Cookie: n{number}=1" for number in range(40)]
    reply, _, _ = await ask(ways, "x", **answering(*many))
    assert len(reply.headers.getall("Set-Cookie")) == 16
    had = "; ".join(f"backendai-app-{way['id']}-n{number}=1" for number in range(16))
    reply, _, _ = await ask(ways, "x", headers={"Cookie": had}, **answering(*many))
    assert len(reply.headers.getall("Set-Cookie")) == 16, "those that are there"
    reply, _, _ = await ask(ways, "x", **answering(f"Set-Cookie: big={'x' * 5000}"))
    assert "Set-Cookie" not in reply.headers


# ---- what comes out ---------------------------------------------------------------------------


async def test_pages_are_kept_apart_from_the_hub(ways: Open) -> None:
    strange = (
        "Clear-Site-Data: *", "Strict-Transport-Security: max-age=1", "Service-Worker-Allowed: /",
        "Alt-Svc: h3", "Report-To: {}", "NEL: {}", "Public-Key-Pins: x", "Set-Cookie2: a=1",
        "Reporting-Endpoints: x", "WWW-Authenticate: Basic", "X-Accel-Redirect: /x",
        "X-Sendfile: /etc/passwd", "Secure-Session-Registration: x", "Sec-Session-Registration: x",
        "Attribution-Reporting-Register-Source: {}", "Access-Control-Allow-Origin: x",
        "Access-Control-Allow-Credentials: true",
    )  # fmt: skip
    own = "Content-Security-Policy: default-src 'self'"
    for status in (200, 404, 500):
        reply, _, _ = await ask(ways, "x", **answering(*strange, own, "X-Mine: y", status=status))
        assert reply.status == status
        for header in strange[:15]:
            assert header.partition(":")[0] not in reply.headers, header
        first, second = reply.headers.getall("Content-Security-Policy")
        assert first == "default-src 'self'"
        assert second.startswith("sandbox ")
        assert "allow-same-origin" not in second
        assert reply.headers.getall("Access-Control-Allow-Origin") == ["*"]
        assert "Access-Control-Allow-Credentials" not in reply.headers
        assert reply.headers["X-Mine"] == "y"


async def test_nobody_keeps_an_answer_without_asking_again(ways: Open) -> None:
    """An app that was closed would go on to open, out of a cache."""
    for said, told in (
        ((), "no-cache"), (("Cache-Control: public, max-age=31536000",), "no-cache"),
        (("Cache-Control: private, max-age=9",), "private, no-cache"),
        (("Cache-Control: Private=x", "Cache-Control: No-Store"), "no-store"),
        (("Expires: Fri, 31 Dec 2100 23:59:59 GMT", "ETag: x"), "no-cache"),
    ):  # fmt: skip
        reply, _, _ = await ask(ways, "x", **answering(*said))
        assert reply.headers.getall("Cache-Control") == [told]
        assert "Expires" not in reply.headers
    assert reply.headers["ETag"] == "x"


async def test_the_address_of_another_page_does_not_go_in(ways: Open) -> None:
    below = ways.url(await ways.public(), "page")
    hub = f"{ways.service.url}sessions/x/apps?_xsrf=secret"
    for given, goes_in in (
        (below, below), (hub, None), ("https://elsewhere.example/", None),
        (below.replace("http://", "http://evil"), None),
    ):  # fmt: skip
        _, _, headers = await ask(ways, headers={"Referer": given})
        assert headers.get("referer") == goes_in


async def test_a_page_that_is_kept_apart_may_ask_its_own_app(ways: Open) -> None:
    asks = {
        "Origin": "null", "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "content-type, x-mine",
    }  # fmt: skip
    reply, told, _ = await ask(ways, "x", "OPTIONS", headers=asks)
    assert (reply.status, told) == (204, None)
    assert reply.headers["Access-Control-Allow-Methods"] == "PUT"
    assert reply.headers["Access-Control-Allow-Headers"] == "content-type, x-mine"
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert reply.headers["Content-Security-Policy"].startswith("sandbox ")
    _, told, headers = await ask(ways, "x", "OPTIONS")
    assert told["method"] == "OPTIONS", "others are the app's"
    _, _, headers = await ask(ways, "x", headers={"Origin": "null"})
    assert headers["origin"] == f"http://{headers['host']}"
    reply, _, _ = await ask(ways, "sw.js", headers={"Service-Worker": "script"})
    assert reply.status == 403


async def test_redirects_stay_below_the_way(ways: Open) -> None:
    place = urlsplit(ways.url(await ways.public()))
    root = place.path.rstrip("/")
    for given, told in (
        ("/login?next=%2F", f"{root}/login?next=%2F"),
        (f"http://{place.netloc}/x", f"{root}/x"),
        ("http://127.0.0.1:5000/x#y", f"{root}/x#y"),
        ("http://localhost:5000", f"{root}/"),
        (f"{root}/x", f"{root}/x"),
        ("next", "next"),
        ("https://elsewhere.example/x", "https://elsewhere.example/x"),
        ("//elsewhere.example/x", "//elsewhere.example/x"),
    ):
        reply, _, _ = await ask(ways, "x", **answering(f"Location: {given}", status=302))
        assert reply.headers["Location"] == told
    without = ways.url(await ways.public()).rstrip("/")
    async with ways.service.client.get(f"{without}?a=b", allow_redirects=False) as reply:
        assert (reply.status, reply.headers["Location"]) == (302, f"{root}/?a=b")


async def test_events_come_at_once(ways: Open) -> None:
    url = ways.url(await ways.public(), "events")
    async with ways.service.client.get(url) as reply:
        assert reply.content_type == "text/event-stream"
        assert await asyncio.wait_for(reply.content.readline(), 5) == b"data: one\n"
    await until(lambda: not ways.service.service.book.connections)
    await until(lambda: not ways.server.open_tunnels)


async def test_a_websocket_both_ways(ways: Open) -> None:
    url = ways.url(await ways.public(), "socket")
    headers = {"Cookie": "jupyterhub-session-id=a", "Authorization": "token secret"}
    async with ways.service.client.ws_connect(
        url, headers=headers, protocols=("chat",), max_msg_size=0
    ) as socket:
        told = await socket.receive_json()
        assert {"Cookie", "Authorization"}.isdisjoint(told)
        assert socket.protocol == "chat"
        await socket.send_str("hello")
        assert await socket.receive_str() == "hello"
        large = b"y" * 3_000_000
        await socket.send_bytes(large)
        assert await socket.receive_bytes() == large
    await until(lambda: not ways.app.sockets)


# ---- much -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stream/200", "stream/200?length=1"])
async def test_a_download_of_200_megabytes(how: str, ways: Open) -> None:
    url, size = ways.url(await ways.public(), how), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with ways.service.client.get(url) as reply:
        await asyncio.sleep(0.2)  # what would be read ahead is
        async for chunk in reply.content.iter_any():
            size += len(chunk)
    assert size == 200 * len(PIECE)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # kB


async def turns(work: Awaitable[object]) -> int:
    """How often others on the loop have their turn meanwhile."""
    task, count = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        count += 1
    await task
    return count


async def test_an_answer_in_the_smallest_pieces_lets_others_have_their_turn() -> None:
    """All of it is there, so that nothing has to be waited for."""
    count = 100_000
    ours, theirs = socket.socketpair()
    stream = Stream(ours)
    stream._ahead += b"1\r\nx\r\n" * count + b"0\r\n\r\n"
    got: list[bytes] = []

    async def read() -> None:
        async for piece in pieces(stream, Framing(None, True)):
            got.append(bytes(piece))

    assert await turns(read()) > count / 100
    assert b"".join(got) == b"x" * count
    assert len(got) < 100, "they are joined"
    stream.close()
    theirs.close()


async def test_events_are_not_held_back_for_what_comes_after() -> None:
    ours, theirs = socket.socketpair()
    stream, got = Stream(ours), asyncio.Queue[bytes]()

    async def read() -> None:
        async for piece in pieces(stream, Framing(None, True)):
            got.put_nowait(bytes(piece))

    reading = asyncio.ensure_future(read())
    for said, heard in (
        (b"3\r\none\r\n3\r\ntwo\r\n", b"onetwo"), (b"2\r\nab\r\n9", b"ab"),
        (b"\r\nsome", b"some"), (b"thing\r\n1\r\nx\r\n5\r\nhe", b"thing"),
    ):  # fmt: skip
        theirs.sendall(said)
        assert await asyncio.wait_for(got.get(), 5) == heard
    assert await asyncio.wait_for(got.get(), 5) == b"x"
    theirs.sendall(b"llo\r\n0\r\n\r\n")
    await asyncio.wait_for(reading, 5)
    assert [got.get_nowait() for _ in range(got.qsize())] == [b"he", b"llo"]
    stream.close()
    theirs.close()


async def test_an_upload_of_200_megabytes(ways: Open) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield PIECE

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = 200 * len(PIECE)
    for headers in ({}, {"Content-Length": str(size)}):
        url = ways.url(await ways.public(), "take")
        async with ways.service.client.post(url, data=parts(), headers=headers) as reply:
            assert await reply.json() == size
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # kB


async def test_an_answer_before_all_was_sent(ways: Open) -> None:
    """The app wants no more, and says so: the visitor hears it at once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ways.server.items[4]["port"] = server.sockets[0].getsockname()[1]
    way = (await ways.open("gone", public=True)).json["way"]
    place = urlsplit(ways.url(way))
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(f"POST {place.path} HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n".encode())
    assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 413 ")
    writer.close()
    await ways.close("gone")
    ways.server.items[4]["port"] = 1
    server.close()


# ---- what can be read in two ways -------------------------------------------------------------

SMUGGLING = {
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n",
    "the same length twice": b"Content-Length: 5\r\nContent-Length: 5\r\n",
    "a list of lengths": b"Content-Length: 5, 5\r\n",
    "length and coding": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "another coding": b"Transfer-Encoding: gzip, chunked\r\n",
    "a coding that is none": b"Transfer-Encoding: xchunked\r\n",
    "a length with a sign": b"Content-Length: +5\r\n",
    "a length in hex": b"Content-Length: 0x5\r\n",
    "a folded line": b"X-A: b\r\n c\r\nContent-Length: 5\r\n",
    "a space before the colon": b"Content-Length : 5\r\n",
    "a bare carriage return": b"X-A: b\rContent-Length: 5\r\n",
    "no name": b": x\r\n",
    "a control character": b"X-A: b\x00c\r\n",
    "two hosts": b"Host: b\r\n",
}


@pytest.mark.parametrize("lines", SMUGGLING.values(), ids=SMUGGLING)
async def test_what_is_not_clear_is_refused(lines: bytes, ways: Open) -> None:
    tunnels = len(ways.server.asked)
    second = b"GET {path}smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    answer = await raw(
        ways, b"POST {path}x HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\nhello" + second
    )
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1, "and nothing more is read there"
    asked = [path for _, path, _ in ways.server.asked[tunnels:]]
    assert not [path for path in asked if "/tunnel/" in path], "the app hears nothing of it"


async def test_chunks_are_written_anew(ways: Open) -> None:
    head = b"POST {path}x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    head += b"Connection: close\r\n\r\n"
    answer = await raw(ways, head + b"5\r\nhello\r\n0\r\n\r\n")
    assert b'"body": "hello"' in answer
    for body in (b"5;x=y\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n", b"5\r\nhelloXX0\r\n\r\n"):
        answer = await raw(ways, head + body)
        assert b'"body"' not in answer


async def test_odd_targets(ways: Open) -> None:
    way = await ways.public()
    for target, status in (
        (b"{path}\xc3\xa4", b"200"), (b"{path}%00?\"<>", b"200"), (b"http://a{path}", b"404"),
        (b"*", b"404"), (b"{path}../../x", b"200"),
    ):  # fmt: skip
        answer = await raw(
            ways, b"GET " + target + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        )
        assert answer.split(b" ")[1] == status, (target, answer)
    for path in (
        way["id"][:-1] + "/",
        way["id"].upper() + "/",
        "x" * 26 + "/",
        "",
    ):
        async with ways.service.client.get(f"{ways.service.url}public/{path}") as reply:
            assert reply.status == 404
            assert "Nothing is open here" in await reply.text()


# ---- ends -------------------------------------------------------------------------------------


async def test_closing_a_way_ends_what_goes_on(ways: Open) -> None:
    way = await ways.public()
    client = ways.service.client
    async with (
        client.ws_connect(ways.url(way, "socket")) as socket,
        client.get(ways.url(way, "events")) as events,
    ):
        await socket.receive_json()
        assert await events.content.readline() == b"data: one\n"
        assert (await ways.close()).status == 204
        message = await asyncio.wait_for(socket.receive(), 2)
        assert message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE)
        with pytest.raises(aiohttp.ClientPayloadError):
            await asyncio.wait_for(events.content.read(), 2)
    await until(lambda: not ways.service.service.book.connections)
    for _ in range(2):
        async with client.get(ways.url(way, "x")) as reply:
            assert reply.status == 404
            assert "; sandbox " in reply.headers["Content-Security-Policy"]
            assert way["id"] not in await reply.text()
    assert (await ways.public())["id"] != way["id"]


async def test_a_page_while_nothing_answers(ways: Open) -> None:
    reply = await ways.open("gone", public=True)
    url = ways.url(reply.json["way"])
    async with ways.service.client.get(url) as page:
        text = await page.text()
        assert (page.status, page.headers["Retry-After"]) == (503, "5")
    assert "Nothing listens at port 1." in text
    assert '<meta http-equiv="refresh" content="5">' in text
    assert not re.search(r"<script|src=|href=", text)
    ways.server.items[4]["port"] = ways.app.port
    async with ways.service.client.get(url + "x") as page:
        assert page.status == 200


async def test_an_app_that_breaks_off(ways: Open) -> None:
    """Half an answer does not look like a whole one, and no answer is told."""
    said = [b""]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said[0])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ways.server.items[4]["port"] = server.sockets[0].getsockname()[1]
    url = ways.url((await ways.open("gone", public=True)).json["way"])
    for answer in (
        b"", b"HTTP/1.1 200", b"nonsense\r\n\r\n", b"HTTP/1.1 101 X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n", b"HTTP/1.1 200 OK\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 201 + b"\r\n",
    ):  # fmt: skip
        said[0] = answer
        async with ways.service.client.get(url) as reply:
            assert reply.status == 503, answer
    for answer in (
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nz\r\n",
    ):
        said[0] = answer
        with pytest.raises(aiohttp.ClientPayloadError):
            async with ways.service.client.get(url) as reply:
                await reply.read()
    for answer, body in (
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nA: b\r\n\r\n",
         b"hello"),
        (b"HTTP/1.1 299 \xfc<b>\r\nX-A:\ta\tb \xfc \r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    ):  # fmt: skip
        said[0] = answer
        async with ways.service.client.get(url) as reply:
            assert await reply.read() == body
    server.close()


async def test_a_way_that_is_closed_before_the_answer(ways: Open) -> None:
    way = await ways.public()
    url = ways.url(way, "take")

    async def slowly() -> AsyncIterator[bytes]:
        yield b"x"
        await until(lambda: bool(ways.service.service.book.connections))
        await ways.close()

    async with ways.service.client.post(url, data=slowly()) as reply:
        assert reply.status == 404


async def test_whoever_takes_nothing_is_cut_off(
    ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "PATIENCE", 0.2)
    async with ways.service.client.get(ways.url(await ways.public(), "stream/200")) as reply:
        await until(lambda: not ways.service.service.book.connections)
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.read()


@pytest.mark.parametrize("body", [b"", b"hel"])
async def test_whoever_sends_nothing_is_cut_off(
    body: bytes, ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = urlsplit(ways.url(await ways.public(), "take"))
    monkeypatch.setattr(visits, "PATIENCE", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    head = f"POST {place.path} HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n"
    writer.write(head.encode() + body)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    await until(lambda: not ways.service.service.book.connections)
    await until(lambda: not ways.server.open_tunnels)
    writer.close()


async def test_an_app_that_answers_at_once_ends_no_connection(
    ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = visits.Visit._begin

    async def late(self: visits.Visit, *args: Any) -> None:
        await begin(self, *args)
        await asyncio.sleep(0.3)  # a loop that is busy: the answer is there before this goes on

    monkeypatch.setattr(visits.Visit, "_begin", late)
    place = urlsplit(ways.url(await ways.public()))
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    try:
        for _ in range(3):
            writer.write(f"GET {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b"connection: close" not in head.lower()
            if length := re.search(rb"(?i)content-length: (\d+)", head):
                await reader.readexactly(int(length[1]))
            else:
                await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 30)
    finally:
        writer.close()


async def test_one_owner_leaves_room_for_others(ways: Open) -> None:
    connections = Connections()
    with ExitStack() as stack:
        for number in range(MOST // SHARE):
            way = f"way{number % 4}"
            stack.enter_context(connections.one(way, "alice", lambda: None))
        with pytest.raises(Full), connections.one("way9", "alice", lambda: None):
            pass
        with connections.one("other", "bob", lambda: None):
            assert len(connections) == MOST // SHARE + 1
    assert len(connections) == 0
    ways.service.service.book.connections._most, had = 4, MOST
    try:
        client, url = ways.service.client, ways.url(await ways.public())
        async with client.get(f"{url}events"), client.get(url) as second:
            assert (second.status, "Too many visitors" in await second.text()) == (503, True)
    finally:
        ways.service.service.book.connections._most = had


async def test_addresses_are_in_no_log(ways: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="")
    way = await ways.public()
    for path in ("x", "x?status=500", "socket"):
        async with ways.service.client.get(ways.url(way, path)):
            pass
    await ways.close()
    async with ways.service.client.get(ways.url(way)):
        pass
    ours = [r for r in caplog.records if r.name not in ("aiohttp.access", "asyncio")]
    assert ours
    assert way["id"] not in caplog.text
    assert KEY not in caplog.text


async def test_a_host_that_is_none_is_refused(ways: Open, caplog: pytest.LogCaptureFixture) -> None:
    way = await ways.public()
    for host in (b"a:99999", b"a:b", b"[::1"):
        answer = await raw(ways, b"GET {path} HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
    assert way["id"] not in caplog.text


async def test_a_defect_of_ours_tells_no_address(
    ways: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    way = await ways.public()
    monkeypatch.setattr(visits.heads, "request_head", broken)
    async with ways.service.client.get(ways.url(way)) as reply:
        assert reply.status == 500
    assert "a defect" in caplog.text
    assert way["id"] not in caplog.text


async def test_so_many_visitors_at_a_time(ways: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    way = await ways.public()
    monkeypatch.setattr(ways.service.service.book.connections, "_most_of_one", 1)
    async with ways.service.client.get(ways.url(way, "events")) as first:
        assert first.status == 200
        async with ways.service.client.get(ways.url(way)) as second:
            assert second.status == 503
            assert "Too many visitors" in await second.text()
    await until(lambda: not ways.service.service.book.connections)


async def test_it_ends_with_the_session(ways: Open) -> None:
    """Whoever ended it: another process, here."""
    way = await ways.public()
    async with ways.service.client.ws_connect(ways.url(way, "socket")) as socket:
        await socket.receive_json()
        end(ways.service, ways.session)
        message = await asyncio.wait_for(socket.receive(), 5)
        assert message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE)
    async with ways.service.client.get(ways.url(way)) as reply:
        assert reply.status == 404
