"""What a real server tells its pages of the session's end, and what it asks for them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from jupyter_server.serverapp import ServerApp

from jupyterhub_backendai.singleuser.server import ending

from .session_server import BASE, TOKEN, Server, wait_for
from .stand_in_hub import TOKEN as HUB_TOKEN
from .stand_in_hub import Hub
from .test_session_hub import KINDS
from .test_session_watching import Moments, judged, moments, moved

SOON = {
    "left": 3540.0, "warning": 1, "fate": "ended", "stays": "", "why": "Nobody has used it.",
    "keep": "2 hours",
}  # fmt: skip
NOTHING = {"ending": None, "again": 30}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("server")
    made = Server(root).start()
    yield made
    made.stop()
    assert "Traceback" not in made.log
    assert "LabServerApp" not in made.log, "it has no JupyterLab, and misses nothing"


@pytest.fixture(autouse=True)
def nothing_told(server: Server) -> None:
    tell(server, None)


def tell(server: Server, said: Any, answer: Any = None) -> Any:
    """What the service does."""
    told = server.by_key("ending/told", "PUT", json={"ending": said, "answer": answer})
    assert told.status_code == 200, told.text
    return told.json()


def asked(server: Server) -> Any:
    """What a page does."""
    reply = server.ask("ending")
    assert reply.status_code == 200, reply.text
    assert reply.headers["Cache-Control"] == "no-store"
    return reply.json()


def test_a_page_is_told_what_the_service_told(server: Server) -> None:
    assert asked(server) == NOTHING
    assert tell(server, SOON) == {"here": True, "keep": ""}
    said = asked(server)
    told = said["ending"]
    assert told["message"].startswith("This session ends in 5")
    assert told["message"].endswith(" minutes. Nobody has used it.")
    assert (told["warning"], told["keep"]) == (1, "Keep it for 2 hours")
    assert said["again"] < NOTHING["again"]
    tell(server, {**SOON, "left": 20, "warning": 2, "keep": ""})
    told = asked(server)["ending"]
    assert told["message"] == "This session ends in less than a minute. Nobody has used it."
    assert (told["warning"], told["keep"]) == (2, "")
    tell(server, {**SOON, "left": 20, "fate": "hibernated", "stays": "its home is kept"})
    assert asked(server)["ending"]["message"] == (
        "This session is hibernated in less than a minute; its home is kept. Nobody has used it."
    )
    tell(server, None)
    assert asked(server) == NOTHING


def test_the_service_alone_tells_and_pages_alone_ask(server: Server) -> None:
    body = {"ending": SOON, "answer": None}
    for headers in ({}, {"X-Backendai-Key": "x"}, {"Authorization": f"token {TOKEN}"}):
        assert server.ask("ending/told", "PUT", headers=headers, json=body).status_code == 403
    for method in ("GET", "POST"):
        assert server.ask("ending", method, headers={}).status_code == 403
        assert server.by_key("ending", method).status_code == 403
    assert asked(server) == NOTHING


def test_another_sites_page_keeps_nothing(server: Server) -> None:
    tell(server, SOON)
    browser = server.browser()
    refused = browser.post(server.url("ending"), timeout=60)
    assert refused.status_code == 403
    assert "_xsrf" in refused.json()["errors"][0]["message"]
    assert tell(server, SOON)["keep"] == ""


WRONG: dict[str, Any] = {
    "nothing": b"",
    "text": b"hello",
    "list": b"[1]",
    "lacks": b"{}",
    "deep": b"[" * 100_000,
    "left": json.dumps({"ending": {**SOON, "left": "x"}, "answer": None}).encode(),
    "nan": json.dumps({"ending": {**SOON, "left": float("nan")}, "answer": None}).encode(),
    "endless": json.dumps({"ending": SOON, "answer": None}).replace("3540.0", "1e999").encode(),
    "fate": json.dumps({"ending": {**SOON, "fate": None}, "answer": None}).encode(),
    "why": json.dumps({"ending": {**SOON, "why": 5}, "answer": None}).encode(),
    "long": json.dumps({"ending": {**SOON, "why": "x" * 2000}, "answer": None}).encode(),
    "answer": json.dumps({"ending": SOON, "answer": {"to": 1}}).encode(),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_makes_no_sense_is_refused(server: Server, name: str) -> None:
    told = server.by_key("ending/told", "PUT", data=WRONG[name])
    assert told.status_code == 400, told.text
    assert asked(server) == NOTHING


# ---- to keep it


def wish(server: Server) -> str:
    """The name of what somebody asks; the service tells the same time and again."""
    return str(wait_for(lambda: tell(server, SOON)["keep"]))


@pytest.fixture
def presses(server: Server) -> Iterator[Any]:
    """Presses *Keep it*, and waits in a thread."""
    with ThreadPoolExecutor(4) as pool:

        def press() -> Future[requests.Response]:
            return pool.submit(server.ask, "ending", "POST", timeout=200)

        yield press


@pytest.mark.parametrize("kept", [True, False])
def test_who_keeps_it_gets_the_services_word(server: Server, presses: Any, kept: bool) -> None:
    tell(server, SOON)
    pressed = presses()
    name = wish(server)
    other = presses()  # in another window
    tell(server, SOON, {"to": "something else", "kept": True, "message": "no"})
    assert wish(server) == name
    tell(server, SOON, {"to": name, "kept": kept, "message": "So be it."})
    assert pressed.result().json() == {"kept": kept, "message": "So be it."}

    def other_is_answered() -> bool:
        again = tell(server, SOON)["keep"]  # where it came after the answer
        if again:
            tell(server, SOON, {"to": again, "kept": kept, "message": "So be it."})
        return other.done()

    wait_for(other_is_answered)
    assert other.result().json()["kept"] == kept
    assert tell(server, SOON, {"to": name, "kept": True, "message": "late"})["keep"] == ""


def test_what_nothing_ends_need_not_be_kept(server: Server) -> None:
    reply = server.ask("ending", "POST")
    assert reply.status_code == 409
    assert "need not be kept" in reply.json()["errors"][0]["message"]


# ---- what counts as use


def test_to_ask_is_no_use_and_to_keep_is(server: Server, presses: Any) -> None:
    assert judged(server, lambda: server.ask("ending")) == "nothing"
    tell(server, SOON)
    before = moments(server)
    for _ in range(3):
        asked(server)
        tell(server, SOON)
    assert moved(before, moments(server)) == "nothing"
    pressed = presses()
    name = wish(server)
    assert moved(before, moments(server)) == "used"
    tell(server, None, {"to": name, "kept": True, "message": "It is kept."})
    assert pressed.result().status_code == 200


@pytest.mark.parametrize("kind", KINDS)
def test_with_a_hub(tmp_path: Path, kind: str) -> None:
    made = Server(tmp_path)
    with Hub() as hub:
        made.environment = {**KINDS[kind], **hub.environment(made.port, BASE)}
        made.start("--allow-root", program=(sys.executable, "-m", "jupyterhub.singleuser"))
        try:
            tell(made, SOON)
            headers = {"Authorization": f"token {HUB_TOKEN}"}
            before: Moments = moments(made)
            said = made.ask("ending", headers=headers).json()
            assert said["ending"]["message"].startswith("This session ends in 5")
            assert moved(before, moments(made)) == "nothing"
        finally:
            made.stop()


# ---- by itself


def test_what_was_told_gets_old() -> None:
    now = 1000.0
    one = ending.Endings(lambda: now)
    assert one.tell({"ending": {**SOON, "left": 7500}, "answer": None})["here"] is False
    assert one.said()["ending"]["message"].startswith("This session ends in 2 hours 5 minutes. ")
    now += 100
    assert one.said()["ending"]["message"].startswith("This session ends in 2 hours 3 minutes. ")
    assert one.tell({"ending": SOON, "answer": None})["here"] is True
    now += ending.HERE_FOR + 1
    assert one.tell({"ending": SOON, "answer": None})["here"] is False, "the page is closed"
    now += ending.STALE + 1
    assert one.said()["ending"] is None, "the service is away, and ends nothing"


def test_how_soon() -> None:
    found = [ending.until(left) for left in (-5, 59, 60, 119.9, 3599, 3600, 3660, 7260, 90000)]
    assert found == [
        "in less than a minute", "in less than a minute", "in 1 minute", "in 1 minute",
        "in 59 minutes", "in 1 hour", "in 1 hour 1 minute", "in 2 hours 1 minute", "in 25 hours",
    ]  # fmt: skip


# ---- the page's part


@pytest.mark.parametrize("by", ["nobody", "set", "append"])
def test_jupyterlab_is_told_where_it_is(by: str) -> None:
    server = ServerApp()
    if by == "set":
        server.config.LabServerApp.extra_labextensions_path = ["/theirs"]
    elif by == "append":
        server.config.LabServerApp.extra_labextensions_path.append("/theirs")
    ending.configure(server)
    found = server.config.LabServerApp.extra_labextensions_path
    assert found == [*(["/theirs"] if by != "nobody" else []), ending.LABEXTENSIONS]


def test_the_extension_of_jupyterlab_is_whole() -> None:
    folder = Path(ending.LABEXTENSIONS, "jupyterhub-backendai")
    package = json.loads((folder / "package.json").read_text())
    build = package["jupyterlab"]["_build"]
    assert package["name"] == folder.name
    # Jupyter lets browsers keep what is below `static` for a year, and so by another name each.
    assert "/" not in build["load"]
    script = (folder / build["load"]).read_text()
    assert f'const NAME = "{package["name"]}"' in script
    assert f'"{build["extension"]}"' in script
