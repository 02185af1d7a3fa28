"""The test whether containers reach the Hub, on an engine that has just the images that it says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import APIError, ImageNotFound
from traitlets.config import Config

from jupyterhub_backendai.model.resolve import Folder
from jupyterhub_backendai.site import folders, reach
from jupyterhub_backendai.site.runtime import Site

from ..spawner.spawners import site_config

URL = "http://172.17.0.1:8081/hub/api"


class Client:
    """As much of a Docker client as the test needs. What is named `r-…` has no Python."""

    images: set[str]

    def __init__(self, **options: Any) -> None:
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.removed = 0

    def inspect_image(self, name: str) -> dict[str, Any]:
        if name not in self.images:
            raise ImageNotFound("no such image")
        return {"Id": name}

    def create_container(self, image: str, **settings: Any) -> dict[str, str]:
        self.made.append((image, settings))
        return {"Id": image}

    def start(self, container: str) -> None:
        if container.startswith("r-"):
            raise APIError("400", explanation='exec: "python3": executable file not found in $PATH')

    def wait(self, container: str, timeout: float) -> dict[str, int]:
        return {"StatusCode": 0}

    def remove_container(self, container: str, force: bool, v: bool) -> None:
        self.removed += 1


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    async def listens() -> str:
        return URL

    monkeypatch.setattr(docker, "APIClient", Client)
    monkeypatch.setattr(reach, "_hub_listens", listens)
    Client.images = set()
    environments = [{"name": n, "image": i} for n, i in (("r", "r-only:1"), ("python", "python:3"))]
    config = site_config(tmp_path, environments=environments, folder_root=str(tmp_path))
    site = Site.of(config, {})
    yield site
    asyncio.run(site.close())


async def until_told(caplog: pytest.LogCaptureFixture, text: str, times: int = 1) -> None:
    while sum(text in message for message in caplog.messages) < times:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_it_is_tried_as_soon_as_an_image_can_try_it(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    site.log.propagate = True  # type: ignore[union-attr]
    (host,) = site.engine.hosts.values()
    client: Any = host.client
    checking = asyncio.create_task(reach.check_hub_access(site, Config()))
    await until_told(caplog, "none of the images of the environments is there yet")
    Client.images = {"r-only:1"}
    host.downloads.came.set()
    await until_told(caplog, '"python3": executable file not found')
    assert not checking.done()
    assert not any(m.startswith("Containers on here reach") for m in caplog.messages)
    Client.images = {"r-only:1", "python:3"}
    host.downloads.came.set()
    await asyncio.wait_for(checking, 10)
    assert caplog.messages[-1] == f"Containers on here reach the Hub at {URL}"
    assert [image for image, _ in client.made] == ["r-only:1", "r-only:1", "python:3"]
    assert client.removed == 3
    settings = client.made[-1][1]
    assert settings["user"] == "65534:65534"
    assert settings["host_config"]["SecurityOpt"] == ["no-new-privileges"]
    assert settings["host_config"]["PidsLimit"] > 0
    assert settings["host_config"]["Memory"] == settings["host_config"]["MemorySwap"] > 0


async def test_a_file_server_that_hangs_holds_up_no_other_thread(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    hangs = threading.Event()

    def listing(*path: str) -> list[str]:
        names.append(threading.current_thread().name)
        hangs.wait(30)
        return ["data"] if "users" in path else []

    monkeypatch.setattr(folders, "_names", listing)
    waiting = [asyncio.create_task(site.folders.of("alice", [])) for _ in range(40)]
    loop = asyncio.get_running_loop()
    try:
        assert await asyncio.wait_for(loop.run_in_executor(None, str, "free"), 10) == "free"
    finally:
        hangs.set()
    assert await waiting[-1] == [Folder(name="data")]
    await asyncio.gather(*waiting)
    assert {name.rpartition("_")[0] for name in names} == {"backendai-folders"}
