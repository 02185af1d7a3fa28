"""How much of a GPU a share is: whole numbers, never rounded up, and back again what was taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.model.gpus import GpuDevice, Unit
from jupyterhub_backendai.model.slots import GIB, MIB
from jupyterhub_backendai.scheduling.fgpu import (
    GRAIN,
    LEAST_RESERVE,
    grant,
    memory_of,
    percent_of,
    shares_of,
    usable_memory,
)


def shared(total: int, capacity: int, quantum: int = 100) -> GpuDevice:
    return GpuDevice(
        uuid="GPU-1",
        name="GPU",
        slot="fgpu",
        capacity=capacity,
        quantum=quantum,
        memory=usable_memory(total),
        provider="memory",
    )


# GPU: its MiB; of one of 5 shares, and of 7, the MiB.
SIZES = {
    "L40S": (46064, 9110, 6506),
    "A100-80": (81251, 16086, 11490),
    "H100-80": (81559, 16148, 11534),
    "H200": (143771, 28466, 20332),
    "RTX PRO 6000": (97887, 19380, 13844),
}


@pytest.mark.parametrize("model", SIZES)
def test_shares_of_well_known_gpus(model: str) -> None:
    total, fifth, seventh = SIZES[model]
    for shares, mebibytes, percent in ((5, fifth, 20), (7, seventh, 14)):
        device = shared(total * MIB, shares * 1000)
        one = grant(device, 1000)
        assert (one.memory, one.percent) == (mebibytes * MIB, percent)
        every = grant(device, shares * 1000)
        assert every.memory == shares * one.memory
        assert every.percent == 100


def test_the_reserve() -> None:
    assert usable_memory(40 * GIB) == 40 * GIB - LEAST_RESERVE
    assert usable_memory(100 * GIB) == 99 * GIB
    assert usable_memory(100 * MIB) == 0


@given(st.data())
def test_no_set_of_grants_exceeds_its_device(data: st.DataObject) -> None:
    total = data.draw(st.integers(GIB, 300 * GIB))
    quantum = data.draw(st.sampled_from([10, 50, 100, 125, 250, 333, 1000]))
    device = shared(total, data.draw(st.integers(1, 100)) * 1000, quantum)
    free = device.capacity
    granted = []
    while free >= quantum and len(granted) < 20:
        amount = quantum * data.draw(st.integers(1, free // quantum))
        free -= amount
        granted.append(grant(device, amount))
    assert sum(one.memory for one in granted) <= usable_memory(total)
    assert sum(one.percent for one in granted) <= 100
    for one in granted:
        # Not more than its part, and less by one grain for a share and one for the amount at most.
        exactly = device.memory * one.amount
        assert one.memory * device.capacity <= exactly
        assert one.percent * device.capacity <= 100 * one.amount
        rounding = GRAIN * (1 + -(-one.amount // 1000))
        assert (one.memory + rounding) * device.capacity >= exactly
        assert one.memory % GRAIN == 0
    # What is granted is a record: releasing is handing the same numbers back, one by one.
    back = sum(one.amount for one in granted)
    assert device.capacity - free == back


@given(
    st.integers(512 * MIB, 20 * GIB), st.integers(2, 64), st.integers(0, 300 * GIB),
    st.integers(0, 300), st.integers(1, 1000),
)  # fmt: skip
def test_units_go_into_a_device(
    mem: int, multiprocessors: int, memory: int, there: int, quantum: int
) -> None:
    shares = shares_of(Unit(mem=mem, multiprocessors=multiprocessors), memory, there, quantum)
    assert shares % quantum == 0
    assert shares * mem <= memory * 1000
    assert shares * multiprocessors <= there * 1000
    more = shares + quantum
    assert more * mem > memory * 1000 or more * multiprocessors > there * 1000


def test_wholes_and_parts_of_the_driver_are_all_of_themselves() -> None:
    for slot in ("gpu", "mig"):
        device = GpuDevice(uuid="GPU-1", name="GPU", slot=slot, memory=3 * MIB)
        found = grant(device, 1000)
        assert (found.memory, found.percent, found.capacity) == (3 * MIB, 100, 1000)


def test_what_was_granted_is_kept_as_it_was() -> None:
    device = shared(40 * GIB, 5000)
    one = grant(device, 2500)
    assert one.model_dump(include={"uuid", "slot", "amount", "capacity", "provider"}) == {
        "uuid": "GPU-1", "slot": "fgpu", "amount": 2500, "capacity": 5000, "provider": "memory",
    }  # fmt: skip
    assert (one.enforcement, one.verified) == (device.enforcement, False)
    assert type(one).model_validate_json(one.model_dump_json()) == one
    assert memory_of(device, 2500) == one.memory
    assert percent_of(device, 2500) == 50
