"""Downloads of images from a Docker engine whose registry hangs, or is as slow as a test wants."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from jupyterhub_backendai.engine import downloads
from jupyterhub_backendai.engine.base import AgentUnreachable, ImageMissing
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine, DockerHost

GIB = 2**30


class Engine:
    """As much of Docker's API as a download needs. What is asked for `hangs` never gets a line."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.changed = asyncio.Condition()
        self.asked: Counter[str] = Counter()
        self.open = 0  # downloads whose client is still there
        self.go_on = asyncio.Event()
        self.auth: list[str | None] = []

    async def __aenter__(self) -> Engine:
        app = web.Application()
        app.router.add_get("/version", self.version)
        app.router.add_get("/v1.43/info", self.info)
        app.router.add_post("/v1.43/images/create", self.create)
        self.runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
        await self.runner.setup()
        await web.UnixSite(self.runner, str(self.socket)).start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.runner.cleanup()

    async def until(self, **wanted: int) -> None:
        """Until so many downloads are `open`, or so many were `asked` for."""

        def met() -> bool:
            now = {"open": self.open, "asked": self.asked.total()}
            return all(now[name] == value for name, value in wanted.items())

        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(met), 30)

    async def version(self, request: web.Request) -> web.Response:
        return web.json_response({"ApiVersion": "1.43"})

    async def info(self, request: web.Request) -> web.Response:
        return web.json_response({"ID": "x", "NCPU": 4, "MemTotal": 8 * GIB})

    async def create(self, request: web.Request) -> web.StreamResponse:
        image = request.query["fromImage"]
        self.auth.append(request.headers.get("X-Registry-Auth"))
        if image == "page":  # a registry that answers with a page of its own
            return web.json_response({"message": "denied " + "x" * 2**17}, status=500)
        if image == "gone":
            return web.json_response({"message": "no such image"}, status=404)
        await self._count(image, 1)
        try:
            if image.startswith("hangs"):
                await asyncio.Event().wait()
            return await self._slowly(request)
        finally:
            await self._count(image, -1)

    async def _count(self, image: str, change: int) -> None:
        async with self.changed:
            self.open += change
            self.asked[image] += change > 0
            self.changed.notify_all()

    async def _slowly(self, request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse()
        await reply.prepare(request)
        done = 0
        while not self.go_on.is_set():
            done += 1
            detail = {"current": done, "total": 10_000}
            line = {"status": "Downloading", "id": "layer", "progressDetail": detail}
            await reply.write(json.dumps(line).encode() + b"\n")
            await asyncio.sleep(0.05)
        if request.query["fromImage"] == "breaks":
            await reply.write(b'{"error": "the disk is full"}\n')
        return reply


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine(tmp_path / "docker.sock") as engine:
        yield engine


def host_of(engine: Engine) -> DockerHost:
    config = AgentConfig("here", client={"base_url": f"unix://{engine.socket}"})
    return DockerEngine([config], "hub1", "run1").hosts["here"]


def nothing(done: int, whole: int) -> None:
    """For who does not care how far it is."""


async def test_hung_downloads_leave_the_host_answering_and_end_when_nobody_waits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "AT_ONCE", 2)
    config = AgentConfig("here", client={"base_url": f"unix://{engine.socket}"})
    docker = DockerEngine([config], "hub1", "run1")
    host = docker.hosts["here"]
    starts = [asyncio.ensure_future(host.downloads.wait(f"hangs{n}:1", nothing)) for n in range(20)]
    await engine.until(open=2)
    (status,) = await docker.agents()
    assert status.available
    for start in starts:
        start.cancel()
    await engine.until(open=0)
    assert engine.asked.total() == 2  # those that had not begun never did
    # And a download that somebody still wants has room at once.
    engine.go_on.set()
    await asyncio.wait_for(host.downloads.wait("quick:1", nothing), 30)


async def test_one_download_for_all_who_wait_for_it(engine: Engine) -> None:
    host = host_of(engine)
    seen: list[asyncio.Queue[tuple[int, int]]] = [asyncio.Queue() for _ in range(3)]

    def start(number: int) -> asyncio.Task[None]:
        def tell(done: int, whole: int) -> None:
            seen[number].put_nowait((done, whole))

        return asyncio.ensure_future(host.downloads.wait("slow:1", tell))

    starts = [start(0), start(1)]
    for queue in seen[:2]:
        done, whole = await asyncio.wait_for(queue.get(), 30)
        assert 0 < done < whole == 10_000
    starts.append(start(2))
    await asyncio.wait_for(seen[2].get(), 1)  # what was told last, at once
    starts[0].cancel()
    engine.go_on.set()
    await asyncio.wait_for(asyncio.gather(*starts[1:]), 30)
    assert starts[0].cancelled()
    assert engine.asked == {"slow": 1}
    await engine.until(open=0)


async def test_how_a_download_can_fail(engine: Engine, tmp_path: Path) -> None:
    host = host_of(engine)
    engine.go_on.set()
    with pytest.raises(ImageMissing, match="no such image"):
        await host.downloads.wait("gone:1", nothing)
    with pytest.raises(ImageMissing, match="the disk is full"):
        await host.downloads.wait("breaks:1", nothing)
    with pytest.raises(ImageMissing, match="denied x"):
        await host.downloads.wait("page:1", nothing)
    assert not host.downloads.came.is_set()
    engine.socket.unlink()
    with pytest.raises(AgentUnreachable, match="Docker on here does not answer"):
        await host.downloads.wait("slow:1", nothing)


async def test_what_the_hubs_client_signed_in_with_is_used(engine: Engine) -> None:
    host = host_of(engine)
    engine.go_on.set()

    def sign_in(client: object) -> None:
        auths = client._auth_configs  # type: ignore[attr-defined]
        auths.add_auth("registry.example", {"username": "hub", "password": "secret"})

    await host.call(sign_in)
    await host.downloads.wait("registry.example/lab/python:1", nothing)
    await host.downloads.wait("python:1", nothing)
    assert host.downloads.came.is_set()
    assert engine.auth[0]
    assert not engine.auth[1]
