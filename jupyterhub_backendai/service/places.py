"""Room for answers that last: so many for each user, and so many for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from .base import Refused


class Places:
    """Answers of one kind that are being read. `code` and `message` are for a user who reads
    `own` of them already, and for whoever comes when everybody reads `most`."""

    def __init__(self, own: int, most: int, code: str, message: str) -> None:
        self._own, self._most = own, most
        self._code, self._message = code, message
        self.taken: Counter[str] = Counter()  # by who reads them

    @contextmanager
    def one(self, user: str) -> Iterator[None]:
        """A place for as long as this lasts. Raises `Refused`."""
        if self.taken[user] >= self._own or self.taken.total() >= self._most:
            raise Refused(429, self._code, self._message)
        self.taken[user] += 1
        try:
            yield
        finally:
            self.taken -= Counter([user])  # which forgets who has none
