"""One thread for calls that block, and may never return."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from .._within import within

T = TypeVar("T")


class Hangs(Exception):
    """The thread's call has not returned in time, or one before it still has not."""


class OwnThread:
    """Runs calls one after the other on a thread of its own, started at the first.

    The thread is a daemon: the interpreter's end does not wait for a call that never returns, as
    it would with an executor.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._work = queue.SimpleQueue()
        self._late: Future[Any] | None = None

    async def run(self, call: Callable[[], T], timeout: float) -> T:
        """What `call` returns or raises. Raises `Hangs` after `timeout` seconds; the call goes on
        by itself then, and until it returns this raises at once."""
        if self._late is not None and not self._late.done():
            raise Hangs
        self._start()
        future: Future[T] = Future()
        self._work.put((call, future))
        try:
            return await within(timeout, asyncio.wrap_future(future))
        except asyncio.TimeoutError:
            if not future.cancelled():
                self._late = future
            raise Hangs from None

    def end(self) -> None:
        """Ends the thread after its last call."""
        if self._thread is not None:
            self._thread = None
            self._work.put(None)

    def _start(self) -> None:
        if self._thread is None:
            self._work = queue.SimpleQueue()
            self._thread = threading.Thread(
                target=_serve, args=(self._work,), name=self._name, daemon=True
            )
            self._thread.start()


def _serve(work: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]) -> None:
    while (item := work.get()) is not None:
        call, future = item
        if not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(call())
        except BaseException as error:  # told to who asked
            future.set_exception(error)
        # A result may be large, and the next call may be long in coming.
        del item, call, future
