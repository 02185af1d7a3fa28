"""Bodies of apps' answers, read as they come."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from .heads import Framing
from .streams import FIRST, Broken, Stream, larger

MOST_LINE = 4096  # bytes of the line before a chunk
MOST_TRAILERS = 100  # lines after the last one


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
    buffer = memoryview(bytearray(4 * FIRST))
    while True:
        line = await stream.read_until(b"\r\n", MOST_LINE)
        size = re.fullmatch(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n", line)
        if size is None:
            raise Broken("its answer cannot be read")
        if not (length := int(size[1], 16)):
            break
        async for piece in _so_many(stream, length, buffer):
            yield piece
        if await stream.read_until(b"\r\n", 2) != b"\r\n":
            raise Broken("its answer cannot be read")
    for _ in range(MOST_TRAILERS):
        if await stream.read_until(b"\r\n", MOST_LINE) == b"\r\n":
            return
    raise Broken("its answer cannot be read")
