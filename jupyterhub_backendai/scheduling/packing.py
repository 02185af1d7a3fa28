"""Which machine and which of its GPUs a session goes on, where GPUs are shared.

A machine is what is free on it: cores, memory, and of each GPU so many thousandths. A wish takes
cores, memory, and whole GPUs or a share of one. What a place costs is said by one of the functions
of `fragments`; the least cost is taken, and of equal ones the first machine in the order given, so
that the same line on the same machines is always placed alike.

A wish of a size that was seen before looks only at machines that have changed since, so that with
thousands of machines a decision takes a fraction of a millisecond.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WHOLE = 1000  # thousandths of a GPU


class Free(NamedTuple):
    """What is free on a machine: cores in thousandths, memory in any one unit, and of each GPU so
    many thousandths, ascending."""

    cpu: int
    mem: int
    gpus: tuple[int, ...]


class Wish(NamedTuple):
    """What a session takes: cores and memory as in `Free`, `gpus` whole GPUs, or `share`
    thousandths of one (below 1,000; only where `gpus` is 0)."""

    cpu: int
    mem: int
    gpus: int = 0
    share: int = 0

    @property
    def each(self) -> int:
        """What it takes of a GPU, in thousandths."""
        return WHOLE if self.gpus else self.share

    @property
    def devices(self) -> int:
        """Of how many GPUs it takes something."""
        return self.gpus or (1 if self.share else 0)


Cost = Callable[[Free, Free], float]
"""What it costs to go from the first to the second, by giving the difference away. Lower is
better; it depends on nothing else."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a wish goes: the machine's number, what is free there afterwards, and of the GPUs that
    it is on what was free before."""

    machine: int
    after: Free
    taken_from: tuple[int, ...]


def ways(free: Free, wish: Wish) -> Iterator[tuple[Free, tuple[int, ...]]]:
    """What may be free after the wish is granted here, each once, with what was free of the GPUs
    that it takes. GPUs of which as much is free are alike."""
    cpu, mem, gpus = free.cpu - wish.cpu, free.mem - wish.mem, free.gpus
    if cpu < 0 or mem < 0:
        return
    if not wish.devices:
        yield Free(cpu, mem, gpus), ()
    elif wish.gpus:
        rest = len(gpus) - wish.gpus
        if rest >= 0 and gpus[rest] == WHOLE:
            yield Free(cpu, mem, (0,) * wish.gpus + gpus[:rest]), gpus[rest:]
    else:
        before = -1
        for number, has in enumerate(gpus):
            if has >= wish.share and has != before:
                before = has
                left = sorted((*gpus[:number], has - wish.share, *gpus[number + 1 :]))
                yield Free(cpu, mem, tuple(left)), (has,)


class Packing:
    """Machines, and the best place on them for whatever comes."""

    def __init__(self, machines: Sequence[Free], cost: Cost) -> None:
        self.machines = list(machines)
        self._cost = cost
        self._versions = [0] * len(self.machines)
        self._changed: list[int] = []  # machines, in the order of their changes
        self._seen: dict[Wish, int] = {}  # of those how many a wish's places take account of
        self._places: dict[Wish, list[tuple[float, int, int, Place]]] = {}

    def find(self, wish: Wish) -> Place | None:
        """The place that costs least; None where there is none."""
        places = self._places.setdefault(wish, [])
        for machine in self._news(wish):
            best = self._best(machine, wish)
            if best is not None:
                heapq.heappush(places, best)
        while places and places[0][2] != self._versions[places[0][1]]:
            heapq.heappop(places)
        return places[0][3] if places else None

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
        free, best = self.machines[machine], None
        for after, taken_from in ways(free, wish):
            cost = self._cost(free, after)
            if best is None or cost < best[0]:
                best = cost, Place(machine, after, taken_from)
        if best is None:
            return None
        return best[0], machine, self._versions[machine], best[1]
