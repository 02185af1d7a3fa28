"""The service's signs of life, for its keeper."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress

BEAT = 1.0  # seconds between two signs, at least


class Life:
    """Writes a sign to the keeper's pipe whenever something of this process's loop has come to an
    end: a turn of it, or any answer. So many answers that are ready at the same moment make one
    long turn, and that is work, not a hang; one that never ends stops the signs."""

    def __init__(self, number: str) -> None:
        """`number`: of the pipe; empty without a keeper."""
        self._pipe = int(number) if number else None
        self._told = float("-inf")
        if self._pipe is not None:
            os.set_inheritable(self._pipe, False)

    def sign(self) -> None:
        """To be called on the loop, as often as one likes."""
        if self._pipe is None or (now := time.monotonic()) - self._told < BEAT:
            return
        self._told = now
        with suppress(BlockingIOError, BrokenPipeError):  # a full pipe says enough
            os.write(self._pipe, b".")

    async def turns(self) -> None:
        """A sign of the loop's turns, while nobody calls."""
        while True:
            self.sign()
            await asyncio.sleep(BEAT)
