"""The list of sessions."""

from __future__ import annotations

from .conftest import Open
from .sample import Sample


async def test_each_session_says_what_it_is_and_why(sample: Sample, visit: Open) -> None:
    made = await sample.all("alice")
    page = await visit("")
    rows = page.locator(".bk-list tbody tr")
    assert await rows.count() == 5
    await page.screenshot(path="/tmp/shots/sessions.png", full_page=True)
    page = await visit("?state=over")
    await page.screenshot(path="/tmp/shots/over.png", full_page=True)
    page = await visit("", dark=True, width=390)
    await page.screenshot(path="/tmp/shots/phone-dark.png", full_page=True)
    assert made
