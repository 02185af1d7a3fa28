"""What Docker does with one container, as it says itself: to see whether it stood still."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import docker

_ACTIONS = ("pause", "commit", "unpause")


class Pauses:
    """The pauses, commits and unpauses of a container since this was begun, in their order."""

    def __init__(self, events: Any) -> None:
        self._events = events
        self.seen: list[str] = []
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for event in self._events:
            self.seen.append(event["Action"])

    def over(self, commits: int, timeout: float = 240) -> list[str]:
        """All of them, when Docker is through with so many commits: it says so, also to nobody, and
        maybe a moment later."""
        deadline = time.monotonic() + timeout
        while True:
            seen = list(self.seen)
            if all(seen.count(action) >= commits for action in _ACTIONS):
                return seen
            assert time.monotonic() < deadline, seen
            time.sleep(0.05)


@contextmanager
def pauses_of(client: docker.APIClient, container: str) -> Iterator[Pauses]:
    """Of a container that Docker itself has standing still while it reads it."""
    filters = {"container": container, "event": list(_ACTIONS)}
    events = client.events(filters=filters, decode=True)
    try:
        yield Pauses(events)
    finally:
        events.close()
