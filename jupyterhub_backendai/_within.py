"""`asyncio.wait_for` as Python 3.12 has it, for 3.10 and 3.11."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Awaitable[T]) -> T:
    """The result of `work`. Raises `asyncio.TimeoutError`, and then `work` is cancelled and over.

    A cancellation is never lost. `asyncio.wait_for` before 3.12 forgets one that comes at the same
    moment as the result: an endless loop around it then outlives its end, and the Hub with it.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _end(task)
        raise
    if not task.done():
        await _end(task)
        if task.cancelled():
            raise asyncio.TimeoutError
    return task.result()


async def _end(task: asyncio.Future[T]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # it has been seen
