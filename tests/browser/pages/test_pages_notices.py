"""Notifications: notes, the drawer, the tab."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from jupyterhub_backendai.model.status import Status

from .conftest import Open
from .sample import Sample

ON = (Status.PREPARING, Status.CREATING, Status.RUNNING)


async def test_a_launched_session_is_followed_to_its_end(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.submit("alice", "train")
    page = await visit(f"?launched={session.id}")
    note = page.get_by_role("region", name="News").locator(".bk-note")
    await expect(note).to_contain_text("train is in line")
    sample.place()
    await expect(note).to_contain_text("train is starting")
    sample.advance(session, *ON)
    await expect(note).to_contain_text("train is ready")
    await expect(note.get_by_role("link", name="Open train")).to_be_visible()
    await expect(
        page.get_by_role("button", name=re.compile("Notifications, 1 new"))
    ).to_be_visible()
    sample.end(session, "user_requested", "You ended it.")
    await expect(note).to_contain_text("train was ended")
    await expect(note).to_have_count(0)


async def test_only_news_is_shown_and_the_drawer_has_all(sample: Sample, visit: Open) -> None:
    made = await sample.all("alice")
    page = await visit("")
    await expect(page.locator("#bk-drawer [data-notice]")).to_have_count(8)
    await expect(page.locator(".bk-note")).to_have_count(0)
    sample.advance(made["cpp-labs"], Status.RUNNING)
    await expect(page.locator(".bk-note")).to_contain_text("cpp-labs is ready")
    await page.get_by_role("button", name=re.compile("Notifications, 8 new")).click()
    drawer = page.get_by_role("dialog", name="Notifications")
    await expect(drawer.locator(".bk-notice").first).to_contain_text("cpp-labs is ready")
    await expect(drawer).to_contain_text("nightly failed with exit code 3")
    await expect(drawer).to_contain_text("tf-compare could not start")
    await expect(drawer).to_contain_text("prepare finished")
    await drawer.get_by_role("button", name="Mark all as read").click()
    await page.keyboard.press("Escape")
    await expect(drawer).to_be_hidden()
    await expect(page.get_by_role("button", name="Notifications", exact=True)).to_be_visible()
    await page.reload()
    await expect(page.locator("#bk-drawer [data-notice]")).to_have_count(8)
    await expect(page.get_by_role("button", name="Notifications", exact=True)).to_be_visible()


# A browser without a screen shows no notifications: this notes them, and answers as was said.
RECORDER = """window.told = [];
window.Notification = class extends EventTarget {
  static permission = sessionStorage.getItem("permission") ?? "default";
  static async requestPermission() {
    sessionStorage.setItem("permission", (this.permission = window.answer));
    return this.permission;
  }
  constructor(title, options) {
    super();
    window.told.push([title, options.tag]);
    window.last = this;
  }
};"""


async def look_away(page: Page, away: bool = True) -> None:
    """Another tab lies over this one, or does not any more."""
    await page.evaluate(
        """away => {
          window.unseen = away;
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        away,
    )


async def ask_for_news(page: Page, answer: str) -> None:
    """Presses the drawer's button, and answers the browser's question."""
    await page.add_init_script(RECORDER)
    await page.reload()
    await page.evaluate("answer => { window.answer = answer; }", answer)
    await expect(page.locator("#bk-live")).to_have_text("Live")
    await page.get_by_role("button", name=re.compile("Notifications")).click()
    await page.get_by_role("button", name="Notify me in this browser").click()


async def test_the_browser_tells_while_nobody_looks(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.submit("alice", "train")
    page = await visit("")
    await page.clock.install()
    await ask_for_news(page, "granted")
    await expect(page.locator("#bk-spoken")).to_have_text(
        re.compile("This browser notifies you when")
    )
    await expect(page.get_by_role("button", name="Notify me in this browser")).to_be_hidden()
    await page.keyboard.press("Escape")

    item = page.locator(f"#n-{session.id}")

    async def until(state: Status) -> None:
        await page.clock.fast_forward(30_000)  # a tab that nobody sees looks that seldom
        await expect(item).to_have_attribute("data-state", state.value)

    await look_away(page)
    sample.place()
    await until(Status.SCHEDULED)
    assert await page.evaluate("told") == [], "that it starts is no news"
    sample.advance(session, *ON)
    await until(Status.RUNNING)
    assert await page.evaluate("told") == [["train is ready", f"backendai-{session.id}"]]
    await look_away(page, False)
    await expect(page.locator("#bk-live")).to_have_text("Live")
    other = await sample.run("alice", "other")
    await expect(page.locator(f"#n-{other.id}")).to_have_attribute("data-state", "RUNNING")
    assert len(await page.evaluate("told")) == 1, "whoever looks sees its note"
    await look_away(page)
    sample.end(session, "user_requested", "You ended it.")
    await until(Status.TERMINATED)
    assert (await page.evaluate("told"))[1:] == [["train was ended", f"backendai-{session.id}"]]
    await page.evaluate("last.dispatchEvent(new Event('click'))")
    await page.wait_for_url(f"**/sessions/{session.id}")
    # It is told once: the next page knows that it was.
    await expect(page.locator("#bk-live")).to_have_text("Live")
    assert await page.evaluate("told") == []
    await page.get_by_role("button", name=re.compile("Notifications")).click()
    await expect(page.get_by_role("button", name="Notify me in this browser")).to_be_hidden()


async def test_a_browser_that_may_not_tell(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await visit("")
    await ask_for_news(page, "denied")
    await expect(page.locator("#bk-spoken")).to_have_text(re.compile("does not notify you"))
    await expect(page.get_by_role("button", name="Notify me in this browser")).to_be_hidden()
    await page.evaluate("window.unseen = true")
    session = await sample.run("alice", "train")
    await expect(page.locator(f"#n-{session.id}")).to_have_attribute("data-state", "RUNNING")
    assert await page.evaluate("told") == []


async def test_the_tab_tells_the_state(sample: Sample, visit: Open) -> None:
    sample.agents()
    session = await sample.submit("alice", "train", type="batch", batch={"command": "exit 3"})
    sample.store.report_agents([], now=sample.now())
    sample.place()
    page = await visit(f"sessions/{session.id}")
    icon = page.locator("#bk-tab-icon")

    async def shows(state: str) -> None:
        href = await icon.get_attribute(f"data-{state}")
        await expect(icon).to_have_attribute("href", str(href))

    await expect(page).to_have_title("(#1) train")
    await shows("waiting")
    sample.agents()
    sample.place()
    await shows("starting")
    await expect(page).to_have_title("train")
    sample.advance(session, *ON)
    await shows("ready")
    sample.end(session, "task_failed", "Its command ended with exit code 3.", 3)
    await shows("failed")


async def test_nobody_is_told_of_others(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await visit("", "bob")
    await expect(page.locator("#bk-live")).to_have_text("Live")
    theirs = await sample.run("alice", "secret")
    mine = await sample.run("bob", "mine")
    await expect(page.locator("#bk-drawer")).to_contain_text("mine is ready")
    assert theirs.name not in await page.content()
    assert mine.name in await page.content()
