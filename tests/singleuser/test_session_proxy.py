"""Apps behind a session's server: HTTP, websockets, events, and the bare connection."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from .session_server import BASE, DEMO, KEY, TOKEN, Server, free_port, wait_for

SIGNED_IN = {"Authorization": f"token {TOKEN}"}
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    ports = [free_port() for _ in range(5)]
    said = {
        "preopen_ports": [ports[3]],
        "apps": [
            {"name": "demo", "ports": [ports[0]], "command": [sys.executable, DEMO, "{port}"],
             "shareable": True},
            {"name": "raw", "ports": [ports[1]], "protocol": "tcp"},
            {"name": "odd", "ports": [ports[2]], "shareable": True},
            {"name": "private", "ports": [ports[4]]},
        ],
    }  # fmt: skip
    made = Server(tmp_path_factory.mktemp("server"), said).start()
    assert made.by_key("open/demo", "POST").json()["ready"]
    yield made
    assert "Traceback" not in made.log
    made.stop()


def port_of(server: Server, name: str) -> int:
    return int(server.item(name)["port"])


def echo(server: Server, path: str, **how: Any) -> dict:
    answer = server.ask("app/demo/" + path, **how)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def pairs(said: dict) -> dict[str, str]:
    return {name.lower(): value for name, value in said["headers"]}


def memory(server: Server) -> int:
    """The most that the server has used, in bytes."""
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def test_an_answer_of_ours_is_whole_on_a_connection_that_stays(server: Server) -> None:
    port = server.said["preopen_ports"][0]
    with requests.Session() as session:
        session.headers.update(SIGNED_IN)
        for _ in range(30):
            for path, status in ((f"app/{port}/", 503), ("apps", 200), ("app/demo/x", 200)):
                assert session.get(server.url(path), timeout=60).status_code == status


# ---- what an app gets to see


def test_the_prefix_is_stripped_and_told(server: Server) -> None:
    said = echo(server, "a%20b/c%2Fd?x=1&y=%26&x=2")
    assert said["uri"] == "/a%20b/c%2Fd?x=1&y=%26&x=2"
    headers = pairs(said)
    assert headers["x-forwarded-prefix"] == f"{BASE}backendai/app/demo"
    assert headers["x-forwarded-host"] == headers["host"] == f"127.0.0.1:{server.port}"
    assert headers["x-forwarded-proto"] == "http"
    assert headers["x-forwarded-for"] == "127.0.0.1"


def test_without_its_slash_it_is_led_there(server: Server) -> None:
    answer = server.ask("app/demo?x=1")
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"{BASE}backendai/app/demo/?x=1"


def test_secrets_are_not_passed(server: Server) -> None:
    cookie = (
        "jupyterhub-user-me=s1; _xsrf=s2; mine=1; jupyterhub-session-id=s3; "
        'username-127-0-0-1-8888="s4"; other="a;b"; service-x=s5; my_xsrf=2'
    )
    said = echo(
        server, f"x?token=&a=1&token={TOKEN}&to=2",
        headers={
            "Cookie": cookie, "X-XSRFToken": "s6", "X-Backendai-Key": KEY,
            "Referer": f"http://h/x?a=1&token={TOKEN}#f", "Forwarded": "for=1.2.3.4",
            "X-Forwarded-For": "1.2.3.4", "Connection": "close, X-Hop", "X-Hop": "s7",
            "X-Real": "kept", "Proxy-Authorization": "s8",
        },
    )  # fmt: skip
    assert TOKEN not in json.dumps(said)
    assert KEY not in json.dumps(said)
    assert not any(f"s{number}" in json.dumps(said) for number in range(1, 9))
    assert said["uri"] == "/x?a=1&to=2"
    headers = pairs(said)
    assert headers["cookie"] == 'mine=1; other="a; b"; my_xsrf=2'
    assert headers["referer"] == "http://h/x?a=1#f"
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert headers["x-real"] == "kept"
    assert "authorization" not in pairs(echo(server, "x"))
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert "authorization" not in pairs(echo(server, "x", headers=bearer))


def test_what_is_the_app_s_own_is_passed(server: Server) -> None:
    browser = server.browser()
    browser.headers["Authorization"] = "Basic dTpw"
    said = browser.get(server.url("app/demo/x?token=its-own"), timeout=60).json()
    assert said["uri"] == "/x?token=its-own"
    assert pairs(said)["authorization"] == "Basic dTpw"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_bodies(server: Server, method: str) -> None:
    said = echo(server, "x", method=method, data="üp".encode())
    assert (said["method"], said["body"]) == (method, "üp".encode().decode("latin1"))
    chunks = iter([b"a" * 10, b"b" * 70000, b"c"])
    said = echo(server, "x", method=method, data=chunks)
    assert said["body"] == "a" * 10 + "b" * 70000 + "c"


def test_forms_of_the_app_need_no_token_of_ours_but_its_own_site(server: Server) -> None:
    browser = server.browser()
    here, there = f"http://127.0.0.1:{server.port}", "https://evil.example.org"
    url = server.url("app/demo/x")
    assert browser.post(url, headers={"Origin": here}, timeout=60).status_code == 200
    assert browser.post(url, headers={"Origin": there}, timeout=60).status_code == 403
    assert browser.post(url, headers={"Origin": "null"}, timeout=60).status_code == 403


# ---- what a browser gets to see


def answer(server: Server, *headers: str, status: int = 302) -> requests.Response:
    query = {"status": str(status), "header": list(headers)}
    return server.ask("app/demo/answer", params=query)


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("/x/y?a=1#b", "PREFIX/x/y?a=1#b"),
        ("PREFIX/x", "PREFIX/x"),
        ("x/y", "x/y"),
        ("?a", "?a"),
        ("http://127.0.0.1:PORT/x", "PREFIX/x"),
        ("http://localhost:PORT", "PREFIX/"),
        ("https://HOST/x", "PREFIX/x"),
        ("https://example.org/x", "https://example.org/x"),
        ("//example.org/x", "//example.org/x"),
        ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x"),
        ("mailto:a@example.org", "mailto:a@example.org"),
    ],
)
def test_locations(server: Server, said: str, seen: str) -> None:
    def fill(text: str) -> str:
        text = text.replace("PREFIX", f"{BASE}backendai/app/demo")
        text = text.replace("HOST", f"127.0.0.1:{server.port}")
        return text.replace("PORT", str(port_of(server, "demo")))

    found = answer(server, "Location:" + fill(said))
    assert found.headers["Location"] == fill(seen)


def test_cookies_stay_below_the_app(server: Server) -> None:
    found = answer(
        server, "Set-Cookie:a=1; Path=/; HttpOnly", "Set-Cookie:b=2; Domain=example.org; Secure",
        "Set-Cookie:c=3; path=/sub", "Set-Cookie:jupyterhub-session-id=bad; Path=/",
        "Set-Cookie:_xsrf=bad",
    )  # fmt: skip
    seen = found.raw.headers.getlist("Set-Cookie")
    prefix = f"{BASE}backendai/app/demo"
    assert [cookie for cookie in seen if not cookie.startswith("username-")] == [
        f"a=1; HttpOnly; Path={prefix}/", f"b=2; Secure; Path={prefix}/", f"c=3; Path={prefix}/sub",
    ]  # fmt: skip


def test_this_server_s_policy_is_not_the_app_s(server: Server) -> None:
    plain = server.ask("app/demo/x")
    assert "X-Content-Type-Options" not in plain.headers
    framing = "frame-ancestors 'self'"
    assert plain.raw.headers.getlist("Content-Security-Policy") == [framing]
    own = answer(server, "Content-Security-Policy:frame-ancestors *", status=200)
    both = own.raw.headers.getlist("Content-Security-Policy")
    assert both == ["frame-ancestors *", framing], "a browser heeds both"


@pytest.mark.parametrize("status", [204, 304, 404, 418, 500])
def test_statuses(server: Server, status: int) -> None:
    assert answer(server, status=status).status_code == status
    assert server.ask("app/demo/stream/5?length=1", "HEAD").headers["Content-Length"] == "5"


# ---- bodies of any size


@pytest.mark.parametrize("length", ["", "1"])
def test_a_gigabyte_down(server: Server, length: str) -> None:
    before, total = memory(server), 0
    path = f"app/demo/stream/{1 << 30}?length={length}"
    with server.ask(path, stream=True) as found:
        assert ("Content-Length" in found.headers) == bool(length)
        for chunk in found.iter_content(MEGABYTE):
            total += len(chunk)
    assert total == 1 << 30
    assert memory(server) - before < 64 * MEGABYTE


@pytest.mark.parametrize("chunked", [False, True])
def test_a_gigabyte_up(server: Server, chunked: bool) -> None:
    before, size = memory(server), 1 << 30

    class Zeros:
        left = size

        def __len__(self) -> int:
            return size

        def read(self, most: int) -> bytes:
            most = min(MEGABYTE, self.left)
            self.left -= most
            return bytes(most)

    zeros = Zeros()
    body: Any = iter(lambda: zeros.read(MEGABYTE), b"") if chunked else zeros
    found = server.ask("app/demo/count", "POST", data=body, timeout=120)
    assert found.text == str(size)
    assert memory(server) - before < 64 * MEGABYTE


def test_a_slow_reader_holds_the_app_up_and_not_the_memory(server: Server) -> None:
    before = memory(server)
    with server.ask(f"app/demo/stream/{1 << 30}", stream=True) as found:
        assert found.raw.read(1000)
        for _ in range(5):  # the server goes on to answer others meanwhile
            assert server.ask("app/demo/x").status_code == 200
    assert memory(server) - before < 64 * MEGABYTE


def test_an_answer_before_the_end_of_the_question(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as link:
        link.sendall(
            f"POST {BASE}backendai/app/demo/refuses HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: token {TOKEN}\r\nContent-Length: {1 << 40}\r\n\r\n".encode()
        )
        link.sendall(bytes(100))
        head = link.recv(100)
    assert head.startswith(b"HTTP/1.1 413")


def test_an_answer_that_ends_too_early_is_no_whole_one(server: Server) -> None:
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        _ = server.ask("app/demo/half").content


def test_visitors_who_leave_in_the_middle_leave_nothing_behind(server: Server) -> None:
    before = wait_for(lambda: resources(server))
    for number in range(40):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as link:
            down = f"GET {BASE}backendai/app/demo/stream/{1 << 30} HTTP/1.1\r\n"
            up = f"POST {BASE}backendai/app/demo/count HTTP/1.1\r\nContent-Length: {1 << 30}\r\n"
            first = up if number % 2 else down
            head = f"{first}Host: localhost\r\nAuthorization: token {TOKEN}\r\n\r\n"
            link.sendall(head.encode())
            if number % 2:
                link.sendall(bytes(3 * MEGABYTE))
            else:
                assert link.recv(1000)
    assert server.ask("app/demo/x").status_code == 200
    wait_for(lambda: resources(server)[0] <= before[0] + 3)


def test_events_come_at_once(server: Server) -> None:
    with server.ask("app/demo/events", stream=True) as found:
        assert found.headers["Content-Type"] == "text/event-stream"
        lines = found.iter_lines()
        assert next(lines) == b"data: one"
        server.ask("app/demo/next")
        assert next(line for line in lines if line) == b"data: two"


@contextmanager
def serve(port: int, talk: Callable[[socket.socket], None]) -> Iterator[None]:
    """Something on a port that talks with whoever connects."""
    listener = socket.create_server(("127.0.0.1", port))

    def each(link: socket.socket) -> None:
        with suppress(ConnectionError):
            talk(link)

    def run() -> None:
        with suppress(OSError):
            while True:
                link, _ = listener.accept()
                threading.Thread(target=each, args=(link,), daemon=True).start()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # so that nobody accepts any more
        thread.join()
        listener.close()


@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (b"HTTP/1.0 200 OK\r\nX: y\r\n\r\nto the end", 200, "to the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"),
        (b"HTTP/1.1 200 OK\r\nX: \xc3\xbc\r\nContent-Length: 2\r\n\r\nok", 200, "ok"),
        (b"HTTP/1.1 200\nContent-Length: 2\n\nok", 200, "ok"),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", 502, "not in HTTP"),
        (b"", 502, "without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", None, ""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", None, ""),
        (b"HTTP/1.1 101 Hm\r\nUpgrade: x\r\n\r\n", 502, "protocol unasked"),
        (b"x" * 400_000, 502, "not in HTTP"),
    ],
)
def test_odd_answers(server: Server, said: bytes, status: int | None, body: str) -> None:
    def talk(link: socket.socket) -> None:
        with link:
            link.recv(100_000)
            link.sendall(said)
            link.shutdown(socket.SHUT_WR)
            link.recv(1)

    with serve(port_of(server, "odd"), talk):
        if status is None:
            with pytest.raises(requests.RequestException):
                _ = server.ask("app/odd/").content
        else:
            found = server.ask("app/odd/")
            assert found.status_code == status
            assert body in found.text


# ---- websockets


async def talk_to(server: Server, path: str = "app/demo/talk", **headers: str) -> Any:
    url = server.url(path, "ws")
    asked = HTTPRequest(url, headers={**SIGNED_IN, **headers}, connect_timeout=30)
    return await websocket_connect(asked, subprotocols=["demo.v1", "demo.v2"])


async def test_websockets(server: Server) -> None:
    talk = await talk_to(server, Cookie="jupyterhub-x=secret; mine=1")
    assert talk.selected_subprotocol == "demo.v2"
    for message in ("hello ü", b"\x00\xff" * 5, b"z" * (5 * MEGABYTE)):
        await talk.write_message(message, binary=isinstance(message, bytes))
        assert await talk.read_message() == message
    await talk.write_message("headers")
    seen = json.loads(await talk.read_message())
    assert seen["Cookie"] == "mine=1"
    assert "Authorization" not in seen
    await talk.write_message("close")
    assert await talk.read_message() is None
    assert (talk.close_code, talk.close_reason) == (4321, "as you wish")


async def test_websockets_of_strangers_are_refused(server: Server) -> None:
    for headers in ({"Authorization": "token x"}, {"X-Backendai-Key": KEY, "Authorization": ""}):
        with pytest.raises(HTTPClientError) as refused:
            await talk_to(server, **headers)
        assert refused.value.code == 403
    browser = server.browser()
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.get_dict().items())
    here = f"http://127.0.0.1:{server.port}"
    talk = await talk_to(server, Authorization="", Cookie=cookie, Origin=here)
    talk.close()
    with pytest.raises(HTTPClientError) as refused:
        await talk_to(server, Authorization="", Cookie=cookie, Origin="https://evil.example.org")
    assert refused.value.code == 403


async def test_a_page_is_no_websocket(server: Server) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await talk_to(server, "app/demo/answer?status=404")
    assert refused.value.code == 404


# ---- the bare connection


def resources(server: Server) -> tuple[int, int]:
    """The server's descriptors and threads."""
    assert server.process is not None
    proc = Path(f"/proc/{server.process.pid}")
    return len(os.listdir(proc / "fd")), len(os.listdir(proc / "task"))


def test_tunnel_is_the_bare_connection_with_half_close(server: Server) -> None:
    def talk(link: socket.socket) -> None:
        with link:
            link.sendall(b"first the server\r\n")
            said = b""
            while chunk := link.recv(100):
                said += chunk
            link.sendall(b"you said " + said)

    with serve(port_of(server, "raw"), talk):
        link, head = server.tunnel("raw")
        assert head.startswith("HTTP/1.1 101 ")
        assert "Upgrade: backendai-tcp" in head
        with link:
            assert link.recv(18, socket.MSG_WAITALL) == b"first the server\r\n"
            link.sendall(b"\x00\xff GET / HTTP/1.1\r\n\r\n")
            link.shutdown(socket.SHUT_WR)
            assert link.makefile("rb").read() == b"you said \x00\xff GET / HTTP/1.1\r\n\r\n"


def test_tunnel_on_ipv6_only(server: Server) -> None:
    try:
        listener = socket.create_server(("::1", port_of(server, "raw")), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listener:
        link, _ = server.tunnel("raw")
        with link:
            other, _ = listener.accept()
            with other:
                other.sendall(b"six")
                assert link.recv(3, socket.MSG_WAITALL) == b"six"


def test_tunnel_moves_a_gigabyte_and_holds_back(server: Server) -> None:
    size = 1 << 30
    go = threading.Event()

    def talk(link: socket.socket) -> None:
        with link:
            left, chunk = size, bytes(MEGABYTE)
            while left:
                link.sendall(chunk)
                left -= MEGABYTE
            go.set()

    with serve(port_of(server, "raw"), talk):
        before = memory(server)
        link, _ = server.tunnel("raw")
        with link:
            assert server.ask("app/demo/x").status_code == 200
            assert not go.is_set(), "who does not read gets no more than the kernel's buffers"
            buffer, total = bytearray(MEGABYTE), 0
            began = time.monotonic()
            while count := link.recv_into(buffer):
                total += count
            took = time.monotonic() - began
        assert total == size
        print(f"{size / took / 1e6:.0f} MB/s")
        assert memory(server) - before < 64 * MEGABYTE


def test_tunnels_leave_nothing_behind(server: Server) -> None:
    def talk(link: socket.socket) -> None:
        with link:
            while chunk := link.recv(100):
                link.sendall(chunk)

    with serve(port_of(server, "raw"), talk):
        server.tunnel("raw")[0].close()
        first = wait_for(lambda: resources(server))
        links = [server.tunnel("raw")[0] for _ in range(100)]
        for number, link in enumerate(links):
            link.sendall(b"%d" % number)
            assert link.recv(10) == b"%d" % number
        fds, threads = resources(server)
        assert fds > first[0] + 150
        assert threads <= first[1] + 2
        for number, link in enumerate(links):
            if number % 2:  # a peer that is gone at once
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            link.close()
        wait_for(lambda: resources(server)[0] <= first[0] + 5)


def test_tunnels_to_where_there_is_none(server: Server) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "backendai-tcp"}
    port = server.said["preopen_ports"][0]
    for name, status in (
        ("raw", 502), (str(port), 502), ("nobody", 404), ("private", 404), ("terminal", 404),
        ("8081", 404),
    ):  # fmt: skip
        found = server.by_key(f"tunnel/{name}", headers=upgrade)
        assert found.status_code == status, name
        assert found.json()["errors"][0]["message"]
    assert server.by_key("tunnel/demo").status_code == 426
    signed_in = {**upgrade, **SIGNED_IN}
    assert server.ask("tunnel/demo", headers=signed_in).status_code == 403


async def test_a_visitor_who_leaves_is_gone_for_the_app_too(server: Server) -> None:
    gone = threading.Event()

    def talk(link: socket.socket) -> None:
        with link:
            link.recv(100_000)
            link.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
            while link.recv(100):
                pass
            gone.set()

    with serve(port_of(server, "odd"), talk):
        found = server.ask("app/odd/", stream=True)
        assert found.raw.read(1) == b"x"
        found.close()
        assert await asyncio.to_thread(gone.wait, 30)
