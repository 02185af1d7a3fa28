"""A session's Jupyter server, and people with browsers at its terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from tests.singleuser.jupyter import KINDS, TOKEN, Server, running

from .desk import Desk

# Lets a test close the page's sockets, as a network that fails does.
SOCKETS = """
    const Real = WebSocket, sockets = [];
    window.WebSocket = class extends Real {
        constructor(...how) { super(...how); sockets.push(this); }
    };
    window.testCut = () => sockets.forEach((each) => each.close());
"""


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("jupyter"), request.param) as started:
        yield started


@pytest.fixture
def tmux(server: Server) -> bool:
    """Whether the image has tmux."""
    return bool(server.ask("GET", "terminal/shells")[1]["kind"] == "tmux")


@pytest.fixture
async def sit_down(browser: Browser, server: Server) -> AsyncIterator[Any]:
    """Gives a desk each time it is called: the terminal's page in a browser of its own. What goes
    wrong in the page's scripts, or is refused by its policy, fails the test."""
    contexts, problems = [], []

    async def sit_down(before: str = "", path: str = "", **how: Any) -> Desk:
        context = await browser.new_context(
            permissions=["clipboard-read", "clipboard-write"],
            **{"viewport": {"width": 900, "height": 500}, "color_scheme": "dark", **how},
        )
        contexts.append(context)
        page = await context.new_page()
        await page.add_init_script(SOCKETS + before)
        return await open_desk(page, path)

    async def open_desk(page: Page, path: str = "") -> Desk:
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda said: problems.append(said.text) if "Content Security" in said.text else None,
        )
        await page.goto(f"{server.url}terminal/?token={TOKEN}{path}")
        desk = Desk(page)
        await desk.is_ready()
        return desk

    sit_down.beside = open_desk  # type: ignore[attr-defined]
    yield sit_down
    for context in contexts:
        await context.close()
    for name in server.ask("GET", "terminal/shells")[1]["shells"]:
        server.ask("DELETE", f"terminal/shells/{name}?force=1")
    assert not problems
