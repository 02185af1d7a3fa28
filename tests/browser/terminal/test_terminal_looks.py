"""How the terminal's page looks: both themes, wide and on a phone, and to who does not see it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.async_api import expect

from tests.browser.chromium import WCAG, keep

pytestmark = pytest.mark.browser
PHONE = {"viewport": {"width": 390, "height": 700}, "has_touch": True, "is_mobile": True}
_RUN = "rules => axe.run({ runOnly: rules, resultTypes: ['violations'] })"


async def barriers(page: Any, where: str) -> None:
    """What axe-core finds, which knows the WCAG; in both themes."""
    await page.evaluate(AXE_SCRIPT)
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        found = AxeResults(await page.evaluate(_RUN, WCAG))
        assert not found.violations_count, found.generate_report()
        keep(await page.screenshot(), f"terminal-{where}-{theme}")


async def test_nobody_is_kept_out(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.run("ls --color=always -la /; echo e$((1))nd", "e1nd")
    await desk.page.get_by_role("button", name="New shell").click()
    await expect(desk.tabs).to_have_count(2)
    await desk.tabs.nth(0).click()
    await barriers(desk.page, "wide")
    await desk.page.get_by_role("button", name="Help", exact=True).click()
    await barriers(desk.page, "help")
    await desk.page.keyboard.press("Escape")
    await desk.run("sleep 9876", "sleep")
    await desk.page.get_by_role("button", name="Close shell-1").click()
    await expect(desk.page.get_by_role("dialog")).to_be_visible()
    await barriers(desk.page, "dialog")
    await desk.page.get_by_role("button", name="Close it").click()
    await expect(desk.tabs).to_have_count(1)
    await desk.page.keyboard.type("exit\n")
    await expect(desk.page.get_by_role("alert")).to_be_visible()
    await barriers(desk.page, "ended")


async def test_all_rows_are_in_the_window(sit_down: Any) -> None:
    desk = await sit_down()
    for height in (500, 497, 491):
        await desk.page.set_viewport_size({"width": 900, "height": height})
        await expect(desk.screen).to_be_visible()
        script = """height => {
            const { bottom } = document.querySelector(".xterm-rows").getBoundingClientRect();
            return bottom <= height && bottom > height - 24;
        }"""
        await desk.page.wait_for_function(script, arg=height)


async def test_on_a_phone(sit_down: Any) -> None:
    desk = await sit_down(**PHONE)
    await desk.run("seq -f 'row %g.' 100; echo e$((1))nd", "e1nd")
    await barriers(desk.page, "phone")
    for width in (390, 320):
        await desk.page.set_viewport_size({"width": width, "height": 700})
        assert await desk.page.evaluate("document.documentElement.scrollWidth") == width
    await desk.page.get_by_role("button", name="Help", exact=True).tap()
    await barriers(desk.page, "phone-help")
    await desk.page.get_by_role("button", name="Close help").tap()
    # One process that has the terminal already: a shell loses what interrupts it just as it starts
    # its next command (dash: 12 of 70 times, with `exec` none of 4,500).
    await desk.run("sh -c 'echo s$((1))on; exec sleep 9876'", "s1on")
    await desk.page.get_by_role("button", name="Ctrl").tap()
    await desk.page.keyboard.type("c")
    # What is typed while the shell still makes its next prompt may be lost.
    await expect(desk.screen).to_contain_text(re.compile(r"\^C.*train-1", re.DOTALL))
    await desk.page.get_by_role("button", name="Up", exact=True).tap()
    await expect(desk.screen).to_contain_text(re.compile(r"\^C.*sleep 9876", re.DOTALL))
    await desk.page.get_by_role("button", name="Ctrl").tap()
    await desk.page.keyboard.type("c")
    await expect(desk.screen).to_contain_text(re.compile(r"\^C.*\^C.*train-1", re.DOTALL))
    await desk.run("echo ali$((1))ve", "ali1ve")


async def test_a_finger_scrolls(sit_down: Any) -> None:
    desk = await sit_down(**PHONE)
    await desk.run("seq -f 'row %g.' 200; echo e$((1))nd", "e1nd")
    remote = await desk.page.context.new_cdp_session(desk.page)
    await _swipe(remote, 150, 600)
    await expect(desk.screen).not_to_contain_text("row 200.")
    await desk.sees("row 1")


async def _swipe(remote: Any, start: int, end: int) -> None:
    async def touch(kind: str, *points: int) -> None:
        at = [{"x": 150, "y": y} for y in points]
        await remote.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    await touch("touchStart", start)
    for y in range(start, end, 30):
        await touch("touchMove", y)
    await touch("touchEnd")
