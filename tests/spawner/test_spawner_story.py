"""What happened to a start, followed by several readers; what a user typed, kept and forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyterhub_backendai.model.errors import FieldError
from jupyterhub_backendai.spawner import forms
from jupyterhub_backendai.spawner.forms import FormState
from jupyterhub_backendai.spawner.story import STEPS, Story


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


def test_progress_only_grows() -> None:
    story = Story()
    for step in STEPS:
        story.tell(step, step)
    progress = [event["progress"] for event in story._events]
    assert progress == sorted(set(progress))
    assert progress[0] > 0
    assert progress[-1] < 100  # the Hub says 100 itself


class ASite:
    """Something that states can belong to."""


ERROR = FieldError("name", "in_use", "Choose another.")


def test_what_was_typed_survives_an_error_and_not_a_launch() -> None:
    site: Any = ASite()
    state = FormState.of(site, "alice")
    state.typed({"name": ["train1"], "env_name": ["A", "B"]}, {"name": "train1"})
    state.refused([ERROR])
    again = FormState.of(site, "alice")
    assert again.fields == {"name": ["train1"], "env_name": ["A", "B"]}
    assert again.spec == {"name": "train1"}
    assert again.errors == (ERROR,)
    assert not again.from_link
    again.launched()
    after = FormState.of(site, "alice")
    assert (after.fields, after.spec, after.errors) == ({}, None, ())


def test_states_are_of_one_user_and_one_site() -> None:
    site: Any = ASite()
    other: Any = ASite()
    FormState.of(site, "alice").typed({"name": ["x"]}, {})
    assert FormState.of(site, "bob").fields == {}
    assert FormState.of(other, "alice").fields == {}


def test_a_new_form_forgets_the_old_errors() -> None:
    state = FormState()
    state.proposed({"cpu": ["2"]}, {"resources": {"cpu": "2"}})
    assert state.from_link
    state.refused([ERROR])
    state.typed({"cpu": ["3"]}, {})
    assert (state.errors, state.from_link) == ((), False)


def test_old_and_huge_forms_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    site: Any = ASite()
    state = FormState.of(site, "alice")
    state.typed({"env_value": ["x" * forms.MAX_TYPED, "y"]}, {"env": []})
    assert state.fields == {}
    assert state.spec == {"env": []}
    state.typed({"name": ["x"], "file": [b"data", {"body": b""}]}, {})  # type: ignore[list-item]
    assert state.fields == {"name": ["x"], "file": []}
    now = forms.time.monotonic()
    monkeypatch.setattr(forms.time, "monotonic", lambda: now + forms.KEPT + 1)
    assert FormState.of(site, "alice").fields == {}
