"""A real Hub with its Docker, and people at browsers in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from ...hub.harness import Hub, running
from ..chromium import PROGRAM

expect.set_options(timeout=20_000)  # containers start and end meanwhile
PRESETS = [
    {"name": "small", "cpu": 0.5, "mem": "512m"},
    {"name": "medium", "cpu": 1, "mem": "1g", "shm": "128m"},
]


@pytest.fixture(scope="module")
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One for each file, with the `SETTINGS` of that file and folders."""
    directory = tmp_path_factory.mktemp("hub")
    ours = {**request.module.SETTINGS, "folder_root": str(directory / "folders")}
    with running(directory, settings={"BackendAI": ours}) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(**PROGRAM)
        yield launched
        launched.close()


@pytest.fixture
def sit_down(browser: Browser) -> Iterator[Callable[[], Page]]:
    """Gives another browser each time it is called. What goes wrong in the scripts of our pages, or
    is refused by their policy, fails the test; what does so in JupyterLab is not ours."""
    contexts, problems = [], []

    def note(page: Page, text: str) -> None:
        if "/user/" not in text and "/user/" not in page.url:
            problems.append(f"{page.url}: {text}")

    def sit_down() -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(30_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: note(page, str(error)))
        page.on(
            "console",
            lambda said: note(page, said.text) if "Content Security" in said.text else None,
        )
        return page

    yield sit_down
    for context in contexts:
        context.close()
    assert not problems, problems


@pytest.fixture
def page(sit_down: Callable[[], Page]) -> Page:
    return sit_down()


def sign_in(page: Page, hub: Hub, user: str) -> Page:
    """Through the Hub's login form, to the list of sessions."""
    page.goto(f"{hub.url}/hub/login")
    page.fill("#username_input", user)
    page.fill("#password_input", "secret")
    page.click("#login_submit")
    expect(page.locator("h1")).to_have_text("Sessions")
    return page


def step(page: Page, number: int) -> None:
    """The form shows this step."""
    expect(page.locator(f"#step-{number}")).to_be_visible()
