"""Real Hubs for the benchmarks: each a process of its own with its own proxy, on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

POLL_EVERY = 0.01  # seconds between two looks at the proxied server
GIVE_UP = 120  # seconds for anything

_COMMON = """
c.JupyterHub.bind_url = {url!r}
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.auth_token = {proxy_token!r}
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.services = [{{"name": "benchmark", "api_token": {token!r}}}]
c.JupyterHub.load_roles = [
    {{
        "name": "benchmark",
        "services": ["benchmark"],
        "scopes": ["admin:users", "admin:servers", "access:servers", "tokens"],
    }}
]
"""


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Hub:
    """One Hub with `config` (lines of a jupyterhub_config.py) after the lines that all share."""

    name: str
    folder: Path
    config: str
    url: str = field(init=False)
    token: str = field(init=False, default_factory=lambda: secrets.token_hex(16))
    process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    @property
    def log(self) -> Path:
        """What the Hub and its proxy wrote."""
        return self.folder / "hub.log"

    async def start(self) -> None:
        """Starts the Hub and waits until it answers. Raises `RuntimeError` if it ends instead."""
        self._start_process()
        await self._until_it_answers()

    def _start_process(self) -> None:
        self.folder.mkdir(parents=True)
        self.url = f"http://127.0.0.1:{free_port()}"
        common = _COMMON.format(
            url=self.url,
            hub_port=free_port(),
            proxy_port=free_port(),
            proxy_token=secrets.token_hex(16),
            token=self.token,
        )
        path = self.folder / "jupyterhub_config.py"
        path.write_text(f"c = get_config()\n{common}\n{self.config}")
        # The proxy is found beside the Hub, also where the environment is not activated.
        programs = str(Path(sys.executable).parent)
        environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "--config", str(path)],
                cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    async def _until_it_answers(self) -> None:
        deadline = time.monotonic() + GIVE_UP
        async with aiohttp.ClientSession() as client:
            while time.monotonic() < deadline:
                assert self.process is not None
                if self.process.poll() is not None:
                    break
                with suppress(aiohttp.ClientError):
                    async with client.get(f"{self.url}/hub/health") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.2)
        raise RuntimeError(f"the Hub {self.name} does not run:\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """The end of its log, for messages."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """Ends the Hub, and with it its proxy."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Person:
    """A user of a Hub, new and with a token of its own."""

    def __init__(self, hub: Hub, name: str, client: aiohttp.ClientSession) -> None:
        self.hub, self.name, self._client = hub, name, client
        self._token = ""

    async def create(self) -> None:
        """Makes the user and the token."""
        await self._api("POST", f"users/{self.name}", self.hub.token)
        made = await self._api("POST", f"users/{self.name}/tokens", self.hub.token, {})
        self._token = made["token"]

    async def launch(self) -> float:
        """Seconds from the launch request until the server answers this user through the proxy."""
        begin = time.perf_counter()
        asked = asyncio.create_task(self._api("POST", f"users/{self.name}/server", self._token, {}))
        url = f"{self.hub.url}/user/{self.name}/api/status"
        headers = {"Authorization": f"token {self._token}"}
        while time.perf_counter() < begin + GIVE_UP:
            async with self._client.get(url, headers=headers, allow_redirects=False) as response:
                if response.status == 200 and "kernels" in await response.json():
                    took = time.perf_counter() - begin
                    await asked
                    return took
            if asked.done():
                asked.result()  # a refusal ends the wait with its reason
            await asyncio.sleep(POLL_EVERY)
        raise RuntimeError(f"{self.name} on {self.hub.name} did not start:\n{self.hub.tail()}")

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """The events of the start that is under way."""
        url = f"{self.hub.url}/hub/api/users/{self.name}/server/progress"
        headers = {"Authorization": f"token {self._token}"}
        async with self._client.get(url, headers=headers) as response:
            response.raise_for_status()
            async for line in response.content:
                if line.startswith(b"data:"):
                    yield json.loads(line[5:])

    async def begun(self) -> None:
        """Until the Hub has begun with what `launch` asked for."""
        user: dict[str, Any] = {}
        while not user.get("pending"):
            user = await self._api("GET", f"users/{self.name}", self.hub.token)

    async def stop(self) -> None:
        """Ends the server and waits until it is gone."""
        await self._api("DELETE", f"users/{self.name}/server", self._token)
        deadline = time.monotonic() + GIVE_UP
        while time.monotonic() < deadline:
            user = await self._api("GET", f"users/{self.name}", self.hub.token)
            if not user["servers"] and not user["pending"]:
                return
            await asyncio.sleep(0.1)
        raise RuntimeError(f"{self.name} on {self.hub.name} does not stop:\n{self.hub.tail()}")

    async def _api(self, method: str, path: str, token: str, body: Any = None) -> Any:
        url = f"{self.hub.url}/hub/api/{path}"
        headers = {"Authorization": f"token {token}"}
        async with self._client.request(method, url, headers=headers, json=body) as response:
            text = await response.text()
            if response.status >= 400:
                raise RuntimeError(
                    f"{method} {path} on {self.hub.name}: {response.status} {text}\n"
                    f"{self.hub.tail()}"
                )
            return json.loads(text) if text else None
