"""How fast a download is on each way to an app, beside the Hub's own proxy.

    python benchmarks/proxy.py [--json] [--rounds 7] [--megabytes 1024]

One app that sends a file as fast as the kernel does (`sendfile`), and curl that throws it away. In
between, one after the other in each round: nothing (`direct`), configurable-http-proxy (`chp`), and
the ways of the service: the path below its own (`path`), a host of the app's own (`host`), a port
of an HTTP app (`http_port`) and a port of any app (`port`); and the path as people reach it, with
the Hub's proxy before it (`path_chp`). Each is in a process of its own. For all of these the
app's end of the tunnel is the app itself: what is timed is the service. In `session_path` and
`session_port` it is a real Jupyter server with our extension, as in a session. Needs no Docker.

With --json the last line is {"direct": ..., "chp": ..., ...}: medians, in MB (10^6 bytes) a second.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # beside this lies a queue.py that is not Python's own

import argparse
import asyncio
import hashlib
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hubs import free_port

PREFIX, KEY = "/services/backendai/", "the-key"
WAY, HTTP_WAY, TCP_WAY = "a" * 26, "b" * 26, "c" * 26
SESSION_WAY, SESSION_TCP_WAY = "d" * 26, "e" * 26
BASE = "/user/ana/work/"
EXTENSION = "jupyterhub_backendai.singleuser.server"
RAW = "/1file%0D%0A"  # what curl asks for without HTTP, which does not go through at such a port
GIVE_UP = 30  # seconds for a process to listen


# ---- the app ------------------------------------------------------------------------------------


def serve_app(port: int, path: str) -> None:
    """Sends the file to whoever asks, also through a tunnel."""
    with socket.create_server(("127.0.0.1", port), backlog=64) as listening:
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=_serve, args=(connection, path), daemon=True).start()


def _serve(connection: socket.socket, path: str) -> None:
    with connection, open(path, "rb") as file:
        asked = _head(connection)
        if b"/tunnel/" in asked.partition(b"\r\n")[0]:
            connection.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                b"Upgrade: backendai-tcp\r\n\r\n"
            )
            asked = _head(connection)
        if not asked:
            return  # somebody looked whether we listen
        if asked.startswith(b"GET "):
            size = os.fstat(file.fileno()).st_size
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
                b"Content-Length: %d\r\nConnection: close\r\n\r\n" % size
            )
        connection.sendfile(file)


def _head(connection: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n") and (more := connection.recv(65536)):
        head += more
    return head


# ---- the service --------------------------------------------------------------------------------


async def serve_ways(
    app: int, jupyter: int, path: int, host: int, http_port: int, port: int, session_port: int
) -> None:
    """The service's side of ways, without a Hub and a database."""
    os.environ |= {"JUPYTERHUB_SERVICE_PREFIX": PREFIX, "JUPYTERHUB_BASE_URL": "/"}
    from tornado.httpserver import HTTPServer
    from tornado.web import Application

    from jupyterhub_backendai.service.ways.book import Book
    from jupyterhub_backendai.service.ways.ports import Ports
    from jupyterhub_backendai.service.ways.public import READ, PathVisit, host_server
    from jupyterhub_backendai.service.ways.settings import Settings

    book = Book()
    book.settings = Settings(url="http://*.apps.test")
    for way, protocol in ((WAY, "http"), (HTTP_WAY, "http"), (TCP_WAY, "tcp")):
        book.ways[way] = _open_way(way, protocol, app)
    for way, protocol in ((SESSION_WAY, "http"), (SESSION_TCP_WAY, "tcp")):
        book.ways[way] = _open_way(way, protocol, jupyter, str(app))
    book.is_open = True
    routes = [(f"{PREFIX}public/.*", PathVisit, {"book": book})]
    HTTPServer(Application(routes), xheaders=True, chunk_size=READ).listen(path, "127.0.0.1")
    host_server(book).listen(host, "127.0.0.1")
    ports = Ports(book, "127.0.0.1")
    ports.listen(HTTP_WAY, http_port, "http")
    ports.listen(TCP_WAY, port, "tcp")
    ports.listen(SESSION_TCP_WAY, session_port, "tcp")
    await asyncio.Event().wait()


def _open_way(way: str, protocol: str, server: int, app: str = "files") -> Any:
    from jupyterhub_backendai.store import OpenWay, Way

    made = Way(
        id=way, session_id="s", app=app, kind="public", protocol=protocol, number=None,
        wanted=None, opened_by="ana", opened_at=datetime.now(timezone.utc), closed_at=None,
        closed_by=None, reason="",
    )  # fmt: skip
    return OpenWay(made, "ana", (), "work", "work", True, f"127.0.0.1:{server}", KEY)


# ---- the measurement ----------------------------------------------------------------------------


class World:
    """All processes, and where each download is."""

    def __init__(self, file: Path) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self.app = self._role("app", file)
        self.jupyter = self._start_jupyter(file.parent)
        self.path, self.host, self.http_port, self.port, self.session_port = (
            free_port() for _ in range(5)
        )
        listen = (self.path, self.host, self.http_port, self.port, self.session_port)
        ports = map(str, (self.app, self.jupyter, *listen))
        self._run([sys.executable, __file__, "--role", "ways", *ports])
        self.proxy, self.proxy_api, self._token = free_port(), free_port(), secrets.token_hex(8)
        self._run(
            [_chp(), "--ip", "127.0.0.1", "--port", str(self.proxy), "--api-ip", "127.0.0.1",
             "--api-port", str(self.proxy_api), "--log-level", "error"],
            CONFIGPROXY_AUTH_TOKEN=self._token,
        )  # fmt: skip
        for port in (self.app, self.jupyter, *listen, self.proxy_api):
            _until_listening(port)
        self._route("/app", self.app)
        self._route(PREFIX, self.path)

    def _start_jupyter(self, folder: Path) -> int:
        """A session's server; its app is a preopen port."""
        facts = {
            "key_sha256": hashlib.sha256(KEY.encode()).hexdigest(), "preopen_ports": [self.app],
            "apps": [], "ssh_port": 2200,
        }  # fmt: skip
        (folder / "session.json").write_text(json.dumps(facts))
        port, places = free_port(), ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")
        self._run(
            [
                sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root",
                f"--port={port}", "--port-retries=0", "--ip=127.0.0.1", "--log-level=ERROR",
                f"--ServerApp.base_url={BASE}", f"--ServerApp.root_dir={folder}",
                f"--ServerApp.jpserver_extensions={EXTENSION}=True",
            ],
            BACKENDAI_SESSION_FILE=str(folder / "session.json"),
            **dict.fromkeys(places, str(folder)),
        )  # fmt: skip
        return port

    def _role(self, name: str, file: Path) -> int:
        port = free_port()
        self._run([sys.executable, __file__, "--role", name, str(port), str(file)])
        return port

    def _run(self, command: list[str], **environment: str) -> None:
        self._processes.append(
            subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
        )

    def _route(self, path: str, port: int) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.proxy_api}/api/routes{path.rstrip('/')}",
            data=json.dumps({"target": f"http://127.0.0.1:{port}"}).encode(),
            headers={"Authorization": f"token {self._token}"},
        )
        with urllib.request.urlopen(request):
            pass

    def downloads(self) -> dict[str, list[str]]:
        """curl's arguments, by the names of the figures."""
        local, raw = "http://127.0.0.1", "gopher://127.0.0.1"
        return {
            "direct": [f"{local}:{self.app}/"],
            "chp": [f"{local}:{self.proxy}/app/"],
            "path": [f"{local}:{self.path}{PREFIX}public/{WAY}/"],
            "host": ["-H", f"Host: {WAY}.apps.test", f"{local}:{self.host}/"],
            "http_port": [f"{local}:{self.http_port}/"],
            "port": [f"{raw}:{self.port}{RAW}"],
            "path_chp": [f"{local}:{self.proxy}{PREFIX}public/{WAY}/"],
            "session_path": [f"{local}:{self.path}{PREFIX}public/{SESSION_WAY}/"],
            "session_port": [f"{raw}:{self.session_port}{RAW}"],
        }

    def stop(self) -> None:
        """Ends all processes."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


def _chp() -> str:
    beside = Path(sys.executable).parent
    found = shutil.which("configurable-http-proxy", path=f"{beside}:{os.environ['PATH']}")
    if found is None:
        raise SystemExit("configurable-http-proxy is missing: run `make test`, it installs it")
    return found


def _until_listening(port: int) -> None:
    deadline = time.monotonic() + GIVE_UP
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens at port {port}")


def download(arguments: list[str], size: int) -> float:
    """Megabytes a second of one download, which has to be whole."""
    command = ["curl", "-sS", "-f", "-o", os.devnull, "-w", "%{size_download} %{time_total}"]
    said = subprocess.run([*command, *arguments], check=True, capture_output=True, text=True)
    got, seconds = said.stdout.split()
    if int(got) != size:
        raise SystemExit(f"{arguments[-1]} gave {got} bytes of {size}")
    return size / float(seconds) / 1e6


def run(rounds: int, megabytes: int) -> dict[str, float]:
    """The medians."""
    size = megabytes * 2**20
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "file")
        with file.open("wb") as made:
            for _ in range(megabytes):
                made.write(os.urandom(2**20))
        world = World(file)
        try:
            found: dict[str, list[float]] = {name: [] for name in world.downloads()}
            for number in range(rounds + 1):
                for name, arguments in world.downloads().items():
                    speed = download(arguments, size)
                    if number:  # the first round warms up
                        found[name].append(speed)
        finally:
            world.stop()
    for name, speeds in found.items():
        print(f"{name}: {', '.join(f'{speed:.0f}' for speed in sorted(speeds))} MB/s")
    return {name: statistics.median(speeds) for name, speeds in found.items()}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="end with the figures as JSON")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        name, *given = options.role
        if name == "app":
            serve_app(int(given[0]), given[1])
        asyncio.run(serve_ways(*map(int, given)))
    print(f"load averages before: {os.getloadavg()}")
    found = run(options.rounds, options.megabytes)
    print(f"load averages after:  {os.getloadavg()}")
    shares = {name: speed / found["chp"] for name, speed in found.items()}
    print("of configurable-http-proxy's:", ", ".join(f"{n} {s:.2f}" for n, s in shares.items()))
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
