"""Errors for people: every door's attribute is there, and no text of a user is markup."""

from __future__ import annotations

import html
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.model.errors import FieldError, Kind, LaunchError, RequestError
from jupyterhub_backendai.spawner.errors import SessionSpawnError


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
     ("start_failed", 503), ("start_timeout", 503)],
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
