"""What the terminal's page does when the connection is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.hub.harness import free_port
from tests.singleuser.jupyter import TMUX, TOKEN, running

from .desk import Desk

pytestmark = pytest.mark.browser


@pytest.mark.skipif(not TMUX, reason="no tmux here")
async def test_a_server_that_starts_again_is_found(browser: Browser, tmp_path: Path) -> None:
    port = free_port()
    socket = tmp_path / "shared"
    socket.mkdir()
    page = await browser.new_page()
    with running(tmp_path, port=port) as server:
        await page.goto(f"{server.url}terminal/?token={TOKEN}")
        desk = Desk(page)
        await desk.is_ready()
    said = page.get_by_role("alert")
    await expect(said).to_contain_text("Trying again…")
    with running(tmp_path, port=port):
        # its shells ended with tmux, which this test's server ends: the page starts from anew
        await expect(said).to_contain_text("The last shell has ended.")
        await page.keyboard.press("Enter")
        await desk.is_ready()
    await page.close()


async def test_a_moment_without_network_is_nothing(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.run("echo bef$((1))ore", "bef1ore")
    await desk.page.context.set_offline(True)
    await desk.page.evaluate("dispatchEvent(new Event('offline'))")
    await _cut(desk)
    await expect(desk.page.get_by_role("alert")).to_contain_text("Trying again…")
    await desk.page.context.set_offline(False)
    await desk.says("Connected again")
    await expect(desk.page.get_by_role("alert")).to_have_count(0)
    await desk.sees("bef1ore")
    await desk.run("echo aft$((1))er", "aft1er")


async def test_the_end_of_the_session_is_told(sit_down: Any) -> None:
    desk = await sit_down()
    # what the Hub answers for a server that is not there
    await desk.page.route("**/terminal/shells", lambda route: route.fulfill(status=424))
    await _cut(desk)
    await expect(desk.page.get_by_role("alert")).to_contain_text("The session has ended.")


async def test_who_is_signed_out_signs_in_again(sit_down: Any) -> None:
    desk = await sit_down()
    await desk.page.context.clear_cookies()
    await _cut(desk)
    await expect(desk.page.get_by_role("alert")).to_contain_text("You are signed out.")
    await desk.page.get_by_role("button", name="Sign in again").click()
    await desk.page.locator("#password_input").fill(TOKEN)
    await desk.page.keyboard.press("Enter")
    await desk.is_ready()  # back where it was


async def _cut(desk: Any) -> None:
    """The connection's other end is gone, as far as the page knows."""
    await desk.page.evaluate("testCut()")
