"""Images that users make of their sessions: names, who may use them, and how one is made.

Source of the rules: semantics §6 of the product (names of 4 to 32 letters, digits, `-`, `_`; three
images a user; the tag `customized_<id>`; `Customized<name>` where they are chosen; the owner alone
sees and uses one).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from .catalog import Catalog, Environment, Version
from .errors import FieldError, Kind, Problem
from .rules import TextRule
from .slots import format_bytes

IMAGE_NAME = TextRule(
    r"[A-Za-z0-9_\-]{4,32}", 32, "An image's name has 4 to 32 letters, digits, - and _ in it."
)
LOCAL = "backendai"  # in front of images that stay on the agent where they were made
_TAG = re.compile(r":customized_[0-9a-f]{32}(?:@|$)")
RESERVE = 20  # images leave one part in so many of a disk free
_LONGEST = 255 - len(":customized_") - 32  # characters of a repository, as `check_image` has it


def check_image_name(name: str) -> str:
    """`name` if an image may have it. Raises `Problem`."""
    if not IMAGE_NAME.matches(name):
        raise Problem("bad_name", IMAGE_NAME.text)
    return name


def reference_of(base: str, image_id: str, prefix: str = "") -> str:
    """The full name of an image of this id that is made from `base`. `prefix`: the registry that it
    goes to, and the place there; "": it stays where it was made."""
    repository = base.partition("@")[0]
    last = repository.rsplit("/", 1)[-1].partition(":")[0]
    return f"{prefix or LOCAL}/{last}"[:_LONGEST].rstrip("/._-") + f":customized_{image_id}"


def is_customized(reference: str) -> bool:
    """Whether a reference is written like that of a user's image, whoever's it is."""
    return _TAG.search(reference) is not None


def place_of(environment: str | None, base: str) -> tuple[str | None, str]:
    """Where an image has its name: of one owner's, two of the same name there take each other's
    place. That is its environment; of one that was named by hand the image that it was made of."""
    return environment, "" if environment is not None else base


def version_name(name: str) -> str:
    """What an image is called where it is chosen, under its environment."""
    return f"Customized{name}"


class ImageStatus(str, Enum):
    """READY: it can be used. DELETING: it is being removed, and cannot."""

    READY = "READY"
    DELETING = "DELETING"


class CommitStatus(str, Enum):
    """Where the making of an image is on its way."""

    WAITING = "WAITING"
    COMMITTING = "COMMITTING"
    PUSHING = "PUSHING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_final(self) -> bool:
        """Whether it is over."""
        return not COMMIT_TRANSITIONS[self]


_C = CommitStatus
_ENDS = frozenset({_C.FAILED, _C.CANCELLED})
# From each, where it may go. What a restart finds on its way goes on from the same status: each
# step may be done again.
COMMIT_TRANSITIONS: dict[CommitStatus, frozenset[CommitStatus]] = {
    _C.WAITING: _ENDS | {_C.COMMITTING},
    _C.COMMITTING: _ENDS | {_C.PUSHING, _C.DONE},
    _C.PUSHING: _ENDS | {_C.DONE},
    _C.DONE: frozenset(),
    _C.FAILED: frozenset(),
    _C.CANCELLED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class CustomImage:
    """An image that somebody made of a session.

    `environment`, `version`: under which it is chosen, and what it was made from; None for an image
    that was named by hand. `base`: the reference of the image that it was made from, where that is
    its owner's own, of the one below that; `base_id`: the engine's own id of it then.
    `engine_id`: the engine's own id of the image. `agent`: the only one that has it; None: it is in
    a registry, and all may have it; `digest` is its own there. `size`: bytes with all that is below
    it, `own`: without.
    """

    id: str
    owner: str
    name: str
    reference: str
    environment: str | None
    version: str | None
    base: str
    base_id: str
    engine_id: str
    agent: str | None
    digest: str | None
    size: int
    own: int
    status: ImageStatus
    reason: str
    made_at: datetime
    used_at: datetime | None

    @property
    def place(self) -> tuple[str | None, str]:
        """Where it has its name; see `place_of`."""
        return place_of(self.environment, self.base)

    @property
    def version_name(self) -> str:
        """What it is called under its environment."""
        return version_name(self.name)


def with_images(catalog: Catalog, images: Iterable[CustomImage]) -> Catalog:
    """What a site offers, and as further versions what one user has made of it. What is offered by
    the site under the same name stays the site's."""
    own: dict[str, list[CustomImage]] = {}
    for image in images:
        if image.status is ImageStatus.READY and image.environment is not None:
            own.setdefault(image.environment, []).append(image)
    if not own:
        return catalog
    environments = tuple(
        _with_versions(e, own[e.name]) if e.name in own else e for e in catalog.environments
    )
    return catalog.model_copy(update={"environments": environments})


def _with_versions(environment: Environment, images: list[CustomImage]) -> Environment:
    versions = {version.name: version for version in environment.versions}
    for image in sorted(images, key=lambda image: image.name):
        below = environment.version(image.version or "")
        versions.setdefault(image.version_name, Version(
            name=image.version_name, image=image.reference, shm=below.shm if below else None,
            description="Your own image",
        ))  # fmt: skip
    return environment.model_copy(update={"versions": tuple(versions.values())})


def not_committable(type: str, running: bool) -> FieldError | None:
    """Why no image can be made of a session, whatever it is called."""
    if type != "interactive":
        message = "An image can be made of an interactive session only, and this is a batch job."
        return FieldError("", "batch", message, Kind.CONFLICT)
    if not running:
        message = "It does not run. Start it, and make the image while it runs."
        return FieldError("", "not_running", message, Kind.CONFLICT)
    return None


def too_many_images(count: int, most: int) -> FieldError:
    """The error of an image that is one too many."""
    if most == 0:
        message = "You cannot make images. Ask your admin."
    else:
        images = "1 image" if count == 1 else f"{count} images"
        message = (
            f"You have {images}, and your limit is {most}. Delete one first, or use the name of "
            "one of yours of this environment: it is replaced then."
        )
    return FieldError("name", "too_many", message, Kind.FORBIDDEN)


def too_large(size: int, most: int) -> FieldError:
    """The error of an image that would add more than its owner's may; both in bytes."""
    message = (
        f"The session has written {format_bytes(size)} outside of its home and folders, and your "
        f"limit for an image is {format_bytes(most)}. Remove what the image need not have."
    )
    return FieldError("", "too_large", message, Kind.FORBIDDEN)


def no_room(size: int, left: int) -> FieldError:
    """The error of an image that its agent's disk has no room for; both in bytes."""
    message = (
        f"The session has written {format_bytes(size)} outside of its home and folders, and its "
        f"agent has room for an image of {format_bytes(left)}. Remove what the image need not "
        "have, delete images of yours there, or ask your admin for room."
    )
    return FieldError("", "no_room", message, Kind.CONFLICT)


def room_left(free: int, whole: int, promised: int, copies: int) -> int:
    """Bytes that a new image may have on a disk: a twentieth of the whole disk stays free, and what
    was `promised` to images that are being made. `copies`: how often each byte is written."""
    return max(0, (free - whole // RESERVE) // copies - promised)
