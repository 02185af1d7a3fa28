"""The real service on a loopback port, on a real store, with a stand-in for the Hub."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from .running import Running, running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """One service a module."""
    folder: Path = tmp_path_factory.mktemp("service")
    async with running(folder) as started:
        yield started
