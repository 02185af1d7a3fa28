"""For everybody: axe, narrow screens, both themes, and what a page weighs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from jupyterhub_backendai.store import Session

from ...service.running import Running, running, until_open
from ..chromium import Barriers
from .conftest import Open
from .sample import FOLDERS, SITE, Sample

Made = Mapping[str, Session]
PAGES: dict[str, Callable[[Made], str]] = {
    "sessions": lambda made: "",
    "sessions of nobody": lambda made: "?owner=bob",
    "sessions that ended": lambda made: "?state=over",
    "session": lambda made: f"sessions/{made['thesis-finetune'].id}",
    "session that waits": lambda made: f"sessions/{made['lab4-attention'].id}",
    "session that failed": lambda made: f"sessions/{made['nightly'].id}",
    "history": lambda made: f"sessions/{made['lab4-attention'].id}/history",
    "log": lambda made: f"sessions/{made['nightly'].id}/log",
    "end": lambda made: f"sessions/{made['lab3-cnn'].id}/end",
    "notices": lambda made: "notices",
    "admin": lambda made: "admin",
    **{f"launch {step}": lambda made, step=step: f"launch?step={step}" for step in range(1, 5)},
    "launch 5": lambda made: f"launch?like={made['thesis-finetune'].id}",
}
FOR_ADMINS = {"admin", "sessions of nobody"}
MOST = 150 * 1024  # bytes that a page may load over what the Hub's own pages do


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Running]:
    """With folders, so that every part of each page is there."""
    for name in FOLDERS:
        (tmp_path / "folders" / "users" / "alice" / name).mkdir(parents=True)
    async with running(tmp_path, **SITE, folder_root=str(tmp_path / "folders")) as started:
        await until_open(started)
        yield started


def who_sees(name: str) -> str:
    return "admin" if name in FOR_ADMINS else "alice"


async def test_no_page_shuts_anybody_out(sample: Sample, visit: Open) -> None:
    made = await sample.all("alice")
    barriers = Barriers()
    for name, path in PAGES.items():
        page = await visit(path(made), who_sees(name), policy=False)
        await page.wait_for_load_state("networkidle" if name == "log" else "load")
        if name.startswith("launch"):
            await page.wait_for_selector("#backendai[data-ready]")
            await expect(page.locator(f"#step-{name[-1]}")).to_be_visible()
        await barriers.look(page, name)
        await page.context.close()
    assert not barriers.found, barriers


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_theme_is_the_readers(visit: Open, dark: bool) -> None:
    page = await visit("", dark=dark)
    theme = await page.get_attribute("html", "data-bs-theme")
    assert theme == ("dark" if dark else "light")


async def test_what_opens_over_a_page(sample: Sample, visit: Open) -> None:
    await sample.all("alice")
    barriers = Barriers()
    page = await visit("", policy=False)
    await page.get_by_role("link", name="lab4-attention", exact=True).click()
    await page.get_by_role("dialog", name="lab4-attention").get_by_text("Starts at").wait_for()
    await barriers.look(page, "over the list, a session")
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="Terminate lab3-cnn").first.click()
    await barriers.look(page, "over the list, the end")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Notifications, 8 new").click()
    await barriers.look(page, "over the list, notifications")
    await page.goto(page.url + "launch?step=2")
    await page.wait_for_selector("#backendai[data-ready]")
    await page.get_by_role("button", name="Notifications, 8 new").click()
    await barriers.look(page, "over the launcher, notifications")
    assert not barriers.found, barriers


async def weight(page: Page) -> dict[str, int]:
    """Bytes of what a page has loaded that the Hub's own pages do not; not what it asks for once it
    is there."""
    found = await page.evaluate(
        """() => performance.getEntriesByType("resource").concat(
            performance.getEntriesByType("navigation"))
          .filter((each) => !["/hub/", "/api/", "part=", "/charts.js", "/uplot."]
            .some((not) => each.name.includes(not)))
          .map((each) => [each.name, each.decodedBodySize])"""
    )
    return dict(found)


async def test_what_a_page_weighs(sample: Sample, visit: Open) -> None:
    """Its own bytes, each once, without what the Hub's pages load as well."""
    made = await sample.all("alice")
    for name, path in PAGES.items():
        page = await visit(path(made), who_sees(name))
        await page.wait_for_load_state("load")
        own = await weight(page)
        assert sum(own.values()) < MOST, (name, own)
        assert any("base.css" in each for each, size in own.items() if size), own
        await page.context.close()
