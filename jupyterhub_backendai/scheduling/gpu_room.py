"""The GPUs of a resource group during a pass: which of them a session is given, and what is kept.

GPUs of one machine that are alike (same model, provider and size) make a pool; a session is given
all of its GPUs from one pool. What is kept for a session that waited too long is kept on each GPU
that it could have: nothing behind it takes of one what would leave less than its part there. So
on no GPU does what it lacks ever grow, which is what the argument in `queue` needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from ..model.gpus import GpuDevice, GpuKind, even_parts
from ..model.slots import GPU_SLOTS, GpuSlot, Slots
from . import fragments
from .packing import Free, Packing, Place, Wish
from .ranking import Ranking
from .snapshot import Agent, Devices, GroupRule

Uuid = str
MOST_LOOKS = 50_000  # sizes times machines at which fragments are counted in a pass: about a second


class Wanted(NamedTuple):
    """What a session asks: GPUs of its kind and cores in thousandths, memory in bytes."""

    gpu: int
    cpu: int
    mem: int
    kind: GpuKind | None = None


def wanted_of(slots: Slots, profile: str | None = None) -> Wanted:
    """The wish of a session with these slots."""
    slot = slots.gpu_slot
    if slot is None:
        return Wanted(0, slots.cpu, slots.mem)
    kind = GpuKind(slot, profile if slot == "mig" else None)
    return Wanted(getattr(slots, slot), slots.cpu, slots.mem, kind)


def slots_of(wanted: Wanted) -> Slots:
    """The reverse of `wanted_of`."""
    gpu = {} if wanted.kind is None else {wanted.kind.slot: wanted.gpu}
    return Slots(cpu=wanted.cpu, mem=wanted.mem, **gpu)


@dataclass(slots=True, eq=False)
class Pool:
    """GPUs of a machine that are alike. `free` is by UUID, in the machine's order, of those that
    can be used, `count` of them all; `kept` is left free on each."""

    machine: str
    slot: GpuSlot
    profile: str | None
    whole: int
    quantum: int
    count: int = 0
    free: dict[Uuid, int] = field(default_factory=dict)
    kept: int = 0
    _usable: tuple[int, ...] | None = None
    _free: tuple[int, ...] | None = None

    def admits(self, kind: GpuKind) -> bool:
        """Whether a session of this kind may be given GPUs of this pool."""
        return self.slot == kind.slot and kind.profile in {None, self.profile}

    def usable(self, has: int) -> int:
        """What may be taken of a GPU of which so much is free."""
        return max(0, has - self.kept)

    @property
    def all_usable(self) -> tuple[int, ...]:
        """The same of all its GPUs, ascending."""
        if self._usable is None:
            self._usable = tuple(sorted(map(self.usable, self.free.values())))
        return self._usable

    @property
    def all_free(self) -> tuple[int, ...]:
        """What is free of all its GPUs, ascending."""
        if self._free is None:
            self._free = tuple(sorted(max(0, has) for has in self.free.values()))
        return self._free

    def keep(self, part: int) -> bool:
        """Leave so much free on each, or all that is free if it is less; whether that is more than
        was kept before."""
        if part <= self.kept:
            return False
        self.kept = part
        self._usable = None
        return True

    def could(self, amount: int, even: bool) -> bool:
        """Whether these GPUs would do if nothing else were on them."""
        return self.part(amount, even) is not None

    def part(self, amount: int, even: bool) -> int | None:
        """The most of one GPU that such a session takes here; None where it cannot be here."""
        if amount % self.quantum or not self.free:
            return None
        if amount <= self.whole:
            return amount
        if not even:
            return self.whole if amount <= self.whole * len(self.free) else None
        parts = even_parts(amount, self.whole, self.quantum, len(self.free))
        return max((part for _, part in parts), default=None)

    def most(self, asked: int, even: bool, gpus: tuple[int, ...]) -> int:
        """The most that a session which asks so much could have of GPUs like these of which so much
        is free, ascending."""
        return _most(asked, even, gpus, self.whole, self.quantum)

    def take(self, place: Place) -> Devices:
        """Takes what `place` says, and tells of which GPUs: of equals the last where it is a share,
        the first where it is the whole."""
        given: list[tuple[Uuid, int]] = []
        for usable, part in place.taken:
            some = [uuid for uuid, has in self.free.items() if self.usable(has) == usable]
            uuid = next(
                one for one in (some if part == self.whole else reversed(some))
                if one not in {name for name, _ in given}
            )  # fmt: skip
            given.append((uuid, part))
        for uuid, part in given:
            self.free[uuid] -= part
        self._usable = self._free = None
        return tuple(given)


def most_packed(gpus: Sequence[int], whole: int) -> int:
    """The most that a session could have as whole GPUs and one share at most, where so much is free
    of each, ascending; whatever is less can be had, too."""
    full = sum(has == whole for has in gpus)
    return full * whole + (gpus[-1 - full] if full < len(gpus) else 0)


@lru_cache(10_000)
def _most(asked: int, even: bool, gpus: tuple[int, ...], whole: int, quantum: int) -> int:
    if asked % quantum:
        return 0
    if not even:
        return most_packed(gpus, whole)
    if any(Free(0, 0, gpus, whole, quantum).ways(Wish(0, 0, asked, even))):
        return asked
    # As much may be free, but not in equal shares: the next smaller amount that is.
    parts = (
        (number, min(has, (asked - 1) // number)) for number, has in enumerate(reversed(gpus), 1)
    )
    return max((number * (part - part % quantum) for number, part in parts), default=0)


def pools_of(agent: Agent, taken: Mapping[Uuid, int]) -> list[Pool]:
    """The pools of a machine; `taken` is what is held of its GPUs, by UUID. A machine of which only
    amounts are known has one GPU of all of it for each slot."""
    pools: dict[tuple[object, ...], Pool] = {}
    for device in agent.devices or _amounts_alone(agent):
        if device.capacity <= 0:
            continue  # how much it has is not known
        key = (device.slot, device.profile, device.type, device.quantum)
        pool = pools.get(key)
        if pool is None:
            pool = pools[key] = Pool(
                agent.name, device.slot, device.profile, device.capacity, device.quantum
            )  # fmt: skip
        pool.count += 1
        if device.available:
            pool.free[device.uuid] = device.capacity - taken.get(device.uuid, 0)
    return list(pools.values())


def _amounts_alone(agent: Agent) -> Iterable[GpuDevice]:
    for slot in GPU_SLOTS:
        if amount := getattr(agent.capacity, slot):
            yield GpuDevice(uuid=slot, name="", slot=slot, capacity=amount, quantum=1)


class GpuRoom:
    """All pools of a group's machines that take sessions, and the best place among them.

    `usable` tells the cores and the memory of a machine that may be taken now.
    """

    def __init__(
        self,
        pools: Iterable[Pool],
        rule: GroupRule,
        usable: Callable[[str], tuple[int, int]],
        wishes: Callable[[GpuKind], Sequence[Wish]],
    ) -> None:
        self.pools = [pool for pool in pools if pool.free]
        self.even = rule.gpu_spread == "even"
        self._rule = rule
        self._usable = usable
        self._wishes = wishes
        self._kinds: dict[GpuKind, _Kind] = {}
        self._pools_of: dict[GpuKind, list[Pool]] = {}

    def find(self, wanted: Wanted, avoid: Collection[str]) -> tuple[Pool, Place] | None:
        """The best place on no machine in `avoid`."""
        return self._kind(wanted).find(self._wish(wanted), avoid)

    def find_on(self, machine: str, wanted: Wanted) -> tuple[Pool, Place] | None:
        """The best place on this machine."""
        return self._kind(wanted).find_on(machine, self._wish(wanted))

    def touch(self, machine: str) -> None:
        """Something else has changed on this machine."""
        for kind in self._kinds.values():
            kind.touch(machine)

    def keep(self, wanted: Wanted, machines: Collection[str]) -> None:
        """Leave on each GPU that it could have there as much free as it would take of it."""
        assert wanted.kind is not None
        for pool in self._of(wanted.kind):
            if pool.machine in machines and pool.keep(pool.part(wanted.gpu, self.even) or 0):
                self.touch(pool.machine)

    def _of(self, kind: GpuKind) -> list[Pool]:
        found = self._pools_of.get(kind)
        if found is None:
            found = self._pools_of[kind] = [pool for pool in self.pools if pool.admits(kind)]
        return found

    def _wish(self, wanted: Wanted) -> Wish:
        return Wish(wanted.cpu, wanted.mem, wanted.gpu, self.even)

    def _kind(self, wanted: Wanted) -> _Kind:
        kind = wanted.kind
        assert kind is not None
        found = self._kinds.get(kind)
        if found is None:
            pools = self._of(kind)
            machines = [_free(pool, self._usable(pool.machine)) for pool in pools]
            finder = self._finder(kind, machines)
            found = self._kinds[kind] = _Kind(pools, finder, self._usable)
        return found

    def _finder(self, kind: GpuKind, machines: Sequence[Free]) -> Packing | Ranking:
        if self._rule.selection == "dispersed":
            return Ranking(machines, fragments.loosest_fit, most_cores=True)
        wishes = [] if self._rule.gpu_placement == "tightest" else self._wishes(kind)
        # Fragments are counted for each size on each machine: that is not for thousands of both.
        if not machines or not wishes or len(set(wishes)) * len(machines) > MOST_LOOKS:
            return Ranking(machines, fragments.tightest_fit)
        largest = Free(
            max(machine.cpu for machine in machines), 0,
            *max(((m.gpus, m.whole) for m in machines), key=lambda one: len(one[0]) * one[1]),
        )  # fmt: skip
        shares = fragments.popular_shares(wishes, max(machine.whole for machine in machines))
        cost = fragments.priced_gradient(fragments.usual_sizes(wishes), shares, largest)
        return Packing(machines, cost)


def _free(pool: Pool, usable: tuple[int, int]) -> Free:
    return Free(usable[0], usable[1], pool.all_usable, pool.whole, pool.quantum)


class _Kind:
    """The pools of one kind as machines of a finder, which is brought up to date when asked."""

    def __init__(
        self,
        pools: Sequence[Pool],
        finder: Packing | Ranking,
        usable: Callable[[str], tuple[int, int]],
    ) -> None:
        self._pools = pools
        self._usable = usable
        self._numbers: dict[str, list[int]] = {}
        for number, pool in enumerate(pools):
            self._numbers.setdefault(pool.machine, []).append(number)
        self._finder = finder
        self._stale: set[str] = set()

    def touch(self, machine: str) -> None:
        if machine in self._numbers:
            self._stale.add(machine)

    def find(self, wish: Wish, avoid: Collection[str]) -> tuple[Pool, Place] | None:
        self._refresh()
        but = {number for name in avoid for number in self._numbers.get(name, ())}
        return self._found(self._finder.find(wish, but))

    def find_on(self, machine: str, wish: Wish) -> tuple[Pool, Place] | None:
        self._refresh()
        for number in self._numbers.get(machine, ()):
            if (place := self._finder.find_on(number, wish)) is not None:
                return self._found(place)
        return None

    def _found(self, place: Place | None) -> tuple[Pool, Place] | None:
        return None if place is None else (self._pools[place.machine], place)

    def _refresh(self) -> None:
        for name in self._stale:
            for number in self._numbers[name]:
                free = _free(self._pools[number], self._usable(name))
                if free != self._finder.machines[number]:
                    self._finder.update(number, free)
        self._stale.clear()
