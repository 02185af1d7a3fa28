"""What counts as use of a session, and what only keeps a connection alive."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest
import requests
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from jupyterhub_backendai.singleuser.server import activity

from .session_server import BASE, DEMO, TOKEN, Server, free_port, wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    command = [sys.executable, DEMO, "{port}"]
    said = {"apps": [
        {"name": "demo", "ports": [free_port()], "command": command, "shareable": True},
    ]}  # fmt: skip
    made = Server(tmp_path_factory.mktemp("server"), said).start()
    assert made.by_key("open/demo", "POST").json()["ready"]
    yield made
    assert "Traceback" not in made.log
    made.stop()


def last(server: Server) -> str:
    root = f"http://127.0.0.1:{server.port}{BASE}"
    headers = {"Authorization": f"token {TOKEN}"}
    found = requests.get(root + "api/status", headers=headers, timeout=60)
    return str(found.json()["last_activity"])


async def test_a_websocket_counts_by_its_messages(server: Server) -> None:
    headers = {"Authorization": f"token {TOKEN}"}
    talk = await websocket_connect(HTTPRequest(server.url("app/demo/talk", "ws"), headers=headers))
    await talk.write_message("hello")
    assert await talk.read_message() == "hello"
    before = wait_for(lambda: last(server))
    for empty in range(3):
        talk.protocol.write_ping(b"alive")  # type: ignore[union-attr]
        await talk.write_message("")
        assert await talk.read_message() == "", empty
    assert last(server) == before
    await talk.write_message("x")
    assert await talk.read_message() == "x"
    wait_for(lambda: last(server) > before)
    talk.close()


def test_a_connection_of_an_open_app_counts_by_its_bulk(server: Server) -> None:
    link, _ = server.tunnel("demo")
    before = last(server)
    with link:
        link.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert link.recv(100)
        assert last(server) == before
        link.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n" % (b"x" * 600))
        wait_for(lambda: last(server) > before)
        link.shutdown(socket.SHUT_WR)


def frame(payload: bytes, opcode: int = 1, extra: int = 0x80) -> bytes:
    """A masked frame, as clients send them."""
    size = len(payload)
    short = size if size < 126 else 126 if size < 65536 else 127
    more = size.to_bytes({126: 2, 127: 8}[short], "big") if short > 125 else b""
    return bytes([extra | opcode, 0x80 | short]) + more + bytes(4) + payload


@pytest.mark.parametrize(
    ("frames", "used"),
    [
        ([frame(b"hello")], True),
        ([frame(b"x" * 300, 2)], True),
        ([frame(b"x" * 70000, 2)], True),
        ([frame(b"", 1, 0), frame(b"x", 0)], True),
        ([frame(b"ping", 9), frame(b"pong", 10), frame(b"", 10), frame(b"\x03\xe8", 8)], False),
        ([frame(b""), frame(b"", 2)], False),
        ([frame(b"\x00", 1, 0xC0)], False),
        ([frame(b"ab", 1, 0xC0)], True),
        ([frame(b"\x81" * 125, 9), frame(b"last")], True),
    ],
)
@pytest.mark.parametrize("cut", [1, 3, 1 << 20])
def test_messages(frames: list[bytes], used: bool, cut: int) -> None:
    calls: list[None] = []
    heard = activity.Messages(lambda: calls.append(None))
    data = b"".join(frames)
    for at in range(0, len(data), cut):
        heard(memoryview(data)[at : at + cut])
    assert bool(calls) == used


def test_bulk_is_more_than_a_keep_alive() -> None:
    now = 0.0
    calls: list[float] = []
    heard = activity.Bulk(lambda: calls.append(now), lambda: now)
    for now in range(0, 600, 15):  # noqa: B007
        heard(bytes(100))
    assert not calls
    now = 1000.0
    heard(bytes(512))
    assert not calls
    heard(b"x")
    assert calls == [1000.0]
