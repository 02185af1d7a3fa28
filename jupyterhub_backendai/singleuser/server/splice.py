"""Two connections become one: what comes on either goes out on the other.

All of it happens in one thread with an event loop of its own, so that a large transfer does not
hold up the server's loop, and a thousand idle connections cost no threads. That is as fast as
`splice(2)` in C here: the kernel's copies are what takes the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

from tornado.iostream import IOStream, StreamClosedError

LIMIT = 1000  # connections at a time
SMALL, LARGE = 1 << 16, 1 << 20  # bytes of a buffer; the large one once the small one was filled


class Full(Exception):
    """There are LIMIT connections already."""


class Splices:
    """All spliced connections of this server."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def take(self) -> None:
        """Takes the place of a connection; `drop` or `splice` gives it back. Raises Full."""
        with self._lock:
            if self.count >= LIMIT:
                raise Full
            self.count += 1

    def drop(self) -> None:
        with self._lock:
            self.count -= 1

    def _thread(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.SelectorEventLoop()
                threading.Thread(target=self._run, name="backendai-splice", daemon=True).start()
            return self._loop

    def _run(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def splice(
        self, stream: IOStream, link: socket.socket, head: bytes, moved: Callable[[Any], Any]
    ) -> None:
        """Joins a client's detached stream with a connection to an app, until both have ended.

        Takes both of them over. The client gets `head` first; `moved` is called with what it has
        sent.
        """
        if type(stream) is not IOStream:  # TLS is the stream's own
            asyncio.ensure_future(self._by_streams(stream, link, head, moved))
            return
        try:
            early = _take_out(stream)
            client = stream.socket.dup()
            client.setblocking(False)
        except (OSError, StreamClosedError):
            link.close()
            self.drop()
            return
        finally:
            # the copy lives on; a close without shutdown says nothing to the peer
            stream.close()
        for end in (client, link):  # a peer that is gone without a word is noticed
            end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        work = self._join(client, link, head, early, moved)
        asyncio.run_coroutine_threadsafe(work, self._thread())

    async def _join(self, client, link, head: bytes, early: bytes, moved: Callable) -> None:
        try:
            await _both(_copy(client, link, early, moved), _copy(link, client, head, None))
        finally:
            client.close()
            link.close()
            self.drop()

    async def _by_streams(self, stream: IOStream, link, head: bytes, moved: Callable) -> None:
        other = IOStream(link)
        try:
            await stream.write(head)
            await _both(_pump(stream, other, moved), _pump(other, stream, None))
        except StreamClosedError:
            pass  # the client is gone
        finally:
            stream.close()
            other.close()
            self.drop()


def _take_out(stream: IOStream) -> bytes:
    """What the client has sent already; the stream reads no more from now on."""
    stream.set_close_callback(None)
    reading: Any = stream.read_bytes(stream.max_buffer_size, partial=True)
    early = b""
    if reading.done():
        early = reading.result()
    else:
        reading.add_done_callback(lambda done: done.exception())  # closed below; nobody waits
    return early


async def _both(one, other) -> None:
    """Until both ways have ended; an error on one ends both."""
    tasks = [asyncio.ensure_future(one), asyncio.ensure_future(other)]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # a connection that broke: there is nobody to tell


async def _copy(source, target, early: bytes, moved: Callable[[Any], Any] | None) -> None:
    """One way, until its source has ended; then the target hears so."""
    loop = asyncio.get_running_loop()
    if early:
        await loop.sock_sendall(target, early)
        if moved is not None:
            moved(early)
    buffer = bytearray(SMALL)
    view = memoryview(buffer)
    while True:
        size = await loop.sock_recv_into(source, buffer)
        if not size:
            break
        await loop.sock_sendall(target, view[:size])
        if moved is not None:
            moved(view[:size])
        if size == SMALL == len(buffer):
            view.release()
            buffer = bytearray(LARGE)
            view = memoryview(buffer)
        await asyncio.sleep(0)  # the others' turn
    with contextlib.suppress(OSError):  # it is closed already
        target.shutdown(socket.SHUT_WR)


async def _pump(source: IOStream, target: IOStream, moved: Callable[[Any], Any] | None) -> None:
    """The same between streams. TLS has no half-close: its end is the end of both."""
    while True:
        chunk = await source.read_bytes(LARGE, partial=True)
        if moved is not None:
            moved(chunk)
        await target.write(chunk)
