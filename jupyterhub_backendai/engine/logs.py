"""Logs as people read them: a part of one, searched, and without what a screen should not get.

A log is bytes in chunks, whatever wrote it and wherever it is kept; only what is needed of it is
ever in memory.
"""

from __future__ import annotations

import asyncio
import codecs
import io
import re
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TypeVar

T = TypeVar("T")
CHUNK = 64 * 1024  # bytes read at once
SLICE = 16 * 1024  # bytes made text at once: for so long no other thread may go on
MAX_LINE = 64 * 1024  # bytes; a longer line is searched in pieces
# Of all readers: they take turns, and the event loop never competes with more than one.
_READING = ThreadPoolExecutor(1, thread_name_prefix="backendai-text")
# Control characters but for tab and newline, what turns the direction of a text, ends a line where
# no newline is, or is not seen at all: on a screen they make one line look like another.
_UNSEEN = (
    (0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0x61C, 0x61C), (0x200B, 0x200F), (0x2028, 0x202E),
    (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xE0000, 0xE007F),
)  # fmt: skip
_NO_UTF8 = (0xDC80, 0xDCFF)  # how the decoder gives bytes that are none
_ESCAPES = {chr(code): f"\\x{code - 0xDC00:02x}" for code in range(_NO_UTF8[0], _NO_UTF8[1] + 1)}
_ESCAPES.update(
    (chr(code), chr(code).encode("unicode_escape").decode())
    for first, last in _UNSEEN
    for code in range(first, last + 1)
)
# Of ranges: of so many single characters it is a hundred times as slow.
_ESCAPED = re.compile(
    "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in (*_UNSEEN, _NO_UTF8)) + "]"
)


@dataclass(frozen=True, slots=True)
class LogPart:
    """Which part of a log: its last `tail` lines, or what came `since`, or both; of that, `limit`
    bytes from `offset` on. With `follow` it goes on for as long as the container runs.
    `output_only` is without standard error: in a batch session what its command wrote."""

    tail: int | None = None
    since: datetime | None = None
    offset: int = 0
    limit: int | None = None
    follow: bool = False
    output_only: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A line in which something was found: its number from 1, its offset in bytes, its text."""

    line: int
    offset: int
    text: str


class Readable:
    """Bytes of a log as text, piece by piece: UTF-8, with `\\xff` for what is none, `\\x1b` for
    what is not to be seen, and one kind of newline."""

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)

    def feed(self, data: bytes, final: bool = False) -> str:
        """The text of the next bytes; of half a character when its other half is there."""
        text: str = self._decoder.decode(data, final)
        return _ESCAPED.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES[found[0]]


def readable(data: bytes) -> str:
    """All of a short piece as text."""
    return Readable().feed(data, final=True)


class Finder:
    """Lines that have `wanted` in them, in capitals or not, in bytes that come piece by piece.

    Lines and offsets in bytes are counted from the first byte; those before `offset` are counted
    and not searched.
    """

    def __init__(self, wanted: str, offset: int = 0) -> None:
        self._key, self._from = wanted.casefold(), offset
        self._line, self._at, self._rest = 1, 0, b""

    def feed(self, data: bytes, final: bool = False) -> list[Hit]:
        """What is found in the lines that these bytes end."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        if final or (not end and len(data) > MAX_LINE):
            end = len(data)
        whole, self._rest = data[:end], data[end:]
        found = list(self._hits(whole))
        self._line += whole.count(b"\n")
        self._at += end
        return found

    def _hits(self, data: bytes) -> Iterator[Hit]:
        if self._at + len(data) <= self._from or self._key not in readable(data).casefold():
            return  # by far the most pieces
        at = self._at
        for number, piece in enumerate(data.split(b"\n"), self._line):
            if at >= self._from and self._key in (text := readable(piece)).casefold():
                yield Hit(number, at, text[:MAX_LINE])
            at += len(piece) + 1


async def as_text(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """A log as text, as soon as it comes."""
    async for texts in _in_slices(chunks, Readable().feed):
        if text := "".join(texts):
            yield text


async def search(chunks: AsyncIterator[bytes], wanted: str, offset: int = 0) -> AsyncIterator[Hit]:
    """The hits of a `Finder`, as they come; `chunks` begin before `offset`."""
    async for found in _in_slices(chunks, Finder(wanted, offset).feed):
        for hit in chain.from_iterable(found):
            yield hit


async def _in_slices(
    chunks: AsyncIterator[bytes], feed: Callable[[bytes, bool], T]
) -> AsyncIterator[list[T]]:
    """What `feed` makes of the bytes, a little at a time and not on the event loop."""

    def work(chunk: bytes) -> list[T]:
        return [feed(chunk[at : at + SLICE], False) for at in range(0, len(chunk), SLICE)]

    loop = asyncio.get_running_loop()
    async for chunk in chunks:
        yield await loop.run_in_executor(_READING, work, chunk)
    yield [await loop.run_in_executor(_READING, feed, b"", True)]


def cut(chunks: Iterator[bytes], offset: int, limit: int | None) -> Iterator[bytes]:
    """`limit` bytes from `offset` on; nothing more is read then."""
    left = limit
    for chunk in chunks:
        piece = chunk[offset:]
        offset = max(0, offset - len(chunk))
        if left is not None:
            piece = piece[:left]
            left -= len(piece)
        if piece:
            yield piece
        if left == 0:
            return
