"""What hooks, groups and subclasses of an admin do to one spawner: taken over, or said."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from dockerspawner import DockerSpawner
from spawners import site_config, spawner_of
from test_spawner_apply import GRANTED

from jupyterhub_backendai.engine.base import LABEL_SESSION
from jupyterhub_backendai.model.slots import GIB
from jupyterhub_backendai.spawner.container import _granted
from jupyterhub_backendai.spawner.docker import DockerSessionSpawner
from jupyterhub_backendai.spawner.errors import SessionSpawnError

PULLED: list[str] = []
LOG = logging.getLogger(__name__)


class Pulls(DockerSessionSpawner):
    """An admin's own way to have an image."""

    async def pull_image(self, image: str) -> None:
        PULLED.append(image)


class Lines(logging.Handler):
    """What is logged, a string each. (pytest's own handler goes when the store is made.)"""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def said() -> Iterator[list[str]]:
    handler = Lines()
    LOG.addHandler(handler)
    yield handler.lines
    LOG.removeHandler(handler)


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Any]:
    """A spawner of a site that has only DockerSpawner's own traits."""
    config = site_config(tmp_path, environments=[])
    config.DockerSpawner.image = "configured:1"
    config.DockerSpawner.mem_limit = "2G"
    spawner = spawner_of(config, Pulls)
    yield spawner
    await spawner.site.close()


async def test_without_a_catalog_a_hook_decides(plain: Any) -> None:
    request = await plain.accept({})
    assert (request.image, request.mem) == ("configured:1", 2 * GIB)
    # The Hub runs `pre_spawn_hook` after the options were checked.
    plain.image, plain.mem_limit, plain.cpu_limit = "hooked:2", "3G", 0.5
    request = await plain.accepted()
    assert (request.image, request.mem, request.cpu) == ("hooked:2", 3 * GIB, 500)
    # A session's own values on this object are no hook's.
    plain._of_session = {"image": "x:1", "mem_limit": GIB, "cpu_limit": 1.0}
    plain.image, plain.mem_limit, plain.cpu_limit = "x:1", GIB, 1.0
    plain._request = None  # as after each start
    assert (await plain.accepted()).image == "configured:1"


async def test_a_start_timeout_of_a_group_or_hook_is_the_launchs(plain: Any) -> None:
    plain.start_timeout = 300
    await plain.accept({})
    assert plain._launch_timeout == 300
    whole = plain.start_timeout
    plain.start_timeout = 200
    assert plain._launch_timeout == 200
    assert plain.start_timeout == whole - 5 * 100


async def test_an_override_of_pull_image_is_used(
    plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def moved(*_: Any, **__: Any) -> None:
        return

    class Row:
        id = "x"

    monkeypatch.setattr(plain, "move_quietly", moved)
    await plain._have_image(Row, "hooked:2")
    assert PULLED == ["hooked:2"]


async def test_with_a_catalog_it_is_refused_at_the_start(tmp_path: Path, said: list[str]) -> None:
    spawner = spawner_of(site_config(tmp_path), DockerSessionSpawner)
    try:
        spawner.image, spawner.log = "hooked:2", LOG
        with pytest.raises(SessionSpawnError, match="sets image for you .* Tell your admin"):
            await spawner.start()
        (line,) = said
        assert "hooked:2" in line
        assert "c.BackendAI.environments" in line
        assert "c.BackendAI.group_policies" in line
        assert spawner.site.store.live() == []
        # The one setting that no file may have named: the Hub tells each spawner.
        spawner = spawner_of(spawner.config, DockerSessionSpawner, internal_ssl=True, log=LOG)
        with pytest.raises(SessionSpawnError, match="Tell your admin"):
            await spawner.start()
        assert "c.JupyterHub.internal_ssl = True" in said[1]
        assert not [line for line in said if "Traceback" in line]
    finally:
        await spawner.site.close()


async def test_what_a_function_puts_into_the_host_config_is_said_once(
    plain: Any, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DockerSpawner, "docker", lambda *args, **kwargs: None)
    plain.site.log = LOG
    token = _granted.set(GRANTED)
    host_config = {"Memory": 2**40, "NanoCpus": 10**9, "CpuPeriod": 50_000, "CpuQuota": 75_000}
    for _ in range(2):
        plain.docker("create_container", image="x", host_config=host_config)
    _granted.reset(token)
    assert [line.split()[0] for line in said] == ["Memory", "NanoCpus"]
    # the quota is what was granted, in the admin's period


async def test_limits_are_the_preset_of_a_site_that_has_none(tmp_path: Path) -> None:
    config = site_config(tmp_path)  # with environments
    config.DockerSpawner.mem_limit = "3G"
    spawner = spawner_of(config, DockerSessionSpawner)
    try:
        request = await spawner.accept({})
        assert (request.preset, request.mem, request.cpu) == ("default", 3 * GIB, 1000)
    finally:
        await spawner.site.close()


async def test_a_container_of_another_session_says_nothing_of_this_one(
    plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id may be what a Hub before this one kept of the server."""
    ended: list[str] = []
    labels = {LABEL_SESSION: "another"}

    class Host:
        async def call(self, function: Any) -> Any:
            return {"Id": "x", "Config": {"Labels": labels}, "State": {"Running": True}}

    async def session_ended(code: int | None, reason: str) -> None:
        ended.append(reason)

    class Row:
        id = "this"

    plain._host = Host()
    monkeypatch.setattr(plain, "session_ended", session_ended)
    assert await plain._exit_of(Row, "x") == 1
    assert ended == ["Its container is gone. Start it again."]
    labels[LABEL_SESSION] = "this"
    assert await plain._exit_of(Row, "x") is None
