"""Images that users make of their sessions: what an engine does for that.

Nothing of the session that an image is made of is in it: no variable, no label, no key. Its
settings are those of the image that the session was started from, with labels of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .base import EngineError

# Of an image; a container that is made from it inherits them, and is told by none of them.
LABEL_IMAGE_HUB = "backendai.image.hub"
LABEL_IMAGE_ID = "backendai.image.id"
LABEL_IMAGE_OWNER = "backendai.image.owner"
LABEL_IMAGE_NAME = "backendai.image.name"
LABEL_IMAGE_BASE = "backendai.image.base"  # the reference of the image that it was made from
LABEL_IMAGE_BASE_ID = "backendai.image.base-id"  # the engine's own id of that, as it was then
LABEL_IMAGE_BASE_DIGEST = "backendai.image.base-digest"  # its registry's, where it is from one
LABEL_IMAGE_MADE = "backendai.image.made"  # ISO 8601, UTC
LABEL_IMAGE_ORDER = "backendai.image.order"  # by which work it was made; the engine's own
LABEL_IMAGE_PREFIX = "backendai.image."

Progress = Callable[[int, int | None], None]
"""Told of bytes done, and of how many in all where that is known; from any thread."""


class CommitRefused(EngineError):
    """An image cannot be made, and another try changes nothing. `code` is a short word, `told` a
    sentence for the owner of the session; the text is for the log."""

    def __init__(self, code: str, told: str, text: str = "") -> None:
        super().__init__(text or told)
        self.code, self.told = code, told


class ImageInUse(EngineError):
    """A container has the image still; it cannot be removed now."""


class RegistryRefused(EngineError):
    """The registry does not take the image, or does not know us. Credentials are in no text."""


@dataclass(frozen=True, slots=True)
class CommitOrder:
    """An image that is to be made of a running container.

    `id`: of this work; what is made on the way bears it, and is found by it after a crash.
    Letters, digits, `-` and `_`, at most 64. `labels`: all of the image's own (`LABEL_IMAGE_…`),
    beside those of the image below it; the engine adds `LABEL_IMAGE_ORDER`, and which image
    `LABEL_IMAGE_BASE` names: where the one below was made from that, as that one says. `stay`: the
    container stands still from before the image is made until it is removed, or `clean` lets it go
    on: nothing that it writes is lost.
    """

    id: str
    container: str
    reference: str
    labels: Mapping[str, str]
    author: str = ""
    stay: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """What is known of the disk where an agent keeps images: bytes free on it, bytes in all, and
    how often each byte of a new image is written to it."""

    free: int
    whole: int
    copies: int = 1


@dataclass(frozen=True, slots=True)
class MadeImage:
    """An image as the engine has it. `size` in bytes, the layers below it included; `own`: its own
    layers alone. `digests`: what registries call it that it went to or came from."""

    id: str
    size: int
    own: int
    labels: Mapping[str, str]
    digests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are to a registry."""

    user: str
    password: str

    @property
    def auth(self) -> dict[str, str]:
        """The same as Docker's API takes it."""
        return {"username": self.user, "password": self.password}

    def __repr__(self) -> str:
        return f"Login({self.user!r}, …)"


Logins = Callable[[str], Login | None]
"""Who we are to the registry of an image. It may read files: for a thread."""


def no_login(image: str) -> Login | None:
    """`Logins` of a site that says nothing of any registry."""
    return None


class Images(ABC):
    """What an engine does with images of sessions. Every call runs off the event loop, may be made
    again, and raises `AgentUnreachable` and `EngineError`."""

    @abstractmethod
    async def look(self, agent: str, container: str, fresh: bool = True) -> int:
        """Bytes that an image of this container would have of its own: what its session has written
        to its own layer, holes in files filled. Not `fresh`: an answer of some seconds ago will do.
        Who asks while another one does gets the same answer, within a minute or two. Raises
        `ContainerGone`; `CommitRefused` where this engine cannot make an image of it."""

    @abstractmethod
    async def room(self, agent: str, images: Sequence[str]) -> Room | None:
        """The room for images on an agent; None where it cannot be known. `images`: those whose
        programs may be trusted to tell it, the likeliest to be there first."""

    @abstractmethod
    async def make(self, agent: str, order: CommitOrder) -> MadeImage:
        """Makes the image, whole or not at all: under its reference it is there in one step, in
        place of an earlier one. The container stands still while its files are read.

        Where the reference has an image of this order's already, that is it; with `stay` only if
        the container still stands still. When it is cancelled
        what was begun goes on to its end in the engine; `clean` puts that right. Raises
        `ContainerGone`, `CommitRefused` (no room, not running).
        """

    @abstractmethod
    async def clean(self, agent: str, order_id: str) -> None:
        """Removes all that an order left on its way (images without its reference, containers) and
        lets its container go on, if it stands still; what the engine still reads it reads to the
        end first, an hour at most. What it has made in the end stays; so does the
        image that it took the name from, under a name of ours, while a container has it."""

    @abstractmethod
    async def leftovers(self, agent: str) -> frozenset[str]:
        """Ids of orders of this hub that have something on their way: of those that are being made
        now, and of those that left it."""

    @abstractmethod
    async def listed(self, agent: str) -> Mapping[str, Mapping[str, str]]:
        """The labels of all images of this hub on an agent, by reference; those that are on their
        way left out."""

    @abstractmethod
    async def find(self, agent: str, reference: str) -> MadeImage | None:
        """The image of that reference, if the agent has one."""

    @abstractmethod
    async def remove(self, agent: str, reference: str) -> None:
        """Removes the reference, and the image when nothing else names it. What is not there is
        fine. Raises `ImageInUse`."""

    @abstractmethod
    async def push(
        self, agent: str, reference: str, login: Login | None, progress: Progress
    ) -> str:
        """Sends the image to the registry in its reference; returns its digest there. Raises
        `RegistryRefused`, `ImageMissing`."""

    @abstractmethod
    async def unpush(self, reference: str, digest: str, login: Login | None) -> None:
        """Deletes the image of that digest in the registry of the reference. What is not there is
        fine. Raises `RegistryRefused`."""

    @abstractmethod
    async def named(self, reference: str, login: Login | None) -> str | None:
        """The digest of what a reference names in its registry; None: nothing. Raises
        `RegistryRefused`."""

    @abstractmethod
    async def put_right(self, reference: str, digest: str | None, login: Login | None) -> None:
        """Has the reference name the image of that digest in its registry, if that is there, and
        else none; what it names instead is deleted. Raises `RegistryRefused`."""

    @abstractmethod
    async def labels(self, agent: str, image: str) -> Mapping[str, str]:
        """The labels of an image on an agent. Raises `ImageMissing`."""
