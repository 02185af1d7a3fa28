"""What was typed and not launched: whose it is, how long and how much of it is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextvars import copy_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.orm import Spawner as OrmSpawner
from traitlets.config import Config

from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.spawner import forms
from jupyterhub_backendai.spawner.docker import DockerSessionSpawner
from jupyterhub_backendai.spawner.errors import SessionSpawnError
from jupyterhub_backendai.spawner.forms import Draft, Drafts, FormPage
from jupyterhub_backendai.store import AgentReport


class Person(SimpleNamespace):
    """As much of a Hub user as a form needs."""

    def __init__(self, name: str) -> None:
        super().__init__(
            name=name, escaped_name=name, admin=False, url=f"/user/{name}/",
            orm_user=SimpleNamespace(groups=[], name=name), settings={},
        )  # fmt: skip


class Handler:
    """As much of a request of the Hub's as a spawner reads; like a real one equal to no other."""

    def __init__(self, viewer: str) -> None:
        self.current_user = Person(viewer)


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Any]:
    """Makes spawners of ada's servers, on a site whose one machine does not answer."""
    config = Config()
    config.BackendAI.database_url = f"sqlite:///{tmp_path / 'backendai.sqlite'}"
    config.BackendAI.environments = [{"name": "python", "image": "python:3"}]
    config.BackendAI.presets = [{"name": "small", "cpu": 1, "mem": "1g"}]
    nobody = f"unix://{tmp_path}/none.sock"
    room = {"cpu": 2, "mem": "4g"}
    config.BackendAI.agents = [{"name": "here", "base_url": nobody, "capacity": room}]
    ada = Person("ada")
    made: list[DockerSessionSpawner] = []

    def server(name: str = "", options: Any = None) -> DockerSessionSpawner:
        row = OrmSpawner(name=name, user_options=options)
        spawner = DockerSessionSpawner(config=config, user=ada, orm_spawner=row)
        made.append(spawner)
        return spawner

    site: Site = server().site
    site.store.report_agents([AgentReport("here", "default", Slots(2000, 4 * GIB))], now=utcnow())
    yield server
    await site.close()
    site.store.close()


def request(handling: Any) -> Any:
    """Runs a coroutine the way the Hub runs a request: in a context of its own."""
    return copy_context().run(asyncio.ensure_future, handling)


async def look(spawner: DockerSessionSpawner, viewer: str, link: Any = None) -> str:
    """A GET of the spawn page, which a link may have led to."""

    async def handling() -> str:
        spawner.handler = Handler(viewer)
        if link:
            with pytest.raises(SessionSpawnError):
                await spawner.options_from_query(link)
        return str(await spawner.get_options_form())

    return await request(handling())


async def post(
    spawner: DockerSessionSpawner, form: dict[str, list[str]], default: DockerSessionSpawner
) -> tuple[SessionSpawnError | None, str]:
    """A POST of a form; where it is refused the Hub asks the default server for the page."""

    async def handling() -> tuple[SessionSpawnError | None, str]:
        try:
            await spawner.run_options_from_form(form)
        except SessionSpawnError as error:
            return error, str(await default.get_options_form())
        return None, ""

    return await request(handling())


def value(page: str, name: str) -> str:
    """The value of a field, as the page has it."""
    tag = page.partition(f'name="{name}" value="')[2]
    return tag.partition('"')[0]


async def test_a_draft_is_of_one_viewer_and_one_server(servers: Any) -> None:
    default, lab, other = servers(), servers("lab"), servers("other")
    ticket = value(await look(lab, "ada"), "ticket")
    form = {"ticket": [ticket], "name": ["typed-by-ada"], "ports": ["80"]}
    error, page = await post(lab, form, default)
    assert error is not None
    assert "Port 80 cannot be opened" in page  # though the default server was asked for it
    assert (value(page, "name"), value(page, "ticket")) == ("typed-by-ada", ticket)
    again = await look(lab, "ada")
    assert value(again, "name") == "typed-by-ada"
    assert "Port 80 cannot be opened" in again
    for spawner, viewer in ((lab, "boss"), (default, "ada"), (other, "ada")):
        assert "typed-by-ada" not in await look(spawner, viewer)

    bosses = value(await look(lab, "boss"), "ticket")
    await post(lab, {"ticket": [bosses], "name": ["typed-by-boss"], "ports": ["80"]}, default)
    assert value(await look(lab, "ada"), "name") == "typed-by-ada"
    assert value(await look(lab, "boss"), "name") == "typed-by-boss"

    lab.form_launched()
    for viewer in ("ada", "boss"):
        assert value(await look(lab, viewer), "name") == ""


async def test_a_form_of_somebody_else_is_kept_for_nobody(servers: Any) -> None:
    lab = servers("lab")
    right = FormPage("boss", "ada", "lab").ticket
    for ticket in (
        "",
        "boss",
        right[:64] + "ada",
        FormPage("boss", "ada", "").ticket,
        "é",
        "\ud800",
    ):
        error, page = await post(lab, {"ticket": [ticket], "name": ["planted"], "cpu": ["9"]}, lab)
        assert error is not None
        assert value(page, "name") == "planted"  # an error loses nothing all the same
        for viewer in ("ada", "boss"):
            assert "planted" not in await look(lab, viewer)


async def test_a_link_takes_the_place_of_nothing_typed(servers: Any) -> None:
    lab = servers("lab")
    ticket = value(await look(lab, "ada"), "ticket")
    await post(lab, {"ticket": [ticket], "name": ["mine"], "ports": ["80"]}, lab)
    page = await look(lab, "ada", link={"name": ["of-a-link"]})
    assert value(page, "name") == "of-a-link"
    assert "Filled in from a link" in page
    assert "Back to what you had typed" in page
    assert value(await look(lab, "ada"), "name") == "mine"
    lab.drafts.launched("ada", "lab")
    page = await look(lab, "ada", link={"name": ["of-a-link"]})
    assert "Back to what you had typed" not in page
    assert "of-a-link" not in await look(lab, "ada")


async def test_two_who_look_at_once_get_their_own(servers: Any) -> None:
    """The Hub notes the request on the spawner, where the next request writes over it."""
    lab = servers("lab")
    pages = await asyncio.gather(*(look(lab, viewer) for viewer in ("ada", "boss")))
    for page, viewer in zip(pages, ("ada", "boss"), strict=True):
        assert value(page, "ticket") == FormPage(viewer, "ada", "lab").ticket


async def test_a_quick_start_that_fails_shows_what_it_would_have_started(servers: Any) -> None:
    lab = servers("lab", {"preset": "gone", "env": {"KEPT": "1"}})
    error, page = await post(lab, {"quick": ["last"]}, lab)
    assert error is not None
    assert 'value="KEPT"' in page
    assert "gone is not offered" in page


LARGE: list[Any] = [
    {"preset": "x" * 1_000_000},
    {"env": [{"name": "A", "value": "1"}] * 200_000},
    {f"key{number}": number for number in range(200_000)},
    {"mounts": [[[[[[[[[[[["deep"]]]]]]]]]]]]},
    {"resources": {"cpu": ["1"] * 500_000}},
]


@pytest.mark.parametrize("options", LARGE, ids=["text", "rows", "keys", "deep", "inner"])
async def test_what_is_too_large_is_refused_at_once(servers: Any, options: Any) -> None:
    """Through each door, and where it is stored already: never a hang, always a form."""
    lab = servers("lab", options)
    start = time.process_time()  # what others have this machine do is not ours
    with pytest.raises(SessionSpawnError) as caught:
        await lab.accept(options)
    assert caught.value.status_code == 400
    assert len(str(caught.value.jupyterhub_message)) < 200
    page = await look(lab, "ada")
    assert "cannot be read any more, so this form is empty" in page
    assert len(page) < 200_000
    error, page = await post(lab, {"quick": ["last"]}, lab)
    assert error is not None
    assert error.status_code == 400
    assert len(page) < 200_000
    error, page = await post(lab, {"name": ["x"], "env_name": ["A"] * 100_000}, lab)
    assert error is not None
    assert "too long" in str(error.jupyterhub_message)
    assert time.process_time() - start < 2


async def test_what_is_stored_and_not_offered_any_more_is_said(servers: Any) -> None:
    page = await look(servers("lab", {"environment": "gone<b>", "old-key": 1}), "ada")
    assert "What you had here last cannot be started as it was" in page
    assert "gone<b>" not in page
    assert 'id="bk-launch"' in page


async def test_the_end_of_the_last_session_is_told_if_nobody_asked_for_it(servers: Any) -> None:
    lab = servers("lab", {"preset": "small"})
    site, told = lab.site, "What you had here last has ended"
    assert await lab.ended_because() == ""
    for code, reason in [
        ("exited", "Memory ran out <and> it was stopped."),
        ("user_requested", "It was ended through the Hub."),
        ("force_terminated", "ada ended it."),
    ]:
        session = site.store.submit(
            await lab.check({}), owner="ada", owner_groups=(), server_name="lab", name=code,
            driver=None, max_pending=None, now=utcnow(),
        )  # fmt: skip
        assert await lab.ended_because() == ""
        await site.end(session.id, code, reason)
        if code == "exited":
            assert await lab.ended_because() == reason
            assert f"{told}: Memory ran out &lt;and&gt; it was stopped." in await look(lab, "ada")
            assert told not in await look(servers("other"), "ada")
    assert await lab.ended_because() == ""
    assert told not in await look(lab, "ada")


async def test_a_quick_start_with_a_folder_is_not_what_the_form_shows(servers: Any) -> None:
    lab = servers("lab", {"env": {"OLD": "1"}})
    error, page = await post(lab, {"quick": ["default"], "quick_folder": ["keep"]}, lab)
    assert error is not None
    assert "This Hub has no folders" in page
    assert 'value="OLD"' not in page


def test_drafts_are_bounded_in_number_and_age(monkeypatch: pytest.MonkeyPatch) -> None:
    drafts = Drafts()
    for number in range(forms.MAX_OF_ONE + 5):
        drafts.keep(FormPage("ada", "ada", f"s{number}"), Draft())
    kept = [n for n in range(20) if drafts.get(FormPage("ada", "ada", f"s{n}"))]
    assert kept == list(range(5, forms.MAX_OF_ONE + 5))
    for number in range(forms.MAX_DRAFTS):
        drafts.keep(FormPage(f"u{number}", "ada", ""), Draft())
    assert not drafts.get(FormPage("ada", "ada", "s14"))
    assert drafts.get(FormPage("u0", "ada", ""))
    now = forms.time.monotonic()
    monkeypatch.setattr(forms.time, "monotonic", lambda: now + forms.KEPT + 1)
    assert not drafts.get(FormPage("u0", "ada", ""))


def test_huge_forms_and_files_are_not_kept_as_typed() -> None:
    draft = Draft.of({"env_value": ["x" * forms.MAX_TYPED, "y"]}, {"env": []})
    assert (draft.fields, draft.spec) == ({}, {"env": []})
    draft = Draft.of({"name": ["x"], "file": [b"data", {"body": b""}]}, {})
    assert draft.fields == {"name": ["x"], "file": []}
