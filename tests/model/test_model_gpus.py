"""How an amount is divided among devices: exactly, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.model.gpus import nearest, split

SPREADS = st.sampled_from(["packed", "even"])


@pytest.mark.parametrize(
    ("amount", "capacity", "quantum", "spread", "count", "parts"),
    [
        (500, 1000, 100, "packed", 1, (500,)),
        (1500, 1000, 100, "packed", 2, (1000, 500)),
        (1500, 1000, 100, "packed", 1, None),
        (3000, 2000, 100, "packed", 2, (2000, 1000)),
        (1550, 1000, 100, "packed", 2, None),
        (1600, 1000, 100, "even", 2, (800, 800)),
        (1500, 1000, 100, "even", 2, None),
        (1500, 1000, 100, "even", 3, (500, 500, 500)),
        (700, 1000, 100, "even", 2, (700,)),
        (2000, 1000, 1000, "even", 8, (1000, 1000)),
        (1000, 1000, 1000, "packed", 1, (1000,)),
        (0, 1000, 100, "even", 2, ()),
        (100, 1000, 100, "packed", 0, None),
        (-100, 1000, 100, "packed", 1, None),
    ],
)
def test_an_amount_is_divided_as_the_group_says(
    amount: int, capacity: int, quantum: int, spread: str, count: int, parts: object
) -> None:
    assert split(amount, capacity, quantum, spread, count) == parts  # type: ignore[arg-type]


@given(
    amount=st.integers(0, 40_000), shares=st.integers(1, 40), quantum=st.integers(1, 4000),
    spread=SPREADS, count=st.integers(0, 8),
)  # fmt: skip
def test_nothing_is_lost_and_no_device_gives_more_than_it_has(
    amount: int, shares: int, quantum: int, spread: str, count: int
) -> None:
    capacity = max(quantum, shares * 100)
    parts = split(amount, capacity, quantum, spread, count)  # type: ignore[arg-type]
    if parts is None:
        return
    assert sum(parts) == amount
    assert len(parts) <= count
    assert all(0 < part <= capacity and part % quantum == 0 for part in parts)
    assert sum(1 for part in parts if part < capacity - capacity % quantum) <= 1 or (
        spread == "even" and len(set(parts)) == 1
    )


@given(amount=st.integers(0, 5000), steps=st.integers(1, 12), count=st.integers(0, 4))
def test_packed_takes_every_multiple_that_there_is_room_for(
    amount: int, steps: int, count: int
) -> None:
    possible = amount % 100 == 0 and amount <= steps * 100 * count
    assert (split(amount, steps * 100, 100, "packed", count) is not None) == possible


@given(
    amount=st.integers(0, 6000), steps=st.integers(1, 12), spread=SPREADS, count=st.integers(1, 4)
)
def test_the_nearest_amounts_can_be_had_and_none_between_them(
    amount: int, steps: int, spread: str, count: int
) -> None:
    found = nearest(amount, steps * 100, 100, spread, count)  # type: ignore[arg-type]
    having = [
        n
        for n in range(1, steps * 100 * count + 1)
        if n != amount and split(n, steps * 100, 100, spread, count)  # type: ignore[arg-type]
    ]
    below, above = [n for n in having if n < amount], [n for n in having if n > amount]
    assert found == (*below[-1:], *above[:1])


def test_the_nearest_amounts_of_an_even_spread() -> None:
    assert nearest(1500, 1000, 100, "even", 2) == (1400, 1600)
    assert nearest(1450, 1000, 100, "packed", 2) == (1400, 1500)
    assert nearest(9000, 1000, 100, "packed", 2) == (2000,)
    assert nearest(20, 1000, 100, "packed", 2) == (100,)
