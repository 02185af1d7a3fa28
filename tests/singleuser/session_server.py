"""A real Jupyter server with the extension, as a session has it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

MODULE = "jupyterhub_backendai.singleuser.server"
TOKEN = "the-token-of-the-server"
KEY = "the-key-of-the-session"
BASE = "/user/me@example.org/lab/"
DEMO = str(Path(__file__).with_name("demo_app.py"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: Callable[[], Any], seconds: float = 120) -> Any:
    until = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < until, f"in vain: {what}"
        time.sleep(0.02)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def children(pid: int) -> set[int]:
    """All that a process has started, whoever's children they are by now."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found |= {int(entry.name), *children(int(entry.name))}
    return found


class Server:
    """One server, with its own home and its own `session.json`."""

    def __init__(self, root: Path, said: Any = None, **environment: str) -> None:
        self.root, self.home = root, root / "home"
        self.bin = root / "bin"
        self.home.mkdir(parents=True)
        self.bin.mkdir()
        self.session_file = root / "session.json"
        self.said = {"key_sha256": hashlib.sha256(KEY.encode()).hexdigest(), **(said or {})}
        self.session_file.write_text(json.dumps(self.said))
        self.port = free_port()
        self.environment = environment
        self.log_file = root / "log"
        self.process: subprocess.Popen | None = None

    def start(
        self, *arguments: str, program: tuple[str, ...] = (), modules: tuple[str, ...] = (MODULE,)
    ) -> Server:
        env = {
            **os.environ, "HOME": str(self.home), "PATH": f"{self.bin}:{os.environ['PATH']}",
            "BACKENDAI_SESSION_FILE": str(self.session_file), "TMPDIR": str(self.root),
            "JUPYTER_CONFIG_DIR": str(self.root / "config"), "TMUX_TMPDIR": str(self.root),
            **self.environment,
        }  # fmt: skip
        command = program or (
            sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root",
            f"--ServerApp.base_url={BASE}", f"--IdentityProvider.token={TOKEN}",
        )  # fmt: skip
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *command, f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0",
                    f"--ServerApp.jpserver_extensions={dict.fromkeys(modules, True)}",
                    f"--ServerApp.root_dir={self.home}", *arguments,
                ],
                env=env, cwd=self.root, stdout=log, stderr=log,
            )  # fmt: skip
        wait_for(lambda: answers(self.port) or self._ended())
        return self

    def _ended(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        return False

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(120)
            finally:
                self.process.kill()
        if tmux := shutil.which("tmux"):  # its shells outlive the server, as they are to
            subprocess.run(
                [tmux, "kill-server"], env={"TMUX_TMPDIR": str(self.root)}, check=False,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip

    # ---- asking it

    def url(self, path: str = "", scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{BASE}backendai/{path}"

    def ask(self, path: str, method: str = "GET", **how: Any) -> requests.Response:
        """Signed in by the token, unless other headers say something else."""
        how.setdefault("headers", {"Authorization": f"token {TOKEN}"})
        how.setdefault("timeout", 60)
        how.setdefault("allow_redirects", False)
        return requests.request(method, self.url(path), **how)

    def by_key(self, path: str, method: str = "GET", **how: Any) -> requests.Response:
        headers = {"X-Backendai-Key": KEY, **how.pop("headers", {})}
        return self.ask(path, method, headers=headers, **how)

    def browser(self) -> requests.Session:
        """Signed in by a cookie, as a browser is; asks for pages."""
        session = requests.Session()
        session.headers["Accept"] = "text/html,application/xhtml+xml,*/*;q=0.8"
        root = f"http://127.0.0.1:{self.port}{BASE}"
        session.get(root + "login", timeout=60).raise_for_status()
        form = {"password": TOKEN, "_xsrf": session.cookies["_xsrf"]}
        session.post(root + "login", data=form, timeout=60, allow_redirects=False)
        assert any(name.startswith("username-") for name in session.cookies.get_dict())
        return session

    def item(self, name: str) -> dict:
        items = self.by_key("apps").json()["apps"]
        return next(item for item in items if item["name"] == name)

    def tunnel(self, name: str) -> tuple[socket.socket, str]:
        """The connection, and the head of the answer."""
        link = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        link.sendall(
            f"GET {BASE}backendai/tunnel/{name} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
            f"Upgrade: backendai-tcp\r\nX-Backendai-Key: {KEY}\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            one = link.recv(1)
            assert one, head
            head += one
        return link, head.decode()
