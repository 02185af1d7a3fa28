"""A session that nobody uses says so inside JupyterLab and Notebook, and is kept from there."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
import requests
from playwright.sync_api import Locator, Page, Route, expect

from jupyterhub_backendai.site.clock import utcnow

from ...hub.harness import Hub
from ..chromium import keep
from .conftest import PRESETS, sign_in

pytestmark = [pytest.mark.docker, pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

# It ends so late that no machine is too slow for this, and is warned of from its start.
SETTINGS = {
    "presets": PRESETS,
    "usage_interval": 2,
    "idle": {"lifetime": "30m"},
    "idle_warnings": ["1h", "1m"],
    "default_policy": {"keep": {"each": "2h", "total": "2h", "lifetime": True}},
    "user_policies": {"carol": {"keep": {"each": "1m", "total": "1m", "lifetime": True}}},
}
ASKS = "**/backendai/ending"
LONG = 180_000  # milliseconds that something may take


class Seat:
    """Somebody at a session of theirs."""

    def __init__(self, hub: Hub, page: Page, user: str) -> None:
        self.hub, self.page, self.user = hub, page, user
        hub.add_user(user)
        assert hub.launch(user, {"name": f"train-{user}", "preset": "small"}).ok
        hub.until_ready(user)
        self.id = hub.sessions(user)[-1]["id"]
        sign_in(page, hub, user)

    def open(self, path: str) -> None:
        self.page.goto(f"{self.hub.url}/user/{self.user}/{path}")

    def toast(self, text: str | re.Pattern[str]) -> Locator:
        return self.page.locator(".Toastify__toast", has_text=text)

    @property
    def warning(self) -> Locator:
        return self.toast("This session ends in")

    def view(self) -> dict[str, Any]:
        """What the pages are told of its end."""
        said = self.page.context.request.get(
            f"{self.hub.url}/services/backendai/api/sessions/{self.id}/idle"
        )
        assert said.ok, said.text()
        return dict(said.json())


@pytest.mark.parametrize(
    ("user", "path", "there"),
    [
        ("alice", "lab", ".jp-Launcher"),
        ("bob", "tree", ".jp-DirListing-content"),
    ],
)
def test_it_is_told_inside_and_kept(hub: Hub, page: Page, user: str, path: str, there: str) -> None:
    seat = Seat(hub, page, user)
    with page.expect_response("**/jupyterhub-backendai/remoteEntry.js*", timeout=LONG) as script:
        seat.open(path)
    assert script.value.headers["cache-control"] == "no-cache", "another version is seen at once"
    expect(page.locator(there)).to_be_visible(timeout=LONG)
    expect(seat.warning).to_be_visible(timeout=LONG)
    expect(seat.warning).to_have_count(1)
    expect(seat.warning).to_contain_text("Its lifetime of 30 minutes is over then.")
    news = seat.toast("Jupyter news").get_by_role("button", name="No", exact=True)
    if news.count():
        news.click()
        expect(news).to_have_count(0)
    if path == "lab":
        page.wait_for_load_state("networkidle", timeout=LONG)
        keep(page.screenshot(animations="disabled"), "ending-in-lab")

    seat.warning.get_by_role("button", name="Keep it for 2 hours").click()
    expect(seat.toast("It is kept for 2 hours.")).to_be_visible(timeout=LONG)
    expect(seat.warning).to_have_count(0, timeout=LONG)
    view = seat.view()
    assert view["warn"] is False
    assert datetime.fromisoformat(view["ends_at"]) > utcnow() + timedelta(hours=2)
    assert view["keep"]["left"] == 0
    page.goto(f"{hub.url}/services/backendai/sessions/{seat.id}/history")
    expect(page.locator("main")).to_contain_text(f"{user}, from inside, keeps it for 2 hours.")


def test_it_goes_with_the_time_and_says_why_not(hub: Hub, page: Page) -> None:
    seat = Seat(hub, page, "carol")
    token = hub.call("POST", "users/carol/tokens", json={}).json()["token"]
    seat.open("lab")
    expect(seat.warning).to_be_visible(timeout=LONG)
    found = re.search("in [0-9]+ minutes", seat.warning.inner_text())
    assert found
    expect(seat.warning).not_to_contain_text(found[0], timeout=LONG)
    expect(seat.warning).to_have_count(1)

    # It was kept elsewhere, which this page has not heard of.
    page.route(ASKS, _no_news)
    keeps = f"{hub.url}/services/backendai/api/sessions/{seat.id}/idle"
    headers = {"Authorization": f"token {token}"}
    assert requests.post(keeps, json={}, headers=headers, timeout=60).status_code == 200
    seat.warning.get_by_role("button", name="Keep it for 1 minute").click()
    expect(seat.warning).to_have_count(0)
    page.unroute(ASKS, _no_news)
    expect(seat.toast("which is all that its policy allows.")).to_be_visible(timeout=LONG)
    expect(seat.warning).to_be_visible(timeout=LONG)
    expect(seat.warning.get_by_role("button", name="Keep it")).to_have_count(0, timeout=LONG)

    # Who has put it away is left alone until the next warning.
    seat.warning.locator(".jp-Notification-Toast-Close").first.click()
    expect(seat.warning).to_have_count(0)
    for _ in range(3):
        with page.expect_response(ASKS, timeout=LONG):
            pass
    expect(seat.warning).to_have_count(0)


def _no_news(route: Route) -> None:
    if route.request.method == "GET":
        route.abort()
    else:
        route.continue_()
