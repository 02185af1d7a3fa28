"""Work with a limit to its time, whatever Python's own `wait_for` does."""

from __future__ import annotations

import asyncio

import pytest

from jupyterhub_backendai._within import within


async def test_result_and_error_are_the_works_own() -> None:
    async def fail() -> None:
        raise ValueError("its own")

    assert await within(1, asyncio.sleep(0, "result")) == "result"
    with pytest.raises(ValueError, match="its own"):
        await within(1, fail())


async def test_late_work_is_cancelled_and_over() -> None:
    over = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            over.append(True)

    with pytest.raises(asyncio.TimeoutError):
        await within(0.01, work())
    assert over


async def test_a_cancellation_that_comes_with_the_result_is_not_lost() -> None:
    """What ended the Hub's queue at the same moment as something woke it."""
    woken = asyncio.Event()
    task = asyncio.create_task(within(60, woken.wait()))
    await asyncio.sleep(0.01)
    woken.set()
    await asyncio.sleep(0)  # the wait is over, and who waits for it does not know yet
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_ends_the_work() -> None:
    work = asyncio.ensure_future(asyncio.sleep(60))
    task = asyncio.create_task(within(60, work))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.cancelled()
