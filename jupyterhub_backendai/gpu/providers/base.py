"""What every provider of GPUs can be asked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...model.gpu_settings import GpuSettings
from ...model.gpus import Granted, ProviderName
from ..errors import GpuError

_SESSION = re.compile(r"[a-z0-9_]{1,61}")

Grants = tuple[Granted, ...]


@dataclass(frozen=True, slots=True)
class Running:
    """A container that was started: its id, and its first process as this machine counts."""

    container: str
    pid: int


class Provider:
    """One way in which sessions are given GPUs.

    Every step may be repeated and then changes nothing: a start is tried again, a Hub that was
    killed goes on where it was. Each raises `GpuError`. `granted` are a session's devices, all of
    this provider. A provider that has nothing to do at a step leaves it as it is here.
    """

    name: ClassVar[ProviderName]

    def settings(self, session: str, granted: Grants) -> GpuSettings:
        """What the session's container needs besides its devices; the same for the same grant."""
        return GpuSettings()

    async def ready(self, devices: Sequence[str]) -> None:
        """Until these devices (UUIDs) can be given by this provider."""

    async def prepare(self, session: str, granted: Grants) -> None:
        """Before the container is made: what holds the session's share from its first moment."""

    async def attach(self, session: str, granted: Grants, running: Running) -> None:
        """After the container was started: what can be set on its own cgroup only."""

    async def release(self, session: str, granted: Grants) -> None:
        """After the container is gone."""

    async def restore(self, sessions: Mapping[str, Grants], kept: Collection[str]) -> None:
        """Puts right what a restart took away from these sessions of this provider. What is of no
        session among `kept` goes: ids, to which others may come while this goes on."""


def session_name(session: str) -> str:
    """A session's id where it becomes part of a name or a path of the machine.

    Raises `GpuError` for one that could be anything else than a name there.
    """
    if not _SESSION.fullmatch(session):
        raise GpuError(f"{session!r} cannot be the name of a session on a GPU")
    return session


def only_one(granted: Grants) -> Granted:
    """The GPU of a session that can have one alone. Raises `GpuError` for several."""
    if len(granted) != 1:
        raise GpuError(f"With MPS a session has one GPU, and not {len(granted)}.")
    return granted[0]
