"""The tutorial, as docs/tutorial/first-session.md has it. Its pictures are made here."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from ...hub.harness import Hub, wait_for
from ..chromium import keep
from .conftest import PRESETS, sign_in, step

pytestmark = [pytest.mark.docker, pytest.mark.browser, pytest.mark.slow]

SETTINGS = {"presets": PRESETS}
WRITES = (
    'open("data/kept.txt", "w").write("kept")\n'
    'open("lost.txt", "w").write("lost")'
)  # fmt: skip
# What the tutorial prints, wherever the kernel's cgroups are shown: version 1 or 2.
READS = (
    "from pathlib import Path\n"
    'limits = Path("/sys/fs/cgroup")\n'
    'files = [limits / "memory.max", limits / "memory/memory.limit_in_bytes"]\n'
    "print(*[file.read_text() for file in files if file.exists()])"
)


def run_cells(page: Page) -> str:
    """Types both cells into a new notebook, and gives what they printed."""
    page.get_by_role("button", name="Python 3").or_(
        page.locator(".jp-LauncherCard[data-category=Notebook]")
    ).first.click()
    expect(page.locator("#jp-main-statusbar")).to_contain_text("Idle", timeout=60_000)
    page.locator(".jp-Notebook .cm-content").first.click()
    for cell in (WRITES, READS):
        page.keyboard.insert_text(cell)
        page.keyboard.press("Shift+Enter")
    # The first cell has a value too, which is shown while the second has yet to run.
    outputs = page.locator(".jp-OutputArea-output")
    expect(outputs).to_have_count(2, timeout=60_000)
    return outputs.last.inner_text()


def test_the_tutorial(hub: Hub, page: Page) -> None:
    sign_in(page, hub, "alice")
    expect(page.get_by_text("You have no session now.")).to_be_visible()
    keep(page.screenshot(), "sessions-none")
    page.get_by_role("link", name="START", exact=True).first.click()
    page.wait_for_selector("#backendai[data-ready]")

    # Five steps.
    step(page, 1)
    page.get_by_label("Name (optional)").fill("first-steps")
    keep(page.screenshot(), "launcher-type")
    page.get_by_role("button", name="Next").click()
    step(page, 2)
    page.get_by_label("medium").check(force=True)
    keep(page.screenshot(), "launcher")
    page.get_by_role("button", name="Next").click()
    step(page, 3)
    page.get_by_role("textbox", name="New folder").first.fill("data")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("button", name="Next").click()
    step(page, 4)
    page.get_by_role("button", name="Next").click()
    step(page, 5)
    for text in ("first-steps", "Python", "data"):
        expect(page.locator("#step-5")).to_contain_text(text)
    expect(page.locator("#bk-verdict strong")).to_have_text("Starts now")
    keep(page.screenshot(), "launcher-review")
    page.get_by_role("button", name="Launch").click()

    # It is on its way, and then it is ready.
    expect(page.locator("h1")).to_have_text("Sessions")
    note = page.locator("#bk-toasts .bk-note", has_text="first-steps is ready")
    expect(note).to_be_visible(timeout=60_000)
    keep(page.screenshot(), "session-ready")
    (first,) = hub.sessions("alice")

    # Work.
    note.get_by_role("link", name="Open").click()
    page.wait_for_url("**/lab**", timeout=60_000)
    assert int(run_cells(page).split()[0]) == 2**30
    keep(page.screenshot(), "jupyterlab")

    # End it, and start again.
    page.goto(f"{hub.url}/services/backendai/")
    page.get_by_role("link", name="Terminate first-steps").first.click()
    page.get_by_role("button", name="Terminate session").click()
    expect(page.get_by_text("You have no session now.")).to_be_visible(timeout=60_000)
    wait_for("its home to go", lambda: not hub.volumes())
    page.goto(f"{hub.url}/services/backendai/")
    page.get_by_role("link", name="Start again: first-steps").click()
    page.wait_for_selector("#backendai[data-ready]")
    step(page, 5)
    expect(page.locator("#step-5")).to_contain_text("data")
    page.get_by_role("button", name="Launch").click()
    expect(page.locator("tbody tr")).to_contain_text("Running", timeout=60_000)
    second = hub.sessions("alice")[-1]
    assert second["id"] != first["id"]
    inside = hub.run_inside(second["id"], "sh", "-c", "cat data/kept.txt; ls")
    assert inside.startswith("kept")
    assert "lost.txt" not in inside

    # What goes wrong is said.
    page.get_by_role("link", name="START", exact=True).first.click()
    page.wait_for_selector("#backendai[data-ready]")
    page.get_by_label("Name (optional)").fill(second["name"])
    page.get_by_role("button", name="Skip to review").click()
    wrong = page.locator(".bk-rev.wrong")
    expect(wrong).to_contain_text("You already have a session named")
    expect(page.get_by_role("button", name="Launch")).to_be_disabled()
    wrong.get_by_role("link", name="Edit").click()
    expect(page.locator("#bk-name-error")).to_contain_text("You already have a session named")
    keep(page.screenshot(), "launcher-error")
