"""The service's pages in a real browser: a real service and store, a stand-in for the Hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Request, expect

from ...service.running import Running, running, until_open
from .sample import SITE, Sample

expect.set_options(timeout=20_000)  # a machine that does much else at once is no defect of a page
Open = Callable[..., Awaitable[Page]]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path, **SITE) as started:
        await until_open(started)
        yield started


@pytest.fixture
def sample(service: Running) -> Sample:
    return Sample(service)


@pytest.fixture
async def visit(browser: Browser, service: Running) -> AsyncIterator[Open]:
    """Opens pages as somebody. A script error, and anything that the page's policy refuses, fails
    the test."""
    errors: list[str] = []
    contexts = []

    def note_failed(request: Request) -> None:
        # What the next page broke off has not failed; what the policy refuses says so.
        if "/static/" in request.url and request.failure != "net::ERR_ABORTED":
            errors.append(f"{request.url}: {request.failure}")

    async def visit(
        path: str, who: str = "alice", *, width: int = 1280, height: int = 900,
        dark: bool = False, js: bool = True, policy: bool = True, script: str = "",
    ) -> Page:  # fmt: skip
        context = await browser.new_context(
            color_scheme="dark" if dark else "light",
            java_script_enabled=js,
            reduced_motion="reduce",
            bypass_csp=not policy,  # axe puts styles into the page
            viewport={"width": width, "height": height},
            extra_http_headers={"Authorization": f"token {service.tokens[who]}"},
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        # A window behind another counts as hidden, and many tests may open some at once.
        await context.add_init_script(
            """Object.defineProperty(document, "visibilityState",
                 { get: () => window.unseen ? "hidden" : "visible" })"""
        )
        if script:
            await context.add_init_script(script)
        page = await context.new_page()
        page.on("requestfailed", note_failed)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda said: errors.append(said.text) if "Content Security" in said.text else None,
        )
        await page.goto(service.url + path)
        return page

    yield visit
    for context in contexts:
        await context.close()
    assert not errors
