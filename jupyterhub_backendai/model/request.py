"""A request with every choice made, and what it was checked against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Literal

from pydantic import BaseModel, ConfigDict

from .catalog import Catalog, Environment, ResourceGroup
from .gpus import GpuDevice
from .images import CustomImage, ImageStatus
from .policy import Policies, Policy
from .slots import Slots


class Folder(BaseModel):
    """A folder that the user may mount. `project` is None for the user's own."""

    model_config = ConfigDict(frozen=True)

    name: str
    permission: Literal["ro", "rw"] = "rw"
    project: str | None = None


class MountPoint(BaseModel):
    """A folder at its place in the container."""

    model_config = ConfigDict(frozen=True)

    folder: str
    project: str | None
    target: str
    permission: Literal["ro", "rw"]
    create: bool = False


class Work(BaseModel):
    """What a batch session runs, and after how many seconds it is ended (None: never)."""

    model_config = ConfigDict(frozen=True)

    command: str
    timeout: int | None = None


class SessionRequest(BaseModel):
    """A spec with every choice made: what is queued and, later, run.

    Units: `cpu`, `fgpu`, `gpu` and `mig` in thousandths, `mem` and `shm` in bytes. `count` sessions
    are started from it, each not before `not_before` and after all of `depends_on` (ids) ended in
    success.
    """

    model_config = ConfigDict(frozen=True)

    name: str | None
    type: Literal["interactive", "batch"]
    environment: str | None
    version: str | None
    image: str
    env: dict[str, str]
    resource_group: str
    agent: str | None
    preset: str | None
    preset_changed: bool
    cpu: int
    mem: int
    shm: int
    fgpu: int
    gpu: int = 0
    mig: int = 0
    mig_profile: str | None = None
    omp_threads: int
    openblas_threads: int
    mounts: tuple[MountPoint, ...]
    preopen_ports: tuple[int, ...]
    project: str | None
    priority: int
    batch: Work | None = None
    not_before: datetime | None = None
    depends_on: tuple[str, ...] = ()
    count: int = 1

    @property
    def slots(self) -> Slots:
        """What the session takes of an agent."""
        return Slots(self.cpu, self.mem, self.fgpu, self.gpu, self.mig)


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """As much of an agent as a request is checked against."""

    name: str
    group: str
    capacity: Slots
    devices: tuple[GpuDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownSession:
    """As much of an earlier session as one that depends on it is checked against."""

    id: str
    name: str
    type: str
    ended: bool
    succeeded: bool


@dataclass(frozen=True)
class Context:
    """Who asks, and all that the answer depends on.

    `service`: whether the site's service is on, which starts what no page waits for. `sessions`
    are those of this user that the request depends on, by the name or id that it says. `images` are
    this user's own; `catalog` has them as versions.
    """

    user: str
    groups: frozenset[str]
    admin: bool
    catalog: Catalog
    policies: Policies
    folders: Mapping[str, Folder] = field(default_factory=dict)
    folders_enabled: bool = True
    names_in_use: frozenset[str] = frozenset()
    agents: tuple[AgentFacts, ...] = ()
    sessions: Mapping[str, KnownSession] = field(default_factory=dict)
    images: tuple[CustomImage, ...] = ()
    service: bool = False
    now: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    @property
    def policy(self) -> Policy:
        """The policy of the user who asks."""
        return self.policies.of(self.user, self.groups)

    def image(self, reference: str) -> CustomImage | None:
        """The user's own image of that reference, if it can be used."""
        return next(
            (
                image
                for image in self.images
                if image.reference == reference and image.status is ImageStatus.READY
            ),
            None,
        )

    def allowed_environments(self) -> tuple[Environment, ...]:
        """Environments this user may choose, in the order of the configuration."""
        allowed = self.policy.environments
        return tuple(e for e in self.catalog.environments if allowed is None or e.name in allowed)

    def allowed_groups(self) -> tuple[ResourceGroup, ...]:
        """Resource groups this user may launch on, in the order of the configuration."""
        allowed = self.policy.resource_groups
        return tuple(
            g
            for g in self.catalog.resource_groups
            if g.admits(self.user, self.groups) and (allowed is None or g.name in allowed)
        )
