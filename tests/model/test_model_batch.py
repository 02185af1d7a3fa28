"""Batch sessions, start times, dependencies, priorities, several at once: what is asked of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from model_samples import DEFAULT, context, granted, places, the_error

from jupyterhub_backendai.model.errors import Kind
from jupyterhub_backendai.model.policy import Policy
from jupyterhub_backendai.model.request import KnownSession, SessionRequest, Work
from jupyterhub_backendai.model.spec import references

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
KNOWN = {
    "prepare": KnownSession("a" * 32, "prepare", "batch", False, False),
    "a" * 32: KnownSession("a" * 32, "prepare", "batch", False, False),
    "done": KnownSession("b" * 32, "done", "batch", True, True),
    "broken": KnownSession("c" * 32, "broken", "batch", True, False),
    "notebook": KnownSession("d" * 32, "notebook", "interactive", False, False),
}
SERVED = context(service=True, now=NOW, sessions=KNOWN)


def batch(command: object = "python train.py", **more: object) -> dict[str, Any]:
    return {"type": "batch", "batch": {"command": command, **more}}


def test_a_batch_session() -> None:
    request = granted(batch(starts_at="2h", timeout="90m"), SERVED)
    assert (request.type, request.batch) == ("batch", Work(command="python train.py", timeout=5400))
    assert request.not_before == NOW + timedelta(hours=2)
    assert SessionRequest.model_validate_json(request.model_dump_json()) == request
    at_once = granted(batch(timeout=0), SERVED)
    assert at_once.not_before is None
    assert at_once.batch == Work(command="python train.py", timeout=None)
    zoned = granted(batch(starts_at="2026-11-21T09:00+09:00", timeout=30), SERVED)
    assert zoned.not_before == NOW + timedelta(hours=12)
    assert zoned.batch is not None
    assert zoned.batch.timeout == 30
    assert granted({}, SERVED).batch is None


def test_a_request_that_was_stored_before_there_was_any_of_this() -> None:
    old = granted({}, SERVED).model_dump(exclude={"batch", "not_before", "depends_on", "count"})
    assert SessionRequest.model_validate(old) == granted({}, SERVED)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"type": "batch"}, [("batch.command", "missing")]),
        (batch(""), [("batch.command", "missing")]),
        (batch(" \n"), [("batch.command", "missing")]),
        (batch(5), [("batch.command", "string_type")]),
        (batch("x" * 40_000), [("batch.command", "string_too_long")]),
        (batch("a\x00b"), [("batch.command", "bad_text")]),
        (batch(starts_at="2026-11-20T11:00:00Z"), [("batch.starts_at", "in_the_past")]),
        (batch(starts_at="2026-11-21T11:00:00"), [("batch.starts_at", "no_zone")]),
        (batch(starts_at="2030-01-01T00:00Z"), [("batch.starts_at", "too_late")]),
        (batch(starts_at=5), [("batch.starts_at", "not_text")]),
        (batch(timeout="2 years"), [("batch.timeout", "bad_span")]),
        (batch(timeout=-1), [("batch.timeout", "not_text")]),
        (batch(timeout=True), [("batch.timeout", "not_text")]),
        (batch(shell="zsh"), [("batch.shell", "extra_forbidden")]),
        ({"batch": {"command": "ls"}}, [("batch", "not_batch")]),
        ({"batch": {"starts_at": "2h"}}, [("batch", "not_batch")]),
        ({"priority": 101}, [("priority", "less_than_equal")]),
        ({"priority": "high"}, [("priority", "int_parsing")]),
        ({"priority": 11}, [("priority", "too_high")]),
        ({"depends_on": ["nobody"]}, [("depends_on.0", "unknown")]),
        ({"depends_on": "prepare"}, [("depends_on", "tuple_type")]),
        ({"depends_on": ["prepare", "a" * 32]}, [("depends_on.1", "duplicate")]),
        ({"depends_on": ["done", "broken"]}, [("depends_on.1", "dependency_failed")]),
        ({"depends_on": ["notebook"]}, [("depends_on.0", "not_batch")]),
        ({"depends_on": ["x"] * 101}, [("depends_on", "too_long")]),
        ({"name": "a" * 63, "count": 2}, [("name", "too_long")]),
        (
            {"type": "batch", "batch": {"starts_at": "then", "timeout": "long"}, "priority": 50,
             "depends_on": ["nobody"], "name": "?"},
            [("batch.starts_at", "bad_time"), ("batch.timeout", "bad_span"),
             ("depends_on.0", "unknown"), ("name", "too_short"), ("priority", "too_high"),
             ("batch.command", "missing")],
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else None,
)  # fmt: skip
def test_what_is_wrong_with_it(options: object, wrong: list[tuple[str, str]]) -> None:
    assert places(options, SERVED) == sorted(wrong)


def test_dependencies_are_ids() -> None:
    request = granted({"depends_on": ["prepare", "done"]}, SERVED)
    assert request.depends_on == ("a" * 32, "b" * 32)
    assert references({"depends_on": ["prepare", "done"]}) == ("prepare", "done")
    for odd in ({}, None, [], {"depends_on": 5}, {"depends_on": ["x", 5]}):
        assert references(odd) == ()


def test_several_at_once() -> None:
    assert granted({"name": "train", "count": 3}, SERVED).count == 3
    taken = context(service=True, names_in_use=frozenset({"train-2"}))
    error = the_error({"name": "train", "count": 3}, taken)
    assert (error.field, error.code, error.kind) == ("name", "in_use", Kind.CONFLICT)
    assert "train-2" in error.message
    assert granted({"name": "train", "count": 1}, taken).name == "train"


@pytest.mark.parametrize(("asked", "given"), [(None, 10), (0, 0), (10, 10), (60, 60)])
def test_priorities(asked: int | None, given: int) -> None:
    policy = DEFAULT.model_copy(update={"max_priority": 60})
    assert granted({"priority": asked}, context(policy)).priority == given
    assert the_error({"priority": 61}, context(policy)).kind is Kind.FORBIDDEN


def test_a_policy_s_priorities_fit_together() -> None:
    with pytest.raises(ValueError, match="max_priority"):
        Policy(priority=20, max_priority=10)
    assert Policy(priority=20).highest_priority == 20


def test_without_the_service_it_comes_soon() -> None:
    options = {**batch(starts_at="2h"), "depends_on": ["prepare"], "count": 2, "name": "train"}
    assert places(options) == [
        ("count", "not_available"),
        ("depends_on", "not_available"),
        ("type", "not_available"),
    ]
