"""A real Hub as a process of its own, with its proxy, on free loopback ports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import docker
import requests

from .forked import ForkedHub

T = TypeVar("T")
IMAGE = "backendai-demo:latest"
SERVICE = [b"-m", b"jupyterhub_backendai.service"]
TOKEN = "a-token-for-the-tests-of-this-hub"
SCOPES = ["admin:users", "admin:servers", "list:users", "access:servers", "tokens", "admin:groups"]

CONFIG = """\
import json
c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.JupyterHub.hub_port = {hub_port}
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "secret"
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {{"admin"}}
c.JupyterHub.services = [{{"name": "tests", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [{{"name": "tests", "services": ["tests"], "scopes": {scopes}}}]
c.JupyterHub.cleanup_servers = False
for _section, _values in json.loads({settings!r}).items():
    for _name, _value in _values.items():
        c[_section][_name] = _value
{extra}
from jupyterhub_backendai import setup
setup(c)
{after}
"""

ENVIRONMENTS = [
    {
        "name": "python",
        "title": "Python",
        "description": "JupyterLab with NumPy",
        "icon": "code",
        "versions": [{"name": "3.11", "image": IMAGE}],
        "minimum": {"cpu": 0.1, "mem": "128m"},
        "apps": ["jupyterlab"],
    }
]


# Below the range from which the system gives out ports by itself, and of this process alone, so
# that nobody takes a port between its choice and its use.
_FIRST = 20_000 + os.getpid() % 60 * 200
_PORTS = iter(range(_FIRST, _FIRST + 200))


def free_port() -> int:
    """A port that is free on all addresses and that no other test is given."""
    for port in _PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
    raise AssertionError("no port is left for this worker's tests")


def wait_for(what: str, check: Callable[[], T], timeout: float = 60) -> T:
    """The first true value of `check`; fails with `what` and the last value after `timeout`."""
    began = time.monotonic()
    value: Any = None
    while (waited := time.monotonic() - began) < timeout:
        value = check()
        if value:
            return value
        # Each look costs those who are waited for: less often the longer it takes anyway.
        time.sleep(min(max(waited / 10, 0.05), 0.2))
    raise AssertionError(f"waited {timeout} s for {what}; last: {value!r}")


@dataclass
class Hub:
    """One Hub in one directory; may be started, killed and started again."""

    directory: Path
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    extra: str = ""
    after: str = ""
    command: list[str] | None = None  # by itself the Hub of this Python
    environment: Mapping[str, str] = field(default_factory=dict)
    service: bool = True

    def __post_init__(self) -> None:
        self.port, self.proxy_port, self.hub_port = free_port(), free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.service_port = free_port() if self.service else 0
        self.process: subprocess.Popen[bytes] | ForkedHub | None = None
        self.api = requests.Session()
        self.api.headers["Authorization"] = f"token {TOKEN}"
        self.docker = docker.from_env()

    # ---- process ----

    def write_config(self) -> Path:
        settings: dict[str, dict[str, Any]] = {
            "BackendAI": {
                "environments": ENVIRONMENTS,
                "check_hub_access": False,
                "queue_patience": 120,  # a start lets go of its session only where that is tested
            },
        }
        own = {"service_url": f"http://127.0.0.1:{self.service_port}"}
        settings["BackendAI"].update(own if self.service else {"service": False})
        for section, values in self.settings.items():
            settings[section] = {**settings.get(section, {}), **values}
        path = self.directory / "jupyterhub_config.py"
        path.write_text(
            CONFIG.format(
                port=self.port,
                proxy_port=self.proxy_port,
                hub_port=self.hub_port,
                token=TOKEN,
                scopes=SCOPES,
                settings=json.dumps(settings),
                extra=self.extra,
                after=self.after,
            )
        )
        return path

    def start(self, wait: bool = True) -> Hub:
        config, log = self.write_config(), self.directory / "hub.log"
        environment = {**os.environ, **self.environment}
        if self.command is None:
            self.process = ForkedHub(config, log, environment)
        else:
            with open(log, "ab") as output:
                self.process = subprocess.Popen(
                    [*self.command, "-f", str(config)],
                    cwd=self.directory,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
        if wait:
            wait_for("the Hub to answer", self._answers)
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log_text()[-3000:]
        with contextlib.suppress(requests.ConnectionError, requests.Timeout):
            return self.api.get(f"{self.url}/hub/api/users", timeout=5).status_code == 200
        return False

    def kill(self) -> None:
        """kill -9 of the Hub alone; its proxy goes on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ends Hub and proxy."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Ends all, with what it made in Docker."""
        self.stop()
        hub_id = self.hub_id
        if hub_id:
            label = {"label": f"backendai.hub={hub_id}"}
            for container in self.docker.containers.list(all=True, filters=label):
                with contextlib.suppress(docker.errors.APIError):
                    container.remove(force=True, v=True)
            for volume in self.docker.volumes.list(filters=label):
                with contextlib.suppress(docker.errors.APIError):
                    volume.remove(force=True)

    def services(self) -> list[int]:
        """Pids of the sessions services of this Hub that run, by their port in their environment;
        without what keeps them going."""
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if (
                    folder.name.isdigit()
                    and (folder / "cmdline").read_bytes().split(b"\0")[1:3] == SERVICE
                    and f":{self.service_port}".encode() in (folder / "environ").read_bytes()
                ):
                    found.append(int(folder.name))
        return found

    def log_text(self) -> str:
        return (self.directory / "hub.log").read_text(errors="replace")

    # ---- database ----

    def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        path = self.directory / "backendai.sqlite"
        if not path.exists():
            return []
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(query, parameters)]

    @property
    def hub_id(self) -> str:
        found = self.rows("select value from meta where key = 'hub_id'")
        return str(found[0]["value"]).strip('"') if found else ""

    def sessions(self, owner: str | None = None) -> list[dict[str, Any]]:
        """Session rows, oldest first."""
        rows = self.rows("select * from sessions order by submitted_at, id")
        return [row for row in rows if owner is None or row["owner"] == owner]

    def held(self, owner: str | None = None) -> list[dict[str, Any]]:
        """Allocations that are held now."""
        query = "select a.*, s.owner from allocations a join sessions s on s.id = a.session_id"
        rows = [row for row in self.rows(query) if not row["freed_at"]]
        return [row for row in rows if owner is None or row["owner"] == owner]

    def sub_steps(self, session_id: str) -> dict[str, list[tuple[str, str, str | None]]]:
        """Step, result and code of all sub-steps of a session, by phase."""
        found: dict[str, list[tuple[str, str, str | None]]] = {}
        query = "select phase, sub_steps from history where session_id = ? order by id"
        for row in self.rows(query, session_id):
            for s in json.loads(row["sub_steps"]):
                told = (s["step"], s["result"], s["error_code"])
                found.setdefault(row["phase"], []).append(told)
        return found

    # ---- engine ----

    def containers(self) -> list[Any]:
        label = {"label": f"backendai.hub={self.hub_id}"}
        return list(self.docker.containers.list(all=True, filters=label, ignore_removed=True))

    def volumes(self) -> list[Any]:
        return list(self.docker.volumes.list(filters={"label": f"backendai.hub={self.hub_id}"}))

    # ---- API ----

    def call(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        return self.api.request(method, f"{self.url}/hub/api/{path}", timeout=120, **kwargs)

    def add_user(self, name: str) -> str:
        assert self.call("POST", f"users/{name}").status_code in {201, 409}
        return name

    def launch(self, user: str, options: Any = None, server: str = "") -> requests.Response:
        path = f"users/{user}/servers/{server}" if server else f"users/{user}/server"
        return self.call("POST", path, json=options if options is not None else {})

    def server(self, user: str, server: str = "") -> dict[str, Any]:
        reply = self.call("GET", f"users/{user}").json()
        return dict(reply["servers"].get(server, {}))

    def until_ready(self, user: str, server: str = "", timeout: float = 60) -> dict[str, Any]:
        def ready() -> dict[str, Any] | None:
            model = self.server(user, server)
            assert model.get("ready") or model.get("pending"), self.log_text()[-3000:]
            return model if model.get("ready") else None

        return wait_for(f"{user}/{server} to be ready", ready, timeout) or {}

    def delete(self, user: str, server: str = "") -> requests.Response:
        path = f"users/{user}/servers/{server}" if server else f"users/{user}/server"
        return self.call("DELETE", path)

    def until_over(self, user: str, server: str = "", timeout: float = 60) -> None:
        wait_for(f"{user}/{server} to be over", lambda: not self.server(user, server), timeout)

    def container_of(self, session_id: str) -> Any:
        found = [c for c in self.containers() if c.labels.get("backendai.session") == session_id]
        assert len(found) == 1, found
        return found[0]

    def run_inside(self, session_id: str, *command: str) -> str:
        """What a command prints inside a session, run the way its user would: by a Jupyter kernel.

        Not by `docker exec`, which would not show what a person can do there.
        """
        (row,) = self.rows("select owner, server_name from sessions where id = ?", session_id)
        path = "/".join(filter(None, ("user", row["owner"], row["server_name"])))
        code = (
            "import subprocess, sys\n"
            f"command = {list(command)!r}\n"
            "p = subprocess.run(command, stdout=-1, stderr=subprocess.STDOUT, text=True)\n"
            "print(p.stdout, end='')\n"
            "assert p.returncode == 0, p.returncode\n"
        )
        with ThreadPoolExecutor(1) as thread:  # a browser's test has a loop of its own running
            return thread.submit(asyncio.run, execute(f"{self.url}/{path}", code)).result()


async def execute(server: str, code: str, token: str = TOKEN) -> str:
    """What a cell prints on a Jupyter server; an error in it is an AssertionError here."""
    headers = {"Authorization": f"token {token}"}
    output: list[str] = []
    async with aiohttp.ClientSession(headers=headers, raise_for_status=True) as client:
        async with client.post(f"{server}/api/kernels", json={"name": "python3"}) as reply:
            kernel = f"{server}/api/kernels/{(await reply.json())['id']}"
        async with client.ws_connect(f"{kernel}/channels") as socket:
            header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "",
                      "session": uuid.uuid4().hex, "version": "5.3"}  # fmt: skip
            await socket.send_json(
                {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell",
                 "content": {"code": code, "silent": False}}
            )  # fmt: skip
            async for message in socket:
                data = message.json()
                if data["parent_header"].get("msg_id") != header["msg_id"]:
                    continue
                kind, content = data["header"]["msg_type"], data["content"]
                if kind == "stream":
                    output.append(content["text"])
                elif kind == "error":
                    raise AssertionError("".join(output) + content["evalue"])
                elif kind == "status" and content["execution_state"] == "idle":
                    break  # all it printed came before; the reply may come earlier
        async with client.delete(kernel):
            return "".join(output)


@contextlib.contextmanager
def running(directory: Path, **options: Any) -> Iterator[Hub]:
    """A started Hub, ended with all it made."""
    hub = Hub(directory, **options)
    try:
        yield hub.start()
    finally:
        hub.end()
