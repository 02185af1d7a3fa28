"""On which machine and on which of its GPUs a session with GPUs goes.

A machine is what is free on it: cores, memory, and so much of each GPU. A wish takes cores, memory,
and an amount of GPUs: up to one GPU's worth sits on one GPU; more is whole GPUs and at most one
share of another, or equal shares of several. What a place costs is said by one of the functions of
`fragments`; the least cost is taken, and of equal ones the first machine in the order given, so
that the same line on the same machines is always placed alike.

A wish of a size that was seen before looks only at machines that have changed since, so that with
thousands of machines a decision takes a fraction of a millisecond.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from ..model.gpus import even_parts

WHOLE = 1000  # what a GPU has where nobody says otherwise


class Free(NamedTuple):
    """What is free on a machine: cores in thousandths, memory in any one unit, and of each GPU so
    much, ascending. Each of the GPUs has `whole`, and is given out in steps of `quantum`."""

    cpu: int
    mem: int
    gpus: tuple[int, ...]
    whole: int = WHOLE
    quantum: int = 1

    def after(self, wish: Wish, taken: Taken) -> Free:
        """What is left when the wish is granted so."""
        left = list(self.gpus)
        for has, _ in taken:
            left.remove(has)
        left += [has - part for has, part in taken]
        left.sort()
        cpu, mem = self.cpu - wish.cpu, self.mem - wish.mem
        return Free(cpu, mem, tuple(left), self.whole, self.quantum)

    def ways(self, wish: Wish) -> Iterator[tuple[Free, Taken]]:
        """What may be free after the wish is granted here, each once, with what it takes. GPUs of
        which as much is free are alike."""
        if wish.cpu <= self.cpu and wish.mem <= self.mem:
            for taken in _choices(self, wish):
                yield self.after(wish, taken), taken


class Wish(NamedTuple):
    """What a session takes: cores, memory and GPUs as in `Free`. `even`: of more than one GPU equal
    shares, instead of whole ones and at most one share."""

    cpu: int
    mem: int
    amount: int = 0
    even: bool = False

    def each(self, whole: int) -> int:
        """What it takes of the first of its GPUs, which have `whole` each."""
        return min(self.amount, whole)

    def devices(self, whole: int) -> int:
        """Of how many of them it takes something, at least."""
        return -(-self.amount // whole)


Cost = Callable[[Free, Free], float]
"""What it costs to go from the first to the second, by giving the difference away. Lower is
better; it depends on nothing else."""
Taken = tuple[tuple[int, int], ...]
"""Of GPUs: how much was free of each, and how much of that is taken."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a wish goes: the machine's number, what is free there afterwards, and what it takes of
    which GPUs."""

    machine: int
    after: Free
    taken: Taken


def _choices(free: Free, wish: Wish) -> Iterator[Taken]:
    gpus, whole, amount = free.gpus, free.whole, wish.amount
    if not amount:
        yield ()
    elif amount % free.quantum:
        return  # it is given as it is asked, or not here
    elif amount <= whole:
        yield from _shares(gpus, amount)
    elif wish.even:
        for count, part in even_parts(amount, whole, free.quantum, len(gpus)):
            found = list(_windows(gpus, count, part))
            if found:  # on as few GPUs as can be
                yield from found
                return
    else:
        count, share = divmod(amount, whole)
        if len(gpus) >= count and gpus[-count] == whole:
            wholes = ((whole, whole),) * count
            if not share:
                yield wholes
            for one in _shares(gpus[:-count], share) if share else ():
                yield wholes + one


def _shares(gpus: Sequence[int], amount: int) -> Iterator[Taken]:
    before = -1
    for has in gpus[bisect_left(gpus, amount) :]:
        if has != before:
            before = has
            yield ((has, amount),)


def _windows(gpus: Sequence[int], count: int, part: int) -> Iterator[Taken]:
    """`count` GPUs that follow each other, with `part` free on each."""
    before: tuple[int, ...] = ()
    for start in range(bisect_left(gpus, part), len(gpus) - count + 1):
        some = tuple(gpus[start : start + count])
        if some != before:
            before = some
            yield tuple((has, part) for has in some)


class Packing:
    """Machines, and the best place on them for whatever comes."""

    def __init__(self, machines: Sequence[Free], cost: Cost) -> None:
        self.machines = list(machines)
        self._cost = cost
        self._versions = [0] * len(self.machines)
        self._changed: list[int] = []  # machines, in the order of their changes
        self._seen: dict[Wish, int] = {}  # of those how many a wish's places take account of
        self._places: dict[Wish, list[tuple[float, int, int, Place]]] = {}
        self._best_of: dict[tuple[Free, Wish], tuple[float, Free, Taken] | None] = {}

    def find(self, wish: Wish, but: Collection[int] = ()) -> Place | None:
        """The place that costs least, on none of the machines in `but`; None where there is
        none."""
        if but:
            others = (n for n in range(len(self.machines)) if n not in but)
            best = min((one for n in others if (one := self._best(n, wish))), default=None)
            return best[3] if best else None
        places = self._places.setdefault(wish, [])
        for machine in self._news(wish):
            found = self._best(machine, wish)
            if found is not None:
                heapq.heappush(places, found)
        while places and places[0][2] != self._versions[places[0][1]]:
            heapq.heappop(places)
        return places[0][3] if places else None

    def find_on(self, machine: int, wish: Wish) -> Place | None:
        """The same on this one machine."""
        found = self._best(machine, wish)
        return found[3] if found else None

    def take(self, place: Place) -> None:
        """Give away what `find` has found."""
        self.update(place.machine, place.after)

    def update(self, machine: int, free: Free) -> None:
        """From now on this is free there: a session has ended, or an agent says something else."""
        self.machines[machine] = free
        self._versions[machine] += 1
        self._changed.append(machine)

    def _news(self, wish: Wish) -> Iterable[int]:
        """Machines that have changed since the wish was last looked for; all, the first time."""
        seen = self._seen.get(wish)
        self._seen[wish] = len(self._changed)
        return range(len(self.machines)) if seen is None else set(self._changed[seen:])

    def _best(self, machine: int, wish: Wish) -> tuple[float, int, int, Place] | None:
        free = self.machines[machine]
        if wish.cpu > free.cpu or wish.mem > free.mem:
            return None
        key = (free, wish)
        if key in self._best_of:
            best = self._best_of[key]
        else:
            best = self._best_of[key] = self._cheapest(free, wish)
        if best is None:
            return None
        cost, after, taken = best
        return cost, machine, self._versions[machine], Place(machine, after, taken)

    def _cheapest(self, free: Free, wish: Wish) -> tuple[float, Free, Taken] | None:
        found = ((self._cost(free, after), after, taken) for after, taken in free.ways(wish))
        return min(found, key=itemgetter(0), default=None)
