"""Where a session goes on shared GPUs: what is given is there, and no place costs less."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.scheduling import fragments
from jupyterhub_backendai.scheduling.fragments import Fragments, Usual, prices
from jupyterhub_backendai.scheduling.packing import WHOLE, Cost, Free, Packing, Wish
from jupyterhub_backendai.scheduling.ranking import Ranking

LARGEST = Free(16, 16, (WHOLE,) * 4)
USUAL = fragments.usual_sizes(
    [Wish(1, 1, 500)] * 5
    + [Wish(2, 2, 300)] * 3
    + [Wish(4, 4, WHOLE)] * 4
    + [Wish(8, 8, 2 * WHOLE)]
)
COSTS: dict[str, Callable[[], Cost]] = {
    "first": lambda: fragments.first_fit,
    "tightest": lambda: fragments.tightest_fit,
    "loosest": lambda: fragments.loosest_fit,
    "best": lambda: fragments.best_fit(LARGEST),
    "gradient": lambda: fragments.gradient(USUAL),
    "priced": lambda: fragments.priced_gradient(USUAL, [300, 500], LARGEST),
}

shares = st.sampled_from([100, 200, 300, 500, 700, 900])
whole_ones = st.sampled_from([WHOLE, 2 * WHOLE, 3 * WHOLE])
both = st.builds(lambda whole, share: whole + share, whole_ones, shares)
wishes = st.builds(
    Wish, st.integers(0, 6), st.integers(0, 6), st.one_of(st.just(0), shares, whole_ones, both),
    st.booleans(),
)  # fmt: skip
machines = st.builds(
    lambda cpu, mem, gpus: Free(cpu, mem, tuple(sorted(gpus))),
    st.integers(0, 16), st.integers(0, 16),
    st.lists(st.sampled_from([0, 100, 300, 500, 700, WHOLE]), max_size=4),
)  # fmt: skip


@given(machines, wishes)
def test_what_is_given_was_free(free: Free, wish: Wish) -> None:
    found = list(free.ways(wish))
    assert len({after for after, _ in found}) == len(found)
    for after, taken in found:
        assert after.cpu == free.cpu - wish.cpu >= 0
        assert after.mem == free.mem - wish.mem >= 0
        assert list(after.gpus) == sorted(after.gpus)
        assert min(after.gpus, default=0) >= 0
        rest = list(free.gpus)
        for has, _ in taken:
            rest.remove(has)  # it was there
        assert sorted([*rest, *(has - part for has, part in taken)]) == list(after.gpus)
        # All of it, never a little less; and no scraps of several GPUs.
        parts = [part for _, part in taken]
        assert sum(parts) == wish.amount
        if wish.even and wish.amount > WHOLE:
            assert len(set(parts)) == 1
        else:
            assert sum(part != WHOLE for part in parts) <= 1
    enough = wish.cpu <= free.cpu and wish.mem <= free.mem
    assert bool(found) == (enough and _possible(free.gpus, wish))


def _possible(gpus: Sequence[int], wish: Wish) -> bool:
    """Whether the amount fits, by trying all choices of GPUs."""
    if wish.even and wish.amount > WHOLE:
        counts = [n for n in range(1, len(gpus) + 1) if wish.amount % n == 0]
        parts = [[wish.amount // n] * n for n in counts if wish.amount // n <= WHOLE]
    else:
        count, share = divmod(wish.amount, WHOLE)
        parts = [[WHOLE] * count + ([share] if share else [])]
    return any(
        all(has >= part for has, part in zip(some, asked, strict=True))
        for asked in parts
        for some in itertools.permutations(gpus, len(asked))
    )


@pytest.mark.parametrize("name", COSTS)
@given(st.data())
def test_it_is_the_place_that_costs_least(name: str, data: st.DataObject) -> None:
    """However many came and ended before: as if all machines were looked at."""
    packing = Packing(data.draw(st.lists(machines, min_size=1, max_size=6)), COSTS[name]())
    cost = COSTS[name]()
    for _ in range(data.draw(st.integers(1, 12))):
        wish = data.draw(wishes)
        everywhere = [
            (cost(free, after), number)
            for number, free in enumerate(packing.machines)
            for after, _ in free.ways(wish)
        ]
        place = packing.find(wish)
        if place is None:
            assert not everywhere
        else:
            free = packing.machines[place.machine]
            assert (cost(free, place.after), place.machine) == min(everywhere)
            packing.take(place)
            assert packing.machines[place.machine] == place.after
        if data.draw(st.booleans()):  # something has ended, or an agent is another now
            number = data.draw(st.integers(0, len(packing.machines) - 1))
            packing.update(number, data.draw(machines))


@pytest.mark.parametrize("name", ["tightest", "loosest"])
@given(st.data())
def test_one_order_for_all_finds_the_same(name: str, data: st.DataObject) -> None:
    """Where cores only decide between equals, whether each size is looked at by itself or not."""
    some = data.draw(st.lists(machines, min_size=1, max_size=70))
    packing = Packing(some, COSTS[name]())
    ranking = Ranking(some, COSTS[name](), most_cores=name == "loosest")
    for _ in range(data.draw(st.integers(1, 12))):
        wish = data.draw(wishes)
        but = data.draw(st.sets(st.integers(0, len(some) - 1), max_size=3))
        found = ranking.find(wish, but)
        assert found == packing.find(wish, but)
        if found is not None:
            assert ranking.find_on(found.machine, wish) == found
            packing.take(found)
            ranking.take(found)
        if data.draw(st.booleans()):
            number, free = data.draw(st.integers(0, len(some) - 1)), data.draw(machines)
            packing.update(number, free)
            ranking.update(number, free)


def test_a_share_fills_a_gpu_that_is_in_use_already() -> None:
    packing = Packing(
        [Free(16, 16, (WHOLE, WHOLE)), Free(16, 16, (500, WHOLE))], COSTS["tightest"]()
    )
    place = packing.find(Wish(1, 1, 500))
    assert place is not None
    assert (place.machine, place.taken) == (1, ((500, 500),))


def test_what_counts_as_a_fragment() -> None:
    usual = [Usual(Wish(2, 2, 500), 0.5), Usual(Wish(4, 4, WHOLE), 0.5)]
    measure = Fragments(usual)
    # Of 300 + 1000 the half cannot use 300, and the whole cannot either.
    assert measure.of(Free(4, 4, (300, WHOLE))) == 300
    # With two cores the whole fits nowhere, so that all is lost on it.
    assert measure.of(Free(2, 4, (300, WHOLE))) == 0.5 * 300 + 0.5 * 1300
    assert measure.of(Free(4, 4, (0, 0))) == 0


def test_usual_sizes_leave_out_what_is_rare_and_what_takes_no_gpu() -> None:
    often, rare, none = Wish(1, 1, 500), Wish(1, 1, 70), Wish(9, 9)
    found = fragments.usual_sizes([often] * 99 + [rare] + [none] * 50)
    assert found == [Usual(often, 1.0)]
    assert fragments.popular_shares([often] * 99 + [rare] + [none] * 50) == [500]


def test_prices_are_what_the_rest_of_a_gpu_is_good_for() -> None:
    worth = prices((320, 470, 650, 810))
    told = {
        room: round(worth[room]) for room in (190, 320, 350, 470, 530, 650, 800, 810, 940, 1000)
    }
    assert told == {
        190: 0, 320: 333, 350: 333, 470: 500, 530: 500, 650: 667, 800: 833, 810: 1000, 940: 1000,
        1000: 1000,
    }  # fmt: skip


@given(st.lists(st.integers(1, WHOLE - 1), min_size=1, max_size=6))
def test_no_gpu_is_worth_more_than_one(shares: list[int]) -> None:
    worth = prices(tuple(shares))
    assert worth[WHOLE] == WHOLE
    assert all(here <= there for here, there in zip(worth, worth[1:], strict=False))
    assert worth[0] == 0
    for share in shares:
        assert worth[share] > 0
        together = WHOLE // share
        assert worth[together * share] == pytest.approx(WHOLE) or share > WHOLE // 2
