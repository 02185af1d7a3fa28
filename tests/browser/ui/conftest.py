"""A browser for the module's tests, a made-up site for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page
from ui_harness import Site, serve
from ui_payload import view


@pytest.fixture(scope="module")
def hub() -> Iterator[Any]:
    """One server for the module, so that the browser loads the Hub's own files once."""
    started = serve(Site())
    yield started
    started.shutdown()
    started.server_close()


@pytest.fixture
def site(hub: Any) -> Iterator[Any]:
    """The site, with its address as `site.url`."""
    made = Site(view=view())
    made.url = f"http://127.0.0.1:{hub.server_address[1]}"  # type: ignore[attr-defined]
    hub.site = made
    yield made
    made.hold.set()  # lets event streams go


@pytest.fixture(scope="module")
async def contexts(browser: Browser) -> Any:
    """Browser contexts by (dark, JavaScript)."""
    made: dict[tuple[bool, bool], BrowserContext] = {}

    async def context(dark: bool, js: bool) -> BrowserContext:
        if (dark, js) not in made:
            made[dark, js] = await browser.new_context(
                color_scheme="dark" if dark else "light",
                java_script_enabled=js,
                reduced_motion="reduce",
            )
            made[dark, js].set_default_timeout(10_000)
        return made[dark, js]

    return context


@pytest.fixture(scope="module")
def idle() -> dict[tuple[bool, bool], list[Page]]:
    """Tabs that no test has now, by (dark, JavaScript): opening one is half of a short test."""
    return {}


@pytest.fixture
async def tab(contexts: Any, idle: Any, site: Any) -> AsyncIterator[Any]:
    """Gives tabs, each as good as new. A script error in any of them fails the test."""
    taken: list[tuple[tuple[bool, bool], Page]] = []
    errors: list[str] = []

    def note(error: Any) -> None:
        errors.append(str(error))

    async def new(
        width: int = 1200, height: int = 900, *, dark: bool = False, js: bool = True
    ) -> Page:
        kept = idle.setdefault((dark, js), [])
        page = kept.pop() if kept else await (await contexts(dark, js)).new_page()
        await page.set_viewport_size({"width": width, "height": height})
        page.on("pageerror", note)
        taken.append(((dark, js), page))
        return page

    yield new
    for kind, page in taken:
        if page.url.startswith(site.url):
            await page.evaluate("try { localStorage.clear(); sessionStorage.clear() } catch {}")
        await page.unroute_all()
        await page.goto("about:blank")
        page.remove_listener("pageerror", note)
        idle[kind].append(page)
    assert not errors
