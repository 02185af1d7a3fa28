"""What goes on over each way now, so that closing it ends all of it at once."""

from __future__ import annotations

import resource
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_OF_ONE, MOST = 128, 1024  # at a time: of one way, of all
SHARE = 4  # all ways of one owner have this part of the room at most
KEPT = 256  # open files that are kept for all else
EACH = 3  # open files: a visitor's, the one to the app, and one of who has not asked yet

Abort = Callable[[], None]


class Full(Exception):
    """As many as there may be are open already."""


class Connections:
    """Connections that are open, by the ids of their ways."""

    def __init__(self, most_of_one: int = MOST_OF_ONE) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        room = MOST if files == resource.RLIM_INFINITY else (files - KEPT) // EACH
        self._most_of_one, self._most = most_of_one, max(1, min(MOST, room))
        self._open: defaultdict[str, list[Abort]] = defaultdict(list)
        self._owners: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._owners.total()

    def of(self, way: str) -> int:
        """How many are open of a way."""
        return len(self._open.get(way, ()))

    @contextmanager
    def one(self, way: str, owner: str, abort: Abort) -> Iterator[None]:
        """A connection of an owner's way, for as long as this lasts; `abort` ends it, and may be
        called at any time. Where the way is not known yet both are "". Raises `Full`."""
        if len(self) >= self._most or (way and self._is_full(way, owner)):
            raise Full
        self._open[way].append(abort)
        self._owners[owner] += 1
        try:
            yield
        finally:
            self._open[way].remove(abort)
            if not self._open[way]:
                del self._open[way]
            self._owners[owner] -= 1
            if not self._owners[owner]:
                del self._owners[owner]

    def _is_full(self, way: str, owner: str) -> bool:
        share = max(1, self._most // SHARE)
        return self.of(way) >= self._most_of_one or self._owners[owner] >= share

    def end(self, way: str) -> None:
        """Ends all connections of a way."""
        for abort in list(self._open.get(way, ())):
            abort()

    def end_all(self) -> None:
        """Ends all connections of all ways."""
        for way in list(self._open):
            self.end(way)
