"""For everybody: axe, narrow screens, and what a page weighs. With SCREENSHOTS set to a folder, how
each page looks is kept there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import pytest
from playwright.async_api import Page

from jupyterhub_backendai.store import Session

from ..chromium import Barriers
from .conftest import Open
from .sample import Sample

Made = Mapping[str, Session]
PAGES: dict[str, Callable[[Made], str]] = {
    "sessions": lambda made: "",
    "finished": lambda made: "?state=over",
    "session": lambda made: f"sessions/{made['thesis-finetune'].id}",
    "waiting": lambda made: f"sessions/{made['lab4-attention'].id}",
    "failed": lambda made: f"sessions/{made['nightly'].id}",
    "history": lambda made: f"sessions/{made['lab4-attention'].id}/history",
    "log": lambda made: f"sessions/{made['nightly'].id}/log",
    "end": lambda made: f"sessions/{made['lab3-cnn'].id}/end",
    "notices": lambda made: "notices",
    "admin": lambda made: "admin",
    "launch": lambda made: "launch",
    "launch, from before": lambda made: f"launch?like={made['thesis-finetune'].id}",
}
MOST = 150 * 1024  # bytes that a page may load over what the Hub's own pages do


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_no_page_shuts_anybody_out(sample: Sample, visit: Open, dark: bool) -> None:
    made = await sample.all("alice")
    folder = os.environ.get("SCREENSHOTS")
    barriers, wrong = Barriers(), []
    for name, path in PAGES.items():
        for width in (1280, 390):
            who = "admin" if name == "admin" else "alice"
            page = await visit(path(made), who, dark=dark, width=width, policy=False)
            await page.wait_for_load_state("networkidle" if name == "log" else "load")
            await page.evaluate("document.fonts.ready")
            if not dark:
                await barriers.look(page, f"{name} at {width}")  # which looks at both themes
            wide = await page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                wrong.append(f"{name} has {wide} pixels at {width}")
            if folder:
                look = f"{name}{'-phone' if width == 390 else ''}{'-dark' if dark else ''}"
                await page.screenshot(path=f"{folder}/{look}.png", full_page=True)
            await page.context.close()
    assert not wrong
    assert not barriers.found, barriers


async def test_what_opens_over_a_page(sample: Sample, visit: Open) -> None:
    await sample.all("alice")
    barriers = Barriers()
    page = await visit("", policy=False)
    await page.get_by_role("link", name="lab4-attention", exact=True).click()
    await page.get_by_role("dialog", name="lab4-attention").get_by_text("Starts at").wait_for()
    await barriers.look(page, "the panel")
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="Terminate lab3-cnn").first.click()
    await barriers.look(page, "the dialog")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Notifications, 8 new").click()
    await barriers.look(page, "the drawer")
    assert not barriers.found, barriers


async def weight(page: Page) -> dict[str, int]:
    """Bytes of what a page has loaded that the Hub's own pages do not."""
    found = await page.evaluate(
        """() => performance.getEntriesByType("resource").concat(
            performance.getEntriesByType("navigation"))
          .filter((each) => !each.name.includes("/hub/") && !each.name.includes("/api/"))
          .map((each) => [each.name, each.decodedBodySize])"""
    )
    return dict(found)


async def test_what_a_page_weighs(sample: Sample, visit: Open) -> None:
    """Its own bytes, each once, without what the Hub's pages load as well."""
    made = await sample.all("alice")
    for name, path in PAGES.items():
        page = await visit(path(made), "admin" if name == "admin" else "alice")
        await page.wait_for_load_state("load")
        own = await weight(page)
        assert sum(own.values()) < MOST, (name, own)
        assert any("base.css" in each for each, size in own.items() if size), own
        await page.context.close()
