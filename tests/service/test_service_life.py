"""Signs of life of the real service, for its keeper, while one user sends it all that they can."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest

from jupyterhub_backendai.service.handover import LOOK, VARIABLE, pack
from jupyterhub_backendai.service.keeper import LIFE, URL
from jupyterhub_backendai.service.life import Life

from ..hub.harness import free_port
from .running import BACKEND, PREFIX, Running, until_open
from .stand_in import StandIn

POSTS = 200
LONGEST = 5.0  # seconds between two signs; its keeper waits for thirty


@dataclass
class Process:
    """A service in a process of its own, and when it gave a sign."""

    url: str
    token: str
    signs: list[float] = field(default_factory=list)


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Process]:
    hub = StandIn()
    token = hub.add("alice")
    hub_server = hub.start()
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    found = Process(f"http://127.0.0.1:{free_port()}{PREFIX}", token)
    settings = {**BACKEND, "database_url": f"sqlite:///{folder}/b.sqlite"}
    environment = {
        **os.environ,
        "JUPYTERHUB_API_TOKEN": "the-service",
        "JUPYTERHUB_API_URL": hub.url,
        "JUPYTERHUB_CLIENT_ID": "service-backendai",
        "JUPYTERHUB_SERVICE_NAME": "backendai",
        "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
        "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_HOST": "",
        URL: found.url,
        LIFE: str(writes),
        VARIABLE: pack({
            "BackendAI": {**settings, "log_directory": str(folder / "logs")}, LOOK: {},
        }),
    }  # fmt: skip

    def sign() -> None:
        found.signs.append(time.monotonic())
        os.read(reads, 4096)

    loop = asyncio.get_running_loop()
    loop.add_reader(reads, sign)
    command = [sys.executable, "-m", "jupyterhub_backendai.service"]
    process = await asyncio.create_subprocess_exec(*command, env=environment, pass_fds=[writes])
    try:
        yield found
    finally:
        process.kill()
        await process.wait()
        loop.remove_reader(reads)
        os.close(reads)
        os.close(writes)
        hub_server.stop()


async def test_no_user_s_posts_keep_it_from_giving_signs(tmp_path: Path) -> None:
    rows = range(450)
    body = urlencode([
        *(("env_name", f"{i}!") for i in rows), *(("env_value", "x") for _ in rows),
        ("fill", "again"),
    ])  # fmt: skip
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    connector = aiohttp.TCPConnector(limit=0)
    async with served(tmp_path) as service, aiohttp.ClientSession(connector=connector) as client:
        headers["Authorization"] = f"token {service.token}"

        async def works() -> bool:
            try:
                async with client.get(service.url + "health") as reply:
                    return reply.status == 200
            except aiohttp.ClientConnectionError:
                return False

        async def post() -> int:
            async with client.post(service.url + "launch", data=body, headers=headers) as reply:
                await reply.read()
                return reply.status

        for _ in range(600):
            if await works():
                break
            await asyncio.sleep(0.05)
        began = time.monotonic()
        answers = Counter(await asyncio.gather(*(post() for _ in range(POSTS))))
        took = time.monotonic() - began
        at = [began, *(sign for sign in service.signs if sign > began), time.monotonic()]
    # Two are made for one user at a time; the others are told so at once, and cost next to nothing.
    assert set(answers) == {200, 429}
    assert answers[200] >= 2
    assert took < POSTS / 10
    assert max(after - before for before, after in zip(at, at[1:], strict=False)) < LONGEST


async def test_each_answer_is_a_sign(service: Running) -> None:
    """Many that are ready at once are one long turn of the loop, which is work and no hang."""
    await until_open(service)
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    before, service.service.life = service.service.life, Life(str(writes))
    try:
        with pytest.raises(BlockingIOError):
            os.read(reads, 9)
        for _ in range(2):
            await service.call("GET", "health")
        assert os.read(reads, 9) == b"."  # and no more than one a second
    finally:
        service.service.life = before
        os.close(reads)
        os.close(writes)
