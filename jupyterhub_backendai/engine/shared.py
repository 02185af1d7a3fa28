"""Questions that many may ask at once, and that are worked on once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Whoever asks what is being asked already gets that answer, or that error.

    `at_once`: how many questions about one thing are worked on at a time; the others wait for their
    turn. `kept`: for how many seconds an answer is good for who need not have it fresh.
    """

    def __init__(self, at_once: int, kept: float = 0.0) -> None:
        self._at_once, self._kept = at_once, kept
        self._turns: dict[str, asyncio.Semaphore] = {}  # by what it is about
        self._asked: dict[Hashable, asyncio.Task[T]] = {}
        self._answers: dict[Hashable, tuple[float, T]] = {}  # and when they were asked for

    async def ask(
        self, about: str, key: Hashable, work: Callable[[], Awaitable[T]], fresh: bool = True
    ) -> T:
        """What `work` gives for this key."""
        known = None if fresh else self._answers.get(key)
        if known is not None and time.monotonic() - known[0] < self._kept:
            return known[1]
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.ensure_future(self._run(about, key, work))
            task.add_done_callback(lambda done: self._over(key, done))
        # It goes on when nobody waits any more: what it has begun would go on all the same.
        return await asyncio.shield(task)

    async def _run(self, about: str, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        async with self._turns.setdefault(about, asyncio.Semaphore(self._at_once)):
            began = time.monotonic()
            found = await work()
        self._answers = {k: a for k, a in self._answers.items() if began - a[0] < self._kept}
        self._answers[key] = began, found
        return found

    def _over(self, key: Hashable, done: asyncio.Task[T]) -> None:
        self._asked.pop(key, None)
        if not done.cancelled():
            done.exception()  # where nobody waits any more nobody is to be told
