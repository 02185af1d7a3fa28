"""What ends a start that was given up ends nothing else: the moments are chosen here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from jupyterhub.user import User
from spawners import Machine, MachineSpawner, site_config, user_of

from jupyterhub_backendai.model.errors import LaunchError
from jupyterhub_backendai.model.status import Phase, Result, Status
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.spawner import session as session_module
from jupyterhub_backendai.spawner.errors import SessionSpawnError


@pytest.fixture
async def user(tmp_path: Path) -> AsyncIterator[User]:
    user = user_of(site_config(tmp_path), MachineSpawner)
    yield user
    await spawner_of(user).site.close()


def spawner_of(user: User) -> MachineSpawner:
    """A new one for the same server, as the Hub makes one after each stop."""
    return user._new_spawner("")  # type: ignore[no-any-return]


def live(site: Site) -> dict[str, Status]:
    return {row.id: row.status for row in site.store.live()}


async def given_up(spawner: MachineSpawner) -> str:
    """A start that is cancelled while its container is made; the id of its session."""
    start = asyncio.ensure_future(spawner.start())
    await asyncio.wait_for(spawner.began.wait(), 10)
    (session_id,) = live(spawner.site)
    start.cancel()
    _, pending = await asyncio.wait([start], timeout=1)  # the Hub waits no longer
    assert not pending
    assert start.cancelled()
    return session_id


async def until_in_line(spawner: MachineSpawner) -> asyncio.Task[tuple[str, int]]:
    """A start that is asked for while the one before it is still being ended."""
    start = asyncio.ensure_future(spawner.start())
    done, _ = await asyncio.wait([start], timeout=0.2)
    assert not done
    return start


async def test_the_next_start_waits_for_the_clean_up_before_it(user: User) -> None:
    first = spawner_of(user)
    old = await given_up(first)
    site: Site = first.site
    machine: Machine = site.engine  # type: ignore[assignment]

    second, third = spawner_of(user), spawner_of(user)
    start = await until_in_line(second)
    # It is given up too while it waits: the one after it waits for both.
    start.cancel()
    await asyncio.wait([start])
    start = await until_in_line(third)
    assert list(live(site)) == [old]
    assert machine.removed == []

    third.may_finish.set()
    first.may_finish.set()
    assert await asyncio.wait_for(start, 10) == ("127.0.0.1", 1)
    (new,) = live(site)
    assert new != old
    assert machine.removed == [old]
    assert machine.made == [new]
    assert site.store.get(old).status is Status.TERMINATED
    assert site.driven == set()


async def test_a_stop_in_a_clean_up_waits_and_ends_nothing_else(user: User) -> None:
    first = spawner_of(user)
    old = await given_up(first)
    second = spawner_of(user)
    stop = asyncio.ensure_future(second.stop())
    done, _ = await asyncio.wait([stop], timeout=0.2)
    assert not done
    first.may_finish.set()
    await asyncio.wait_for(stop, 10)
    site = first.site
    assert live(site) == {}
    assert site.engine.made == []  # type: ignore[attr-defined]
    assert site.store.get(old).status is Status.TERMINATED


async def test_a_clean_up_that_hangs_is_told(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CLEANUP_WAIT", 0.1)
    first = spawner_of(user)
    old = await given_up(first)
    with pytest.raises(SessionSpawnError, match="still being ended. Start it again in a minute"):
        await spawner_of(user).start()
    assert list(live(first.site)) == [old]
    first.may_finish.set()


async def test_a_stop_in_the_middle_of_a_start_leaves_nothing(user: User) -> None:
    spawner = spawner_of(user)
    start = asyncio.ensure_future(spawner.start())
    await asyncio.wait_for(spawner.began.wait(), 10)
    stop = asyncio.ensure_future(spawner.stop())
    spawner.may_finish.set()
    await asyncio.wait_for(asyncio.wait([start, stop]), 10)
    await spawner.site.cleanups.over((user.name, ""), 10)
    assert live(spawner.site) == {}
    assert spawner.site.engine.made == []  # type: ignore[attr-defined]
    assert spawner.site.driven == set()


async def test_the_history_says_which_step_failed_and_none_that_was_not_done(user: User) -> None:
    spawner = spawner_of(user)
    site: Site = spawner.site

    async def fails(session: object, request: object) -> tuple[str, int]:
        raise LaunchError("folder", "A folder is gone.")

    spawner.launch = fails  # type: ignore[method-assign]
    with pytest.raises(SessionSpawnError):
        await spawner.start()
    (ended,), _ = site.store.list_sessions()
    told = [(h.phase, h.result, h.error_code) for h in reversed(site.store.history(ended.id))]
    assert told[:2] == [
        (Phase.SUBMIT, Result.SUCCESS, None), (Phase.SCHEDULE, Result.SUCCESS, None),
    ]  # fmt: skip
    assert told[2:5] == [
        (Phase.START, Result.SUCCESS, None), (Phase.PREPARE, Result.SUCCESS, None),
        (Phase.CREATE, Result.FAILURE, "folder"),
    ]  # fmt: skip
    assert {phase for phase, _, _ in told[5:]} == {Phase.TERMINATE}
    again = spawner_of(user)
    again.may_finish.set()
    await again.start()
    (runs,) = site.store.live()
    told = [(h.phase, h.result, h.error_code) for h in site.store.history(runs.id)]
    assert told[0] == (Phase.CREATE, Result.SUCCESS, None), "told when it is done"
