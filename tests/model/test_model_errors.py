"""Errors: their shape, their status, and that nobody's text gets into them unseen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.model.errors import (
    ConfigurationError,
    FieldError,
    Kind,
    Problem,
    RequestError,
    shown,
)


def an_error(kind: Kind, field: str = "name") -> FieldError:
    return FieldError(field, "code", "A sentence.", kind)


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        ([Kind.INVALID], 400),
        ([Kind.FORBIDDEN], 403),
        ([Kind.CONFLICT], 409),
        ([Kind.FORBIDDEN, Kind.CONFLICT], 409),
        ([Kind.CONFLICT, Kind.INVALID], 400),
        ([Kind.FORBIDDEN, Kind.INVALID], 400),
        ([Kind.FORBIDDEN, Kind.CONFLICT, Kind.INVALID], 400),
    ],
)
def test_a_malformed_request_comes_before_a_conflict_before_policy(
    kinds: list[Kind], status: int
) -> None:
    assert RequestError(an_error(kind) for kind in kinds).status == status
    assert RequestError(an_error(kind) for kind in reversed(kinds)).status == status


def test_all_errors_are_told() -> None:
    error = RequestError([an_error(Kind.INVALID, "name"), an_error(Kind.FORBIDDEN, "image")])
    assert str(error) == "name: A sentence.; image: A sentence."
    assert error.as_dict() == {
        "errors": [
            {"field": "name", "code": "code", "message": "A sentence."},
            {"field": "image", "code": "code", "message": "A sentence."},
        ]
    }


def test_a_problem_becomes_the_error_of_a_field() -> None:
    problem = Problem("too_short", "A sentence.", Kind.CONFLICT)
    assert problem.at("name") == FieldError("name", "too_short", "A sentence.", Kind.CONFLICT)


@given(st.text())
def test_what_somebody_typed_is_short_and_printable_in_a_sentence(text: str) -> None:
    found = shown(text, 20)
    assert len(found) <= 20
    assert found.isprintable()
    if text.isprintable() and len(text) <= 20:
        assert found == text


def test_a_configuration_error_names_trait_value_problem_and_remedy() -> None:
    error = ConfigurationError("BackendAI.uid", "x" * 1000, "It is wrong.", "Make it right.")
    first, problem, remedy = str(error).splitlines()
    assert first.startswith("c.BackendAI.uid = 'xxx")
    assert len(first) < 230
    assert problem.strip() == "It is wrong."
    assert remedy.strip() == "Make it right."
