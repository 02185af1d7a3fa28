"""The real service on a loopback port, on a real store, with a stand-in for the Hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ..spawner.spawners import MachineSpawner, site_config, user_of
from .running import Running, running, until_open
from .starting import BACKEND, Hub, site_of


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """One service a module."""
    folder: Path = tmp_path_factory.mktemp("service")
    async with running(folder) as started:
        await until_open(started)
        yield started


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A Hub whose site has room for two sessions."""
    hub = Hub(user_of(site_config(tmp_path, **BACKEND), MachineSpawner))
    await site_of(hub).ready()
    yield hub
    for start in hub.starts:
        start.cancel()
    await asyncio.gather(*hub.starts, return_exceptions=True)
    await site_of(hub).close()
