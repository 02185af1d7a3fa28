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

from .packing import WHOLE, Cost, Free, Wish

USUAL = 0.95  # of all sessions with GPUs: sizes that are rarer are not counted on
POPULAR = 0.015  # of all sessions with GPUs: shares that are rarer do not set a price
BINS = 100  # the published scheduler's scores are whole numbers up to this
SCALE = 1000.0  # thousandths of a GPU in which it measures them
PRICE, ROOM = 10.0, 30.0  # what the price of a gap, and room left beside, weigh against a fragment


@dataclass(frozen=True, slots=True)
class Usual:
    """A size that sessions usually have, and the share of sessions that have it."""

    wish: Wish
    share: float


def usual_sizes(wishes: Iterable[Wish]) -> list[Usual]:
    """The most frequent sizes of sessions with GPUs, which make up `USUAL` of them all."""
    counts = Counter(wish for wish in wishes if wish.devices)
    wanted, chosen = USUAL * counts.total(), []
    for wish, count in counts.most_common():
        chosen.append((wish, count))
        wanted -= count
        if wanted <= 0:
            break
    total = sum(count for _, count in chosen)
    return [Usual(wish, count / total) for wish, count in chosen]


def popular_shares(wishes: Iterable[Wish]) -> list[int]:
    """Shares of a GPU, in thousandths, that at least `POPULAR` of all sessions with GPUs ask."""
    counts = Counter(wish.share for wish in wishes if wish.devices)
    enough = POPULAR * counts.total()
    return sorted(share for share, count in counts.items() if share and count >= enough)


class Fragments:
    """How many thousandths of what is free sessions of the usual sizes could not use."""

    def __init__(self, usual: Sequence[Usual]) -> None:
        self._usual = usual
        self._known: dict[Free, float] = {}

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
        for (cpu, mem, _, _), share, each, count in self._sizes:
            first = bisect_left(free.gpus, each)
            fits = cpu <= free.cpu and mem <= free.mem and len(free.gpus) - first >= count
            mean += share * (below[first] if fits else below[-1])
        return mean

    @property
    def _sizes(self) -> Iterable[tuple[Wish, float, int, int]]:
        return ((one.wish, one.share, one.wish.each, one.wish.devices) for one in self._usual)


def prices(shares: Iterable[int]) -> list[float]:
    """What room on a GPU is worth, by thousandths that are free of it, in thousandths: the most
    that popular shares could make of it.

    A share of up to a half is worth the GPU's part that it takes when it fills the GPU with its
    like: 470 fit twice, so each is worth 500. A larger one is worth what is left when the best is
    made of the rest: 650 leave 350, where 320 fit, which are worth 333. The dual of the packing's
    linear programme has nearly these prices for the published trace; they are a rule, and not its
    solution, so that no room is worth more than a GPU is made sure of at the end.
    """
    small = sorted({share for share in shares if share <= WHOLE // 2})
    price = {share: WHOLE / (WHOLE // share) for share in small}
    beside = _worth(price)
    price |= {share: WHOLE - beside[WHOLE - share] for share in shares if share > WHOLE // 2}
    worth = _worth(price)
    worth[WHOLE] = float(WHOLE)  # whole GPUs are asked too
    return worth


def _worth(price: dict[int, float]) -> list[float]:
    worth = [0.0] * (WHOLE + 1)
    for room in range(1, WHOLE + 1):
        best = worth[room - 1]
        for share, value in price.items():
            if share <= room:
                best = max(best, worth[room - share] + value)
        worth[room] = min(best, float(WHOLE))
    return worth


# ---- costs ------------------------------------------------------------------------------------


def first_fit(_before: Free, _after: Free) -> float:
    """Wherever it fits first."""
    return 0.0


def tightest_fit(before: Free, after: Free) -> float:
    """Where least is left of the GPU whose share it takes, then of all GPUs of the machine, then
    of its cores."""
    changed = Counter(after.gpus) - Counter(before.gpus)
    return min(changed, default=0) * 1e6 + sum(after.gpus) + after.cpu / 1e9


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
        more = fragments.of(after) - fragments.of(before)
        return -math.floor(BINS / (1 + math.exp(more / SCALE)))

    return cost


def priced_gradient(usual: Sequence[Usual], shares: Sequence[int], largest: Free) -> Cost:
    """Fragments, the price of gaps that no mix of popular shares fills, and room left beside."""
    fragments, worth = Fragments(usual), prices(shares)
    gap = [room - value for room, value in enumerate(worth)]
    whole = sum(largest.gpus) or 1
    known: dict[tuple[int, ...], float] = {}

    def lost(gpus: tuple[int, ...]) -> float:
        found = known.get(gpus)
        if found is None:
            found = known[gpus] = sum(gap[has] for has in gpus)
        return found

    def cost(before: Free, after: Free) -> float:
        more = fragments.of(after) - fragments.of(before)
        gaps = lost(after.gpus) - lost(before.gpus)
        room = sum(after.gpus) / whole + 2 * after.cpu / largest.cpu
        return round(
            more + PRICE * gaps + ROOM * room, 6
        )  # alike is alike, whatever was added first

    return cost
