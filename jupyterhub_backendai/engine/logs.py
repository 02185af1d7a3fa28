"""Logs as people read them: a part of one, searched, and without what a screen should not get.

A log is bytes in chunks, whatever wrote it and wherever it is kept; only what is needed of it is
ever in memory.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime

CHUNK = 64 * 1024  # bytes read at once
MAX_LINE = 64 * 1024  # bytes; a longer line is searched in pieces
# Control characters but for tab and newline, and what turns the direction of a text: on a screen
# they make one line look like another.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


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
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)

    def feed(self, data: bytes, final: bool = False) -> str:
        """The text of the next bytes; of half a character when its other half is there."""
        text: str = self._decoder.decode(data, final)
        return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def readable(data: bytes) -> str:
    """All of a short piece as text."""
    return Readable().feed(data, final=True)


async def as_text(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """A log as text, as soon as it comes."""
    reader = Readable()
    async for chunk in chunks:
        if text := reader.feed(chunk):
            yield text
    if text := reader.feed(b"", final=True):
        yield text


async def search(chunks: AsyncIterator[bytes], wanted: str, offset: int = 0) -> AsyncIterator[Hit]:
    """The lines that have `wanted` in them, in capitals or not, as they come.

    `offset` is what is before the first chunk, in bytes; lines are counted from there.
    """
    line, rest = 1, b""
    key = wanted.casefold()
    async for chunk in chunks:
        data = rest + chunk
        end = data.rfind(b"\n") + 1
        if not end and len(data) > MAX_LINE:
            end = len(data)
        whole, rest = data[:end], data[end:]
        for hit in _hits(whole, key, line, offset):
            yield hit
        line += whole.count(b"\n")
        offset += len(whole)
    for hit in _hits(rest, key, line, offset):
        yield hit


def _hits(data: bytes, key: str, line: int, offset: int) -> Iterator[Hit]:
    if key not in readable(data).casefold():  # by far the most pieces
        return
    for number, piece in enumerate(data.split(b"\n"), line):
        text = readable(piece)
        if key in text.casefold():
            yield Hit(number, offset, text[:MAX_LINE])
        offset += len(piece) + 1


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
