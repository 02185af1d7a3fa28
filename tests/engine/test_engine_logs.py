"""Logs as streams: as text, in parts, searched, saved; and the thread that each one has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.engine.base import EngineBusy, EngineError
from jupyterhub_backendai.engine.docker_logs import without_headers
from jupyterhub_backendai.engine.docker_tail import SPARE, last_lines
from jupyterhub_backendai.engine.logs import (
    SLICE,
    Finder,
    Hit,
    LogPart,
    Readable,
    as_text,
    cut,
    readable,
    search,
)
from jupyterhub_backendai.engine.saved_logs import COMMAND, LogShelf
from jupyterhub_backendai.engine.streams import AHEAD, Readers


async def stream(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def in_chunks(data: bytes, sizes: list[int]) -> list[bytes]:
    """The same bytes in chunks of these sizes, and the rest."""
    chunks = []
    for size in sizes:
        chunks.append(data[:size])
        data = data[size:]
    return [chunk for chunk in (*chunks, data) if chunk]


sizes = st.lists(st.integers(1, 9), max_size=20)
rubbish = st.binary(max_size=80) | st.text(max_size=40).map(str.encode)

# ---- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("grün, 世界\t.\n".encode(), "grün, 世界\t.\n"),
        (b"half \xc3", "half \\xc3"),
        (b"\xff\x00\x07", "\\xff\\x00\\x07"),
        (b"\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        (b"10%\r20%\rdone\r\n", "10%\n20%\ndone\n"),
        ("a\u202eb\u2066c\u061c\x9b".encode(), "a\\u202eb\\u2066c\\u061c\\x9b"),
        ("a\u2028b\u2029c\x85".encode(), "a\\u2028b\\u2029c\\x85"),
        ("a\u200b\u200f\u2060\u2064\ufeff".encode(), "a\\u200b\\u200f\\u2060\\u2064\\ufeff"),
        ("a\U000e0041\U000e007f".encode(), "a\\U000e0041\\U000e007f"),
        (b"\xed\xa0\x80 \xed\xb2\x80", "\\xed\\xa0\\x80 \\xed\\xb2\\x80"),
    ],
    ids=[
        "utf8",
        "half",
        "binary",
        "escape",
        "returns",
        "direction",
        "lines",
        "unseen",
        "tags",
        "surrogates",
    ],
)
def test_what_a_reader_gets(data: bytes, text: str) -> None:
    assert readable(data) == text


@given(rubbish, sizes)
async def test_text_is_the_same_in_whatever_chunks(data: bytes, parts: list[int]) -> None:
    whole = readable(data)
    pieces = [piece async for piece in as_text(stream(in_chunks(data, parts)))]
    assert "".join(pieces) == whole
    assert not any(ord(c) < 32 and c not in "\t\n" for c in whole)
    assert not any(0x7F <= ord(c) < 0xA0 for c in whole)


async def test_nothing_of_it_is_done_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binary rubbish is the slowest."""
    seen: list[tuple[type, int, int]] = []

    def spied(kind: type, feed: Any) -> Any:
        def spying(self: Any, data: bytes, final: bool = False) -> Any:
            seen.append((kind, threading.get_ident(), len(data)))
            return feed(self, data, final)

        return spying

    for kind in (Readable, Finder):
        monkeypatch.setattr(kind, "feed", spied(kind, kind.feed))
    rubbish = [b"\xff\x00\n" * 87_000] * 2
    for kind, reading in (
        (Readable, as_text(stream(rubbish))),
        (Finder, search(stream(rubbish), "needle")),
    ):
        seen.clear()
        async for _ in reading:
            pass
        assert threading.get_ident() not in {thread for _, thread, _ in seen}
        fed = [size for of, _, size in seen if of is kind]
        assert (max(fed), sum(fed)) == (SLICE, 2 * 261_000)


def test_text_comes_at_once() -> None:
    reader = Readable()
    assert reader.feed(b"no newline yet") == "no newline yet"


# ---- search --------------------------------------------------------------------------------------


async def hits(data: bytes, wanted: str, parts: list[int]) -> list[Hit]:
    return [hit async for hit in search(stream(in_chunks(data, parts)), wanted)]


@given(sizes)
async def test_lines_are_found(parts: list[int]) -> None:
    data = "one\nTwo needles\n\nNEEDLE \x1b\nlast grün needle".encode()
    assert await hits(data, "needle", parts) == [
        Hit(2, 4, "Two needles"),
        Hit(4, 17, "NEEDLE \\x1b"),
        Hit(5, 26, "last grün needle"),
    ]
    assert [data[hit.offset :][:3] for hit in await hits(data, "NEEDLE", parts)] == [
        b"Two", b"NEE", b"las",
    ]  # fmt: skip
    assert await hits(data, "nothing", parts) == []
    assert [hit.line for hit in await hits(data, "GRÜN", parts)] == [5]


@given(sizes, st.integers(0, 60))
async def test_what_is_left_out_is_counted(parts: list[int], offset: int) -> None:
    data = b"a needle\nnone\nneedle two\n" + b"needle three\n" * 2
    every = await hits(data, "needle", parts)
    assert [(hit.line, hit.offset) for hit in every] == [(1, 0), (3, 14), (4, 25), (5, 38)]
    found = [hit async for hit in search(stream(in_chunks(data, parts)), "needle", offset)]
    assert found == [hit for hit in every if hit.offset >= offset]


async def test_one_long_line_is_not_kept_whole() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 50_000
        yield b"needle"

    found = [hit async for hit in search(endless(), "needle")]
    assert len(found) == 1
    assert len(found[0].text) <= 64 * 1024


# ---- parts ---------------------------------------------------------------------------------------


@given(rubbish, sizes, st.integers(0, 90), st.none() | st.integers(0, 90))
def test_a_range_is_a_slice(data: bytes, parts: list[int], offset: int, limit: int | None) -> None:
    found = b"".join(cut(iter(in_chunks(data, parts)), offset, limit))
    assert found == (data[offset:] if limit is None else data[offset : offset + limit])


def test_no_more_is_read_than_the_range_needs() -> None:
    chunks = iter([b"abc", b"def", b"ghi"])
    assert b"".join(cut(chunks, 1, 4)) == b"bcde"
    assert next(chunks) == b"ghi"


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=12)), max_size=8), sizes)
def test_docker_s_headers_are_taken_out(pieces: list[tuple[int, bytes]], parts: list[int]) -> None:
    data = b"".join(
        bytes([kind, 0, 0, 0]) + len(piece).to_bytes(4, "big") + piece for kind, piece in pieces
    )
    found = b"".join(without_headers(iter(in_chunks(data, parts))))
    assert found == b"".join(piece for _, piece in pieces)


@given(st.integers(1, 9), st.integers(0, 12), sizes, st.booleans())
def test_the_last_lines_of_one_stream_are_since_the_first_of_them(
    lines: int, there: int, parts: list[int], noisy: bool
) -> None:
    """Docker's side is a stand-in: its `tail` counts lines of the other stream as well."""
    stamps = [f"2026-12-01T09:00:{number:02}.{number:09}Z" for number in range(there)]
    text = "".join(f"{stamp} {'x' * 50 * (int(stamp[-2]) % 2)}\n" for stamp in stamps).encode()
    asked: list[Any] = []

    def read(parameters: dict[str, Any]) -> Iterator[bytes]:
        assert (parameters["timestamps"], parameters["follow"]) == (1, 0)
        asked.append(parameters["tail"])
        hidden = noisy and len(asked) == 1
        return iter([] if hidden else in_chunks(text, parts))

    found = last_lines(lines, {"since": "5.5", "follow": 1, "tail": lines}, read)
    assert asked == ([4 * lines + SPARE] if lines <= there and not noisy else asked[:1] + ["all"])
    first = there - lines
    assert found["tail"] == "all"
    if first < 0:
        assert found["since"] == "5.5"
    else:
        seconds, _, fraction = found["since"].partition(".")
        moment = datetime.fromtimestamp(int(seconds), timezone.utc)
        assert (moment.second, fraction) == (first, f"{first:09}")


# ---- saved ---------------------------------------------------------------------------------------


@pytest.fixture
def shelf(tmp_path: Path) -> LogShelf:
    return LogShelf(tmp_path / "logs", 100)


def saved(shelf: LogShelf, part: LogPart = LogPart(), kind: str = "log") -> bytes:  # noqa: B008
    found = shelf.open("abc", "main1", part, kind)
    assert found is not None
    try:
        return b"".join(found)
    finally:
        found.close()


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 199, 200, 250])
def test_the_end_is_saved(shelf: LogShelf, size: int) -> None:
    data = bytes(ord("a") + n % 26 for n in range(size))
    shelf.save(in_chunks(data, [30, 1, 130, 7]), "abc", "main1")
    note = f"[backendai] {size - 100} bytes before this are not kept\n".encode()
    assert saved(shelf) == (data if size <= 100 else note + data[-100:])
    assert [path.name for path in (shelf.root / "abc").iterdir()] == ["main1.log"]
    assert (shelf.root / "abc" / "main1.log").stat().st_mode & 0o777 == 0o600
    assert shelf.root.stat().st_mode & 0o777 == 0o700


def test_what_breaks_off_leaves_what_was_saved(shelf: LogShelf) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise EngineError("it broke off")

    shelf.save([b"whole"], "abc", "main1")
    with pytest.raises(EngineError):
        shelf.save(broken(), "abc", "main1")
    assert saved(shelf) == b"whole"
    assert len(list((shelf.root / "abc").iterdir())) == 1


def test_parts_of_a_saved_log(tmp_path: Path) -> None:
    shelf = LogShelf(tmp_path, 10**7)
    lines = [b"line %d\n" % number for number in range(100_000)]
    shelf.save(lines, "abc", "main1")
    data = b"".join(lines)
    for tail in (0, 1, 2, 50_000, 99_999, 100_000, 10**6):
        assert saved(shelf, LogPart(tail=tail)) == b"".join(lines[-tail:] if tail else [])
    assert saved(shelf, LogPart(offset=70_000, limit=100)) == data[70_000:70_100]
    shelf.save([b"a\nb\nno newline"], "abc", "main1", COMMAND)
    assert saved(shelf, LogPart(tail=2), COMMAND) == b"b\nno newline"


def test_what_is_kept_is_forgotten(shelf: LogShelf) -> None:
    now = datetime.now(timezone.utc)
    assert shelf.open("abc", "main1", LogPart()) is None
    assert shelf.forget_before(now) == 0
    for session_id in ("abc", "def"):
        shelf.save([b"x"], session_id, "main1")
    shelf.forget("abc")
    shelf.forget("abc")
    assert shelf.open("abc", "main1", LogPart()) is None
    assert shelf.forget_before(now - timedelta(hours=1)) == 0
    assert shelf.forget_before(now + timedelta(hours=1)) == 1
    assert not list(shelf.root.iterdir())


@pytest.mark.parametrize("session_id", ["", "..", "a/b", "/etc", "a\x00", "ä"])
def test_only_ids_of_ours_are_paths(shelf: LogShelf, session_id: str) -> None:
    with pytest.raises(ValueError, match="no container"):
        shelf.path(session_id, "main1")
    with pytest.raises(ValueError, match="no container"):
        shelf.path("abc", session_id)


# ---- threads -------------------------------------------------------------------------------------


class Tap:
    """A source of as much as is taken, or of nothing until it is cancelled."""

    def __init__(self, chunks: int = 10**9, chunk: bytes = b"x" * 10_000) -> None:
        self.chunks, self.chunk, self.given = chunks, chunk, 0
        self.begun, self.cancelled = threading.Event(), threading.Event()
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        self.begun.set()
        while self.given < self.chunks and not self.cancelled.is_set():
            self.given += 1
            yield self.chunk
        if self.chunks == 0:
            self.cancelled.wait(60)

    def close(self) -> None:
        self.closed.set()

    def cancel(self) -> None:
        self.cancelled.set()


async def test_little_is_read_ahead_and_whoever_stops_ends_it() -> None:
    tap = Tap()
    reading = Readers().read(lambda: tap)
    taken = len(await anext(reading))
    for _ in range(50):
        taken += len(await anext(reading))
        assert tap.given * 10_000 <= taken + AHEAD + 20_000
    await reading.aclose()
    assert await asyncio.to_thread(tap.closed.wait, 10)


async def test_waiting_for_more_ends_when_nobody_reads() -> None:
    tap, readers = Tap(chunks=0), Readers(most=1)
    reading = readers.read(lambda: tap)
    waiting = asyncio.ensure_future(anext(reading))
    assert await asyncio.to_thread(tap.begun.wait, 10)
    with pytest.raises(EngineBusy):
        await anext(readers.read(lambda: tap))
    # A page that is closed is a task that is cancelled.
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.to_thread(tap.closed.wait, 10)
    # Its place is free again.
    again = Tap(chunks=3, chunk=b"abc")
    assert b"".join([chunk async for chunk in readers.read(lambda: again)]) == b"abc" * 3


async def test_what_goes_wrong_is_raised_to_the_reader() -> None:
    def broken() -> Tap:
        raise EngineError("there is no such log")

    with pytest.raises(EngineError, match="no such log"):
        await anext(Readers().read(broken))
