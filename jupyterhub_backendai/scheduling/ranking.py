"""The same as `packing`, for costs in which cores only decide between equal GPUs.

Where a session's cores and memory have no part in what a place costs, all sessions that ask the
same amount of GPUs have one order of machines in common; each goes to the first that has its cores
and memory, too. So a line of many thousand different sizes is as quick as one of few.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence

from .packing import Cost, Free, Place, Taken, Wish

Key = tuple[float, int, int]
"""What a machine's best GPUs cost, its cores, its number."""
Entry = tuple[Key, int, int]
"""A machine in the order: its key, and what is free there of cores and memory."""

_BLOCK = 32  # machines that are skipped together


class Ranking:
    """Machines, and the best place on them for whatever comes. `cost` is asked about GPUs alone;
    `most_cores`: of equal ones that with most cores comes first, and not that with fewest."""

    def __init__(self, machines: Sequence[Free], cost: Cost, *, most_cores: bool = False) -> None:
        self.machines = list(machines)
        self._cost = cost
        self._sign = -1 if most_cores else 1
        self._orders: dict[tuple[int, bool], _Order] = {}
        self._best: dict[tuple[Free, int, bool], tuple[float, Taken] | None] = {}

    def find(self, wish: Wish, but: Collection[int] = ()) -> Place | None:
        """The place that costs least, on none of the machines in `but`; None where there is
        none."""
        order = self._orders.get((wish.amount, wish.even))
        if order is None:
            order = self._orders[(wish.amount, wish.even)] = _Order(self._entries(wish))
        else:
            for machine in order.stale:
                order.put(machine, self._entry(machine, wish))
            order.stale.clear()
        for entry in order.with_room(wish.cpu, wish.mem):
            if (machine := entry[0][2]) not in but:
                return self.find_on(machine, wish)
        return None

    def find_on(self, machine: int, wish: Wish) -> Place | None:
        """The same on this one machine."""
        free = self.machines[machine]
        best = self._gpus(free, wish)
        if best is None or wish.cpu > free.cpu or wish.mem > free.mem:
            return None
        after = free.after(wish, best[1])
        return Place(machine, after, best[1])

    def take(self, place: Place) -> None:
        """Give away what `find` has found."""
        self.update(place.machine, place.after)

    def update(self, machine: int, free: Free) -> None:
        """From now on this is free there."""
        self.machines[machine] = free
        for order in self._orders.values():
            order.stale.add(machine)

    def _entries(self, wish: Wish) -> Iterator[Entry]:
        for machine in range(len(self.machines)):
            if (entry := self._entry(machine, wish)) is not None:
                yield entry

    def _entry(self, machine: int, wish: Wish) -> Entry | None:
        free = self.machines[machine]
        best = self._gpus(free, wish)
        if best is None:
            return None
        return (best[0], self._sign * free.cpu, machine), free.cpu, free.mem

    def _gpus(self, free: Free, wish: Wish) -> tuple[float, Taken] | None:
        alone = free._replace(cpu=0, mem=0)
        key = (alone, wish.amount, wish.even)
        if key not in self._best:
            of_gpus = wish._replace(cpu=0, mem=0)
            found = [(self._cost(alone, after), taken) for after, taken in alone.ways(of_gpus)]
            self._best[key] = min(found, key=lambda one: one[0], default=None)
        return self._best[key]


class _Order:
    """Machines that could take some amount of GPUs, the best first, in blocks. `stale` are those
    that have changed since they were put in."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        ordered = sorted(entries)
        self.stale: set[int] = set()
        self._entries = {entry[0][2]: entry for entry in ordered}
        self._blocks = [
            _Block(ordered[start : start + _BLOCK]) for start in range(0, len(ordered), _BLOCK)
        ]

    def with_room(self, cpu: int, mem: int) -> Iterator[Entry]:
        """Those that have so many cores and so much memory."""
        for block in self._blocks:
            if block.cpu >= cpu and block.mem >= mem:
                for entry in block.entries:
                    if entry[1] >= cpu and entry[2] >= mem:
                        yield entry

    def put(self, machine: int, entry: Entry | None) -> None:
        """Moves a machine to its new place; None: it could take none any more."""
        old = self._entries.pop(machine, None)
        if old == entry and old is not None:
            self._entries[machine] = old
            return
        if old is not None:
            place = self._place(old)
            block = self._blocks[place]
            del block.entries[bisect_left(block.entries, old)]
            if block.entries:
                block.measure()
            else:
                del self._blocks[place]
        if entry is not None:
            self._entries[machine] = entry
            self._insert(entry)

    def _insert(self, entry: Entry) -> None:
        if not self._blocks:
            self._blocks.append(_Block([entry]))
            return
        place = self._place(entry)
        block = self._blocks[place]
        block.entries.insert(bisect_left(block.entries, entry), entry)
        if len(block.entries) > 2 * _BLOCK:
            self._blocks.insert(place + 1, _Block(block.entries[_BLOCK:]))
            del block.entries[_BLOCK:]
        block.measure()

    def _place(self, entry: Entry) -> int:
        return max(0, bisect_right(self._blocks, entry, key=lambda block: block.entries[0]) - 1)


class _Block:
    """Some machines that follow each other, and the most cores and memory of any of them."""

    __slots__ = ("cpu", "entries", "mem")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.measure()

    def measure(self) -> None:
        """Find the most again."""
        self.cpu = max(entry[1] for entry in self.entries)
        self.mem = max(entry[2] for entry in self.entries)
