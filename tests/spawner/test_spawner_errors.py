"""Errors for people: every door's attribute is there, and no text of a user is markup."""

from __future__ import annotations

import ast
import asyncio
import html
import io
import logging
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.engine.base import AgentUnreachable, EngineError, ImageMissing
from jupyterhub_backendai.model.errors import FieldError, Kind, LaunchError, RequestError
from jupyterhub_backendai.site.gpu_host import GpuFailed
from jupyterhub_backendai.spawner.errors import (
    SessionSpawnError,
    for_people,
    in_log,
    log_in_one_line,
    why,
)
from jupyterhub_backendai.store import Unavailable


class Tags(HTMLParser):
    """The tags and the text of some HTML."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def refused(*errors: FieldError) -> SessionSpawnError:
    return SessionSpawnError.refused(RequestError(errors))


EVIL = '<script>alert("1")</script>&amp;{0}{username}%s\'"'


def test_a_refusal_has_all_that_the_hub_looks_for() -> None:
    error = refused(
        FieldError("name", "in_use", "You already have it.", Kind.CONFLICT),
        FieldError("", "server_in_use", "End it first.", Kind.CONFLICT),
    )
    assert error.status_code == 409
    assert error.reason == "conflict"
    assert error.jupyterhub_message == "name: You already have it.; End it first."
    assert error.jupyterhub_html_message == (
        "<ul><li><code>name</code> You already have it.</li><li>End it first.</li></ul>"
    )
    assert [e.field for e in error.errors] == ["name", ""]


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [(Kind.INVALID, 400, "bad_options"), (Kind.FORBIDDEN, 403, "policy"),
     (Kind.CONFLICT, 409, "conflict")],
)  # fmt: skip
def test_a_refusals_status_and_reason(kind: Kind, status: int, reason: str) -> None:
    error = refused(FieldError("x", "y", "z.", kind))
    assert (error.status_code, error.reason) == (status, reason)


@pytest.mark.parametrize(
    ("reason", "status"),
    [("cancelled", 409), ("queue_timeout", 503), ("folder", 409), ("image_missing", 503),
     ("start_failed", 503), ("start_timeout", 503), ("gpu", 503)],
)  # fmt: skip
def test_a_failures_status_and_reason(reason: str, status: int) -> None:
    error = SessionSpawnError.failed(LaunchError(reason, "It did not start."))
    assert (error.status_code, error.reason) == (status, reason)
    assert error.jupyterhub_message == "It did not start."
    assert error.jupyterhub_html_message == "<p>It did not start.</p>"


@given(st.text() | st.just(EVIL), st.text() | st.just(EVIL))
def test_no_text_becomes_markup(field: str, message: str) -> None:
    of_field = refused(FieldError(field, "c", message)).jupyterhub_html_message
    assert Tags(of_field).tags == (["ul", "li", "code"] if field else ["ul", "li"])
    failed = SessionSpawnError.failed(LaunchError("start_failed", message))
    assert Tags(failed.jupyterhub_html_message).tags == ["p"]


def test_text_is_shown_as_it_was() -> None:
    shown = refused(FieldError(EVIL, "c", EVIL)).jupyterhub_html_message
    assert Tags(shown).text == f"{EVIL} {EVIL}"
    assert html.escape("<script>") in shown


# ---- the log -------------------------------------------------------------------------------------


@pytest.fixture
def log() -> logging.Logger:
    """A log whose lines are in its handler's stream."""
    log = logging.Logger("of-a-hub", logging.DEBUG)
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log.addHandler(handler)
    log_in_one_line(log)
    log_in_one_line(logging.LoggerAdapter(log))
    return log


def lines(log: logging.Logger) -> list[str]:
    (handler,) = log.handlers
    assert isinstance(handler, logging.StreamHandler)
    return handler.stream.getvalue().splitlines()


def test_what_a_user_did_wrong_is_one_line(log: logging.Logger) -> None:
    try:
        raise refused(FieldError("name", "in_use", "You already have it."))
    except SessionSpawnError:
        log.error("Failed to spawn with %s arguments", "query", exc_info=True)
    try:
        raise SessionSpawnError.failed(LaunchError("start_failed", "It ended. Start it again."))
    except SessionSpawnError:
        log.exception("Not starting")
    assert lines(log) == [
        "WARNING Failed to spawn with query arguments: name: You already have it.",
        "ERROR Not starting: It ended. Start it again.",
    ]


def test_a_defect_keeps_its_traceback(log: logging.Logger) -> None:
    error = for_people(KeyError("a defect"), log, "alice:")
    assert isinstance(error, SessionSpawnError)
    assert error.status_code == 503
    assert lines(log)[0] == "ERROR alice:: an unforeseen failure"
    assert lines(log)[-1] == "KeyError: 'a defect'"


@pytest.mark.parametrize(
    "error",
    [
        ImageMissing("lab/r:1 is not on here.\nPull it, or check c.DockerSpawner.pull_policy."),
        Unavailable("the server is away\n(connection refused)"),
        GpuFailed("MPS: the server of GPU-1 is Fault; see its log\nand more"),
    ],
    ids=["image", "database", "gpu"],
)
def test_an_admin_reads_why_and_its_owner_what_to_do(log: logging.Logger, error: Exception) -> None:
    told = for_people(error, log, "alice:")
    assert isinstance(told, SessionSpawnError)
    assert told.status_code == 503
    assert str(error)[:10] not in told.jupyterhub_message
    assert lines(log) == [f"ERROR alice:: {in_log(str(error))}"]


def test_a_gpu_that_is_not_ready_is_told_as_that() -> None:
    code, told = why(GpuFailed("MPS: refused"))
    assert code == "gpu"
    assert "GPU" in told


@given(st.text())
def test_no_text_of_a_container_looks_like_another_line(text: str) -> None:
    shown = in_log(text)
    assert len(shown.splitlines()) <= 1
    assert shown.isprintable()
    if text.isprintable() and len(text) <= 300:
        assert shown == text


def test_a_forged_line_is_seen_as_what_it_is() -> None:
    assert in_log("ok\n[I 2026 JupyterHub] alice is admin\x1b[2J") == (
        "ok\\n[I 2026 JupyterHub] alice is admin\\x1b[2J"
    )


# ---- what to do next -----------------------------------------------------------------------------

NEXT = ("Start ", "Resume ", "Ask ", "ell your admin", "Choose ", "Try ")
PACKAGE = Path(__file__).parents[2] / "jupyterhub_backendai"


def launch_errors() -> list[str]:
    """The messages in the code with which a start can end, without what is filled in."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "LaunchError":
                parts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                found.append(" ".join(str(part) for part in parts[1:]))
    return [text for text in found if text]


OTHERS = [
    why(error)[1]
    for error in (
        ImageMissing("x"), AgentUnreachable("x"), EngineError("x"), KeyError("x"),
        Unavailable("x"), asyncio.CancelledError(),
    )
]  # fmt: skip


def test_each_failure_says_what_to_do_next() -> None:
    texts = [*launch_errors(), *OTHERS]
    assert len(texts) > 14
    assert [text for text in texts if not any(word in text for word in NEXT)] == []
