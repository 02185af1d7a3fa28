"""The engine seam: what the rest of the product may ask of whatever runs containers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ..model.slots import Slots
from ..model.usage import Reading
from .batch import Outcome
from .logs import LogPart
from .saved_logs import LogShelf

if TYPE_CHECKING:
    from .images import Images

LABEL_HUB = "backendai.hub"
LABEL_SESSION = "backendai.session"
LABEL_USER = "backendai.user"
LABEL_KERNEL = "backendai.kernel"
LABEL_CORES = "backendai.cores"


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """One machine as its engine sees it now. `reason` says why it is not available."""

    name: str
    group: str
    capacity: Slots
    available: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """A container or a leftover volume that carries our hub's label."""

    agent: str
    id: str
    name: str
    session_id: str
    kernel: str
    running: bool
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """As much of an image as the settings of a container depend on."""

    id: str
    command: tuple[str, ...]
    env: Mapping[str, str]


class EngineError(Exception):
    """The engine could not do what was asked. The text is for the log, not for a user."""


class AgentUnreachable(EngineError):
    """The agent's engine does not answer; nothing is known about its containers."""


class ContainerGone(EngineError):
    """There is no such container; what it left is what was saved of it."""


class EngineBusy(EngineError):
    """Too much of this is being done already; later it may be possible."""


class ImageMissing(EngineError):
    """The image is neither on the agent nor to be had from its registry."""


class Engine(ABC):
    """Containers on one or several agents. Every call runs off the event loop."""

    @abstractmethod
    async def agents(self) -> list[AgentStatus]:
        """All configured agents, those that do not answer included."""

    @abstractmethod
    async def containers(self, agent: str) -> list[Container]:
        """Our containers on an agent. Raises `AgentUnreachable`."""

    @abstractmethod
    async def stop_session(self, agent: str, session_id: str, grace: int) -> None:
        """Has the session's containers end by themselves, and kills them after `grace` seconds.
        One that stands still is killed as it stands: nothing of it runs on.

        Raises `AgentUnreachable`.
        """

    @abstractmethod
    async def remove_session(self, agent: str, session_id: str, keep_home: bool = False) -> int:
        """Removes the session's containers, then its scratch, unless that is kept for a container
        that comes after them; returns how many containers.

        Removing what is not there is fine. Raises `AgentUnreachable`.
        """

    @abstractmethod
    async def has_home(self, agent: str, session_id: str) -> bool:
        """Whether the scratch of a session is on the agent. Raises `AgentUnreachable`."""

    @abstractmethod
    def may_be_on(self, session_agent: str, agent: str) -> bool:
        """Whether what belongs to a session placed on one agent may be found on the other: they
        are the same machine under two names, or may be, as one of them has not answered yet or the
        first is not configured any more."""

    @abstractmethod
    async def orphans(self, agent: str) -> Sequence[str]:
        """Ids of sessions of which this agent still holds something, running or not."""

    @abstractmethod
    async def logs(self, agent: str, container: str, lines: int) -> str:
        """The last lines a container wrote, decoded with replacement."""

    @abstractmethod
    async def readings(self, agent: str, containers: Collection[str]) -> Mapping[str, Reading]:
        """The counters of containers (ids) now, by id; one that does not run is left out.

        Raises `AgentUnreachable`, `EngineError`.
        """

    @property
    def images(self) -> Images | None:
        """What makes images of sessions; None where this engine cannot."""
        return None

    # ---- batch sessions; each call raises `ContainerGone`, `AgentUnreachable`, `EngineError` ----

    @abstractmethod
    async def put_go(self, agent: str, container: str) -> None:
        """Lets the command of a batch session start; once more changes nothing."""

    @abstractmethod
    async def command_started(self, agent: str, container: str) -> datetime | None:
        """When the command began by its container's clock; None where it has not."""

    @abstractmethod
    async def outcome(self, agent: str, container: str) -> Outcome | None:
        """What became of the command; None while it may still run or start.

        The same answer for as long as the container is there, whether it runs or not.
        """

    # ---- logs of any container -------------------------------------------------------------------

    @abstractmethod
    def open_log(self, agent: str, container: str, part: LogPart) -> AsyncGenerator[bytes, None]:
        """A part of what a container writes or wrote, in chunks, as it comes (see `logs`).

        Whoever stops before its end calls `aclose`. Raises `ContainerGone`, `EngineBusy`,
        `AgentUnreachable`.
        """

    @abstractmethod
    async def save_log(
        self, agent: str, container: str, shelf: LogShelf, session_id: str, kernel: str
    ) -> None:
        """Puts the end of a container's log on the shelf, before the container is removed.

        Of a batch session that of the command's output, too. Fine to call twice; what is saved
        already stays where the container is gone. Raises `AgentUnreachable`, and `OSError` where
        the shelf cannot be written.
        """
