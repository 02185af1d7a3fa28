"""What is inside a session, in a browser: terminal, TensorBoard, ports, public apps; in an image
with all that is used, and in one that has next to nothing. Pictures in the docs are made here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ...hub import harness
from ...hub.harness import IMAGE, Hub, wait_for
from ..chromium import keep
from .conftest import PRESETS, sign_in

pytestmark = [pytest.mark.docker, pytest.mark.browser, pytest.mark.slow]

PLAIN = "backendai-plain:latest"
IMAGES = {"demo": IMAGE, "plain": PLAIN}
SETTINGS = {
    "environments": [
        {**harness.ENVIRONMENTS[0], "name": name, "versions": [{"name": "1", "image": image}]}
        for name, image in IMAGES.items()
    ],
    "presets": PRESETS,
    "default_policy": {"public_apps": True},
}
APP = Path(harness.__file__).parent / "inside_app.py"
# A scalar as TensorBoard's own writer writes it.
SCALAR = """
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("/home/work/runs")
for step in range(5):
    summary = Summary(value=[Summary.Value(tag="loss of the test", simple_value=1 / (step + 1))])
    writer.add_event(Event(step=step, summary=summary))
writer.close()
"""


# A page's own websocket and events, at the app that it comes from.
TALKS = """async () => {
    const socket = new WebSocket(new URL("ws", location.href).href.replace("http", "ws"));
    const heard = await new Promise((done, failed) => {
        socket.onopen = () => socket.send("hello");
        socket.onmessage = (event) => done(event.data);
        socket.onerror = failed;
    });
    const events = new EventSource(new URL("events", location.href));
    const said = await new Promise((done, failed) => {
        events.onmessage = (event) => done(event.data);
        events.onerror = failed;
    });
    events.close();
    return [heard, said];
}"""


class Seat:
    """Alice at her session in one of the images."""

    def __init__(self, hub: Hub, page: Page, environment: str) -> None:
        self.hub, self.page, self.environment = hub, page, environment
        self.name = f"walk-{environment}"
        hub.add_user("alice")
        if not hub.server("alice", environment):
            options = {"name": self.name, "environment": environment, "preopen_ports": [8080]}
            assert hub.launch("alice", options, environment).status_code in {201, 202}
        hub.until_ready("alice", environment)
        (self.id,) = [s["id"] for s in hub.sessions("alice") if s["name"] == self.name]
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        sign_in(page, hub, "alice")
        self.panel()

    def panel(self) -> None:
        self.page.goto(f"{self.hub.url}/services/backendai/sessions/{self.id}")
        expect(self.page.locator(".bk-apps")).to_be_visible()

    def tile(self, title: str) -> Page:
        """The tab that an app's tile opens."""
        with self.page.expect_popup() as opened:
            self.page.locator(".bk-apps").get_by_role("link", name=title).click()
        return opened.value

    def terminal(self) -> Page:
        shell = self.tile("Terminal")
        # The prompt: of our own .bashrc, or of the image's, which is not written over.
        own = {"demo": f"{self.name}:~", "plain": "work@main1:~"}
        expect(screen(shell)).to_contain_text(own[self.environment])
        return shell

    def apps_page(self) -> None:
        self.page.goto(f"{self.hub.url}/services/backendai/sessions/{self.id}/apps")
        expect(self.page.locator("#app-terminal")).to_be_visible()


@pytest.fixture(params=IMAGES)
def seat(request: pytest.FixtureRequest, hub: Hub, page: Page) -> Seat:
    return Seat(hub, page, request.param)


def screen(shell: Page) -> Any:
    return shell.locator(".shell:not([hidden]) .xterm-rows")


def run(shell: Page, command: str, sees: str) -> None:
    shell.keyboard.type(command)
    shell.keyboard.press("Enter")
    expect(screen(shell)).to_contain_text(sees)


def test_a_terminal_that_stays(seat: Seat) -> None:
    shell = seat.terminal()
    run(shell, "echo 'from the terminal' > written.txt; echo an$((40 + 2))swer", "an42swer")
    shell.reload()
    expect(screen(shell)).to_contain_text("an42swer")
    run(shell, "seq -f 'row %g.' 200; echo e$((1))nd", "e1nd")
    shell.mouse.move(400, 250)
    shell.mouse.wheel(0, -600)
    expect(screen(shell)).not_to_contain_text("row 200.")
    shell.mouse.wheel(0, 6000)
    run(shell, "clear; echo copy-$((1))-this; echo e$((2))nd", "e2nd")
    row = screen(shell).locator("div", has_text="copy-1-this").last
    box = row.bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    shell.mouse.move(box["x"] + 1, middle)
    shell.mouse.down()
    shell.mouse.move(box["x"] + 40, middle, steps=4)
    shell.mouse.move(box["x"] + 240, middle, steps=4)
    shell.mouse.up()
    expect(shell.get_by_role("status")).to_contain_text("Copied")
    assert "copy-1-this" in shell.evaluate("navigator.clipboard.readText()")
    if seat.environment == "demo":
        shell.set_viewport_size({"width": 900, "height": 420})
        run(shell, "clear; python3 -c 'import numpy; print(numpy.arange(6) ** 2)'", "25]")
        run(shell, "df -h --output=target,avail /home/work", "Avail")
        keep(shell.screenshot(), "terminal")
    shell.close()

    # Jupyter has the same files.
    lab = seat.tile("JupyterLab")
    lab.wait_for_url("**/lab**")
    files = lab.locator(".jp-DirListing-content")
    expect(files).to_contain_text("written.txt", timeout=60_000)
    assert seat.hub.run_inside(seat.id, "cat", "written.txt") == "from the terminal\n"


def test_a_port_goes_on_by_itself_once_something_listens(
    seat: Seat, sit_down: Callable[[], Page]
) -> None:
    seat.hub.run_inside(seat.id, "python3", "-c", f"open('app.py', 'w').write({APP.read_text()!r})")
    waiting = seat.tile("Port 8080")
    expect(waiting.locator("main")).to_contain_text("8080")
    expect(waiting.locator("main")).to_contain_text("127.0.0.1")
    shell = seat.terminal()
    run(shell, "nohup python3 app.py 8080 > app.log 2>&1 & echo beg$((1))un", "beg1un")
    expect(waiting.locator("h1")).to_have_text("It is here", timeout=30_000)
    assert waiting.evaluate(TALKS) == ["hello", "first"]
    shell.close()

    # To the public: somebody without any cookie, until it is closed.
    seat.apps_page()
    port = seat.page.locator("#app-8080")
    port.get_by_role("button", name="Open to the public").click()
    link = port.get_by_role("link").filter(has_text="/public/")
    url = link.get_attribute("href")
    assert url
    if seat.environment == "demo":
        keep(seat.page.screenshot(full_page=True), "apps")
    with seat.page.expect_download() as key:
        seat.page.get_by_role("link", name="id_container").click()
    in_home = seat.hub.run_inside(seat.id, "cat", "/home/work/id_container")
    assert Path(key.value.path()).read_text() == in_home
    stranger = sit_down()
    stranger.goto(url)
    expect(stranger.locator("h1")).to_have_text("It is here")
    assert stranger.evaluate(TALKS) == ["hello", "first"]
    assert stranger.evaluate("origin") == "null"  # a page of the app's is nobody's on this host
    port.get_by_role("button", name="Close it to others").click()
    expect(link).to_have_count(0)
    reply = stranger.goto(url)
    assert reply
    assert reply.status == 404
    expect(stranger.locator("h1")).not_to_have_text("It is here")


def test_tensorboard_asks_and_shows_what_was_written(seat: Seat) -> None:
    if seat.environment == "plain":
        seat.apps_page()
        expect(seat.page.locator("#app-tensorboard")).to_contain_text("pip install tensorboard")
        expect(seat.page.locator("#app-tensorboard").get_by_role("link")).to_have_count(0)
        return
    seat.hub.run_inside(seat.id, "python3", "-c", SCALAR)
    board = seat.tile("TensorBoard")
    field = board.get_by_label("Log directory")
    expect(field).to_have_value("/home/work/logs")
    field.fill("/root")
    board.get_by_role("button", name="Start").click()
    expect(board.get_by_role("alert")).to_contain_text("/root")
    keep(board.screenshot(), "tensorboard-asks")
    board.get_by_label("Log directory").fill("/home/work/runs")
    board.get_by_role("button", name="Start").click()
    expect(board.get_by_text("loss of the test").first).to_be_visible(timeout=120_000)
    wait_for("it to be told of", lambda: _listening(seat, "tensorboard"))


def _listening(seat: Seat, app: str) -> bool:
    seat.apps_page()
    return bool(seat.page.locator(f"#app-{app}").get_by_text("Running").count())
