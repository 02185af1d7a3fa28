"""Sessions that rest: what is kept of one that is hibernated, and who may have one hibernated.

The session's container becomes an image that is in nobody's list, and its home stays on the agent;
all that it held is free. Resumed, it is the same session: same settings, same home, same files.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field

from .configured import Model
from .errors import FieldError, Kind
from .idle import Span
from .moments import limit_words
from .status import Status

DROP_WARNINGS = (86400, 3600)  # seconds before a hibernated session is dropped; its owner is told
UNOWNED = timedelta(days=14)  # how long one without an end is kept whose owner the Hub lost
# A resumed session runs before the Hub has a way to it. Where that comes to nothing, or it breaks
# down at once, it rests again, rather than that its home goes.
SETTLES = timedelta(minutes=2)
IMAGE_NAME = "hibernated"  # of the image that it becomes; nobody chooses it


class Hibernating(Model):
    """How many hibernated sessions a user may have at once (0: none), and for how many seconds one
    is kept (None: until its owner ends it)."""

    most: int = Field(default=3, ge=0)
    retention: Span | None = 14 * 86400

    def drop_at(self, now: datetime) -> datetime | None:
        """Until when one of now is kept."""
        return None if self.retention is None else now + timedelta(seconds=self.retention)


@dataclass(frozen=True, slots=True)
class Hibernation:
    """What is kept of a session on its agent. `id` and `reference` are the image's, `engine_id` the
    engine's own; `size` in bytes with all below it, `own` without. `drop_at`: until when it is
    kept; None: for good. `current`: the session is resumed from it; else it runs from it, or is
    over, and only the image is left to be removed. `extended`: it is kept longer than it was to
    be, as a resuming came to nothing. `vouched_at`: when an admin resumed it, and so said that it
    is its owner's."""

    id: str
    session_id: str
    owner: str
    agent: str
    reference: str
    engine_id: str
    size: int
    own: int
    made_at: datetime
    drop_at: datetime | None
    current: bool
    extended: bool = False
    vouched_at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Whether it has been kept for as long as it was to be."""
        return self.drop_at is not None and self.drop_at <= now

    def again(self, now: datetime) -> datetime | None:
        """Until when it is kept where its resuming came to nothing: once a day more at least, so
        that its owner hears of it and may try again; not longer than its whole time was. Who goes
        on trying does not have it kept for ever."""
        if self.drop_at is None or self.extended:
            return self.drop_at
        more = min(self.drop_at - self.made_at, timedelta(seconds=DROP_WARNINGS[0]))
        return max(self.drop_at, now + more)


def hibernated_by(name: str) -> str:
    """The reason of a session that somebody hibernated, as it is kept; whoever shows it to that
    person says "You"."""
    return f"{name} hibernated it."


def not_resumed_by(name: str) -> str:
    """The reason of one that rests again because somebody did not want it resumed after all."""
    return f"{name} cancelled its resuming."


def not_hibernatable(type: str, running: bool) -> FieldError | None:
    """Why a session cannot be hibernated, whoever asks."""
    if type != "interactive":
        message = "Only an interactive session can be hibernated, and this is a batch job."
        return FieldError("", "batch", message, Kind.CONFLICT)
    if not running:
        return FieldError("", "not_running", "It does not run.", Kind.CONFLICT)
    return None


def too_many(count: int, most: int) -> FieldError | None:
    """The error of a hibernated session that is one too many beside so many others of its owner;
    None where it is not."""
    if count < most:
        return None
    if most == 0:
        message = "You cannot hibernate sessions. Ask your admin."
    else:
        sessions = "1 hibernated session" if count == 1 else f"{count} hibernated sessions"
        message = (
            f"You have {sessions}, and your limit is {most}. End one first, or resume one, which "
            f"counts until it has run for {limit_words(SETTLES.total_seconds())}."
        )
    return FieldError("", "too_many_hibernated", message, Kind.FORBIDDEN)


def owner_gone(owner: str) -> FieldError:
    """The error of one that is to be resumed for somebody whom the Hub does not know."""
    message = (
        f"The Hub has no user {owner} any more, so it cannot be resumed. If they have another name "
        "now, an admin can give them this one back for as long as that takes."
    )
    return FieldError("", "owner_gone", message, Kind.CONFLICT)


def not_resumable(status: Status) -> FieldError:
    """The error of a session that is to be resumed and is not hibernated."""
    message = "It is not hibernated, so there is nothing to resume."
    if status is Status.HIBERNATED:
        message = "It was ended, and what was kept of it is being removed. Start another one."
    return FieldError("", "not_hibernated", message, Kind.CONFLICT)
