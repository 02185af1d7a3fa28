"""A blocking stream of bytes, read in a thread, for a coroutine: in order, never much at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from threading import Condition, Thread
from typing import Protocol

from .base import EngineBusy

AHEAD = 256 * 1024  # bytes that a thread reads before somebody takes them
READERS = 64  # streams at a time


class Source(Protocol):
    """Chunks of a stream. `close` is the reading thread's; `cancel` comes from another one and ends
    its wait for the next chunk."""

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None: ...

    def cancel(self) -> None: ...


class Readers:
    """Streams that are being read. Each has a thread for as long as it lasts, which may be days:
    none of those that everybody's short calls share."""

    def __init__(self, most: int = READERS) -> None:
        self._most, self._busy = most, 0

    async def read(self, opening: Callable[[], Source]) -> AsyncGenerator[bytes, None]:
        """The chunks of the source that `opening` gives, each as soon as it is there.

        Whoever stops before the end calls `aclose`, which frees the thread. Raises what the source
        raises, and `EngineBusy`.
        """
        if self._busy >= self._most:
            raise EngineBusy(f"{self._most} logs are being read already")
        self._busy += 1
        pipe = _Pipe(asyncio.get_running_loop())
        # A daemon: a log that nobody writes to does not hold up the end of this process.
        Thread(target=pipe.fill, args=(opening,), daemon=True, name="backendai-log").start()
        try:
            while chunk := await pipe.take():
                yield chunk
        finally:
            pipe.close()
            self._busy -= 1


class _Pipe:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = Condition()
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._filled = asyncio.Event()
        self._source: Source | None = None
        self._error: Exception | None = None
        self._over = self._closed = False

    # ---- in the thread ------------------------------------------------------------------------

    def fill(self, opening: Callable[[], Source]) -> None:
        error = None
        try:
            source = opening()
            try:
                self._pass_on(source)
            finally:
                source.close()
        except Exception as problem:
            error = problem  # raised where the stream is read
        with self._changed:
            self._error, self._over = error, True
        self._wake()

    def _pass_on(self, source: Source) -> None:
        with self._changed:
            self._source = source
            if self._closed:
                return
        for chunk in source:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._size < AHEAD)
                if self._closed:
                    return
                self._chunks.append(chunk)
                self._size += len(chunk)
                first = len(self._chunks) == 1
            if first:
                self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._filled.set)
        except RuntimeError:
            return  # the loop has ended, and who read this with it

    # ---- on the loop --------------------------------------------------------------------------

    async def take(self) -> bytes:
        """All that is there, as soon as there is something; empty at the end."""
        while True:
            with self._changed:
                self._filled.clear()
                if self._chunks:
                    data = b"".join(self._chunks)
                    self._chunks.clear()
                    self._size = 0
                    self._changed.notify_all()
                    return data
                if self._over:
                    if self._error is not None:
                        raise self._error
                    return b""
            await self._filled.wait()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            running = self._source if not self._over else None
            self._changed.notify_all()
        if running is not None:
            running.cancel()
