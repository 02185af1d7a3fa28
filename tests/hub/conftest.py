"""Fixtures of the tests that need a real Hub and a real Docker engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Hub, running


@pytest.fixture(scope="module")
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One Hub a module; `SETTINGS` and `EXTRA` of the module configure it."""
    directory: Path = tmp_path_factory.mktemp("hub")
    settings = dict(getattr(request.module, "SETTINGS", {}))
    folders = directory / "folders"
    settings["BackendAI"] = {"folder_root": str(folders), **settings.get("BackendAI", {})}
    extra = getattr(request.module, "EXTRA", "")
    with running(directory, settings=settings, extra=extra) as started:
        yield started
