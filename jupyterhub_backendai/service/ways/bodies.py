"""Bodies of apps' answers, read as they come."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from .heads import Framing
from .streams import FIRST, Broken, Stream, larger

MOST_LINE = 4096  # bytes of the line before a chunk
MOST_TRAILERS = 100  # lines after the last one
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")


async def pieces(stream: Stream, framed: Framing) -> AsyncIterator[memoryview]:
    """The body, each piece as soon as it is there; it is good until the next one is asked for.
    Raises `Broken` where it ends too soon."""
    if framed.chunked:
        reading = _chunks(stream)
    elif framed.length is None:
        reading = _rest(stream)
    else:
        reading = _so_many(stream, framed.length)
    async for piece in reading:
        yield piece


async def _rest(stream: Stream) -> AsyncIterator[memoryview]:
    buffer = memoryview(bytearray(FIRST))
    while count := await stream.receive(buffer):
        yield buffer[:count]
        buffer = larger(buffer, count)


async def _so_many(
    stream: Stream, length: int, buffer: memoryview | None = None
) -> AsyncIterator[memoryview]:
    buffer = memoryview(bytearray(FIRST)) if buffer is None else buffer
    while length:
        count = await stream.receive(buffer[:length])
        if not count:
            raise Broken("its answer ended before its time")
        length -= count
        yield buffer[:count]
        buffer = larger(buffer, count)


async def _chunks(stream: Stream) -> AsyncIterator[memoryview]:
    """Small ones that are there together are one piece: each would be a write of its own."""
    buffer, had = memoryview(bytearray(4 * FIRST)), 0
    while length := await _length(stream):
        if had + length <= len(buffer) and stream.has(length + 2):
            end = had + length
            while had < end:
                had += await stream.receive(buffer[had:end])
        else:
            if had:
                yield buffer[:had]
                had = 0
            async for piece in _so_many(stream, length, buffer):
                yield piece
        if await stream.read_until(b"\r\n", 2) != b"\r\n":
            raise Broken("its answer cannot be read")
        if had and not stream.has_line():
            yield buffer[:had]
            had = 0
    if had:
        yield buffer[:had]
    for _ in range(MOST_TRAILERS):
        if await stream.read_until(b"\r\n", MOST_LINE) == b"\r\n":
            return
    raise Broken("its answer cannot be read")


async def _length(stream: Stream) -> int:
    """The length of the next chunk; 0 after the last."""
    line = await stream.read_until(b"\r\n", MOST_LINE)
    size = _SIZE.fullmatch(line)
    if size is None:
        raise Broken("its answer cannot be read")
    return int(size[1], 16)
