"""What tests of the options form do on it."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page, expect


async def visit(page: Page, site: Any, tail: str = "") -> Page:
    await page.goto(f"{site.url}/hub/spawn/mkim/lab{tail}")
    await page.wait_for_selector("#backendai[data-ready]")
    return page


async def launch_anyway(page: Page) -> None:
    await page.click("#bk-launch")
    await page.click("#bk-nofolder [data-answer=anyway]")
    await expect(page.locator("h1")).to_have_text("Launched")


def card(page: Page, title: str) -> Any:
    return page.locator(".bk-rev", has=page.get_by_role("heading", name=title, exact=True))


def verdict(page: Page) -> Any:
    return page.locator("#bk-verdict strong")


async def focused(page: Page) -> str:
    return await page.evaluate("document.activeElement.id || document.activeElement.name")


async def fill_all(page: Page, js: bool) -> None:
    async def go(step: int) -> None:
        if js:
            await page.click(f'.bk-rail a[href="#step-{step}"]')

    await page.fill("#bk-name", "lab4")
    await go(2)
    for name, value in [("A", "1"), ("JUPYTERHUB_X", "secret")]:
        if js:
            await page.click("#bk-env-add")
        row = page.locator(".bk-envrow").nth(0 if name == "A" else 1)
        await row.locator("[name=env_name]").fill(name)
        await row.locator("[name=env_value]").fill(value)
    await page.fill("#bk-cpu", "1.5")
    await go(3)
    await page.check("input[value=homework]")
    await page.fill('[name="mount_path.homework"]', "hw")
    await page.fill("#bk-new", "exp1")
    await go(4)
    await page.fill("#bk-ports", "8080, 9090")
