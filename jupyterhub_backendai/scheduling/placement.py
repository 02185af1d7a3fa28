"""Which agent a session goes on, and what is kept free there for those that waited too long.

Preferred, in this order: an agent that has not failed the session lately; for a session without
GPUs one without GPUs; least left over ("concentrated") or most ("dispersed"), GPUs counting before
cores and cores before memory; the name. What is left over after a session orders the agents as
what is free before it does, so one order serves sessions of every size. A session with GPUs goes
where `gpu_room` finds the best ones.

In one pass room only shrinks: what is free falls, what is kept rises. A size that did not fit once
will not fit later in the pass, and is not tried again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ..model.gpus import GpuKind
from ..model.slots import Slots
from .gpu_room import GpuRoom, Pool, Wanted
from .packing import Place, Wish
from .snapshot import Agent, Devices, GroupRule

Amounts = tuple[int, int, int]
"""GPUs of any kind, cores, memory in the units of `Slots`: the order in which they are compared."""
Key = tuple[int, int, int, str]

ZERO: Amounts = (0, 0, 0)
_ANY = -(2**62)  # below any free amount, so that a slot that is not asked never decides
_BLOCK = 32  # machines that are skipped together; half to twice the root of a large group


def amounts(slots: Slots) -> Amounts:
    """`slots` in the order of comparison."""
    return (slots.fgpu + slots.gpu + slots.mig, slots.cpu, slots.mem)


def within(wanted: Amounts, limit: Amounts) -> bool:
    """Whether no amount of `wanted` is above that of `limit`."""
    return wanted[0] <= limit[0] and wanted[1] <= limit[1] and wanted[2] <= limit[2]


def larger(one: Amounts, other: Amounts) -> Amounts:
    """The larger of the two, slot by slot."""
    return (max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2]))


def _smaller(one: Amounts, other: Amounts) -> Amounts:
    return (min(one[0], other[0]), min(one[1], other[1]), min(one[2], other[2]))


def _beside(wanted: Amounts, kept: Amounts) -> Amounts:
    """What must be free for `wanted` to leave `kept` free; nothing of a slot it does not ask."""
    return (
        wanted[0] + kept[0] if wanted[0] else _ANY,
        wanted[1] + kept[1] if wanted[1] else _ANY,
        wanted[2] + kept[2] if wanted[2] else _ANY,
    )


class Machine:
    """An agent during a pass. `usable` is what is free, less what is kept on this machine beyond
    what is kept on its whole shelf. Of single GPUs its `pools` know."""

    __slots__ = (
        "_beyond", "_sign", "capacity", "free", "kept", "key", "name", "pools", "shelf", "usable",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        capacity: Amounts,
        free: Amounts,
        sign: Literal[1, -1],
        pools: Sequence[Pool] = (),
    ) -> None:
        self.name = name
        self.capacity = capacity
        self.pools = pools
        self.kept = ZERO
        self.shelf: Shelf
        self._beyond = ZERO
        self._sign = sign
        self.set_free(free)

    def set_free(self, free: Amounts) -> None:
        """Note what is free; the order of preference follows from it."""
        sign, beyond = self._sign, self._beyond
        self.free = free
        self.usable: Amounts = (free[0] - beyond[0], free[1] - beyond[1], free[2] - beyond[2])
        self.key: Key = (sign * free[0], sign * free[1], sign * free[2], self.name)

    def keep(self, wanted: Amounts) -> None:
        """Leave at least `wanted` free here from now on, or all that is free if it is less."""
        self.kept = larger(self.kept, wanted)
        self.follow_shelf()

    def follow_shelf(self) -> None:
        """Count what is kept here and on the shelf once: the larger of the two holds."""
        kept, shelf = self.kept, self.shelf.kept
        self._beyond = larger(ZERO, (kept[0] - shelf[0], kept[1] - shelf[1], kept[2] - shelf[2]))
        self.set_free(self.free)

    @property
    def gear(self) -> tuple[object, ...]:
        """What GPUs it has: alike for machines that could hold the same sessions."""
        return tuple((p.slot, p.profile, p.whole, p.quantum, len(p.free)) for p in self.pools)

    def could_have(self, wanted: Wanted, even: bool) -> bool:
        """Whether its GPUs would do for such a session if nothing else were on them."""
        kind = wanted.kind
        return kind is None or any(
            pool.admits(kind) and pool.could(wanted.gpu, even) for pool in self.pools
        )

    def takes(self, need: Amounts) -> bool:
        """Whether `need`, which counts in what is kept on the shelf, is usable here."""
        usable = self.usable
        return need[0] <= usable[0] and need[1] <= usable[1] and need[2] <= usable[2]


class _Block:
    """Some machines that follow each other in the order of preference, and the most of each slot
    that any of them has usable."""

    __slots__ = ("machines", "most")

    def __init__(self, machines: list[Machine]) -> None:
        self.machines = machines
        self.measure()

    def measure(self) -> None:
        """Find the most of each slot again."""
        fgpu, cpu, mem = zip(*[machine.usable for machine in self.machines], strict=True)
        self.most: Amounts = (max(fgpu), max(cpu), max(mem))


def _first_key(block: _Block) -> Key:
    return block.machines[0].key


def _key(machine: Machine) -> Key:
    return machine.key


class Spot(NamedTuple):
    """Where a session goes: on this machine, and on the best GPUs of this pool."""

    machine: Machine
    pool: Pool | None = None
    place: Place | None = None


class Shelf:
    """Machines of about the same capacity (within a factor of two in each slot) with the same GPUs,
    sorted by preference. `kept` is kept on each of them."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        ordered = sorted(machines, key=_key)
        self.smallest = self.largest = ordered[0].capacity
        for machine in ordered:
            machine.shelf = self
            self.smallest = _smaller(self.smallest, machine.capacity)
            self.largest = larger(self.largest, machine.capacity)
        self.sample = ordered[0]
        self.kept = ZERO
        self._special: set[Machine] = set()  # something of their own is kept on these
        self._blocks = [
            _Block(ordered[start : start + _BLOCK]) for start in range(0, len(ordered), _BLOCK)
        ]

    def first(self, wanted: Amounts, skip: Collection[str]) -> Machine | None:
        """The preferred machine that takes `wanted` beside what is kept."""
        need = _beside(wanted, self.kept)
        fgpu, cpu, mem = need
        for block in self._blocks:
            most = block.most
            if fgpu <= most[0] and cpu <= most[1] and mem <= most[2]:
                for machine in block.machines:
                    if machine.takes(need) and machine.name not in skip:
                        return machine
        return None

    def take(self, machine: Machine, wanted: Amounts) -> None:
        """Give `wanted` away and move the machine to its new place in the order."""
        self._remove(machine)
        free = machine.free
        machine.set_free((free[0] - wanted[0], free[1] - wanted[1], free[2] - wanted[2]))
        self._insert(machine)

    def keep(self, wanted: Amounts) -> bool:
        """Keep `wanted` free on each machine that is large enough; see `Room.keep`. Whether that
        is more than was kept before."""
        if not within(wanted, self.largest) or within(wanted, self.kept):
            return False
        if within(wanted, self.smallest):
            self.kept = larger(self.kept, wanted)
            for machine in self._special:
                machine.follow_shelf()
            if not self._special:
                return True
        else:
            for machine in (m for block in self._blocks for m in block.machines):
                if within(wanted, machine.capacity) and not within(wanted, machine.kept):
                    machine.keep(wanted)
                    self._special.add(machine)
        for block in self._blocks:
            block.measure()
        return True

    def keep_on(self, machine: Machine, wanted: Amounts) -> None:
        """Keep `wanted` free on this one machine."""
        machine.keep(wanted)
        self._special.add(machine)
        self._blocks[self._place(machine.key)].measure()

    def all(self) -> Iterator[Machine]:
        """Its machines."""
        return (machine for block in self._blocks for machine in block.machines)

    def that_hold(self, wanted: Amounts) -> Iterable[Machine]:
        """Those that are large enough."""
        for machine in self.all():
            if wanted[1] <= machine.capacity[1] and wanted[2] <= machine.capacity[2]:
                yield machine

    def _place(self, key: Key) -> int:
        return max(0, bisect_right(self._blocks, key, key=_first_key) - 1)

    def _remove(self, machine: Machine) -> None:
        place = self._place(machine.key)
        block = self._blocks[place]
        del block.machines[bisect_left(block.machines, machine.key, key=_key)]
        if block.machines:
            block.measure()
        else:
            del self._blocks[place]

    def _insert(self, machine: Machine) -> None:
        if not self._blocks:
            self._blocks.append(_Block([machine]))
            return
        place = self._place(machine.key)
        block = self._blocks[place]
        insort(block.machines, machine, key=_key)
        if len(block.machines) > 2 * _BLOCK:
            self._blocks.insert(place + 1, _Block(block.machines[_BLOCK:]))
            del block.machines[_BLOCK:]
        block.measure()


class Room:
    """The machines of one resource group that take sessions, during a pass. `wishes` tells what
    sessions of a kind ask here."""

    def __init__(
        self,
        machines: Iterable[Machine],
        rule: GroupRule,
        wishes: Callable[[GpuKind], Sequence[Wish]] = lambda kind: (),
    ) -> None:
        self.machines = {machine.name: machine for machine in machines}
        shelves: dict[tuple[object, ...], list[Machine]] = {}
        for machine in self.machines.values():
            size = tuple(amount.bit_length() for amount in machine.capacity)
            shelves.setdefault((size, machine.gear), []).append(machine)
        self._shelves = [Shelf(some) for some in shelves.values()]
        self._without = [
            [s for s in self._shelves if bool(s.largest[0]) is has] for has in (False, True)
        ]
        self._failed: set[Wanted] = set()
        self._kept: set[Wanted] = set()
        self._kept_gpus: dict[tuple[GpuKind | None, int], list[tuple[int, int]]] = {}
        pools = [pool for name in sorted(self.machines) for pool in self.machines[name].pools]
        self.gpus = GpuRoom(pools, rule, self._usable, wishes)

    def find(self, wanted: Wanted, avoid: Collection[str] = ()) -> Spot | None:
        """Where a session of this size goes, if a machine takes it."""
        if wanted in self._failed:
            return None
        found = self._search(wanted, avoid)
        if found is None and avoid:
            found = self._search(wanted, ())
        if found is None:
            self._failed.add(wanted)
        return found

    def find_on(self, machine: Machine, wanted: Wanted) -> Spot | None:
        """The same on this very machine."""
        if wanted.kind is None:
            takes = machine.takes(_beside(wanted[:3], machine.shelf.kept))
            return Spot(machine) if takes else None
        found = self.gpus.find_on(machine.name, wanted)
        return None if found is None else Spot(machine, *found)

    def take(self, spot: Spot, wanted: Wanted) -> Devices:
        """Give `wanted` away there; tells the GPUs."""
        machine = spot.machine
        machine.shelf.take(machine, wanted[:3])
        given: Devices = ()
        if spot.pool is not None and spot.place is not None:
            given = spot.pool.take(spot.place)
        self.gpus.touch(machine.name)
        return given

    def keep(self, wanted: Wanted) -> None:
        """From now on let nothing make it harder for `wanted` to fit, on any machine where it
        could run: of a slot that it lacks there nothing more is given away, of the others its
        own amount stays free."""
        if wanted in self._kept:
            return
        self._kept.add(wanted)
        there = [s for s in self._shelves if s.sample.could_have(wanted, self.gpus.even)]
        for shelf in there:
            if shelf.keep((0, wanted.cpu, wanted.mem)):
                for machine in shelf.all():
                    self.gpus.touch(machine.name)
        if wanted.kind is not None and not self._kept_already(wanted):
            self.gpus.keep(wanted, {m.name for shelf in there for m in shelf.that_hold(wanted[:3])})

    def _kept_already(self, wanted: Wanted) -> bool:
        """Whether GPUs are kept for another that takes as much, on the same machines and more."""
        kept = self._kept_gpus.setdefault((wanted.kind, wanted.gpu), [])
        if any(cpu <= wanted.cpu and mem <= wanted.mem for cpu, mem in kept):
            return True
        kept.append((wanted.cpu, wanted.mem))
        return False

    def keep_on(self, machine: Machine, wanted: Wanted) -> None:
        """The same for a session that can run on this one machine only."""
        machine.shelf.keep_on(machine, (0, wanted.cpu, wanted.mem))
        if wanted.kind is not None:
            self.gpus.keep(wanted, {machine.name})
        self.gpus.touch(machine.name)

    def _search(self, wanted: Wanted, skip: Collection[str]) -> Spot | None:
        if wanted.kind is not None:
            found = self.gpus.find(wanted, skip)
            return None if found is None else Spot(self.machines[found[0].machine], *found)
        for shelves in self._without:
            some = [m for s in shelves if (m := s.first(wanted[:3], skip)) is not None]
            if some:
                return Spot(min(some, key=_key))
        return None

    def _usable(self, name: str) -> tuple[int, int]:
        """Cores and memory that may be taken of a machine now."""
        machine = self.machines[name]
        usable, kept = machine.usable, machine.shelf.kept
        return max(0, usable[1] - kept[1]), max(0, usable[2] - kept[2])


class Skyline:
    """Answers quickly whether any one of many amounts holds a wanted one."""

    def __init__(self, have: Iterable[Amounts]) -> None:
        self._tops: list[Amounts] = []
        for one in sorted(set(have), reverse=True):
            if not self._held(one):
                self._tops.append(one)
        self._known: dict[Amounts, bool] = {}

    def holds(self, wanted: Amounts) -> bool:
        """Whether one of them is at least `wanted` in every slot."""
        answer = self._known.get(wanted)
        if answer is None:
            answer = self._known[wanted] = self._held(wanted)
        return answer

    def _held(self, wanted: Amounts) -> bool:
        return any(within(wanted, top) for top in self._tops)

    @property
    def largest(self) -> Amounts:
        """The most of each slot that any of them has, not necessarily together."""
        most = ZERO
        for top in self._tops:
            most = larger(most, top)
        return most


def machines_in_order(
    agents: Sequence[Agent],
    taken: Mapping[str, Amounts],
    pools: Mapping[str, Sequence[Pool]],
    selection: Literal["concentrated", "dispersed"],
) -> list[Machine]:
    """Machines with what the holdings leave free on each; `taken` and `pools` are by agent name."""
    sign: Literal[1, -1] = 1 if selection == "concentrated" else -1
    machines = []
    for agent in agents:
        have, used = amounts(agent.capacity), taken.get(agent.name, ZERO)
        free = (have[0] - used[0], have[1] - used[1], have[2] - used[2])
        machines.append(Machine(agent.name, have, free, sign, pools[agent.name]))
    return machines
