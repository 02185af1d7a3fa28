"""Keeps workers running: endless coroutines, started again, later each time, when one fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from traitlets.log import get_logger

FIRST_WAIT = 1.0  # seconds before a worker that failed is started again
LONGEST_WAIT = 60.0  # seconds; each failure doubles the wait up to this
STEADY = 60.0  # seconds that a worker must have run for its failures to be forgotten

Work = Callable[[], Awaitable[None]]


class Runner:
    """Starts and ends workers, each by its name."""

    def __init__(
        self, *, first_wait: float = FIRST_WAIT, longest_wait: float = LONGEST_WAIT
    ) -> None:
        self.log = get_logger()
        self._first, self._longest = first_wait, longest_wait
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, workers: Mapping[str, Work]) -> None:
        """Starts workers; to be called on the loop. A name that runs already is an error."""
        for name, work in workers.items():
            if name in self._tasks:
                raise ValueError(f"worker {name} runs already")
            self._tasks[name] = asyncio.create_task(self._keep(name, work), name=name)

    async def stop(self) -> None:
        """Ends all workers and waits until they are over."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, work: Work) -> None:
        wait = self._first
        while True:
            began = time.monotonic()
            try:
                await work()
                self.log.error("The worker %s ended; it is started again", name)
            except Exception:
                self.log.exception("The worker %s failed; it is started again", name)
            if time.monotonic() - began > STEADY:
                wait = self._first
            await asyncio.sleep(wait)
            wait = min(2 * wait, self._longest)
