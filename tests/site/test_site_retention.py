"""A site forgets by itself what was over long ago."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from jupyterhub_backendai._within import within
from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.resolve import Context, resolve
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.site import retention
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site


def over(site: Site, name: str, days_ago: float) -> str:
    """A session that was cancelled that long ago."""
    catalog = Catalog(environments=({"name": "python", "image": "python:3"},))  # type: ignore[arg-type]
    request = resolve({}, Context("alice", frozenset(), False, catalog, Policies()))
    then = utcnow() - timedelta(days=days_ago)
    session = site.store.submit(
        request, owner="alice", owner_groups=[], server_name=name, name=name,
        driver=site.run_id, max_pending=None, now=then,
    )  # fmt: skip
    site.store.move(session.id, Status.CANCELLED, phase=Phase.CANCEL, now=then)
    return session.id


def site_with(tmp_path: Path, days: int) -> Site:
    config = Config()
    config.BackendAI.database_url = f"sqlite:///{tmp_path / 'backendai.sqlite'}"
    config.BackendAI.history_days = days
    config.BackendAI.agents = [{"name": "here", "base_url": f"unix://{tmp_path}/none.sock"}]
    return Site.of(config, {})


def names(site: Site) -> list[str]:
    return sorted(session.name for session in site.store.list_sessions()[0])


async def test_a_site_forgets_what_was_over_long_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PORTION", 2)
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    site = site_with(tmp_path, 90)
    forget: Callable[..., int] = site.store.forget

    def watched(*args: Any) -> int:
        count = forget(*args)
        if not count:
            loop.call_soon_threadsafe(done.set)
        return count

    monkeypatch.setattr(site.store, "forget", watched)
    try:
        for number in (1, 2, 3):
            over(site, f"old-{number}", 91)
        over(site, "new", 89)
        await site.ready()  # the site does it by itself, in portions
        await within(20, done.wait())
        assert names(site) == ["new"]
    finally:
        await site.close()


async def test_zero_days_keep_all_for_ever(tmp_path: Path) -> None:
    site = site_with(tmp_path, 0)
    over(site, "old", 10_000)
    await retention.run(site)  # has nothing to do, and so ends
    assert names(site) == ["old"]
    await site.close()
