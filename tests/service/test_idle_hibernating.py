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
from jupyterhub_backendai.store import Made, Return

from .image_shelf import CONTAINER, Shelf, running_session, shelf_of
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


# ---- it cannot be, and its owner is told before it is ended ------------------------------------

WARNINGS = (3600, 600)
NO_ROOM = Room(0, 2 * GIB)
RESUME = "End one first, or resume one, which counts until it has run for 2 minutes."
ENDS = "It cannot be hibernated, so its home and what was installed go: "


async def parked_long(one: Idle, left: float = 20 * INTERVAL) -> Shelf:
    """The same, and it was warned of that: so many seconds are left."""
    one.service.service.parts.site.idle.warnings = WARNINGS
    shelf = await parked(one)
    assert one.worker.watch is not None
    ends_at = one.worker.watch.sessions[one.id].ends_at
    assert ends_at is not None
    await one.rounds(ends_at - one.worker.watch.clock.now() - left)
    return shelf


async def page(one: Idle) -> str:
    """What its owner's pages warn of."""
    return str((await one.service.call("GET", "?part=warnings", "alice")).json)


async def another_rests(one: Idle) -> str:
    """One more of the same owner, which is hibernated."""
    session = await running_session(one.service)
    return rest(one.service, one.service.store.get(session["id"])).id


async def test_what_turns_out_at_the_end_is_told_before_it_is_ended(tmp_path: Path) -> None:
    async with idle(tmp_path, RESTS) as one:
        shelf = await parked_long(one)
        shelf.written, shelf.rooms = 10 * GIB, NO_ROOM
        assert "will be hibernated at" in await page(one)
        await one.rounds(25 * INTERVAL)
        assert one.is_running
        assert 590 - 5 * INTERVAL <= await one.left() <= 600
        warned = await page(one)
        assert "will be ended at" in warned
        assert f"{ENDS}The session has written 10 GB" in warned
        assert "hibernated at" not in warned
        assert "after 1 hour of that it ends" in warned
        view = await one.view()
        assert (view["then"], view["why_not"][:23]) == ("ended", "The session has written")
        part = (await one.service.call("GET", f"sessions/{one.id}?part=idle", "alice")).json
        assert "It cannot be hibernated, so it is ended" in part
        await one.rounds(await one.left() - INTERVAL)
        assert one.is_running
        await one.rounds(3 * INTERVAL)
        assert not one.is_running
        assert "It could not be hibernated: The session has written 10 GB" in one.session.reason


async def test_what_is_no_obstacle_any_more_ends_nothing(tmp_path: Path) -> None:
    async with idle(tmp_path, RESTS) as one:
        shelf = await parked_long(one)
        room, shelf.rooms = shelf.rooms, NO_ROOM
        await one.rounds(25 * INTERVAL)
        assert "will be ended at" in await page(one)
        shelf.rooms = room
        await one.rounds(HOUR)
        assert one.is_running
        commit = one.service.store.commit_of(one.id)
        assert commit is not None
        assert commit.hibernates


async def test_who_uses_it_then_is_told_the_next_time_what_is_true_then(tmp_path: Path) -> None:
    async with idle(tmp_path, RESTS) as one:
        shelf = await parked_long(one)
        room, shelf.rooms = shelf.rooms, NO_ROOM
        await one.rounds(25 * INTERVAL)
        one.says(used=0)
        await one.rounds(HOUR / 2)
        shelf.rooms = room
        await one.rounds(HOUR / 4)
        assert "will be hibernated at" in await page(one)


async def test_a_limit_is_told_with_the_first_warning(tmp_path: Path) -> None:
    policy = {"hibernate": {"most": 1}}
    async with idle(tmp_path, RESTS, default_policy=policy) as one:
        other = await another_rests(one)
        await parked_long(one, left=HOUR / 2 - 2 * INTERVAL)
        warned = await page(one)
        assert f"{ENDS}You have 1 hibernated session, and your limit is 1." in warned
        left = await one.left()
        one.service.store.let_go(other, "user_requested", "alice ended it.")
        await one.rounds(INTERVAL)
        assert "will be hibernated at" in await page(one)
        await another_rests(one)
        await one.rounds(INTERVAL)
        assert "will be ended at" in await page(one)
        assert abs(await one.left() - (left - 2 * INTERVAL)) <= 2, "there is time enough"
        await one.rounds(left - 4 * INTERVAL)
        assert one.is_running
        await one.rounds(4 * INTERVAL)
        assert one.session.reason.endswith("and your limit is 1. " + RESUME)


async def test_a_limit_that_is_reached_at_the_last_moment_puts_the_end_off(tmp_path: Path) -> None:
    policy = {"hibernate": {"most": 1}}
    async with idle(tmp_path, RESTS, default_policy=policy) as one:
        await parked_long(one, left=20 * INTERVAL)
        await another_rests(one)
        await one.rounds(INTERVAL)
        assert "will be ended at" in await page(one)
        left = await one.left()
        assert 600 <= left <= 600 + 20 * INTERVAL
        await one.rounds(left - INTERVAL)
        assert one.is_running
        await one.rounds(3 * INTERVAL)
        assert not one.is_running


@pytest.mark.parametrize("fails", [True, False])
async def test_three_that_fail_are_told_and_one_more_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    async with idle(tmp_path, RESTS) as one:
        shelf = await parked_long(one)
        late = utcnow()
        monkeypatch.setattr(idle_resting, "utcnow", lambda: late)
        shelf.errors["look"] = [AgentUnreachable("silent")] * 99
        for _ in range(3):
            assert "will be hibernated at" in await page(one)
            await one.rounds(25 * INTERVAL)
            late += timedelta(minutes=11)
        assert one.is_running
        assert len(shelf.errors["look"]) == 96
        assert f"{ENDS}The agent that it runs on does not answer." in await page(one)
        left = await one.left()
        assert left > 600 - 26 * INTERVAL
        await one.rounds(left - INTERVAL)
        assert one.is_running
        if not fails:
            shelf.errors["look"] = []
        await one.rounds(5 * INTERVAL)
        commit = one.service.store.commit_of(one.id)
        assert one.is_running is not fails
        assert (commit is None) is fails


# ---- resumed, it begins anew --------------------------------------------------------------------


async def rests_and_runs_again(one: Idle) -> None:
    """Between two rounds: what was seen last is noted at a bad moment."""
    assert one.worker.watch is not None
    store = one.service.store
    rest(one.service, one.session)
    store.resume(one.id, Return("alice", (), None), utcnow())
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
