"""What a site offers: environments, presets, resource groups. Parsed once from configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from .apps import MOST_APPS, App, check_apps, read_apps
from .configured import Model
from .errors import Problem
from .idle import IdleMinimum, IdleRules
from .rules import check_image
from .sent import DEVICES, SIZE, THOUSANDTHS
from .slots import (
    GPU_SLOTS,
    MIB,
    SLOT_NAMES,
    Slots,
    parse_bytes,
    parse_cpu,
    parse_devices,
    parse_fgpu,
)

NameStr = Annotated[
    str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+ -]*$")
]


def _parsed(parse: Any) -> BeforeValidator:
    """A validator that turns our `Problem` into an error pydantic can collect."""

    def run(value: object) -> object:
        if value is None:
            return None
        try:
            return parse(value)
        except Problem as problem:
            raise PydanticCustomError(
                problem.code, "{message}", {"message": problem.message}
            ) from None

    return BeforeValidator(run)


Spread = Literal["packed", "even"]  # of an amount of GPUs over several of them
Cpu = Annotated[int, _parsed(parse_cpu), THOUSANDTHS]
Bytes = Annotated[int, _parsed(parse_bytes), SIZE]
Fgpu = Annotated[int, _parsed(parse_fgpu), THOUSANDTHS]
Devices = Annotated[int, _parsed(parse_devices), DEVICES]


class Amounts(Model):
    """Some amounts as people write them; what is not named is None."""

    cpu: Cpu | None = None
    mem: Bytes | None = None
    shm: Bytes | None = None
    fgpu: Fgpu | None = None
    gpu: Devices | None = None
    mig: Devices | None = None

    @property
    def slots(self) -> Slots:
        """The same, with nothing of what is not named."""
        return Slots(**{name: getattr(self, name) or 0 for name in SLOT_NAMES})


class Version(Model):
    """One version of an environment and the image behind it."""

    name: NameStr
    image: str
    description: str = ""
    shm: Bytes | None = None

    @field_validator("image")
    @classmethod
    def _image(cls, value: str) -> str:
        try:
            return check_image(value)
        except Problem as problem:
            raise ValueError(problem.message) from None


class Environment(Model):
    """A base to work in, such as PyTorch. The first version is the default one."""

    name: NameStr
    title: str = ""
    description: str = ""
    icon: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")] = "cube"
    versions: tuple[Version, ...] = Field(min_length=1)
    minimum: Amounts = Amounts()
    apps: Annotated[tuple[App, ...], BeforeValidator(read_apps), AfterValidator(check_apps)] = (
        Field(default=(), max_length=MOST_APPS)
    )
    command: tuple[str, ...] = ()
    idle_minimum: IdleMinimum = IdleMinimum()

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, data: Any) -> Any:
        """`image=` for a single version."""
        if isinstance(data, dict):
            data = dict(data)
            if "image" in data and "versions" not in data:
                data["versions"] = [{"name": "default", "image": data.pop("image")}]
        return data

    @property
    def label(self) -> str:
        """What a person reads."""
        return self.title or self.name

    def version(self, name: str) -> Version | None:
        """The version of that name, if there is one."""
        return next((v for v in self.versions if v.name == name), None)


class Preset(Model):
    """A named amount of resources, for all groups or for one."""

    name: NameStr
    description: str = ""
    cpu: Cpu
    mem: Bytes
    shm: Bytes | None = None
    fgpu: Fgpu = 0
    gpu: Devices = 0
    mig: Devices = 0
    mig_profile: str | None = None
    resource_group: str | None = None

    @model_validator(mode="after")
    def _shm_is_part_of_memory(self) -> Preset:
        if self.cpu <= 0 or self.mem <= 0:
            raise ValueError("cpu and mem must be more than 0")
        if self.shm is not None and self.shm > self.mem:
            raise ValueError("shared memory is part of memory: shm cannot be more than mem")
        if self.shm is not None and self.shm < MIB:
            raise ValueError("shm must be at least 1m; leave it out to have it chosen by mem")
        if sum(1 for name in GPU_SLOTS if getattr(self, name)) > 1:
            raise ValueError("a session has fgpu, gpu or mig, and never two of them")
        if self.mig_profile is not None and not self.mig:
            raise ValueError("mig_profile says which mig devices: name how many, as mig=1")
        return self

    @property
    def slots(self) -> Slots:
        """What the preset takes of an agent."""
        return Slots(self.cpu, self.mem, self.fgpu, self.gpu, self.mig)


class ResourceGroup(Model):
    """A set of agents that some users may launch on, and how its queue works.

    `max_bypass` and `pending_timeout` are seconds; `pending_timeout` 0 is no limit. `gpu_spread`:
    more than one GPU is whole GPUs and at most one share (`packed`) or equal shares (`even`).
    `gpu_placement`: a session goes where least is left on the GPU, or where the GPUs that are left
    are of most use to others (`fragments`).
    """

    name: NameStr
    title: str = ""
    description: str = ""
    users: frozenset[str] | None = None
    groups: frozenset[str] | None = None
    queue: Literal["backfill", "strict"] = "backfill"
    max_bypass: float = Field(default=900, ge=0)
    selection: Literal["concentrated", "dispersed"] = "concentrated"
    pending_timeout: float = Field(default=0, ge=0)
    gpu_spread: Spread = "packed"
    gpu_placement: Literal["tightest", "fragments"] = "tightest"
    per_session: Amounts = Amounts()
    choose_agent: bool = True
    idle: IdleRules = IdleRules()

    def admits(self, user: str, groups: Iterable[str]) -> bool:
        """Whether this user may launch here: everyone, unless users or groups are named."""
        if self.users is None and self.groups is None:
            return True
        if self.users is not None and user in self.users:
            return True
        return self.groups is not None and not self.groups.isdisjoint(groups)


class Catalog(Model):
    """All that a site offers. Names are unique; the order is the order of display."""

    environments: tuple[Environment, ...] = ()
    presets: tuple[Preset, ...] = ()
    resource_groups: tuple[ResourceGroup, ...] = (ResourceGroup(name="default"),)

    def environment(self, name: str) -> Environment | None:
        """The environment of that name, if there is one."""
        return next((e for e in self.environments if e.name == name), None)

    def group(self, name: str) -> ResourceGroup | None:
        """The resource group of that name, if there is one."""
        return next((g for g in self.resource_groups if g.name == name), None)

    def presets_of(self, group: str) -> tuple[Preset, ...]:
        """Presets that can be chosen in this resource group."""
        return tuple(p for p in self.presets if p.resource_group in {None, group})
