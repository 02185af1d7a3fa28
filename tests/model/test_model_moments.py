"""Times and lengths of time as people write them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.model.errors import Problem
from jupyterhub_backendai.model.moments import (
    MAX_SPAN,
    check_moment,
    check_start,
    parse_moment,
    parse_span,
    span_words,
)

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)


def code_of(call: object, *arguments: object) -> str:
    with pytest.raises(Problem) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.code


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90), ("1.5", 2), ("30m", 1800), ("2h", 7200), ("1d", 86400), ("1w", 604800),
        ("1d 6h", 108000), ("1d1hr", 90000), ("2hours 15min", 8100), ("1.5 hours", 5400),
        ("1 Day, 2 Secs", 86402), (" 5 MINUTES ", 300), ("0", 0),
    ],
)  # fmt: skip
def test_lengths(text: str, seconds: int) -> None:
    assert parse_span(text) == seconds


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "bad_span"), ("soon", "bad_span"), ("2x", "bad_span"), ("1y", "bad_span"),
        ("-5m", "bad_span"), ("1h 5", "bad_span"), ("5m5", "bad_span"), ("٣m", "bad_span"),
        ("1e9", "bad_span"), ("5 " * 40, "bad_span"), ("367d", "too_long"),
        ("999999999w", "too_long"),
    ],
)  # fmt: skip
def test_what_is_no_length(text: str, code: str) -> None:
    assert code_of(parse_span, text) == code


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00+00:00"),
        ("2026-12-01t09:00z", "2026-12-01T09:00:00+00:00"),
        ("2026-12-01 18:00+0900", "2026-12-01T09:00:00+00:00"),
        ("2026-12-01T09:00:00.25 -01:30", "2026-12-01T10:30:00.250000+00:00"),
        ("2h", "2026-11-20T14:00:00+00:00"),
        ("+1d 30m", "2026-11-21T12:30:00+00:00"),
    ],
)
def test_times(text: str, moment: str) -> None:
    assert parse_moment(text, NOW) == datetime.fromisoformat(moment)
    assert check_moment(text) == text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("2026-12-01T09:00:00", "no_zone"), ("2026-12-01", "bad_time"), ("tomorrow", "bad_time"),
        ("2026-13-01T09:00Z", "bad_time"), ("2026-02-30T09:00Z", "bad_time"), ("", "bad_time"),
        ("2026-12-01T09:00+99:00", "bad_time"), ("0001-01-01T00:00+14:00", "bad_time"),
        ("-2h", "bad_time"), ("2 years", "bad_time"), ("500d", "too_long"),
    ],
)  # fmt: skip
def test_what_is_no_time(text: str, code: str) -> None:
    assert code_of(check_moment, text) == code


def test_a_start_is_neither_over_nor_far_away() -> None:
    assert check_start("2026-11-20T11:59:30Z", NOW) == NOW - timedelta(seconds=30), "a form's age"
    assert code_of(check_start, "2026-11-20T11:58:00Z", NOW) == "in_the_past"
    assert code_of(check_start, "2027-12-01T00:00Z", NOW) == "too_late"
    assert check_start("366d", NOW) == NOW + timedelta(seconds=MAX_SPAN)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    for call in (parse_span, check_moment):
        try:
            call(text)
        except Problem as problem:
            message = problem.message
        else:
            message = ""
        assert message == "" or message.isprintable()


@given(st.datetimes(timezones=st.timezones(), max_value=datetime(9000, 1, 1)))
def test_what_python_writes_is_read_back(moment: datetime) -> None:
    offset = moment.utcoffset() or timedelta(0)
    if offset.total_seconds() % 60 or moment.year < 2:
        return  # zones of long ago had seconds, which ISO 8601 does not know
    text = moment.isoformat()
    assert parse_moment(text, NOW) == datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 minute"), (89, "1 minute"), (720, "12 minutes"), (5400, "90 minutes"),
        (7200, "2 hours"), (86400, "24 hours"), (200_000, "2 days"), (604800, "7 days"),
    ],
)  # fmt: skip
def test_lengths_in_words(seconds: float, words: str) -> None:
    assert span_words(seconds) == words
