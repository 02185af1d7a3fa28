"""A Hub that has just begun asks a session that stands still when it may answer, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from spawners import running, site_config, spawner_of

from jupyterhub_backendai.model.images import CommitStatus, reference_of
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.spawner import still
from jupyterhub_backendai.spawner.docker import DockerSessionSpawner
from jupyterhub_backendai.store import Commit, Wish

COMMITTING = CommitStatus.COMMITTING


@pytest.fixture
async def spawner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(still, "LOOK", 0.01)
    spawner = spawner_of(site_config(tmp_path), DockerSessionSpawner)
    running(spawner.site)
    await spawner.recall()
    yield spawner
    await spawner.site.close()


def begun(spawner: Any, rests: bool = False, to: CommitStatus = COMMITTING) -> Commit:
    store, now = spawner.site.store, utcnow()
    session = store.live_of("alice", "")
    wish = Wish("mine", "alice", "c" * 64, hibernates=rests)
    begin = store.begin_hibernation if rests else store.begin_commit
    commit: Commit = begin(session.id, wish, 3, partial(reference_of, prefix=""), now)
    for status in (COMMITTING, CommitStatus.PUSHING):
        if commit.status is not to:
            commit = store.move_commit(commit.id, status, now)
    return commit


async def server() -> tuple[asyncio.Server, str, asyncio.Event]:
    """One that answers nobody until it is let go, and its address."""
    go = asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    made = await asyncio.start_server(answer, "127.0.0.1", 0)
    return made, f"http://127.0.0.1:{made.sockets[0].getsockname()[1]}/user/alice/", go


@pytest.mark.parametrize("rests", [False, True], ids=["image", "hibernation"])
async def test_it_waits_for_the_end_of_what_is_made(spawner: Any, rests: bool) -> None:
    commit = begun(spawner, rests)
    waits = asyncio.ensure_future(spawner.until_it_goes_on("http://127.0.0.1:1/"))
    done, _ = await asyncio.wait([waits], timeout=0.3)
    assert not done
    spawner.site.store.move_commit(commit.id, CommitStatus.FAILED, utcnow())
    await asyncio.wait_for(waits, 60)


@pytest.mark.parametrize("status", [None, CommitStatus.WAITING, CommitStatus.PUSHING])
async def test_one_that_goes_on_is_asked_at_once(spawner: Any, status: CommitStatus | None) -> None:
    if status is not None:
        begun(spawner, to=status)
    await asyncio.wait_for(spawner.until_it_goes_on("http://127.0.0.1:1/"), 60)


@pytest.mark.parametrize("why", ["the Hub waits for its checks", "no service"])
async def test_where_nobody_goes_on_with_it_the_session_itself_is_asked(
    spawner: Any, why: str
) -> None:
    """The Hub's service may begin after this check alone."""
    if why == "no service":
        spawner.site.configuration.service = False
    else:
        spawner.config.JupyterHub.init_spawners_timeout = -1
    commit = begun(spawner)
    made, url, go = await server()
    async with made:
        waits = asyncio.ensure_future(spawner.until_it_goes_on(url))
        done, _ = await asyncio.wait([waits], timeout=0.3)
        assert not done
        go.set()
        await asyncio.wait_for(waits, 60)
    # One that is to rest would never answer: that it has no server then does not end it.
    spawner.site.store.move_commit(commit.id, CommitStatus.FAILED, utcnow())
    begun(spawner, rests=True)
    await asyncio.wait_for(spawner.until_it_goes_on("http://127.0.0.1:1/"), 60)
