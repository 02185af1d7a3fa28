"""Idle sessions that are hibernated instead of ended: real service and store, agents that do as a
test says, and a clock that the test moves."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jupyterhub_backendai.engine.base import AgentUnreachable
from jupyterhub_backendai.engine.images import Room
from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.model.slots import GIB
from jupyterhub_backendai.service.idle import resting as idle_resting
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Made

from .image_shelf import CONTAINER, Shelf, shelf_of
from .images_made import rest
from .test_idle_worker import HOUR, INTERVAL, Idle, idle
from .ways import make_running

RESTS = {"network": "1h", "then": "hibernate"}


async def parked(one: Idle) -> Shelf:
    """Nobody has used it since its start, and its agent makes images."""
    shelf = shelf_of(one.service)
    one.service.store.set_kernel(one.id, container_id=CONTAINER)
    one.says(used=0)
    await one.rounds(INTERVAL)
    return shelf


async def test_one_that_is_to_rest_is_hibernated(tmp_path: Path) -> None:
    async with idle(tmp_path, RESTS) as one:
        one.service.service.parts.site.idle.warnings = (HOUR,)
        await parked(one)
        await one.rounds(HOUR / 2)
        warned = (await one.service.call("GET", "?part=warnings", "alice")).json
        assert "will be hibernated at" in warned
        assert "it can be resumed" in warned
        part = (await one.service.call("GET", f"sessions/{one.id}?part=idle", "alice")).json
        assert "This site hibernates sessions that nobody has used for 1 hour." in part
        await one.rounds(HOUR)
        commit = one.service.store.commit_of(one.id)
        assert commit is not None
        assert (commit.hibernates, commit.status) == (True, CommitStatus.WAITING)
        assert one.is_running, "until its image is made"
        await one.rounds(HOUR)
        assert one.service.store.commit_of(one.id) == commit, "once"
        store = one.service.store
        store.move_commit(commit.id, CommitStatus.COMMITTING, utcnow())
        made = Made("sha256:1", "sha256:0", GIB, GIB, "local")
        ends = store.finish_hibernation(commit.id, made, None, utcnow())
        assert (ends.reason_code, ends.reason) == (
            "idle_network", "Nobody had used it for 1 hour.",
        )  # fmt: skip


@pytest.mark.parametrize("most", [1, 0])
async def test_one_that_may_not_rest_is_ended(tmp_path: Path, most: int) -> None:
    policy = {"hibernate": {"most": most}}
    async with idle(tmp_path, RESTS, default_policy=policy) as one:
        shelf = await parked(one)
        shelf.written, shelf.rooms = 10 * GIB, Room(GIB, 2 * GIB)
        await one.rounds(2 * HOUR)
        assert not one.is_running
        assert one.session.reason_code == "idle_network"
        why = "It could not be hibernated: The session has written 10 GB"
        assert (why in one.session.reason) == (most == 1)
        assert one.service.store.commit_of(one.id) is None


async def test_an_agent_that_does_not_answer_costs_nobody_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with idle(tmp_path, RESTS) as one:
        shelf = await parked(one)
        late = utcnow()
        monkeypatch.setattr(idle_resting, "utcnow", lambda: late)
        for failed in (1, 2):
            shelf.errors["look"] = [AgentUnreachable("silent")] * 2
            await one.rounds(2 * HOUR)
            assert one.is_running
            assert len(shelf.errors["look"]) == 1, "once in ten minutes"
            assert one.service.store.commit_of(one.id) is None, failed
            late += timedelta(minutes=11)
        shelf.errors["look"] = []
        await one.rounds(5 * INTERVAL)
        commit = one.service.store.commit_of(one.id)
        assert commit is not None
        # Who cancels that has ten minutes to use it, or to keep it.
        one.service.store.cancel_commit(commit.id, late)
        await one.rounds(5 * INTERVAL)
        assert one.service.store.commit_of(one.id).id == commit.id
        late += timedelta(minutes=11)
        await one.rounds(5 * INTERVAL)
        assert one.service.store.commit_of(one.id).id != commit.id
        assert one.is_running


async def test_three_that_fail_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with idle(tmp_path, RESTS) as one:
        await parked(one)
        store, late = one.service.store, utcnow()
        monkeypatch.setattr(idle_resting, "utcnow", lambda: late)
        seen = set()
        for number in range(3):
            await one.rounds(2 * HOUR)
            commit = store.commit_of(one.id)
            assert commit is not None
            seen.add(commit.id)
            assert len(seen) == number + 1
            late = utcnow()
            store.move_commit(
                commit.id, CommitStatus.FAILED, utcnow(), error_code="engine", message="Ask Bob."
            )
            await one.rounds(5 * INTERVAL)
            if number < 2:
                assert store.commit_of(one.id).id == commit.id, "not before ten minutes have passed"
                assert one.is_running
            late += timedelta(minutes=11)
        await one.rounds(5 * INTERVAL)
        assert not one.is_running
        assert one.session.reason.endswith("It could not be hibernated: Ask Bob.")


# ---- resumed, it begins anew --------------------------------------------------------------------


async def rests_and_runs_again(one: Idle) -> None:
    """Between two rounds: what was seen last is noted at a bad moment."""
    assert one.worker.watch is not None
    store = one.service.store
    rest(one.service, one.session)
    store.resume(one.id, "alice", utcnow())
    one.worker.watch.sessions[one.id].noted = None
    await one.worker.watch.note()
    await make_running(one.service, {"id": one.id}, one.server.address)


async def test_one_that_is_resumed_within_a_round_begins_anew(tmp_path: Path) -> None:
    async with idle(tmp_path, {"lifetime": "2h"}) as one:
        await one.rounds(await one.left() - INTERVAL)
        await rests_and_runs_again(one)
        assert one.service.store.idle_records() == {}, "nor does one that is killed now leave any"
        assert await one.left() > 2 * HOUR - 60, "who looks at once is told so too"
        await one.rounds(HOUR)
        assert one.is_running
        await one.restart(down=0)
        await one.once()
        assert abs(await one.left() - HOUR) < 60


async def test_one_that_is_resumed_may_be_kept_as_long_as_any(tmp_path: Path) -> None:
    policy = {"keep": {"each": "1h", "total": "1h"}}
    async with idle(tmp_path, {"network": "1h"}, default_policy=policy) as one:
        one.says(used=0)
        await one.rounds(INTERVAL)
        assert (await one.keep()).status == 200
        await one.rounds(INTERVAL)
        await rests_and_runs_again(one)
        assert (await one.keep()).status == 200


async def test_an_end_that_was_decided_is_none_of_its_next_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with idle(tmp_path, {"lifetime": "2h"}) as one:
        await one.rounds(await one.left() - INTERVAL)
        refused = one.worker._rest.refused

        async def slowly(*args: Any) -> str | None:
            await rests_and_runs_again(one)
            return await refused(*args)

        monkeypatch.setattr(one.worker._rest, "refused", slowly)
        await one.rounds(INTERVAL)
        assert one.is_running
