"""What happened to a start so far, for as many readers as there are open pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any

STEPS = ("asked", "queued", "placed", "image", "container", "server", "ready")
_PROGRESS = {
    "asked": 5, "queued": 10, "placed": 30, "image": 35, "container": 50, "server": 70, "ready": 95
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tried:
    """The session of a start, for pages to lead to the sessions service's own pages of it.
    `whole`: the launcher there can fill its form with all that was asked; where values that look
    secret were not kept, only the Hub's form of this server still has them."""

    id: str
    whole: bool


class Story:
    """The newest news of each step, in the order of the news; readers follow it from the beginning.

    A session may wait for a day and move up a thousand times, so news of a step takes the place of
    older news of that step: who comes late reads each step once, who follows reads each change.
    """

    def __init__(self) -> None:
        self._news: dict[str, tuple[int, dict[str, Any]]] = {}  # by step: its number, and the event
        self._number = 0
        self._changed = asyncio.Event()
        self._over = False
        self.tried: Tried | None = None  # the session, from when there is one

    @property
    def over(self) -> bool:
        """Whether nothing more will be told."""
        return self._over

    @property
    def told(self) -> dict[str, dict[str, Any]]:
        """The newest of each step, for a page that does not follow."""
        return {step: dict(event["backendai"]) for step, (_, event) in self._news.items()}

    def tell(
        self,
        step: str,
        title: str,
        detail: str = "",
        position: int | None = None,
        handed_over: bool = False,
    ) -> None:
        """The start has reached `step` (or there is news of it). Texts are plain, not HTML.
        `handed_over`: it goes on by itself when this start is over."""
        now = time.time()
        _, before = self._news.pop(step, (0, None))
        self._number += 1
        event = {
            "progress": _PROGRESS[step],
            "message": f"{title}: {detail}" if detail else title,
            "backendai": {
                "step": step,
                "state": "done" if step in {"asked", "placed", "ready"} else "now",
                "since": before["backendai"]["since"] if before else now,
                "at": now,
                "title": title,
                "detail": detail,
                "position": position,
                "handed_over": handed_over,
                "session": None if self.tried is None else asdict(self.tried),
            },
        }
        self._news[step] = (self._number, event)
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
            # One at a time: while it is being read, what is behind it may be replaced.
            news = next((news for news in self._news.values() if news[0] > seen), None)
            if news is not None:
                seen = news[0]
                # A copy: the Hub's handler takes keys out of what it is given.
                yield dict(news[1])
            elif self._over:
                return
            else:
                await changed.wait()
