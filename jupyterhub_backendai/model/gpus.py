"""GPUs as sessions are given them: how an admin divides them, what a machine has, what was granted.

A GPU is offered in one way at a time: in shares (slot `fgpu`), as a whole (`gpu`), or by the parts
that its driver has divided it into (`mig`). Amounts are thousandths of the slot's unit: of a
share, of a GPU, of a MIG device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .catalog import Bytes, Fgpu, Spread
from .configured import Model
from .slots import GIB, MIB, GpuSlot, Slots

Hold = Literal["hard", "soft", "none"]
# `mps2` is MPS whose limits a program may lift: older drivers have no other.
ProviderName = Literal["whole", "mig", "mps", "mps2", "memory", "advisory", "simulated"]
STRENGTH: dict[Hold, int] = {"none": 0, "soft": 1, "hard": 2}


class Enforcement(Model):
    """How hard a share of a GPU is held, in each respect.

    `hard`: by hardware or driver, from outside the container. `soft`: of well-behaved programs.
    `none`: not at all. `faults`: whether one session's crash on the GPU leaves the others alone.
    """

    memory: Hold = "none"
    compute: Hold = "none"
    faults: Hold = "none"

    def lacking(self, least: Enforcement) -> tuple[str, ...]:
        """In which respects this falls short of `least`."""
        return tuple(
            name
            for name in ("memory", "compute", "faults")
            if STRENGTH[getattr(self, name)] < STRENGTH[getattr(least, name)]
        )


class Unit(Model):
    """How much of a GPU one share is, where the size is given and not the number."""

    mem: Annotated[Bytes, Field(ge=512 * MIB)] = 2 * GIB
    multiprocessors: int = Field(default=8, ge=2)


class GpuRule(Model):
    """How some GPUs are offered; the first rule that a GPU matches is its own.

    `model` is a pattern of the driver's name (`*L40S*`), `devices` UUIDs or how they begin. With
    `shares_per_gpu` or `unit` they are offered in shares, in steps of `quantum`; without both as
    a whole, and by their parts where they are divided. `least`: what enforcement is acceptable.
    """

    model: str = "*"
    devices: tuple[Annotated[str, Field(min_length=4)], ...] = ()
    resource_group: str | None = None
    shares_per_gpu: int | None = Field(default=None, ge=1, le=100)
    unit: Unit | None = None
    quantum: Annotated[Fgpu, Field(gt=0)] = 100
    provider: Literal["auto", "mps", "memory", "advisory"] = "auto"
    least: Enforcement = Enforcement()

    @model_validator(mode="after")
    def _one_size(self) -> GpuRule:
        if self.shares_per_gpu is not None and self.unit is not None:
            raise ValueError("a share has its size by shares_per_gpu or by unit, not by both")
        if self.shares_per_gpu is not None and self.shares_per_gpu * 1000 % self.quantum:
            raise ValueError("quantum must go into the shares of a GPU a whole number of times")
        if not self.shared and self.provider != "auto":
            raise ValueError("provider is of shares: say shares_per_gpu or unit, too")
        return self

    @property
    def shared(self) -> bool:
        """Whether these GPUs are offered in shares."""
        return self.shares_per_gpu is not None or self.unit is not None

    def matches(self, name: str, uuid: str, group: str) -> bool:
        """Whether this rule is about a GPU of this model and UUID in this resource group."""
        return (
            fnmatchcase(name, self.model)
            and (not self.devices or uuid.startswith(self.devices))
            and self.resource_group in {None, group}
        )


class GpuDevice(BaseModel):
    """A GPU or a MIG device that sessions are given, as its agent reports it.

    `capacity`: how much of its slot it has; `quantum`: the step of an amount (both thousandths).
    `memory`: bytes that may be given out, `multiprocessors` None where the driver does not tell.
    `verified`: the enforcement was shown on such a device. `reason` says why it is not available.
    """

    model_config = ConfigDict(frozen=True)

    uuid: str
    name: str
    slot: GpuSlot
    profile: str | None = None
    parent: str | None = None
    capacity: int = 1000
    quantum: int = 1000
    memory: int = 0
    multiprocessors: int | None = None
    provider: ProviderName = "whole"
    enforcement: Enforcement = Enforcement()
    verified: bool = False
    available: bool = True
    reason: str = ""

    @property
    def kind(self) -> GpuKind:
        """What a session asks for to be given this one."""
        return GpuKind(self.slot, self.profile)

    @property
    def type(self) -> tuple[str, str, int]:
        """What devices of one machine must have alike for a session to have several of them.

        With MPS none has: a program speaks to the server of one GPU.
        """
        alone = self.provider in {"mps", "mps2"}
        return (self.uuid if alone else self.name, self.provider, self.capacity)

    @property
    def simulated(self) -> bool:
        """Whether there is no such GPU."""
        return self.provider == "simulated"


@dataclass(frozen=True, slots=True, order=True)
class GpuKind:
    """A slot of GPUs; of MIG devices those of one profile, as `1g.10gb` (None: of any)."""

    slot: GpuSlot
    profile: str | None = None

    def admits(self, device: GpuDevice) -> bool:
        """Whether a session that asks for this kind may be given the device."""
        return device.slot == self.slot and self.profile in {None, device.profile}


class Granted(BaseModel):
    """What a session holds of one device: `amount` of `capacity`, in thousandths of its slot.

    `memory` in bytes, `percent` of the multiprocessors, as they were when it was granted: a
    configuration that changes does not change what runs.
    """

    model_config = ConfigDict(frozen=True)

    uuid: str
    name: str
    slot: GpuSlot
    profile: str | None = None
    amount: int
    capacity: int
    memory: int
    percent: int
    provider: ProviderName
    enforcement: Enforcement
    verified: bool = False

    @property
    def simulated(self) -> bool:
        """Whether there is no such GPU."""
        return self.provider == "simulated"


def even_parts(amount: int, capacity: int, quantum: int, count: int) -> Iterator[tuple[int, int]]:
    """How `amount` may be divided into equal shares of up to `count` GPUs of `capacity` each: the
    number of GPUs, and the share of each, a multiple of `quantum`; the fewest GPUs first."""
    if capacity <= 0:
        return
    for number in range(max(1, -(-amount // capacity)), count + 1):
        part, rest = divmod(amount, number)
        if not rest and not part % quantum:
            yield number, part


def slots_in(devices: Iterable[GpuDevice], *, lost: bool = False) -> Slots:
    """What sessions can have of these devices together; with those that are `lost`, what they can
    wait for."""
    sums: dict[str, int] = {}
    for device in devices:
        if device.available or lost:
            sums[device.slot] = sums.get(device.slot, 0) + device.capacity
    return Slots(**sums)


def split(
    amount: int, capacity: int, quantum: int, spread: Spread, count: int
) -> tuple[int, ...] | None:
    """How much of each device a session gets that has `amount` of `count` devices which are alike.

    All in thousandths; the parts add up to `amount`, each is a multiple of `quantum` and none is
    more than `capacity`. `packed`: as many full devices as there are in it, and the rest of one
    more. `even`: the same of each, of as few as can be. None where it cannot be had so.
    """
    full = capacity - capacity % quantum
    if amount < 0 or amount % quantum or amount > full * count:
        return None
    if amount == 0:
        return ()
    least = -(-amount // full)
    if spread == "even":
        ways = even_parts(amount, full, quantum, count)
        return next(((part,) * number for number, part in ways), None)
    return (*(full,) * (least - 1), amount - full * (least - 1))


def nearest(
    amount: int, capacity: int, quantum: int, spread: Spread, count: int
) -> tuple[int, ...]:
    """The next smaller and the next larger amount, more than nothing, that can be had so."""

    def fits(other: int) -> bool:
        return split(other, capacity, quantum, spread, count) is not None

    most = (capacity - capacity % quantum) * count
    start = min(max(amount, 0), most) // quantum * quantum
    below = (n for n in range(start, 0, -quantum) if n < amount and fits(n))
    above = (n for n in range(start + quantum, most + 1, quantum) if n > amount and fits(n))
    found = (next(below, None), next(above, None))
    return tuple(n for n in found if n is not None)


@dataclass(frozen=True, slots=True)
class Pool:
    """Devices of one machine that are alike: a session may have several of them."""

    capacity: int
    quantum: int
    count: int

    @property
    def most(self) -> int:
        """The most that one session could have of them."""
        return (self.capacity - self.capacity % self.quantum) * self.count

    def gives(self, amount: int, spread: Spread) -> bool:
        """Whether just this amount could be had of them, if nothing else were there."""
        return split(amount, self.capacity, self.quantum, spread, self.count) is not None

    def nearest(self, amount: int, spread: Spread) -> tuple[int, ...]:
        """The next smaller and the next larger amount that could be had of them."""
        return nearest(amount, self.capacity, self.quantum, spread, self.count)


def pools(kind: GpuKind, devices: Iterable[GpuDevice]) -> list[Pool]:
    """What one machine's devices of a kind make together; those that are not available now too,
    since they can be waited for."""
    alike = Counter(
        (d.type, d.capacity, d.quantum) for d in devices if kind.admits(d) and d.capacity > 0
    )
    return [Pool(capacity, quantum, count) for (_, capacity, quantum), count in alike.items()]
