"""The last lines of a container's standard output alone, in Docker's words.

Docker's own `tail` counts the lines of standard error with them, and gives fewer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

SPARE = 1000  # lines of standard error for which no second look is needed
STAMP = len("2026-12-01T09:00:00.123456789Z")  # before each line, where it is asked for


def last_lines(
    lines: int, parameters: Mapping[str, Any], read: Callable[[dict[str, Any]], Iterator[bytes]]
) -> dict[str, Any]:
    """What is to be asked for, so that the last lines come: all since the first of them.

    `read` gives what Docker answers to parameters. For a thread.
    """
    stamps: deque[bytes] = deque()
    for tail in (4 * lines + SPARE, "all"):
        asked = {**parameters, "follow": 0, "timestamps": 1, "tail": tail}
        stamps = _stamps(read(asked), lines)
        if len(stamps) == lines:
            break
    since = _since(stamps[0]) if len(stamps) == lines else parameters["since"]
    return {"tail": "all", "since": since}


def _stamps(chunks: Iterator[bytes], lines: int) -> deque[bytes]:
    found: deque[bytes] = deque(maxlen=lines)
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        found.extend(line[:STAMP] for line in whole)
        rest = rest[:STAMP]  # of a line that goes on
    if rest:
        found.append(rest)
    return found


def _since(stamp: bytes) -> str:
    """The moment of a line, as precisely as Docker tells it."""
    seconds, _, fraction = stamp.decode("ascii").rstrip("Z").partition(".")
    return f"{datetime.fromisoformat(seconds + '+00:00').timestamp():.0f}.{fraction}"
