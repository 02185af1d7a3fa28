"""What is known of a session that idle checks are to have hibernated, and that cannot be."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

AGAIN = timedelta(minutes=10)  # after one that failed, or that its owner cancelled
TRIES = 3  # that fail, until the session is to be ended after all


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a session will be ended where it should be hibernated, as its owner is told. `tried`:
    that came out when it was tried; else it is what is asked all the time. `not_before`: its end
    was so near that it is put off until then, by the steady clock."""

    why: str
    tried: bool
    not_before: float = 0.0


@dataclass(slots=True)
class Tries:
    """Those to hibernate a session that failed: what is known of each, when the last one ended,
    and how many there were when it was said that they are enough."""

    failed: set[str] = field(default_factory=set)
    last: datetime | None = None
    said: int = 0

    def note(self, what: str, at: datetime) -> None:
        """One more has failed, if it is none that is known."""
        self.failed.add(what)
        self.last = at if self.last is None else max(self.last, at)

    @property
    def are_over(self) -> bool:
        """Whether there were as many as there are to be."""
        return len(self.failed) >= TRIES

    def are_enough(self) -> bool:
        """Whether the session is to be ended for that. It is said once of each: who asks again has
        warned its owner since, and another try may succeed."""
        is_news = self.are_over and len(self.failed) != self.said
        self.said = len(self.failed)
        return is_news

    def waits(self, at: datetime) -> bool:
        """Whether it is too early for the next one. One that comes when its owner was told of the
        end does not wait."""
        return not self.are_over and self.last is not None and at - self.last < AGAIN
