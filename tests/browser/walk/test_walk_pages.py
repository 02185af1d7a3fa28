"""The sessions pages on a real Hub with its Docker: several people, each at their own browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from ...hub.harness import Hub, wait_for
from .conftest import sign_in, step

pytestmark = [pytest.mark.docker, pytest.mark.browser, pytest.mark.slow]

SETTINGS = {
    # Room for one "whole" at a time, so that a second waits for as long as the test says.
    "agents": [{"name": "here", "capacity": {"cpu": 1, "mem": "4g"}}],
    "presets": [
        {"name": "whole", "cpu": 1, "mem": "512m"}, {"name": "half", "cpu": 0.5, "mem": "512m"},
    ],
}  # fmt: skip
# Goes on once the test has put a file into its folder.
COMMAND = "echo at first; until [ -e data/go ]; do sleep 0.1; done; echo at last; exit 3"


@pytest.fixture
def as_somebody(hub: Hub, sit_down: Callable[[], Page]) -> Callable[[str], Page]:
    """Another browser, signed in as that user."""
    return lambda user: sign_in(sit_down(), hub, user)


def launcher(page: Page) -> Page:
    page.get_by_role("link", name="START", exact=True).first.click()
    page.wait_for_selector("#backendai[data-ready]")
    return page


def launch(page: Page, name: str, preset: str = "whole") -> None:
    """An interactive session without a folder, from the launcher to the list."""
    launcher(page).fill("#bk-name", name)
    page.click("#bk-next")
    step(page, 2)
    page.get_by_label(preset).check(force=True)
    page.click("#bk-skip")
    page.click("#bk-launch")
    page.locator("#bk-nofolder").get_by_role("button", name="Start anyway").click()
    expect(page.locator("h1")).to_have_text("Sessions")


def row(page: Page, name: str) -> Locator:
    return page.locator("tbody tr", has=page.get_by_role("link", name=name, exact=True))


def note(page: Page, says: str) -> Locator:
    return page.locator("#bk-toasts .bk-note", has=page.get_by_role("link", name=says, exact=True))


def terminate(page: Page, name: str) -> None:
    row(page, name).get_by_role("link", name=f"Terminate {name}").click()
    page.get_by_role("button", name="Terminate session").click()


def test_from_the_line_to_the_end(hub: Hub, as_somebody: Callable[[str], Page]) -> None:
    bob, ada, elsewhere = as_somebody("bob"), as_somebody("ada"), as_somebody("ada")
    admin = as_somebody("admin")
    admin.fill("#bk-owner", "*")
    admin.get_by_role("button", name="Filter").click()
    for page in (bob, ada, elsewhere, admin):
        expect(page.locator("#bk-live")).to_have_text("Live")

    # The only place is taken; who comes next is told so, and everybody sees what they may.
    launch(bob, "holds")
    expect(row(bob, "holds")).to_contain_text("Running", timeout=60_000)
    launch(ada, "thesis")
    expect(note(ada, "thesis is in line")).to_be_visible()
    for page in (ada, elsewhere, admin):
        expect(row(page, "thesis")).to_contain_text("Pending")
        expect(row(page, "thesis")).to_contain_text("#1 in line")
    expect(row(admin, "holds")).to_be_visible()
    expect(row(bob, "thesis")).to_have_count(0)
    for page in (ada, elsewhere):
        expect(row(page, "holds")).to_have_count(0)
    thesis = hub.sessions("ada")[-1]["id"]
    for address in ("", "/history", "/log", "/end"):  # as if there were no such session
        bob_asks = bob.request.get(f"{hub.url}/services/backendai/sessions/{thesis}{address}")
        assert bob_asks.status == 404, address

    # It gets the place, and every page that shows it says so without being loaded again.
    for page in (ada, elsewhere, admin):
        page.evaluate("window.sinceThen = true")
    terminate(bob, "holds")
    expect(note(ada, "thesis is ready")).to_be_visible(timeout=60_000)
    expect(note(elsewhere, "thesis is ready")).to_be_visible()
    for page in (ada, elsewhere, admin):
        expect(row(page, "thesis")).to_contain_text("Running")
        assert page.evaluate("window.sinceThen")
    expect(row(bob, "holds")).to_have_count(0)

    # Renamed in one browser, it has its name in the others.
    row(ada, "thesis").get_by_role("link", name="thesis", exact=True).click()
    panel = ada.get_by_role("dialog", name="thesis")
    panel.get_by_role("button", name="Rename thesis").click()
    panel.get_by_label("New name").fill("thesis-2")
    panel.get_by_role("button", name="Save").click()
    for page in (ada, elsewhere, admin):
        expect(row(page, "thesis-2")).to_be_visible()

    # Its app is opened, and ended from the other browser.
    row(elsewhere, "thesis-2").get_by_role("link", name="Open thesis-2").click()
    expect(elsewhere.locator("#jp-main-dock-panel")).to_be_visible(timeout=60_000)
    assert elsewhere.url.startswith(f"{hub.url}/user/ada/")
    elsewhere.locator(".jp-LauncherCard[title^='Start a new terminal']").click()
    expect(elsewhere.locator(".jp-Terminal .xterm")).to_be_visible(timeout=60_000)
    elsewhere.locator(".xterm-helper-textarea").press_sequentially("touch ~/at-the-prompt\n")
    written = "at-the-prompt"
    wait_for("the terminal", lambda: written in hub.run_inside(thesis, "ls", "/home/work"))
    elsewhere.goto(f"{hub.url}/services/backendai/")
    panel = ada.get_by_role("dialog", name="thesis-2", exact=True)
    panel.get_by_role("link", name="Terminate").click()
    dialog = ada.locator("#bk-end")
    expect(dialog).to_contain_text("Files outside folders are deleted.")
    dialog.get_by_role("button", name="Terminate session").click()
    expect(panel).to_contain_text("Why it ended", timeout=60_000)
    expect(panel).to_contain_text("ada")
    expect(row(admin, "thesis-2")).to_have_count(0)
    wait_for("nothing to be left", lambda: not hub.containers() and not hub.held())
    elsewhere.goto(f"{hub.url}/services/backendai/?state=over")
    expect(row(elsewhere, "thesis-2")).to_contain_text("Terminated")


def test_a_job_that_fails_with_3_is_followed_to_its_end(
    hub: Hub, as_somebody: Callable[[str], Page]
) -> None:
    page = launcher(as_somebody("cleo"))
    page.click("label:has(input[value=batch])")
    page.fill("#bk-command", COMMAND)
    page.fill("#bk-name", "nightly")
    page.click('.bk-rail a[href="#step-3"]')
    page.fill("#bk-new", "data")
    page.click("#bk-new-add")
    page.click("#bk-skip")
    page.click("#bk-launch")
    expect(page.locator("h1")).to_have_text("Sessions")
    expect(row(page, "nightly")).to_contain_text("Running", timeout=60_000)
    expect(row(page, "nightly")).to_contain_text("at first")  # its command

    # Its log is followed while it runs, and comes to its end with it.
    row(page, "nightly").get_by_role("link", name="Log of nightly").evaluate(
        "link => link.target = '_blank'"
    )
    with page.context.expect_page() as opened:
        row(page, "nightly").get_by_role("link", name="Log of nightly").click()
    log = opened.value
    expect(log.locator("#bk-lines")).to_contain_text("at first", timeout=60_000)
    expect(log.locator("#bk-log-said")).to_have_text("Live")
    (folder,) = (hub.directory / "folders").rglob("data")
    (folder / "go").touch()
    expect(log.locator("#bk-lines")).to_contain_text("at last")
    expect(log.locator("#bk-log-said")).to_have_text("The log has come to its end.", timeout=60_000)
    log.fill("#bk-search", "at last")
    expect(log.locator("#bk-log-said")).to_have_text("1 line found")

    # The 3 is where people look: in the notification, in the list and on its page.
    expect(note(page, "nightly failed with exit code 3")).to_be_visible()
    page.get_by_role("link", name="Finished").click()
    expect(row(page, "nightly")).to_contain_text("Failure")
    expect(row(page, "nightly")).to_contain_text("exit code 3")
    row(page, "nightly").get_by_role("link", name="nightly", exact=True).click()
    panel = page.get_by_role("dialog", name="nightly")
    expect(panel).to_contain_text(re.compile("Why it ended.*3", re.DOTALL))
    assert [s["exit_code"] for s in hub.sessions("cleo")] == [3]
    # What it takes to do it again is there already.
    panel.get_by_role("link", name="Start again").click()
    page.wait_for_selector("#backendai[data-ready]")
    step(page, 5)
    expect(page.locator("#bk-review")).to_contain_text(COMMAND)
    assert len(hub.sessions("cleo")) == 1


def test_a_link_fills_the_form_and_stops(hub: Hub, sit_down: Callable[[], Page]) -> None:
    """Also for somebody who signs in first."""
    page = sit_down()
    page.goto(f"{hub.url}/services/backendai/launch?preset=half&name=lab5&command=rm")
    page.fill("#username_input", "dora")
    page.fill("#password_input", "secret")
    page.click("#login_submit")
    page.wait_for_selector("#backendai[data-ready]")
    step(page, 5)
    expect(page.locator("#bk-note")).to_contain_text("These values come from a link.")
    expect(page.locator("#bk-note")).to_contain_text("left out: command")
    expect(page.locator("#bk-review")).to_contain_text("lab5")
    expect(page.locator("#bk-verdict strong")).to_have_text("Starts now")
    assert hub.sessions("dora") == []
    page.click("#bk-launch")
    page.locator("#bk-nofolder").get_by_role("button", name="Start anyway").click()
    expect(row(page, "lab5")).to_contain_text("Running", timeout=60_000)
    (session,) = hub.sessions("dora")
    assert json.loads(session["spec"])["preset"] == "half"
    terminate(page, "lab5")
    expect(row(page, "lab5")).to_have_count(0)
