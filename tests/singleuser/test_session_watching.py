"""What a real server takes for use by a client, what for polling, and what for neither.

Moments are told in seconds since the server's start, which are the same each time they are asked
for: what counts is whether they move, and never how much time went by.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
from jupyter_client.session import Session
from jupyter_server.services.kernels.connection.base import (
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from jupyterhub_backendai.singleuser.server import polling

from .session_server import BASE, DEMO, TOKEN, Server, free_port, wait_for
from .stand_in_hub import TOKEN as HUB_TOKEN
from .stand_in_hub import Hub
from .test_session_hub import KINDS

SIGNED_IN = {"Authorization": f"token {TOKEN}"}


def socket_of(url: str) -> HTTPRequest:
    """For a websocket; a kernel may take its time to start."""
    return HTTPRequest(url, headers=SIGNED_IN, connect_timeout=200, request_timeout=200)


class Moments(NamedTuple):
    """In seconds since the server's start."""

    used: float
    asked: float


def moments(server: Server) -> Moments:
    said = server.by_key("activity").json()
    return Moments(*(said["uptime"] - said[name] for name in ("used", "asked")))


def moved(before: Moments, after: Moments) -> str:
    """Which moment is another one: of what the server subtracts, the last digits differ."""
    assert after.used <= after.asked + 1e-6
    if after.used > before.used + 1e-6:
        return "used"
    return "asked" if after.asked > before.asked + 1e-6 else "nothing"


async def until_used(server: Server, before: Moments) -> None:
    await asyncio.to_thread(wait_for, lambda: moved(before, moments(server)) == "used")


def kernel_folder(root: Path) -> Path:
    folder = root / "data" / "kernels" / "demo"
    folder.mkdir(parents=True)
    program = str(Path(__file__).with_name("demo_kernel.py"))
    words = [sys.executable, program, "{connection_file}"]
    spec = {"argv": words, "display_name": "Demo", "language": "none"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    return root / "data"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("server")
    port = free_port()
    demo = [sys.executable, DEMO, "{port}"]
    said = {
        "apps": [{"name": "demo", "ports": [port], "command": demo, "shareable": True}],
        "preopen_ports": [port],
    }
    made = Server(root, said, JUPYTER_PATH=str(kernel_folder(root))).start()
    assert made.by_key("open/demo", "POST").json()["ready"]
    yield made
    made.stop()
    assert "Traceback" not in made.log
    assert "not known any more" not in made.log


def ask(server: Server, path: str, method: str = "GET", **how: Any) -> requests.Response:
    """A signed-in request to Jupyter's own server."""
    how["headers"] = {**SIGNED_IN, **how.pop("headers", {})}
    url = f"http://127.0.0.1:{server.port}{BASE}{path}"
    return requests.request(method, url, timeout=200, allow_redirects=False, **how)


def judged(server: Server, do: Callable[[], requests.Response]) -> str:
    """What a request counted as."""
    before = moments(server)
    do()
    return moved(before, moments(server))


def notebook(source: str, output: str) -> dict:
    cell = {
        "cell_type": "code", "source": source, "metadata": {}, "execution_count": 1,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": output}],
    }  # fmt: skip
    content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return {"type": "notebook", "format": "json", "content": content}


def test_requests(server: Server) -> None:
    def by(path: str, method: str = "GET", **how: Any) -> str:
        return judged(server, lambda: ask(server, path, method, **how))

    page = {"headers": {"Accept": "text/html"}}
    assert by("api/contents/a.ipynb", "PUT", json=notebook("1", "")) == "used"
    assert by("api/contents/a.ipynb", "PUT", json=notebook("1", "tick")) == "asked"
    assert by("api/contents/a.ipynb", "PUT", json=notebook("2", "tick")) == "used"
    assert by("api/contents/a.ipynb", "PUT", json=notebook("2", "tick")) == "asked"
    for polled in ("kernels", "sessions", "terminals", "kernelspecs", "contents/?content=1"):
        assert by(f"api/{polled}") == "asked", polled
        assert by(f"api/{polled}") == "asked", polled
    assert by("api/contents/a.ipynb?type=notebook&content=0") == "asked"
    assert by("api/contents/a.ipynb?type=notebook&content=1") == "used"
    assert by("api/contents/none.ipynb?type=notebook&content=1") == "asked", "there is none"
    for layout in (b"1", b"1", b"2"):
        assert by("lab/api/workspaces/default?1700000000001", "PUT", data=layout) == "asked"
    assert by("files/a.ipynb", **page) == "used"
    assert by("api/contents/a.ipynb", "DELETE") == "used"
    assert by("api/status") == "nothing"
    assert by("api/kernels?no_track_activity=1") == "nothing"
    for given in ("token x", ""):
        stranger = {"Authorization": given, "Accept": "text/html"}
        assert by("api/kernels", headers=stranger) == "nothing"
        assert by("tree", headers=stranger) == "nothing"
    assert judged(server, lambda: server.by_key("apps")) == "nothing", "our service"
    for headers in ({}, {"X-Backendai-Key": "x"}, SIGNED_IN):
        assert server.ask("activity", headers=headers).status_code == 403


def test_requests_to_an_app(server: Server) -> None:
    def by(path: str, method: str = "GET", **how: Any) -> str:
        how["headers"] = {**SIGNED_IN, **how.pop("headers", {})}
        return judged(server, lambda: server.ask(f"app/demo/{path}", method, **how))

    assert by("", headers={"Accept": "text/html"}) == "used"
    assert by("data?run=1&_=1700000000001") == "used"
    assert by("data?run=1&_=1700000000002") == "asked"
    assert by("data?run=2&_=1700000000003") == "used", "somebody looks at another run"
    assert by("data?run=1&_=1700000000004") == "asked"
    assert by("form", "POST", data="x") == "used"
    assert by("events/get_events", "POST", data="x") == "asked"


# ---- kernels


class Talk:
    """A client of the demo kernel, by either protocol."""

    def __init__(self, link: WebSocketClientConnection, protocol: str | None) -> None:
        self._link, self._protocol = link, protocol
        self._session = Session(key=b"")
        self.busy = 0

    def send(self, kind: str, content: dict, channel: str = "shell") -> None:
        message = self._session.msg(kind, content)
        if self._protocol:
            data = serialize_msg_to_ws_v1(message, channel, self._session.pack)
            self._link.write_message(data, binary=True)
        else:
            text = json.dumps({**message, "channel": channel, "buffers": []}, default=str)
            self._link.write_message(text)

    async def until(self, kind: str, times: int = 1) -> None:
        """So many messages of that kind."""
        while times:
            said = await self._link.read_message()
            assert said is not None
            if isinstance(said, bytes):
                _, parts = deserialize_msg_from_ws_v1(said)
                found = self._session.unpack(parts[0])["msg_type"]
            else:
                found = json.loads(said)["header"]["msg_type"]
            times -= found == kind


@asynccontextmanager
async def talk(server: Server, protocol: str | None) -> AsyncIterator[Talk]:
    kernel = ask(server, "api/kernels", "POST", json={"name": "demo"}).json()["id"]
    url = f"ws://127.0.0.1:{server.port}{BASE}api/kernels/{kernel}/channels?session_id=me"
    offered = [protocol] if protocol else None
    link = await websocket_connect(socket_of(url), subprotocols=offered)
    assert link.selected_subprotocol == protocol
    try:
        yield Talk(link, protocol)
    finally:
        link.close()
        await asyncio.to_thread(ask, server, f"api/kernels/{kernel}", "DELETE")


@pytest.mark.parametrize("protocol", [None, polling.KERNEL_PROTOCOL])
async def test_to_run_a_cell_is_use_and_what_it_puts_out_is_not(
    server: Server, protocol: str | None
) -> None:
    async with talk(server, protocol) as client:
        before = moments(server)
        client.send("kernel_info_request", {})
        await client.until("kernel_info_reply")
        assert moved(before, moments(server)) == "asked"
        client.send("execute_request", {"code": "x", "silent": False})
        await client.until("execute_reply")
        ran = moments(server)
        assert moved(before, ran) == "used"
        await client.until("stream", 30)
        assert moved(ran, moments(server)) == "nothing"
        client.send("input_reply", {"value": "x"}, "stdin")
        await until_used(server, ran)


# ---- terminals


@pytest.mark.parametrize("ours", [True, False])
async def test_to_type_is_use_and_what_a_shell_writes_is_not(server: Server, ours: bool) -> None:
    if ours:
        shell = server.ask("terminal/shells", "POST").json()["shell"]
        url = server.url(f"terminal/shells/{shell}/socket", "ws")
    else:
        shell = ask(server, "api/terminals", "POST", json={}).json()["name"]
        url = f"ws://127.0.0.1:{server.port}{BASE}terminals/websocket/{shell}"
    link = await websocket_connect(socket_of(url))
    text = ""

    async def sees(what: str) -> None:
        nonlocal text
        while what not in text:
            said = await link.read_message()
            assert said is not None
            word, *rest = json.loads(said)
            text += rest[0] if word == "stdout" else ""
            if ours and word == "stdout":
                link.write_message(json.dumps(["drawn", len(rest[0])]))

    before = moments(server)
    link.write_message(json.dumps(["stdin", "\x1b[?1;2c"]))
    link.write_message(json.dumps(["set_size", 30, 90]))
    await asyncio.to_thread(wait_for, lambda: moved(before, moments(server)) == "asked")
    ready = server.home / f"ready-{ours}"
    # what the shell made of the report is wiped out first
    loop = (
        f"until [ -e '{ready}' ]; do sleep 0.05; done; for i in 1 2 3; do echo o$((40+2))k$i; done"
    )
    link.write_message(json.dumps(["stdin", "\x15" + loop + "\r"]))
    await until_used(server, before)
    await sees("done")
    typed = moments(server)
    ready.touch()
    await sees("o42k3")
    assert moved(typed, moments(server)) == "nothing"
    link.close()


# ---- connections that are passed on


async def test_messages_to_an_app_are_use_and_pings_are_not(server: Server) -> None:
    link = await websocket_connect(socket_of(server.url("app/demo/talk", "ws")))
    before = moments(server)
    for _ in range(3):
        link.protocol.write_ping(b"alive")  # type: ignore[union-attr]
        await link.write_message("")
        assert await link.read_message() == ""
    assert moved(before, moments(server)) == "nothing"
    await link.write_message("x" * 1000)
    assert await link.read_message() == "x" * 1000
    await until_used(server, before)
    link.close()


def test_tunnels(server: Server) -> None:
    """To an app that is open to others by its bulk; to a port that was asked for, all of it."""
    before = moments(server)
    link, _ = server.tunnel("demo")
    with link:
        wait_for(lambda: moved(before, moments(server)) == "asked")
        link.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert link.recv(100)
        assert moved(before, moments(server)) == "asked"
        link.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n" % (b"x" * 600))
        wait_for(lambda: moved(before, moments(server)) == "used")
        link.shutdown(socket.SHUT_WR)


# ---- under JupyterHub


@pytest.mark.parametrize("kind", list(KINDS))
def test_who_signed_in_by_the_hub(kind: str, tmp_path: Path) -> None:
    made = Server(tmp_path / "s")
    with Hub() as hub:
        made.environment = {**KINDS[kind], **hub.environment(made.port, BASE)}
        made.start("--allow-root", program=(sys.executable, "-m", "jupyterhub.singleuser"))
        token = {"Authorization": f"token {HUB_TOKEN}"}
        try:
            for path in ("api", "api/kernels", "lab"):
                assert judged(made, lambda p=path: ask_as(made, p, {})) == "nothing", path
            assert judged(made, lambda: ask_as(made, "api/kernels", token)) == "asked"
            page = {**token, "Accept": "text/html"}
            assert judged(made, lambda: ask_as(made, "files/x.txt", page)) == "asked", "not there"
            (made.home / "x.txt").write_text("x")
            assert judged(made, lambda: ask_as(made, "files/x.txt", page)) == "used"
            assert "not known any more" not in made.log
        finally:
            made.stop()


def url_of(server: Server, path: str) -> str:
    return f"http://127.0.0.1:{server.port}{BASE}{path}"


def ask_as(server: Server, path: str, headers: dict) -> requests.Response:
    return requests.get(url_of(server, path), headers=headers, timeout=200, allow_redirects=False)
