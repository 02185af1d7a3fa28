"""A Docker engine that is busy is no dead one, and a listing is never older than it says."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import docker
import pytest
from test_engine_downloads import Engine

from jupyterhub_backendai._within import within
from jupyterhub_backendai.engine import docker as engine_docker
from jupyterhub_backendai.engine import docker_images
from jupyterhub_backendai.engine.base import AgentUnreachable
from jupyterhub_backendai.engine.belongings import Belongings
from jupyterhub_backendai.engine.docker import THREADS, AgentConfig, DockerEngine, DockerHost


async def test_a_busy_engine_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_docker, "ANSWER_TIMEOUT", 2)
    async with Engine(tmp_path / "docker.sock") as answering:
        config = AgentConfig("here", client={"base_url": f"unix://{answering.socket}"})
        engine = DockerEngine([config], "hub1", "run1")
        may_end = threading.Event()
        # A class ends: each of its sessions holds a thread for as long as its server takes.
        stops = [
            asyncio.ensure_future(engine.hosts["here"].call(lambda client: may_end.wait(60)))
            for _ in range(2 * THREADS)
        ]
        try:
            (status,) = await engine.agents()
        finally:
            may_end.set()
            await asyncio.gather(*stops)
    assert status.available, status.reason


class Slow(Belongings):
    """Lists how often it has listed, once it may."""

    def __init__(self) -> None:
        super().__init__("hub1")
        self.began, self.may_end, self.times = threading.Event(), threading.Event(), 0

    def all_containers(self, client: docker.APIClient) -> list[dict[str, Any]]:
        self.began.set()
        assert self.may_end.wait(30)
        self.times += 1
        return [{"time": self.times}]


async def test_a_listing_that_its_reader_gave_up_serves_nobody_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_docker, "LIST_CACHE", 0)
    async with Engine(tmp_path / "docker.sock") as answering:
        config = AgentConfig("here", client={"base_url": f"unix://{answering.socket}"})
        host = DockerHost(config, "hub1", "run1")
        host.belongings = slow = Slow()
        first = asyncio.ensure_future(host.listing())
        await asyncio.to_thread(slow.began.wait, 30)
        first.cancel()
        await asyncio.wait([first])
        left = host._listing_task
        assert left is not None
        slow.may_end.set()
        await asyncio.wait([left])
        assert await host.listing() == [{"time": 2}]


async def test_one_that_says_nothing_keeps_nobody_waiting_who_wants_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_images, "LOOK", 0.2)
    silence = str(tmp_path / "docker.sock")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(silence)
        silent.listen()  # and nobody reads what is sent
        config = AgentConfig("here", client={"base_url": f"unix://{silence}"})
        engine = DockerEngine([config], "hub1", "run1")
        with pytest.raises(AgentUnreachable):
            await within(60, engine.images.look("here", "c" * 64))
        for thread in threading.enumerate():
            if thread.name == "docker-here-image":
                await asyncio.to_thread(thread.join, 60)
                assert not thread.is_alive()
