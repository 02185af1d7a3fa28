"""A person's whole way in a real browser: sign in, five steps, JupyterLab, end, and again."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, Page, expect

from ...hub.harness import Hub, wait_for
from .conftest import PRESETS, sign_in, step

pytestmark = [pytest.mark.docker, pytest.mark.browser, pytest.mark.slow]

SETTINGS = {"presets": PRESETS}
# What the session's limits are, wherever the kernel's cgroups are shown: version 1 or 2.
CELL = (
    "import os\n"
    "def read(*names):\n"
    "    for name in names:\n"
    "        path = '/sys/fs/cgroup/' + name\n"
    "        if os.path.exists(path):\n"
    "            return open(path).read().split()\n"
    "quota = read('cpu.max', 'cpu/cpu.cfs_quota_us')\n"
    "period = quota[1:] or read('cpu/cpu.cfs_period_us')\n"
    "memory = read('memory.max', 'memory/memory.limit_in_bytes')\n"
    "open('data/kept.txt', 'w').write('kept'); open('lost.txt', 'w').write('lost')\n"
    "print('cores', int(quota[0]) / int(period[0]), 'bytes', memory[0])"
)


def run_cell(page: Page) -> str:
    """Types the cell into a new notebook and gives what it printed."""
    page.get_by_role("button", name="Python 3").or_(
        page.locator(".jp-LauncherCard[data-category=Notebook]")
    ).first.click()
    cell = page.locator(".jp-Notebook .cm-content").first
    expect(page.locator("#jp-main-statusbar")).to_contain_text("Idle", timeout=60_000)
    cell.click()
    page.keyboard.insert_text(CELL)
    page.keyboard.press("Shift+Enter")
    output = page.locator(".jp-OutputArea-output").first
    expect(output).to_contain_text("cores", timeout=60_000)
    return output.inner_text()


def test_the_whole_way(hub: Hub, page: Page) -> None:
    sign_in(page, hub, "ada")
    page.goto(f"{hub.url}/hub/spawn")

    step(page, 1)
    page.fill("[name=name]", "first-steps")
    page.click("#bk-next")
    step(page, 2)
    page.get_by_label("medium").check(force=True)
    page.click("#bk-next")
    step(page, 3)
    page.fill("#bk-new", "data")
    page.click("#bk-new-add")
    page.click("#bk-next")
    step(page, 4)
    page.fill("[name=ports]", "8080")
    page.click("#bk-next")
    step(page, 5)
    review = page.locator("#step-5")
    for text in ("first-steps", "Python", "data", "8080"):
        expect(review).to_contain_text(text)
    page.click("#bk-launch")

    page.wait_for_url("**/user/ada/lab**", timeout=60_000)
    printed = run_cell(page)
    assert "cores 1.0" in printed
    assert f"bytes {2**30}" in printed
    session = hub.sessions("ada")[-1]
    assert (session["name"], session["status"]) == ("first-steps", "RUNNING")

    # End it from the Hub's own home page, then launch again with the folder.
    page.goto(f"{hub.url}/hub/home")
    page.wait_for_function("window._jupyterhub_page_loaded")  # before, its buttons do nothing
    page.click("#stop")
    wait_for("the end", lambda: hub.sessions("ada")[-1]["status"] == "TERMINATED")
    wait_for("the home to go", lambda: not hub.volumes())
    expect(page.locator("#start")).to_have_text("Start my session")  # also without a reload
    expect(page.locator("#start")).to_have_attribute("title", "Start your session")
    page.goto(f"{hub.url}/hub/spawn")
    # The form has the folder of last time mounted already.
    page.click("#bk-skip")
    step(page, 5)
    expect(review).to_contain_text("data")
    page.click("#bk-launch")
    page.wait_for_url("**/user/ada/lab**", timeout=60_000)
    second = hub.sessions("ada")[-1]
    assert second["id"] != session["id"]
    inside = hub.run_inside(second["id"], "sh", "-c", "cat data/kept.txt; ls")
    assert inside.startswith("kept")
    assert "lost.txt" not in inside
    hub.delete("ada")


def test_no_folder_asks_first(hub: Hub, page: Page) -> None:
    sign_in(page, hub, "bob")
    page.goto(f"{hub.url}/hub/spawn")
    page.click("#bk-next")
    page.get_by_label("medium").check(force=True)
    page.click("#bk-skip")
    page.click("#bk-launch")
    dialog = page.locator("#bk-nofolder")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("goes when it ends")
    assert hub.sessions("bob") == []
    dialog.get_by_role("button", name="Start anyway").click()
    page.wait_for_url("**/user/bob/lab**", timeout=60_000)

    # With a folder the defaults are the defaults still, not what there was last.
    page.goto(f"{hub.url}/hub/home")  # away from scripts that the end would cut off
    hub.delete("bob")
    hub.until_over("bob")
    page.goto(f"{hub.url}/hub/spawn")
    page.click("button[value=default]")
    dialog.get_by_role("button", name="Create and start").click()
    page.wait_for_url("**/user/bob/lab**", timeout=60_000)
    first, second = hub.sessions("bob")
    presets = [json.loads(session["spec"])["preset"] for session in (first, second)]
    assert presets == ["medium", "small"]
    assert "work" in hub.run_inside(second["id"], "ls").split()
    hub.delete("bob")


def test_an_error_loses_nothing(hub: Hub, page: Page) -> None:
    """Also on a named server, where the Hub renders the form of another server after an error."""
    sign_in(page, hub, "cleo")
    hub.launch("cleo", {"name": "taken-name"})
    hub.until_ready("cleo")
    page.goto(f"{hub.url}/hub/spawn/cleo/second")
    page.fill("[name=name]", "taken-name")
    page.click("#bk-next")
    page.get_by_label("medium").check(force=True)
    page.click("#bk-skip")
    page.click("#bk-launch")
    page.locator("#bk-nofolder").get_by_role("button", name="Start anyway").click()
    expect(page.locator("body")).to_contain_text("You already have a session named taken-name")
    assert page.url.split("?")[0].split("#")[0].endswith("/hub/spawn/cleo/second")
    expect(page.locator("[name=name]")).to_have_value("taken-name")
    expect(page.get_by_label("medium")).to_be_checked()
    assert len(hub.sessions("cleo")) == 1
    hub.delete("cleo")


def test_without_javascript(hub: Hub, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, hub, "dora")
    page.goto(f"{hub.url}/hub/spawn")
    for number in range(1, 5):
        step(page, number)
    page.fill("[name=name]", "plain-form")
    page.fill("#bk-new", "work")
    page.click("#bk-launch")
    wait_for("it to run", lambda: [s["status"] for s in hub.sessions("dora")] == ["RUNNING"])
    hub.until_ready("dora")
    session = hub.sessions("dora")[0]
    assert session["name"] == "plain-form"
    assert hub.run_inside(session["id"], "ls").split().count("work") == 1
    hub.delete("dora")
    context.close()


def test_a_batch_session_from_the_service_s_launcher(hub: Hub, page: Page) -> None:
    """With a sign-in at the service that is over when Launch is pressed: the Hub's own is not."""
    sign_in(page, hub, "emmy")
    page.goto(f"{hub.url}/hub/spawn")
    page.get_by_role("link", name="Batch").click()
    page.wait_for_url("**/services/backendai/launch")
    page.wait_for_selector("#backendai[data-ready]")
    page.click("label:has(input[value=batch])")
    page.fill("#bk-command", "echo done > work/out.txt")
    page.click("#bk-skip")
    expect(page.locator("#bk-verdict strong")).to_have_text("Starts now")
    for cookie in page.context.cookies():
        if "/services/backendai/" in cookie["path"]:
            page.context.clear_cookies(name=cookie["name"], path=cookie["path"])
    page.click("#bk-launch")
    folder = page.locator("#bk-nofolder")
    folder.get_by_role("button", name="Create and start").click()
    expect(page.locator("h1")).to_have_text("You were signed out")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Sign in").click()
    expect(opened.value.locator("h1")).to_have_text("Sessions")
    opened.value.close()
    page.get_by_role("button", name="Go on").click()
    page.wait_for_selector("#backendai[data-ready], button:has-text('Go on')")
    if again := page.query_selector("button:has-text('Go on')"):
        again.click()  # the page was from before the sign-in
    expect(page.locator("#bk-review")).to_contain_text("echo done > work/out.txt")
    assert hub.sessions("emmy") == []
    page.click("#bk-launch")
    expect(page.locator("h1")).to_have_text("Sessions")
    wait_for("it to end", lambda: [s["result"] for s in hub.sessions("emmy")] == ["success"])
    (written,) = (hub.directory / "folders").rglob("out.txt")
    assert written.read_text() == "done\n"
