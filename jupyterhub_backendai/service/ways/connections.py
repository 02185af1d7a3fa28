"""What goes on over each way now, so that closing it ends all of it at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_OF_ONE, MOST = 128, 384  # at a time: of one way, of all; each takes two of a process's files

Abort = Callable[[], None]


class Full(Exception):
    """As many as there may be are open already."""


class Connections:
    """Connections that are open, by the ids of their ways."""

    def __init__(self, most_of_one: int = MOST_OF_ONE, most: int = MOST) -> None:
        self._most_of_one, self._most = most_of_one, most
        self._open: defaultdict[str, list[Abort]] = defaultdict(list)

    def __len__(self) -> int:
        return sum(len(aborts) for aborts in self._open.values())

    def of(self, way: str) -> int:
        """How many are open of a way."""
        return len(self._open.get(way, ()))

    @contextmanager
    def one(self, way: str, abort: Abort) -> Iterator[None]:
        """A connection of a way, for as long as this lasts; `abort` ends it, and may be called at
        any time. Raises `Full`."""
        if self.of(way) >= self._most_of_one or len(self) >= self._most:
            raise Full
        self._open[way].append(abort)
        try:
            yield
        finally:
            self._open[way].remove(abort)
            if not self._open[way]:
                del self._open[way]

    def end(self, way: str) -> None:
        """Ends all connections of a way."""
        for abort in list(self._open.get(way, ())):
            abort()

    def end_all(self) -> None:
        """Ends all connections of all ways."""
        for way in list(self._open):
            self.end(way)
