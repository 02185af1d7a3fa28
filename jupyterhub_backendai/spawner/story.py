"""What happened to a start so far, for as many readers as there are open pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

STEPS = ("asked", "queued", "placed", "image", "container", "server", "ready")
_PROGRESS = {
    "asked": 5, "queued": 10, "placed": 30, "image": 35, "container": 50, "server": 70, "ready": 95
}  # fmt: skip


class Story:
    """An append-only list of progress events; each reader follows it from the beginning."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []
        self._changed = asyncio.Event()
        self._over = False

    @property
    def over(self) -> bool:
        """Whether nothing more will be told."""
        return self._over

    def tell(self, step: str, title: str, detail: str = "", position: int | None = None) -> None:
        """The start has reached `step` (or there is news of it). Texts are plain, not HTML."""
        message = f"{title}: {detail}" if detail else title
        self._events.append(
            {
                "progress": _PROGRESS[step],
                "message": message,
                "backendai": {
                    "step": step,
                    "state": "done" if step in {"asked", "placed", "ready"} else "now",
                    "at": time.time(),
                    "title": title,
                    "detail": detail,
                    "position": position,
                },
            }
        )
        self._wake()

    def end(self) -> None:
        """Nothing more will be told."""
        self._over = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        seen = 0
        while True:
            changed = self._changed
            while seen < len(self._events):
                # A copy: the Hub's handler takes keys out of what it is given.
                yield dict(self._events[seen])
                seen += 1
            if self._over:
                return
            await changed.wait()
