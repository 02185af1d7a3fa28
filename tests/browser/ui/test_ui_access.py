"""Every page by axe-core, which knows the WCAG: labels, roles, contrast, in both themes."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect
from ui_payload import error
from ui_steps import fill_all, visit

from jupyterhub_backendai.spawner.story import Story
from tests.browser.chromium import Barriers

pytestmark = pytest.mark.browser


async def test_no_page_has_a_barrier(tab: Any, site: Any) -> None:
    page = await tab(1280, 900)
    barriers = Barriers()

    async def look(where: str) -> None:
        await barriers.look(page, where)

    await visit(page, site)
    await look("form 1")
    await page.click("#bk-skip")
    await look("form 5")
    await page.click("#bk-launch")
    await expect(page.locator("#bk-nofolder")).to_be_visible()
    await look("form, no folder")
    await page.click("[data-answer=back]")
    await page.click('.bk-rail a[href="#step-2"]')
    await page.click("label:has(input[value=gpu-lab])")
    await page.fill("#bk-fgpu", "2")
    await page.click("#bk-more summary")
    await expect(page.locator(".bk-gpus")).to_be_visible()
    await look("form 2")
    site.view["errors"] = [
        error("name", "You already have it."),
        error("env.1", "It is set by the system."),
        error("resources.mem", "Never fits."),
        error("mounts.0.path", "A path cannot contain .. as a step."),
        error("preopen_ports.0", "Port 80 cannot be opened."),
    ]
    await page.click('.bk-rail a[href="#step-1"]')
    await fill_all(page, js=True)
    await page.click("#bk-skip")
    await page.click("#bk-launch")
    await page.wait_for_selector("#backendai[data-ready][data-errors='5']")
    for step in range(1, 6):
        await page.click(f'.bk-rail a[href="#step-{step}"]')
        await expect(page.locator(f"#step-{step}")).to_be_visible()
        await look(f"form with errors, step {step}")
    story = Story()
    story.tell("asked", "Asked", "Python 3.13, 2 cores, 4 GB")
    story.tell("queued", "In line, #3", "Waiting for 2 CPU cores: 1 is free.", position=3)
    site.told, site.server = story.told, {"ready": False, "pending": "spawn"}
    site.events = [{"progress": 10, "backendai": told} for told in story.told.values()]
    await page.goto(f"{site.url}/hub/spawn-pending/mkim/lab4")
    await expect(page.locator("#bk-place")).to_contain_text("#3")
    await look("pending")
    site.server = {"ready": False, "pending": None}
    site.events.append({"progress": 100, "failed": True, "message": "Spawn failed: No room."})
    await expect(page.locator("#bk-over")).to_contain_text("No room.")
    await look("pending, failed")
    memory = {"failed": True, "failed_message": "Memory ran out."}
    for where, site.failed in {"not running": {}, "not running, failed": memory}.items():
        await page.goto(f"{site.url}/hub/not-running/mkim/lab4")
        await look(where)
    assert not barriers.found, barriers
