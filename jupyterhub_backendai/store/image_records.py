"""What the store takes in and gives out about the making of images."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..model.images import CommitStatus


class IllegalCommit(Exception):
    """A step in the making of an image that may not follow: it was ended by somebody else."""

    def __init__(self, old: CommitStatus, new: CommitStatus) -> None:
        super().__init__(f"the making of an image cannot go from {old.value} to {new.value}")
        self.old, self.new = old, new


class CommitCancelled(Exception):
    """It was asked to be given up before it was finished; nothing was noted."""


@dataclass(frozen=True, slots=True)
class Wish:
    """An image that somebody asks for: its name, who asks, and what the request says it is of.
    `hibernates`: the session is to rest, and the image is in nobody's list; `reason`: why, where
    nobody asks for it."""

    name: str
    by: str
    container_id: str
    size: int | None = None
    hibernates: bool = False
    reason_code: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Made:
    """An image as it came out; see `CustomImage`. `agent` None: all have it, by a registry."""

    engine_id: str
    base_id: str
    size: int
    own: int
    agent: str | None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Remains:
    """What is to go from the registry of a reference: the image of a digest there; None: whatever
    its tag names, unless that is `wanted`, the digest that the image of the reference has."""

    id: str
    reference: str
    digest: str | None
    wanted: str | None


@dataclass(frozen=True, slots=True)
class Commit:
    """The making of an image of a session, as its row is. `size`: bytes to be read, `done`: bytes
    sent to the registry; None where that is not known. `message` is for its owner. `hibernates`:
    the session rests when it is made, and it is in nobody's list."""

    id: str
    session_id: str
    owner: str
    asked_by: str
    image_id: str
    is_new: bool
    name: str
    reference: str
    environment: str | None
    version: str | None
    base: str
    agent: str
    container_id: str
    status: CommitStatus
    cancel_asked: bool
    tries: int
    error_code: str
    message: str
    size: int | None
    done: int | None
    began_at: datetime
    status_changed_at: datetime
    ended_at: datetime | None
    hibernates: bool = False
    reason_code: str = ""
    reason: str = ""
