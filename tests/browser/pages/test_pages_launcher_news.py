"""The launcher while sessions go on: notes, the drawer, and nothing of the form is disturbed."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect

from jupyterhub_backendai.model.status import Status

from .conftest import Open
from .sample import Sample

pytestmark = pytest.mark.browser
ON = (Status.PREPARING, Status.CREATING, Status.RUNNING)


async def listening(page: Page) -> Page:
    """Ready, and with a first look at what there is."""
    await page.wait_for_selector("#backendai[data-ready]")
    await expect(page.locator("#bk-drawer [data-part]")).not_to_be_empty()
    return page


async def open_drawer(page: Page) -> Locator:
    await page.get_by_role("button", name=re.compile("Notifications")).click()
    drawer = page.get_by_role("dialog", name="Notifications")
    await expect(drawer).to_be_visible()
    return drawer


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)], ids=["wide", "phone"])
async def test_a_note_is_in_nobodys_way(
    sample: Sample, visit: Open, width: int, height: int
) -> None:
    sample.agents()
    page = await listening(await visit("launch", width=width, height=height))
    await page.fill("#bk-name", "typed-name")
    await page.click("#bk-next")
    await expect(page.locator("#step-2")).to_be_visible()
    await page.fill("#bk-cpu", "3")
    await sample.run("alice", "train")
    note = page.get_by_role("region", name="News").locator(".bk-note")
    await expect(note).to_contain_text("train is ready")
    await expect(note.get_by_role("link", name="Open train")).to_be_visible()
    bell = page.locator("#bk-bell")  # on a phone in the menu
    await expect(bell).to_have_attribute("aria-label", "Notifications, 1 new")
    # Each is under the pointer, or it would not be pressed.
    for step in (3, 4, 5):
        await page.click("#bk-next")
        await expect(page.locator(f"#step-{step}")).to_be_visible()
    await page.click("#bk-previous", trial=True)
    await expect(page.locator("#bk-verdict strong")).to_have_text("Starts now")
    await page.click("#bk-launch", trial=True)
    await expect(page.locator("#bk-review")).to_contain_text("typed-name")
    await expect(page.locator("#bk-cpu")).to_have_value("3")
    if width < 600:
        await page.get_by_role("button", name="Toggle navigation").click()
    await bell.click()
    drawer = page.get_by_role("dialog", name="Notifications")
    await drawer.get_by_role("button", name="Close").click()
    await note.get_by_role("button", name="Close").click()
    await expect(note).to_have_count(0)


async def test_many_notes_leave_the_form(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await listening(await visit("launch", width=390, height=844))
    await sample.submit_many("alice", 9)
    await expect(page.locator(".bk-note")).to_have_count(9)
    await page.fill("#bk-name", "typed-name")
    await page.click("#bk-next")
    await expect(page.locator("#step-2")).to_be_visible()
    box = await page.locator("#bk-toasts").bounding_box()
    assert box is not None
    assert box["y"] > 844 / 4, "what is above them is the form's"


async def test_the_drawer_ends_a_session_and_the_form_stays(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.run("alice", "train")
    page = await listening(await visit("launch?step=1"))
    await page.fill("#bk-name", "typed-name")
    await expect(page).to_have_url(re.compile("name=typed-name"))
    address = page.url
    drawer = await open_drawer(page)
    ids = await page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert sorted(ids) == sorted(set(ids))
    await drawer.get_by_role("link", name="Terminate train").click()
    dialog = page.get_by_role("dialog", name="Terminate train?")
    await expect(dialog).to_contain_text("Files outside folders are deleted.")
    await dialog.get_by_role("button", name="Terminate session").click()
    await expect(dialog).to_be_hidden()
    await expect(page.locator(f"#n-{session.id}")).to_have_attribute("data-state", "TERMINATING")
    await expect(drawer).to_contain_text("train is being ended")
    await page.keyboard.press("Escape")
    await expect(drawer).to_be_hidden()
    await expect(page.locator("#bk-name")).to_have_value("typed-name")
    await expect(page.locator("#step-1")).to_be_visible()
    assert page.url == address


async def test_who_reads_the_drawer_keeps_the_place(sample: Sample, visit: Open) -> None:
    sample.agents()
    await sample.run("alice", "first")
    page = await listening(await visit("launch"))
    drawer = await open_drawer(page)
    link = drawer.get_by_role("link", name="Terminate first")
    await link.focus()
    await sample.run("alice", "second")
    await expect(drawer).to_contain_text("second is ready")
    await expect(link).to_be_focused()


async def test_signed_out_is_said_once_and_nothing_is_lost(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await listening(await visit("launch"))
    await page.fill("#bk-name", "typed-name")
    await page.context.set_extra_http_headers({})
    await sample.submit("alice", "train")
    said = page.locator("#bk-trouble")
    await expect(said).to_have_text(
        "You are signed out. What you typed stays in this tab.Sign in again"
    )
    await expect(page.locator("#bk-name")).to_have_value("typed-name")
