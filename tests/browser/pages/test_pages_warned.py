"""Warnings of ends as the browser's own notifications. A browser without a screen shows none that
could be seen: the real ones are made, with real permissions, and noted on the way."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from ...service.running import Running, until
from ..chromium import Barriers
from .conftest import Open
from .sample import Sample
from .test_pages_idle import service, watched

__all__ = ["service"]  # the fixture: with idle checks

# In the storage that tabs share, so that what any of them showed is seen.
NOTING = """
  window.Notification = new Proxy(window.Notification, {
    construct(real, [title, options]) {
      window.last = new real(title, options);
      const told = JSON.parse(localStorage.getItem("noted") ?? "[]");
      localStorage.setItem("noted", JSON.stringify([...told, [title, options]]));
      return window.last;
    },
  });
"""
BUTTON = "Notify me in this browser"


async def noted(page: Page) -> list[Any]:
    found: list[Any] = await page.evaluate("JSON.parse(localStorage.getItem('noted') ?? '[]')")
    return found


async def warn(service: Running) -> None:
    """The worker's look, until what it began is over."""
    worker = service.service.notices
    assert worker is not None
    await worker.once()
    await until(lambda: not worker._sending)


async def again(page: Page) -> None:
    """The page asks for its warnings now, and has them."""
    async with page.expect_response(re.compile("part=warnings")):
        await page.reload()
    await expect(page.locator("[data-warns]")).to_have_count(1)


async def test_each_warning_is_shown_once_over_all_tabs(
    service: Running, sample: Sample, visit: Open
) -> None:
    sample.agents()
    session = await watched(service, sample)
    page = await visit("")
    context = page.context
    await context.add_init_script(NOTING)
    await context.grant_permissions(["notifications"])
    await again(page)
    assert await page.evaluate("Notification.permission") == "granted"
    assert await noted(page) == [], "its time has not come by the worker"
    await warn(service)
    await again(page)
    await page.wait_for_function("'last' in window")
    other = await context.new_page()
    await other.goto(service.url + "notices")
    await again(other)
    await again(page)
    ((title, options),) = await noted(page)
    assert re.fullmatch(r"lab3-cnn will be ended at \d\d:\d\d|lab3-cnn .* at .*\d\d:\d\d", title)
    assert options["body"].startswith("Nobody has used it, and after 4 hours of that it ends.")
    assert options["tag"].startswith(f"backendai-{session.id}-3600-")

    # The next warning is another one.
    watch = service.service.idle and service.service.idle.watch
    assert watch is not None
    one, now = watch.sessions[session.id], watch.clock.now()
    one.hear(now, now, now)
    one.facts.used = now - 4 * 3600 + 500
    watch.judge(one)
    await warn(service)
    await again(page)
    await page.wait_for_function("'last' in window")
    found = await noted(page)
    assert len(found) == 2
    assert found[1][1]["tag"].startswith(f"backendai-{session.id}-600-")
    await page.evaluate("last.dispatchEvent(new Event('click'))")
    await page.wait_for_url(f"**/sessions/{session.id}")
    await again(page)
    assert len(await noted(page)) == 2


async def test_a_tab_that_nobody_sees_looks_too(
    service: Running, sample: Sample, visit: Open
) -> None:
    sample.agents()
    await watched(service, sample)
    page = await visit("")
    await page.context.add_init_script(NOTING)
    await page.context.grant_permissions(["notifications"])
    await page.context.add_init_script(
        "Object.defineProperty(document, 'hidden', { get: () => Boolean(window.unseen) })"
    )
    await page.clock.install()
    await again(page)
    await page.evaluate("window.unseen = true")
    await warn(service)
    await expect(page.locator("[data-tell]")).to_have_count(0)
    await page.clock.fast_forward(70_000)
    await expect(page.locator("[data-tell]")).to_have_count(1)
    await page.wait_for_function("'last' in window")
    assert len(await noted(page)) == 1


async def test_it_is_never_asked_unasked(service: Running, sample: Sample, visit: Open) -> None:
    sample.agents()
    await watched(service, sample)
    await warn(service)
    page = await visit("", policy=False)
    await page.context.add_init_script(
        """window.asked = 0;
           window.answer = "default";
           Object.defineProperty(Notification, "permission", { get: () => window.answer });
           Notification.requestPermission = async () => {
             window.asked += 1;
             return (window.answer = "denied");
           };"""
    )
    await page.context.add_init_script(NOTING)
    await again(page)
    await expect(page.locator("#bk-live")).to_have_text("Live")
    await page.get_by_role("button", name=re.compile("Notifications")).click()
    drawer = page.get_by_role("dialog", name="Notifications")
    button = drawer.get_by_role("button", name=BUTTON)
    await expect(button).to_be_visible()
    barriers = Barriers()
    await barriers.look(page, "notifications that may be allowed")
    assert not barriers.found, str(barriers)
    assert await page.evaluate("asked") == 0
    await button.click()
    await expect(drawer).to_contain_text("This browser does not notify you")
    await expect(button).to_be_hidden()
    assert await page.evaluate("asked") == 1
    assert await noted(page) == []
    await expect(page.locator("[data-warns]")).to_have_count(1), "the page has it all the same"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "Object.defineProperty(window, 'isSecureContext', { get: () => false })",
            "did not come over HTTPS",
        ),
        ("delete window.Notification", "has no notifications"),
        (
            "Object.defineProperty(Notification, 'permission', { get: () => 'granted' })",
            "This browser notifies you",
        ),
    ],
)
async def test_why_a_browser_cannot(sample: Sample, visit: Open, script: str, said: str) -> None:
    sample.agents()
    page = await visit("notices")
    await page.context.add_init_script(script)
    await page.reload()
    ask = page.locator("#bk-ask")
    await expect(ask).to_contain_text(said)
    await expect(ask.locator("[data-when]:visible")).to_have_count(1)
    await expect(ask.get_by_role("button")).to_be_hidden()


async def test_the_page_of_notifications_offers_it(sample: Sample, visit: Open) -> None:
    sample.agents()
    page = await visit("notices", policy=False)
    await page.context.add_init_script(
        "Object.defineProperty(Notification, 'permission', { get: () => 'default' })"
    )
    await page.reload()
    await expect(page.get_by_role("button", name=BUTTON)).to_be_visible()
    barriers = Barriers()
    await barriers.look(page, "the page of notifications")
    assert not barriers.found, str(barriers)
