"""Whether a client uses the session, or only has a page open that asks by itself.

Three answers, of which the larger is the stronger:

* `NOTHING`: says nothing of a person: what monitors ask, and what a page answers by itself to a
  computation that runs.
* `ASKED`: a client is there and asks, as an open tab does day and night.
* `USED`: somebody does something.

What cannot be told apart for sure counts as use: nobody loses a session by our guess.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

NOTHING, ASKED, USED = 0, 1, 2

# ---- requests

READS = ("GET", "HEAD", "OPTIONS", "PROPFIND", "REPORT")
# Below the server's base: the first two count as no activity for Jupyter itself; the last is what
# our own part of JupyterLab asks.
MONITORED = ("api/status", "api/security/csp-report", "backendai/ending")
# What JupyterLab, Notebook and their extensions ask again and again.
POLLED = re.compile(r"(api|lab/api|static|metrics|kernelspecs|nbextensions|lab/extensions)(/.*)?")
# Changing in form only: what RStudio, SockJS and socket.io wait for news with.
WAITS = re.compile(r"api/events|.*/get_events|.*/xhr(_streaming)?")
# JupyterLab saves its layout after each command, those that extensions run by themselves included.
LAYOUT = re.compile(r"lab/api/workspaces(/.*)?")
LONG_NUMBER = re.compile(r"[0-9.]{10,}")  # a moment, so that no cache answers
CACHE_BUSTERS = {"_", "t", "ts", "time", "timestamp", "nocache", "rand", "cb"}
LARGEST = 1 << 24  # bytes of a notebook that is read for what a person wrote in it
REMEMBERED = 4096  # addresses


class Requests:
    """Judges one server's requests; remembers digests of what was asked, and nothing else."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._read = Remembered()
        self._sent = Remembered()

    def __call__(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes | None
    ) -> int:
        """`path` and `query` as they were asked; `body` is None where it is not known (yet)."""
        rest = path[len(self._base) :] if path.startswith(self._base) else path.lstrip("/")
        values = parse_qsl(query, keep_blank_values=True)
        if rest in MONITORED or any(name == "no_track_activity" for name, _ in values):
            return NOTHING
        if method in READS:
            return self._reads(method, rest, values, headers)
        return self._changes(method, rest, values, body)

    def _reads(
        self, method: str, rest: str, values: list[tuple[str, str]], headers: Mapping[str, str]
    ) -> int:
        if method != "GET":
            return ASKED
        if "text/html" in headers.get("Accept", "") or headers.get("Sec-Fetch-Mode") == "navigate":
            return USED
        if rest.startswith("api/contents"):  # the file browser asks for folders by itself
            said = dict(values)
            opens = said.get("type") in ("file", "notebook") and said.get("content") != "0"
            return USED if opens else ASKED
        if POLLED.fullmatch(rest):
            return ASKED
        # An address that a page has not asked for yet is behind something that was clicked.
        return USED if self._read.news(rest, _steady(values)) else ASKED

    def _changes(
        self, method: str, rest: str, values: list[tuple[str, str]], body: bytes | None
    ) -> int:
        if WAITS.fullmatch(rest) or LAYOUT.fullmatch(rest):
            return ASKED
        if body is None or (rest.startswith("api/") and method != "PUT"):
            return USED
        written = meaning(body) if rest.startswith("api/contents") else body
        news = self._sent.news(f"{method} {rest}", _steady(values).encode() + b"\n" + written)
        return USED if news else ASKED


class Remembered:
    """What was said last under each name, up to as many names as are remembered."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._digests: OrderedDict[bytes, bytes] = OrderedDict()

    def news(self, name: str, said: str | bytes) -> bool:
        """Whether it is something else than the last time."""
        key = _digest(name.encode("utf-8", "surrogateescape"))
        if isinstance(said, str):  # each is a name of its own: pages ask for several in turn
            key, digest = _digest(key + said.encode("utf-8", "surrogateescape")), b""
        else:
            digest = _digest(said)
        before = self._digests.pop(key, None)
        self._digests[key] = digest
        if len(self._digests) > self._most:
            self._digests.popitem(last=False)
        return before != digest


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _steady(values: list[tuple[str, str]]) -> str:
    """A query without what differs each time that the same is asked."""
    kept = [
        # JupyterLab's own is a name alone: `?1700000000001`
        (
            "" if LONG_NUMBER.fullmatch(name) else name,
            "" if name in CACHE_BUSTERS or LONG_NUMBER.fullmatch(value) else value,
        )
        for name, value in values
    ]
    return json.dumps(kept)


def meaning(body: bytes) -> bytes:
    """What a person wrote in a file that is saved: of a notebook without what its code put out."""
    if len(body) > LARGEST:
        return body
    try:
        model = json.loads(body)
        if model["type"] != "notebook":
            return body
        cells = [
            [cell.get(name) for name in ("cell_type", "source", "attachments")]
            for cell in model["content"]["cells"]
        ]
        return json.dumps(cells).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return body


# ---- kernels

KERNEL_PROTOCOL = "v1.kernel.websocket.jupyter.org"
QUIET = {"kernel_info_request", "comm_info_request", "connect_request", "usage_request"}
LONG = 1 << 20  # bytes; what is longer, somebody has sent


def kernel_message(message: str | bytes, protocol: str | None) -> int:
    """Of a client to a kernel, by Jupyter's websocket protocols.

    The answers of widgets to what a computation shows are part of that computation.
    """
    try:
        header, content = _kernel_parts(message, protocol)
        kind = header["msg_type"]
        if kind in QUIET:
            return ASKED
        if kind == "comm_msg" and len(message) <= LONG and _answers(content()):
            return NOTHING
        return USED if isinstance(kind, str) else NOTHING
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return NOTHING  # no kernel hears of what is no message


def _kernel_parts(message: str | bytes, protocol: str | None) -> tuple[Any, Callable[[], Any]]:
    """The header, and what reads the content."""
    if isinstance(message, bytes) and protocol == KERNEL_PROTOCOL:
        count = int.from_bytes(message[:8], "little")
        if not 6 <= count <= 10000:
            raise ValueError("no message")
        # channel, header, parent's header, metadata, content, buffers …
        at = [int.from_bytes(message[8 * n : 8 * n + 8], "little") for n in range(1, 7)]
        content = message[at[4] : at[5]]
        return json.loads(message[at[1] : at[2]]), lambda: json.loads(content)
    if isinstance(
        message, bytes
    ):  # the older one: counts and offsets of four bytes, the JSON first
        count = int.from_bytes(message[:4], "big")
        begin = int.from_bytes(message[4:8], "big")
        end = int.from_bytes(message[8:12], "big") if count > 1 else len(message)
        said = json.loads(message[begin:end])
    else:
        said = json.loads(message)
    return said["header"], lambda: said["content"]


def _answers(content: Any) -> bool:
    """Whether a widget's page says no more than that it has shown something."""
    data = content["data"]
    if data.get("method") == "update":  # an Output widget keeps what was put out
        return set(data["state"]) <= {"outputs", "msg_id"}
    said = data.get("content")
    return data.get("method") == "custom" and isinstance(said, dict) and said.get("type") == "ack"


# ---- terminals

# What a terminal answers by itself, where a program asks what it is and where its cursor stands.
_REPORTS = re.compile(
    r"(\x1b\[[?>=]?[0-9;]*\$?[cRntyu]|\x1b\[[IO]|\x1b[P\]][^\x07\x1b]*(\x07|\x1b\\))+"
)


def terminal_message(message: str | bytes) -> int:
    """Of a window to a shell: ours, and Jupyter's own (terminado's)."""
    try:
        said = json.loads(message)
        if said[0] == "stdin":
            return ASKED if not said[1] or _REPORTS.fullmatch(said[1]) else USED
        return ASKED if said[0] == "set_size" else NOTHING  # the rest answers a shell's output
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return NOTHING


# ---- other websockets

SMALL = 128  # bytes
SHORTEST = 1.0  # seconds: what comes sooner is typed


class Heartbeats:
    """Judges a client's messages by size and time: small ones that come evenly keep a connection.

    Those of one size are looked at by themselves: a message is a heartbeat if it came as long
    after the one before as that after its own, ± a fifth or half a second.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[int, tuple[float, float]] = {}  # by size: when, and how long after

    def __call__(self, size: int) -> int:
        """`size` is that of the message, in bytes."""
        if size > SMALL:
            return USED
        now = self._clock()
        when, before = self._last.get(size, (now, 0.0))
        gap = now - when
        self._last[size] = now, gap
        even = before and gap >= SHORTEST and abs(gap - before) <= max(0.2 * before, 0.5)
        return ASKED if even or not size else USED
