"""What a place on shared GPUs costs: by order, by what is left, by what nobody could use any more.

Fragmentation gradient descent is that of Weng et al., "Beware of Fragmentation: Scheduling
GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023: of what is free, that
part counts as a fragment which sessions of the usual sizes could not use, and a session goes where
it makes the fewest. It looks at each GPU for one more session at a time. What fits together on one
GPU is added here as a price: see `prices`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from .packing import WHOLE, Cost, Free, Wish

USUAL = 0.95  # of all sessions with GPUs: sizes that are rarer are not counted on
POPULAR = 0.015  # of all sessions with GPUs: shares that are rarer do not set a price
BINS = 100  # the published scheduler's scores are whole numbers up to this
SCALE = 1000.0  # thousandths of a GPU, in which it measures them
PRICE, ROOM = 10.0, 30.0  # what the price of a gap, and room left beside, weigh against a fragment


@dataclass(frozen=True, slots=True)
class Usual:
    """A size that sessions usually have, and the share of sessions that have it."""

    wish: Wish
    share: float


def usual_sizes(wishes: Iterable[Wish]) -> list[Usual]:
    """The most frequent sizes of sessions with GPUs, which make up `USUAL` of them all."""
    counts = Counter(wish for wish in wishes if wish.amount)
    wanted, chosen = USUAL * counts.total(), []
    # Of equally frequent ones always the same, in whatever order they came.
    for wish, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        chosen.append((wish, count))
        wanted -= count
        if wanted <= 0:
            break
    total = sum(count for _, count in chosen)
    return [Usual(wish, count / total) for wish, count in chosen]


def popular_shares(wishes: Iterable[Wish], whole: int = WHOLE) -> list[int]:
    """Shares of a GPU that has `whole` which at least `POPULAR` of all sessions with GPUs ask."""
    counts = Counter(wish.amount for wish in wishes if wish.amount)
    enough = POPULAR * counts.total()
    return sorted(share for share, count in counts.items() if share < whole and count >= enough)


class Fragments:
    """How much of what is free sessions of the usual sizes could not use."""

    def __init__(self, usual: Sequence[Usual]) -> None:
        self._usual = usual
        self._known: dict[Free, float] = {}
        self._by_whole: dict[int, list[tuple[Wish, float, int, int]]] = {}

    def of(self, free: Free) -> float:
        """The mean over the usual sizes: all that is free of the GPUs where one does not fit, else
        what is free of those GPUs that are too small for it."""
        found = self._known.get(free)
        if found is None:
            found = self._known[free] = self._measure(free)
        return found

    def _measure(self, free: Free) -> float:
        below = [0]  # what is free of the first GPUs together
        for has in free.gpus:
            below.append(below[-1] + has)
        mean = 0.0
        for wish, share, each, count in self._sizes(free.whole):
            first = bisect_left(free.gpus, each)
            fits = wish.cpu <= free.cpu and wish.mem <= free.mem
            fits = fits and len(free.gpus) - first >= count
            mean += share * (below[first] if fits else below[-1])
        return mean

    def _sizes(self, whole: int) -> list[tuple[Wish, float, int, int]]:
        found = self._by_whole.get(whole)
        if found is None:
            found = self._by_whole[whole] = [
                (one.wish, one.share, one.wish.each(whole), one.wish.devices(whole))
                for one in self._usual
            ]
        return found


@lru_cache(64)
def prices(shares: tuple[int, ...], whole: int = WHOLE) -> tuple[float, ...]:
    """What room on a GPU is worth, by how much of its `whole` is free: the most that popular
    shares could make of it.

    A share of up to a half is worth the GPU's part that it takes when it fills the GPU with its
    like: 470 fit twice, so each is worth 500. A larger one is worth what is left when the best is
    made of the rest: 650 leave 350, where 320 fit, which are worth 333. The dual of the packing's
    linear programme has nearly these prices for the published trace; they are a rule, and not its
    solution, so that no room is worth more than a GPU is made sure of at the end.
    """
    grain = gcd(whole, *shares)  # between two multiples of it nothing changes
    full, sizes = whole // grain, [share // grain for share in shares]
    price = {share: full / (full // share) for share in sizes if share <= full // 2}
    beside = _worth(price, full)
    price |= {share: full - beside[full - share] for share in sizes if share > full // 2}
    worth = _worth(price, full)
    worth[full] = float(full)  # whole GPUs are asked too
    return tuple(worth[room // grain] * grain for room in range(whole + 1))


def _worth(price: dict[int, float], whole: int) -> list[float]:
    worth = [0.0] * (whole + 1)
    for room in range(1, whole + 1):
        best = worth[room - 1]
        for share, value in price.items():
            if share <= room:
                best = max(best, worth[room - share] + value)
        worth[room] = min(best, float(whole))
    return worth


# ---- costs ------------------------------------------------------------------------------------


def first_fit(_before: Free, _after: Free) -> float:
    """Wherever it fits first."""
    return 0.0


def tightest_fit(before: Free, after: Free) -> float:
    """Where least is left of the GPU whose share it takes, then of all GPUs of the machine, then
    of its cores."""
    return _in_order(_least_left(before, after), sum(after.gpus), after.cpu)


def loosest_fit(before: Free, after: Free) -> float:
    """Where most is left of all GPUs of the machine, then of the GPU whose share it takes, then of
    its cores: what spreads sessions over machines."""
    return -_in_order(sum(after.gpus), _least_left(before, after), after.cpu)


def _in_order(first: int, second: int, third: int) -> int:
    """One exact number that is compared as the three are one after the other."""
    return (first * 10**9 + second) * 10**9 + third


def _least_left(before: Free, after: Free) -> int:
    changed = Counter(after.gpus) - Counter(before.gpus)
    return min(changed, default=0)


def best_fit(largest: Free) -> Cost:
    """Where least is left of everything, each measured by the largest machine there is."""
    whole = sum(largest.gpus) or 1

    def cost(_before: Free, after: Free) -> float:
        return sum(after.gpus) / whole + after.cpu / largest.cpu + after.mem / largest.mem

    return cost


def gradient(usual: Sequence[Usual]) -> Cost:
    """Where fewest fragments arise: the published method, with its whole-numbered scores."""
    fragments = Fragments(usual)

    def cost(before: Free, after: Free) -> float:
        more = (fragments.of(after) - fragments.of(before)) * WHOLE / before.whole
        return -math.floor(BINS / (1 + math.exp(more / SCALE)))

    return cost


def priced_gradient(usual: Sequence[Usual], shares: Iterable[int], largest: Free) -> Cost:
    """Fragments, the price of gaps that no mix of popular shares fills, and room left beside."""
    fragments, popular = Fragments(usual), tuple(shares)
    most = sum(largest.gpus) / largest.whole or 1
    gaps: dict[int, list[float]] = {}
    known: dict[tuple[tuple[int, ...], int], float] = {}

    def lost(gpus: tuple[int, ...], whole: int) -> float:
        found = known.get((gpus, whole))
        if found is None:
            if whole not in gaps:
                worth = prices(tuple(share for share in popular if share < whole), whole)
                gaps[whole] = [room - value for room, value in enumerate(worth)]
            found = known[(gpus, whole)] = sum(gaps[whole][has] for has in gpus)
        return found

    def cost(before: Free, after: Free) -> float:
        whole = before.whole
        more = fragments.of(after) - fragments.of(before)
        more += PRICE * (lost(after.gpus, whole) - lost(before.gpus, whole))
        room = sum(after.gpus) / (most * whole) + 2 * after.cpu / (largest.cpu or 1)
        # Rounded: alike is alike, whatever was added first.
        return round(more * WHOLE / whole + ROOM * room, 6)

    return cost
