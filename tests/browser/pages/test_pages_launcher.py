"""The launcher: from the form to sessions, and back with what is wrong."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from jupyterhub_backendai.store import Filter, Session

from ..chromium import Barriers
from .conftest import Open
from .sample import Sample

pytestmark = pytest.mark.browser


async def ready(page: Page) -> Page:
    await page.wait_for_selector("#backendai[data-ready]")
    return page


async def to_review(page: Page) -> None:
    await page.click('.bk-rail a[href="#step-5"]')
    await expect(page.locator("#step-5")).to_be_visible()


async def launch(page: Page) -> None:
    """Presses Launch, and comes to the list."""
    await page.click("#bk-launch")
    await expect(page.locator("h1")).to_have_text("Sessions")


def of(sample: Sample, owner: str = "alice") -> list[Session]:
    """Sessions of one owner, the newest first."""
    return list(sample.store.list_sessions(Filter(owner=owner))[0])


def launches(sample: Sample, owner: str = "alice") -> Any:
    return sample.store.launches(owner)


async def test_an_interactive_session_with_what_was_chosen(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await ready(await visit("launch"))
    await page.fill("#bk-name", "lab4-attention")
    await page.click('.bk-rail a[href="#step-2"]')
    await page.click("label:has(input[value=pytorch])")
    await page.fill("#bk-cpu", "3")
    await to_review(page)
    await expect(page.locator("#bk-verdict strong")).to_have_text("Starts now")
    await launch(page)
    (session,) = of(sample)
    assert (session.name, session.type, session.request.cpu) == (
        "lab4-attention", "interactive", 3000,
    )  # fmt: skip
    assert page.url.endswith(f"#s-{session.id}")
    assert [row.name for row in launches(sample)] == ["lab4-attention"]


async def test_a_batch_session_and_all_that_belongs_to_it(sample: Sample, visit: Open) -> None:
    sample.agents()
    earlier = await sample.run("alice", "prepare", type="batch", batch={"command": "true"})
    page = await ready(await visit("launch"))
    await expect(page.locator("#bk-command")).to_be_hidden()
    await page.click("label:has(input[value=batch])")
    await page.fill("#bk-command", "cd data\npython train.py")
    await page.fill("#bk-timeout", "12")
    await page.select_option("[name=timeout_unit]", "h")
    await page.fill("#bk-starts_at", "2h")
    await page.click("#bk-order summary")
    await page.fill("#bk-count", "3")
    await page.check("[name=depends_on]")
    await to_review(page)
    said = page.locator(".bk-rev", has=page.get_by_role("heading", name="Session type"))
    await expect(said).to_contain_text("cd data\npython train.py")
    await expect(said).to_contain_text("12 hours")
    await expect(said).to_contain_text("prepare")
    await launch(page)
    made = [session for session in of(sample) if session.id != earlier.id]
    assert len(made) == 3
    for session in made:
        assert session.request.batch is not None
        assert session.request.batch.command == "cd data\npython train.py"
        assert session.request.batch.timeout == 12 * 3600
        assert session.request.depends_on == (earlier.id,)
        assert session.not_before is not None


async def test_a_picked_time_is_written_with_its_zone(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await ready(await visit("launch"))
    await page.click("label:has(input[value=batch])")
    await page.fill("#bk-when", "2026-12-01T09:00")
    await expect(page.locator("#bk-starts_at")).to_have_value(
        re.compile(r"2026-12-01T09:00[+-]\d\d:\d\d")
    )


async def test_an_error_is_at_its_field_and_nothing_is_lost(sample: Sample, visit: Open) -> None:
    sample.agents()
    await sample.submit("alice", "taken-name")
    page = await ready(await visit("launch"))
    await page.click("label:has(input[value=batch])")
    await page.fill("#bk-command", "make all")
    await page.fill("#bk-timeout", "soon")
    await page.fill("#bk-name", "taken-name")
    await to_review(page)
    # What the server says of it while it is looked through.
    wrong = page.locator(".bk-rev.wrong")
    await expect(wrong).to_contain_text("You already have a session named taken-name")
    await expect(wrong).to_contain_text("is no length of time")
    await expect(page.locator("#bk-launch")).to_be_disabled()
    # And where its word was not waited for: the form comes back, with the cursor on the first.
    await page.route("**/launch?part=verdict", lambda route: route.abort())
    await page.reload()
    await ready(page)
    await page.click("#bk-launch")
    await page.wait_for_selector("#backendai[data-errors='2'][data-ready]")
    await expect(page.locator("#bk-timeout")).to_be_focused()
    await expect(page.locator("#bk-name-error")).to_contain_text("taken-name")
    await expect(page.locator("#bk-timeout-error")).to_contain_text("no length of time")
    await expect(page.locator("#bk-command")).to_have_value("make all")
    await page.reload()
    await ready(page)
    await expect(page.locator("#bk-name")).to_have_value("taken-name")
    await expect(page.locator("#bk-command")).to_have_value("make all")


async def test_a_link_fills_the_form_and_stops_at_the_review(sample: Sample, visit: Open) -> None:
    sample.agents()
    link = "launch?environment=pytorch&preset=large&name=lab5&command=evil&env_name=A&env_value=1"
    page = await ready(await visit(link))
    await expect(page.locator("#step-5")).to_be_visible()
    note = page.locator("#bk-note")
    await expect(note).to_contain_text("These values come from a link.")
    await expect(note).to_contain_text("left out: command, env_name, env_value")
    await expect(page.locator("#bk-review")).to_contain_text("lab5")
    await expect(page.locator("#bk-review")).not_to_contain_text("evil")
    assert of(sample) == []
    await launch(page)
    assert [(s.name, s.request.preset) for s in of(sample)] == [("lab5", "large")]


async def test_a_link_with_an_error_stops_at_the_review_too(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await ready(await visit("launch?environment=gone&name=a"))
    await expect(page.locator("#step-5")).to_be_visible()
    await expect(page.locator("#bk-errors")).to_be_focused()
    await expect(page.locator("#bk-errors li").first).to_be_visible()
    await expect(page.locator("#bk-launch")).to_be_disabled()


async def test_the_address_keeps_the_form_but_no_secret(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await ready(await visit("launch", who="admin"))
    await page.fill("#bk-name", "lab6")
    await page.click('.bk-rail a[href="#step-2"]')
    for name, value in [("WANDB_API_KEY", "hunter2"), ("EPOCHS", "40")]:
        await page.click("#bk-env-add")
        row = page.locator(".bk-envrow").last
        await row.locator("[name=env_name]").fill(name)
        await row.locator("[name=env_value]").fill(value)
    await expect(page).to_have_url(re.compile("EPOCHS.*env_value=40"))
    assert "step=2" in page.url
    assert "name=lab6" in page.url
    assert "WANDB_API_KEY" in page.url
    assert "hunter2" not in page.url
    await page.reload()
    await ready(page)
    await expect(page.locator("#step-2")).to_be_visible()
    await expect(page.locator("[name=env_value]").first).to_have_value("hunter2")
    # Where nothing but the address is kept, what looks secret is asked for again.
    await page.evaluate("sessionStorage.clear()")
    await page.reload()
    await ready(page)
    await expect(page.locator("[name=env_value]").first).to_have_value("")
    await expect(page.locator("[name=env_value]").last).to_have_value("40")


async def test_a_recent_launch_fills_the_form(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await ready(await visit("launch"))
    await page.fill("#bk-name", "first-run")
    await page.click('.bk-rail a[href="#step-2"]')
    await page.click("#bk-env-add")
    await page.fill("[name=env_name]", "API_TOKEN")
    await page.fill("[name=env_value]", "hunter2")
    await to_review(page)
    await launch(page)
    page = await ready(await visit("launch"))
    await page.click("#bk-recent summary")
    await page.click("#bk-recent [data-do=rename]")
    await page.fill("#bk-recent input", "My favourite")
    await page.keyboard.press("Enter")
    await expect(page.locator("#bk-recent .name")).to_have_text("My favourite")
    await page.click("#bk-recent [data-do=pin]")
    await expect(page.locator("#bk-recent .bk-tag")).to_have_text(" pinned")
    assert [(row.name, row.pinned) for row in launches(sample)] == [("My favourite", True)]
    await page.click("#bk-recent .name")
    await ready(page)
    await expect(page.locator("#step-5")).to_be_visible()
    await expect(page.locator("#bk-note")).to_contain_text("type them again: API_TOKEN")
    assert "hunter2" not in await page.content()
    await page.goto(page.url.split("?")[0])
    await ready(page)
    await page.click("#bk-recent summary")
    await page.click("#bk-recent [data-do=forget]")
    await expect(page.locator("#bk-recent")).to_have_count(0)
    assert launches(sample) == []


async def test_a_session_s_own_options_fill_the_form(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.submit("alice", "like-this", environment="r", preset="large")
    page = await ready(await visit(f"launch?like={session.id}"))
    await expect(page.locator("#bk-review")).to_contain_text("R 4.5")
    await expect(page.locator("#bk-review")).to_contain_text("Preset large")
    await expect(page.locator("#bk-name")).to_have_value("")  # it lives, and its name is its own


async def test_an_admin_launches_for_somebody_else(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await ready(await visit("launch", who="admin"))
    await page.fill("#bk-name", "for-bob")
    await page.fill("#bk-owner", "bob")
    await page.keyboard.press("Tab")
    await expect(page.locator("h1")).to_have_text("Start a session for bob")
    await ready(page)
    await expect(page.locator("#bk-name")).to_have_value("for-bob")
    assert "owner" not in page.url
    await to_review(page)
    await launch(page)
    assert [session.name for session in of(sample, "bob")] == ["for-bob"]
    page = await ready(await visit("launch"))
    await expect(page.locator("#bk-owner")).to_have_count(0)


async def test_somebody_who_is_no_user(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await ready(await visit("launch", who="admin"))
    await page.fill("#bk-owner", "nobody")
    await page.keyboard.press("Tab")
    await expect(page.locator("#bk-owner-error")).to_contain_text("There is no user nobody.")
    await expect(page.locator("#bk-owner")).to_be_focused()


async def test_nothing_typed_is_lost_with_the_sign_in(sample: Sample, visit: Open) -> None:
    sample.agents()
    for js in (True, False):
        page = await visit("launch", js=js)
        await page.fill("#bk-name", f"kept-{js}")
        if js:
            await ready(page)
            await to_review(page)
        await page.context.set_extra_http_headers({})
        await page.click("#bk-launch")
        await expect(page.locator("h1")).to_have_text("You were signed out")
        token = sample.running.tokens["alice"]
        await page.context.set_extra_http_headers({"Authorization": f"token {token}"})
        await page.click("button:has-text('Go on')")
        await expect(page.locator("#bk-name")).to_have_value(f"kept-{js}")
    assert of(sample) == []


async def tab_to(page: Page, what: str) -> None:
    """Presses Tab until the focus is there."""
    for _ in range(40):
        await page.keyboard.press("Tab")
        if await page.evaluate("what => document.activeElement.matches(what)", what):
            return
    raise AssertionError(f"Tab does not come to {what}")


async def test_by_keyboard_alone(sample: Sample, visit: Open) -> None:
    """From the list through all steps to the session, and to its end, without a pointer."""
    sample.agents()
    page = await visit("")
    await tab_to(page, "a.btn-primary:has(.fa-plus)")
    await page.keyboard.press("Enter")
    await ready(page)
    await tab_to(page, "input[name=type]")
    await page.keyboard.press("ArrowRight")
    await tab_to(page, "#bk-command")
    await page.keyboard.type("echo done")
    await tab_to(page, "#bk-name")
    await page.keyboard.type("by-keys")
    for step in range(2, 6):
        await tab_to(page, "#bk-next")
        await page.keyboard.press("Enter")
        await expect(page.locator(f"#step-{step}")).to_be_visible()
    await tab_to(page, "#bk-launch")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("Sessions")
    assert [(s.name, s.type) for s in of(sample)] == [("by-keys", "batch")]
    await tab_to(page, "a[aria-label='Cancel by-keys']")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Keep")).to_be_focused()
    await tab_to(page, "#bk-end-go")
    await page.keyboard.press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(0)
    assert [s.status.value for s in of(sample)] == ["CANCELLED"]


async def test_without_any_script(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await visit("launch", js=False)
    await page.check("input[value=batch]", force=True)
    await page.fill("#bk-name", "by-hand")
    await page.click("#bk-launch")
    await expect(page.locator("#bk-command-error")).to_contain_text("Write the command")
    await expect(page.locator("#bk-name")).to_have_value("by-hand")
    await page.fill("#bk-command", "make")
    await page.click("#bk-launch")
    await expect(page.locator("h1")).to_have_text("Sessions")
    assert [(s.name, s.type) for s in of(sample)] == [("by-hand", "batch")]


async def test_no_barrier_in_either_theme(sample: Sample, visit: Open) -> None:
    sample.agents()
    await sample.run("admin", "prepare", type="batch", batch={"command": "true"})
    page = await ready(await visit("launch", who="admin", policy=False))
    barriers = Barriers()
    await page.click("label:has(input[value=batch])")
    await page.click("#bk-order summary")
    await barriers.look(page, "step 1")
    await to_review(page)
    await expect(page.locator(".bk-rev.wrong")).to_contain_text("Write the command")
    await barriers.look(page, "review with an error")
    assert not barriers.found, barriers


async def test_a_phone_shows_all_of_it(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await ready(await visit("launch", who="admin", width=390, height=844))
    await page.click("label:has(input[value=batch])")
    await page.click("#bk-order summary")
    for step in range(1, 6):
        await expect(page.locator(f"#step-{step}")).to_be_visible()
        wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, step
        if step < 5:
            await page.click("#bk-next")
