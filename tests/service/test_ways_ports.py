"""Ports of the machine that lead to apps."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from jupyterhub_backendai.service.ways import accepting, greeting, public
from jupyterhub_backendai.service.ways import book as book_module
from jupyterhub_backendai.service.ways.book import Book
from jupyterhub_backendai.service.ways.ports import Ports
from jupyterhub_backendai.store import Pool, Wanted, Way

from .running import until
from .ways import ALLOWED, Open, end, free_ports, opened

pytestmark = pytest.mark.asyncio(loop_scope="module")
COUNT = 5


@pytest.fixture
async def ways(tmp_path: Path) -> AsyncIterator[Open]:
    ports = free_ports(COUNT)
    traits = {
        "app_ports": f"{ports[0]}-{ports[-1]}", "app_ports_address": "127.0.0.1",
        "app_port_cool_down": 60,
    }  # fmt: skip
    async with opened(tmp_path, **traits) as made:
        yield made


def pool(ways: Open) -> Pool:
    found = ways.service.service.book.settings.pool
    assert found is not None
    return found


async def get(port: int, path: str = "x") -> bytes:
    """What an HTTP server at that port answers, spoken to by hand."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


async def say(port: int, line: bytes = b"hello\n") -> bytes:
    """What is answered to this line by an app that speaks no HTTP; empty where nothing is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(line)
    try:
        return await asyncio.wait_for(reader.readline(), 5)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_port_leads_to_an_app_that_speaks_anything(ways: Open) -> None:
    reply = await ways.open("db", public=True)
    assert reply.status == 200, reply.json
    told = reply.json
    assert (told["url"], told["host"], told["port"]) == (None, "127.0.0.1", pool(ways).first)
    assert told["message"] == ""
    assert await say(told["port"]) == b"heard hello\n"
    again = await ways.open("db", public=True)
    assert again.json["way"] == told["way"]
    await ways.close("db")
    await until(lambda: not ways.server.open_tunnels)
    with pytest.raises(ConnectionRefusedError):
        await say(told["port"])


@pytest.mark.parametrize("app", ["sshd", "db"])
async def test_no_browser_gets_to_what_speaks_no_http(app: str, ways: Open) -> None:
    """It would send the Hub's cookies with its request, and take those that it is sent."""
    for one in ways.server.items:
        if one["name"] == app:
            one["port"] = ways.app.port  # which would answer
    port = (await ways.open(app, public=app == "db")).json["port"]
    for method in (b"GET", b"POST", b"OPTIONS"):
        request = method + b" / HTTP/1.1\r\nHost: a\r\nCookie: secret=x\r\n\r\n"
        assert await say(port, request) == b""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for byte in b"GET ":  # however it comes
        writer.write(bytes([byte]))
        await writer.drain()
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_an_app_says_nothing_to_who_may_be_a_browser(
    ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has connected and not spoken yet takes what comes for an answer."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nSet-Cookie: _xsrf=mine\r\n\r\n")
        await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    for app, quiet in (("db", 60.0), ("sshd", 0.01)):
        monkeypatch.setattr(greeting, "QUIET", quiet)
        for one in ways.server.items:
            if one["name"] == app:
                one["port"] = server.sockets[0].getsockname()[1]
        port = (await ways.open(app, public=app == "db")).json["port"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if app == "db":
            await until(lambda: ways.server.open_tunnels > 0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.3)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        if app == "sshd":
            assert await say(port, b"nonsense\r\n") == b""
            assert (await say(port, b"SSH-2.0-x\r\n")).startswith(b"HTTP/1.1 200")
        else:
            assert (await say(port)).startswith(b"HTTP/1.1 200")
    server.close()


async def test_an_app_may_speak_first_as_databases_do(
    ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"welcome\n")
        await writer.drain()

    monkeypatch.setattr(greeting, "QUIET", 0.05)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ways.server.items[2]["port"] = server.sockets[0].getsockname()[1]
    port = (await ways.open("db", public=True)).json["port"]
    assert await say(port, b"") == b"welcome\n"
    server.close()


async def test_whoever_says_nothing_leaves_the_place_to_others(
    ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greeting, "PATIENCE", 0.1)
    for app in ("db", "sshd"):
        port = (await ways.open(app, public=app == "db")).json["port"]
        assert await say(port, b"") == b""
    await until(lambda: not ways.service.service.book.connections)


async def test_visitors_of_a_port_that_ask_nothing_are_counted(
    ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = ways.service.service.book
    monkeypatch.setattr(book.visitors, "_most_of_one", 3)
    port = (await ways.open(public=True, preferred_port=pool(ways).first)).json["port"]
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
    await until(lambda: len(book.visitors) == 3)
    assert await say(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") == b""
    held.pop()[1].close()
    await until(lambda: len(book.visitors) == 2)
    assert (await get(port)).startswith(b"HTTP/1.1 200 OK")
    await ways.close()
    for reader, writer in held:
        assert await asyncio.wait_for(reader.read(), 5) == b"", "they end with the way"
        writer.close()
    await until(lambda: not book.visitors)


async def test_whoever_sends_no_head_is_hung_up_on(
    ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public, "IDLE", 0.2)
    port = (await ways.open(public=True, preferred_port=pool(ways).first)).json["port"]
    assert await say(port, b"GET / HTTP/1.1\r\nHost: ") == b""
    await until(lambda: not ways.service.service.book.visitors)


async def test_a_machine_without_files_lets_visitors_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It does nothing else but try again otherwise."""
    monkeypatch.setattr(accepting, "PAUSE", 0.05)
    monkeypatch.setattr(accepting.Door, "told", float("-inf"))
    came: list[socket.socket] = []
    listening = Sparse()
    listening.setblocking(False)
    door = accepting.Door([listening], lambda connection, _: came.append(connection))
    visitor = socket.create_connection(listening.getsockname())
    await until(lambda: bool(came))
    assert (listening.tried, caplog.text.count("cannot be let in")) == (5, 1)
    assert "Too many open files" in caplog.text
    for one in (visitor, *came):
        one.close()
    door.stop()


class Sparse(socket.socket):
    """A socket of a process that has no files left at first."""

    tried = 0

    def __init__(self) -> None:
        super().__init__()
        self.bind(("127.0.0.1", 0))
        self.listen()

    def accept(self) -> Any:
        self.tried += 1
        if self.tried < 4:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if self.tried > 4:
            raise BlockingIOError
        return super().accept()


async def test_an_admin_hears_of_ports_at_the_hubs_name(
    ways: Open, caplog: pytest.LogCaptureFixture
) -> None:
    for host, told in (("", True), ("apps.example.org", False)):
        caplog.clear()
        ways.service.service.parts.site.configuration.app_ports_host = host
        book = Book()
        work = asyncio.ensure_future(book.run(ways.service.service.parts.site))
        await until(lambda book=book: book.is_open)  # type: ignore[misc]
        assert ("c.BackendAI.app_ports_host" in caplog.text) is told
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await book.stop()


async def test_one_side_may_be_done_before_the_other(ways: Open) -> None:

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"%d bytes" % len(await reader.read()))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ways.server.items[2]["port"] = server.sockets[0].getsockname()[1]
    port = (await ways.open("db", public=True)).json["port"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello")
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 5) == b"5 bytes"
    writer.close()
    server.close()


async def test_what_goes_on_ends_with_its_way(ways: Open) -> None:
    port = (await ways.open("sshd")).json["port"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"SSH-2.0-x\r\n")
    assert await asyncio.wait_for(reader.readline(), 5) == b"heard SSH-2.0-x\r\n"
    assert (await ways.close("sshd")).status == 204
    assert await asyncio.wait_for(reader.read(), 2) is not None
    writer.close()
    await until(lambda: not ways.service.service.book.connections)


async def test_the_preferred_port_or_the_next(ways: Open) -> None:
    first = pool(ways).first
    reply = await ways.open("db", public=True, preferred_port=first + 1)
    assert (reply.json["port"], reply.json["message"]) == (first + 1, "")
    reply = await ways.open("echo", public=True, preferred_port=first + 1)
    assert reply.json["port"] == first + 2
    assert reply.json["message"] == (
        f"Port {first + 1} is in use, or was a moment ago: it is {first + 2}."
    )
    assert reply.json["url"] == f"http://127.0.0.1:{first + 2}/"
    reply = await ways.open("gone", public=True, preferred_port=80)
    assert f"Port 80 is not among those of this site ({first} to" in reply.json["message"]
    assert reply.json["port"] == first


async def test_a_port_of_another_program_is_passed_over(ways: Open) -> None:
    first = pool(ways).first
    with socket.create_server(("127.0.0.1", first)):
        reply = await ways.open("db", public=True, preferred_port=first)
        assert reply.json["port"] == first + 1
        assert "in use" in reply.json["message"]
        assert await say(first + 1) == b"heard hello\n"


async def test_no_port_is_left(ways: Open) -> None:
    site = ways.service.service.parts.site
    for number in range(COUNT):
        wanted = Wanted(ways.session["id"], f"app{number}", "alice", "tcp", pool(ways))
        await ways.service.service.book.open(site, wanted)
    reply = await ways.open("db", public=True)
    assert (reply.status, reply.json["errors"][0]["code"]) == (409, "no_port")


async def test_a_port_is_not_given_away_at_once(ways: Open) -> None:
    first = pool(ways).first
    for expected in (first, first + 1):
        assert (await ways.open("db", public=True)).json["port"] == expected
        await ways.close("db")


async def test_an_http_app_on_a_port_is_kept_apart_and_has_no_cookies(ways: Open) -> None:
    port = (await ways.open(public=True, preferred_port=pool(ways).first)).json["port"]
    params = [("set", "Set-Cookie: a=1; Path=/"), ("set", "Location: http://127.0.0.1:1/x")]
    headers = {"Cookie": "jupyterhub-session-id=x", "Authorization": "token secret"}
    async with ways.service.client.get(
        f"http://127.0.0.1:{port}/x", params=params, headers=headers, allow_redirects=False
    ) as reply:
        told = await reply.json()
    assert reply.headers["Content-Security-Policy"].startswith("sandbox ")
    assert "Set-Cookie" not in reply.headers
    assert reply.headers["Location"] == "/x"
    names = {name.lower() for name, _ in told["headers"]}
    assert {"cookie", "authorization", "x-forwarded-prefix"}.isdisjoint(names)
    async with ways.service.client.ws_connect(f"http://127.0.0.1:{port}/socket") as socket_:
        await socket_.receive_json()
        await ways.close()
        message = await asyncio.wait_for(socket_.receive(), 2)
        assert message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE)


async def test_a_way_by_a_port_has_no_other_address(ways: Open) -> None:
    for app, body in (("sshd", {}), ("echo", {"public": True, "preferred_port": 1})):
        way = (await ways.open(app, **body)).json["way"]
        async with ways.service.client.get(ways.url(way)) as reply:
            assert reply.status == 404


async def test_a_session_that_ends_while_it_is_opened(
    ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, listen = ways.service.service.book, Book._listen

    async def ending(*given: Any) -> Way:
        way = await listen(*given)
        end(ways.service, ways.session)  # another process does
        return way

    monkeypatch.setattr(Book, "_listen", ending)
    reply = await ways.open("sshd")
    assert (reply.status, reply.json["errors"][0]["code"]) == (409, "not_running")
    assert (book.ways, book._ports.ways) == ({}, set())
    with pytest.raises(ConnectionRefusedError):
        await say(pool(ways).first)


async def test_a_listener_of_nothing_is_ended(ways: Open) -> None:
    book = ways.service.service.book
    book._ports.listen("x" * 26, pool(ways).first, "tcp")
    await book.read(ways.service.service.parts.site)
    assert book._ports.ways == set()


async def test_other_programs_have_all_ports_that_are_tried(
    ways: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book_module, "MOST_TRIES", 1)
    with socket.create_server(("127.0.0.1", pool(ways).first)):
        reply = await ways.open("db", public=True)
    assert (reply.status, reply.json["errors"][0]["code"]) == (409, "no_port")
    assert "Other programs" in reply.json["errors"][0]["message"]
    assert ways.service.store.open_ways() == []


async def test_an_address_that_this_machine_has_not(ways: Open) -> None:
    book = ways.service.service.book
    book._ports = Ports(book, "192.0.2.1")
    reply = await ways.open("db", public=True)
    assert (reply.status, reply.json["errors"][0]["code"]) == (409, "no_port")
    assert ways.service.store.open_ways() == []


async def test_the_service_is_started_again(ways: Open) -> None:
    service, site = ways.service.service, ways.service.service.parts.site
    port = (await ways.open("db", public=True)).json["port"]
    http = (await ways.open(public=True, preferred_port=port + 1)).json["port"]
    await service.runner.stop()
    await service.book.stop()
    with pytest.raises(ConnectionRefusedError):
        await say(port)
    with socket.create_server(("127.0.0.1", port)):  # as what was before may hold it for a moment
        again = Book()
        work = asyncio.ensure_future(again.run(site))
        await until(lambda: again.is_open)
        assert (await get(http)).startswith(b"HTTP/1.1 200 OK")
    for _ in range(200):
        try:
            assert await say(port) == b"heard hello\n"
            break
        except OSError:
            await asyncio.sleep(0.05)
    else:
        raise AssertionError("the port is not there again")
    end(ways.service, ways.session)
    await until(lambda: not again.ways)
    with pytest.raises(ConnectionRefusedError):
        await say(port)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await again.stop()


async def test_what_the_configuration_allows_no_more_is_closed(tmp_path: Path) -> None:
    (first, *_), none = free_ports(3), {"public_apps": False}
    traits = {"app_ports": f"{first}-{first + 2}", "app_ports_address": "127.0.0.1"}
    async with opened(tmp_path, **traits) as ways:
        site = ways.service.service.parts.site
        for app in ("db", "echo", "sshd"):
            assert (await ways.open(app, public=app != "sshd")).status == 200
        await ways.service.service.runner.stop()
        await ways.service.service.book.stop()
        for given, left in (
            ({"default_policy": {**ALLOWED, **none}}, ["sshd"]), ({"app_ports": ""}, []),
        ):  # fmt: skip
            for name, value in given.items():
                setattr(site.configuration, name, value)
            site.policies = site.configuration.policies()
            book = Book()
            work = asyncio.ensure_future(book.run(site))
            await until(lambda book=book: book.is_open)  # type: ignore[misc]
            assert [one.way.app for one in book.ways.values()] == left
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await book.stop()
