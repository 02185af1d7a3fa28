"""Times and lengths of time as people write them. Each function raises `Problem`, knows no field.

A time is `2026-12-01T09:00:00Z` (ISO 8601 with its zone; seconds may be left out), or a length of
time from now: `30m`, `2h`, `1d 6h`. A length is a number with its unit (s, m, h, d, w, or the word
for it), several of them together, or a bare number of seconds.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal

from .errors import Problem, shown

MAX_SPAN = 366 * 24 * 3600  # seconds; nobody plans further ahead, and it keeps sums in range
PAST = 60  # seconds that a start time may lie back: the form was open, two clocks differ

_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?\s?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)
_UNITS = {
    "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
    "m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600,
    "d": 86400, "day": 86400, "days": 86400,
    "w": 604800, "week": 604800, "weeks": 604800,
}  # fmt: skip
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]*)[\s,]*", re.ASCII)
_EXAMPLE = "such as 30m, 2h or 1d 6h"


def parse_span(text: str) -> int:
    """A length of time in whole seconds, rounded up: `90`, `2h`, `1d 6h`, `1.5 hours`."""
    rest, total = text.strip().lower(), Decimal(0)
    if not rest or len(rest) > 64:
        raise Problem("bad_span", f"Write a length of time {_EXAMPLE}.")
    alone = rest.replace(".", "", 1).isdigit()
    while rest:
        part = _PART.match(rest)
        unit = None if part is None else _UNITS.get(part[2] or ("s" if alone else ""))
        if part is None or unit is None:
            message = f"{shown(text, 20)} is no length of time. Write one {_EXAMPLE}."
            raise Problem("bad_span", message)
        total += Decimal(part[1]) * unit
        rest = rest[part.end() :]
    seconds = int(total.to_integral_value(rounding="ROUND_CEILING"))
    if seconds > MAX_SPAN:
        raise Problem("too_long", "This is more than a year. Write a shorter time.")
    return seconds


def parse_moment(text: str, now: datetime) -> datetime:
    """A time, from now where it is a length of time."""
    found = _read(text)
    return now + found if isinstance(found, timedelta) else found


def check_moment(text: str) -> str:
    """`text` if it is a time, whatever the time now."""
    _read(text)
    return text


def check_start(text: str, now: datetime) -> datetime:
    """A start time: not over (by more than a minute), and within a year."""
    start = parse_moment(text, now)
    if start < now - timedelta(seconds=PAST):
        message = "This time has passed. Choose a later one, or leave it empty to start at once."
        raise Problem("in_the_past", message)
    if start > now + timedelta(seconds=MAX_SPAN):
        raise Problem("too_late", "This is more than a year away. Choose an earlier time.")
    return start


def span_words(seconds: float) -> str:
    """A length of time in a word or two, for a sentence: `12 minutes`, `3 hours`, `2 days`."""
    if seconds < 100 * 60:
        number, unit = round(seconds / 60), "minute"
    elif seconds < 48 * 3600:
        number, unit = round(seconds / 3600), "hour"
    else:
        number, unit = round(seconds / 86400), "day"
    return f"1 {unit}" if number <= 1 else f"{number} {unit}s"


def limit_words(seconds: float) -> str:
    """A length of time that somebody chose, as exactly: `1 hour`, `90 minutes`, `20 seconds`."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        number, rest = divmod(round(seconds), size)
        if number and not rest:
            return f"1 {unit}" if number == 1 else f"{number} {unit}s"
    return "no time"


def _read(text: str) -> datetime | timedelta:
    match = _ISO.fullmatch(text.strip())
    if match is None:
        try:
            return timedelta(seconds=parse_span(text.strip().removeprefix("+")))
        except Problem as problem:
            if problem.code == "too_long":
                raise
        raise Problem(
            "bad_time",
            f"Write a time such as 2026-12-01T09:00:00Z, or how long from now, {_EXAMPLE}.",
        ) from None
    day, minute, second, fraction, zone = match.groups()
    if zone is None:
        message = "Write the time with its zone, such as 2026-12-01T09:00:00Z."
        raise Problem("no_zone", message)
    zone = "+00:00" if zone in "Zz" else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    try:
        # Not `fromisoformat` on all of it: that reads different things in different Pythons.
        whole = datetime.fromisoformat(f"{day}T{minute}{second or ':00'}{zone}")
        whole.utctimetuple()
    except (ValueError, OverflowError):
        raise Problem("bad_time", "There is no such time. Check the date and the hour.") from None
    return whole + timedelta(microseconds=int((fraction or "0").ljust(6, "0")[:6]))
