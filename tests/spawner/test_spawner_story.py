"""What happened to a start, followed by several readers; what a user typed, kept and forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from spawners import MachineSpawner, site_config, user_of

from jupyterhub_backendai.model.errors import LaunchError
from jupyterhub_backendai.spawner.errors import SessionSpawnError
from jupyterhub_backendai.spawner.story import STEPS, Story, Tried


async def follow(story: Story) -> list[dict[str, Any]]:
    return [event async for event in story]


def titles(events: list[dict[str, Any]]) -> list[str]:
    return [event["backendai"]["title"] for event in events]


async def test_every_reader_reads_everything_whenever_it_comes() -> None:
    story = Story()
    early = [asyncio.ensure_future(follow(story)) for _ in range(3)]
    await asyncio.sleep(0)
    story.tell("asked", "Asked", "two cores")
    story.tell("queued", "In line", position=2)
    await asyncio.sleep(0)
    middle = asyncio.ensure_future(follow(story))
    await asyncio.sleep(0)
    story.tell("ready", "Ready")
    story.end()
    late = await follow(story)
    for events in (*await asyncio.gather(*early), await middle):
        assert events == late
    assert titles(late) == ["Asked", "In line", "Ready"]
    assert story.over


async def test_a_reader_waits_and_is_woken_by_each_piece_of_news() -> None:
    story = Story()
    reader = story.__aiter__()
    for step in ("asked", "queued", "placed"):
        next_one = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0.01)
        assert not next_one.done()
        story.tell(step, step)
        event = await asyncio.wait_for(next_one, 5)
        assert event["backendai"]["step"] == step
    story.end()
    with pytest.raises(StopAsyncIteration):
        await anext(reader)


async def test_a_reader_that_goes_away_disturbs_nobody() -> None:
    story = Story()
    gone, stays = (asyncio.ensure_future(follow(story)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    story.tell("asked", "Asked")
    story.end()
    assert titles(await asyncio.wait_for(stays, 5)) == ["Asked"]


async def test_what_a_reader_takes_out_is_there_for_the_next() -> None:
    story = Story()
    story.tell("asked", "Asked", "two cores")
    story.end()
    (event,) = await follow(story)
    event.pop("message")
    event.pop("progress")
    (again,) = await follow(story)
    assert again["message"] == "Asked: two cores"
    assert again["progress"] == 5


async def test_progress_only_grows() -> None:
    story = Story()
    for step in STEPS:
        story.tell(step, step)
    story.end()
    progress = [event["progress"] for event in await follow(story)]
    assert progress == sorted(set(progress))
    assert progress[0] > 0
    assert progress[-1] < 100  # the Hub says 100 itself


async def test_a_long_wait_is_a_short_story() -> None:
    """Hours in line are thousands of places; a page that opens then is told the newest one."""
    story = Story()
    story.tell("asked", "Asked")
    following = story.__aiter__()
    assert (await anext(following))["backendai"]["step"] == "asked"
    places = []
    for position in range(2000, 0, -1):
        story.tell("queued", f"In line, #{position}", position=position)
        places.append((await anext(following))["backendai"]["position"])
    assert places == list(range(2000, 0, -1))  # who follows misses none
    story.tell("placed", "Admitted")
    story.end()
    late = await follow(story)
    assert titles(late) == ["Asked", "In line, #1", "Admitted"]
    assert titles([event async for event in following]) == ["Admitted"]
    assert [told["title"] for told in story.told.values()] == titles(late)
    queued = late[1]["backendai"]
    assert queued["since"] < queued["at"]  # how long it waits is told from its beginning


async def test_back_in_line_is_told_after_what_it_undoes() -> None:
    story = Story()
    for step in ("asked", "queued", "placed", "queued"):
        story.tell(step, step)
    story.end()
    assert titles(await follow(story)) == ["asked", "placed", "queued"]


# --- which session it is about, for the way back to the form


class BrokenSpawner(MachineSpawner):
    """Its containers cannot be made."""

    async def launch(self, session: Any, request: Any) -> tuple[str, int]:
        raise LaunchError("folder", "A folder is not there any more.")


@pytest.mark.parametrize(
    ("env", "whole"), [({"LEVEL": "3"}, True), ({"LEVEL": "3", "API_TOKEN": "t0p"}, False)]
)
async def test_a_start_says_which_session_it_is(
    tmp_path: Path, env: dict[str, str], whole: bool
) -> None:
    """And whether the launcher knows all that was asked: what looks secret it does not."""
    spawner = user_of(site_config(tmp_path), BrokenSpawner)._new_spawner("")
    assert await spawner.last_session() == ""
    await spawner.accept({"env": env})
    spawner.user_options = {"env": env}
    events = asyncio.ensure_future(follow(spawner._story))
    with pytest.raises(SessionSpawnError, match="A folder is not there") as failed:
        await spawner.start()
    (session,), _ = spawner.site.store.list_sessions()
    assert failed.value.tried == Tried(session.id, whole)
    told = [event["backendai"]["session"] for event in await events]
    assert told == [{"id": session.id, "whole": whole}] * len(told) != []
    assert await spawner.last_session() == session.id
    await spawner.site.close()


async def test_a_start_that_was_refused_is_of_no_session(tmp_path: Path) -> None:
    """Also where there was one before, which was asked for otherwise."""
    spawner = user_of(site_config(tmp_path), BrokenSpawner)._new_spawner("")
    with pytest.raises(SessionSpawnError):
        await spawner.start()
    with pytest.raises(SessionSpawnError) as refused:
        await spawner.accept({"preset": "none"})
    assert refused.value.tried is None
    await spawner.site.close()
