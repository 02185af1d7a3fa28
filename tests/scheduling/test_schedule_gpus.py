"""Which GPUs a session is given: whole amounts, on GPUs that have them, and nobody starves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from scheduling_cases import agent, pending, reason, slots, snapshot, wait_of

from jupyterhub_backendai.model.gpus import GpuDevice
from jupyterhub_backendai.model.slots import GIB, GPU_SLOTS, Slots
from jupyterhub_backendai.scheduling.queue import schedule
from jupyterhub_backendai.scheduling.snapshot import (
    Agent,
    Decision,
    Devices,
    GroupRule,
    Holding,
    Pending,
    Placement,
    Snapshot,
)

PROFILES = ("1g.10gb", "3g.40gb")
seeds = st.integers(0, 2**64 - 1)


def gpus(
    machine: str, count: int, capacity: float = 1, quantum: float = 0.1, **more: object
) -> tuple[GpuDevice, ...]:
    """So many alike, which have `capacity` shares each."""
    return tuple(
        GpuDevice(
            **{
                "uuid": f"{machine}-{more.get('slot', 'fgpu')}-{capacity}-{n}",
                "name": "L40S",
                "slot": "fgpu",
                "capacity": round(capacity * 1000),
                "quantum": round(quantum * 1000),
                **more,
            }
        )  # fmt: skip
        for n in range(count)
    )


def machine(name: str, *devices: GpuDevice, cpu: float = 64, **more: object) -> Agent:
    sums = {
        slot: sum(d.capacity for d in devices if d.slot == slot and d.available)
        for slot in GPU_SLOTS
    }
    return agent(
        name,
        **{"capacity": Slots(round(cpu * 1000), 512 * GIB, **sums), "devices": devices, **more},
    )


def held(name: str, of: Agent, *amounts: float) -> list[Holding]:
    """So much of its first, second, … GPU, each by a session of its own."""
    return [
        Holding(f"{name}{n}", "h", None, "default", of.name,
                Slots(0, 0, round(amount * 1000)), ((device.uuid, round(amount * 1000)),))
        for n, (device, amount) in enumerate(zip(of.devices, amounts, strict=False))
        if amount
    ]  # fmt: skip


def given_to(snap: Snapshot, session: str) -> Devices | None:
    """What this session is given by a pass; None where it is not placed."""
    found = {p.session_id: p.devices for p in schedule(snap).placements}
    return found.get(session)


# ---- what users of the other product know

CASES = [
    # used, asked, what is given of each GPU; None: it waits
    ((0, 0, 0, 0), 0.5, (0, 0, 0, 0.5)),
    ((0.5, 0, 0, 0), 0.5, (0.5, 0, 0, 0)),
    ((0.5, 0.3, 0, 0), 0.6, (0, 0.6, 0, 0)),
    ((0, 0, 0, 0), 1.5, (1, 0, 0, 0.5)),  # never 1.4 of two
    ((0, 0, 0, 0), 2.5, (1, 1, 0, 0.5)),  # never 2.4 of three
    ((0.9, 0.9, 0.9, 0.9), 0.3, None),  # no scraps of several
    ((0.6, 0.6, 0.6, 0.6), 1, None),
    ((0.5, 0.5, 0, 0), 3, None),
    ((0.2, 0.4, 0.6, 0.8), 1.9, None),
    ((0.3, 0.3), 1, None),
    ((0.3, 0.3), 1.1, None),
    ((0.5, 0.5), 0.6, None),
    ((0.7, 0.1), 0.3, (0.3, 0)),
    ((0.7, 0.1), 0.4, (0, 0.4)),
    ((0.7, 0.8, 0.9), 0.1, (0, 0, 0.1)),
    ((0.7, 0.8, 0.9), 0.2, (0, 0.2, 0)),
    ((0.7, 0.8, 0.9), 0.3, (0.3, 0, 0)),
    ((0.95, 0.9, 0.8, 0.7), 0.2, (0, 0, 0.2, 0)),
]


@pytest.mark.parametrize(("used", "asked", "expected"), CASES)
def test_the_golden_vectors(
    used: Sequence[float], asked: float, expected: Sequence[float] | None
) -> None:
    """Those of Backend.AI's allocation map (fraction, quantum 0.1) that give all that is asked."""
    one = machine("m", *gpus("m", len(used), quantum=0.01))
    found = given_to(snapshot([pending("s", fgpu=asked)], [one], held("h", one, *used)), "s")
    if expected is None:
        assert found is None
        return
    assert found is not None
    told = dict(found)
    assert [told.get(d.uuid, 0) for d in one.devices] == [round(e * 1000) for e in expected]


def test_whole_ones_are_the_first_that_are_free() -> None:
    one = machine("m", *gpus("m", 4, slot="gpu", quantum=1))
    taken = Holding("h", "h", None, "default", "m", Slots(gpu=1000), ((one.devices[0].uuid, 1000),))
    two = replace(pending("s"), slots=Slots(1000, GIB, gpu=2000))
    given_devices = given_to(snapshot([two], [one], [taken]), "s")
    assert given_devices == ((one.devices[1].uuid, 1000), (one.devices[2].uuid, 1000))


@pytest.mark.parametrize(
    ("used", "asked", "expected"),
    [
        ((0, 0, 0, 0), 1.6, (0, 0, 0.8, 0.8)),
        ((0, 0, 0, 0), 2.4, (0, 0.8, 0.8, 0.8)),
        ((0.2, 0.2, 0, 0), 1.6, (0.8, 0.8, 0, 0)),  # where least is left
        ((0.5, 0.5, 0.5, 0), 1.6, (0.4, 0.4, 0.4, 0.4)),  # on as few as have it
        ((0, 0, 0, 0), 0.5, (0, 0, 0, 0.5)),
    ],
)
def test_equal_shares(used: Sequence[float], asked: float, expected: Sequence[float]) -> None:
    one = machine("m", *gpus("m", len(used)))
    rule = GroupRule("default", gpu_spread="even")
    found = given_to(
        snapshot([pending("s", fgpu=asked)], [one], held("h", one, *used), rules=[rule]), "s"
    )
    assert found is not None
    told = dict(found)
    assert sorted(told.values()) == sorted(round(e * 1000) for e in expected if e)
    taken = [round(u * 1000) + told.get(d.uuid, 0) for d, u in zip(one.devices, used, strict=True)]
    assert sorted(taken) == sorted(
        round((u + e) * 1000) for u, e in zip(used, expected, strict=True)
    )


def test_equal_shares_of_a_machine_with_other_sizes_too() -> None:
    rule = GroupRule("default", gpu_spread="even")
    one = machine("m", *gpus("m", 2), *gpus("m", 1, capacity=4))
    found = given_to(snapshot([pending("s", fgpu=1.6)], [one], rules=[rule]), "s")
    assert found is not None
    assert len(found) in {1, 2}
    assert len({uuid.split("-")[2] for uuid, _ in found}) == 1, "they are alike"


# ---- anything


def device_sets(random: Random, name: str) -> tuple[GpuDevice, ...]:
    some: list[GpuDevice] = []
    for capacity in random.sample([1, 2, 5], random.choice([0, 1, 1, 2])):
        some += gpus(name, random.choice([1, 2, 4]), capacity, random.choice([0.1, 0.5]))
    if random.random() < 0.5:
        some += gpus(name, random.choice([1, 2, 4]), 1, 1, slot="gpu", provider="whole")
    for profile in random.sample(PROFILES, random.choice([0, 0, 1, 2])):
        some += [
            d.model_copy(update={"uuid": f"{d.uuid}-{profile}"})
            for d in gpus(name, random.choice([1, 3]), 1, 1, slot="mig", profile=profile,
                          provider="mig")
        ]  # fmt: skip
    return tuple(
        d if random.random() < 0.9 else d.model_copy(update={"available": False}) for d in some
    )


def waiting(random: Random, index: int) -> Pending:
    slot = random.choice([None, "fgpu", "fgpu", "fgpu", "gpu", "mig"])
    amount, profile = 0, None
    if slot == "fgpu":
        amount = random.choice([500, 500, 1000, 1500, 2000, 2500, 5000, 6000, 7500])
    elif slot is not None:
        amount = random.choice([1000, 1000, 2000])
        profile = random.choice([None, *PROFILES]) if slot == "mig" else None
    cpu, mem = random.choice([1, 2, 4]), random.choice([1, 2])
    found = pending(
        f"s{index:02}", submitted_at=random.randint(0, 100) * 100.0, profile=profile,
        agent=random.choice(["m0", "m1"]) if random.random() < 0.1 else None,
        avoid=frozenset(random.sample(["m0", "m1", "m2"], random.choice([0, 0, 0, 1]))),
    )  # fmt: skip
    more = {slot: amount} if slot else {}
    return replace(found, slots=Slots(cpu * 1000, mem * GIB, **more))


@st.composite
def snapshots(draw: st.DrawFn, bound: float | None = None) -> Snapshot:
    random = Random(draw(seeds))
    agents = [
        machine(f"m{n}", *device_sets(random, f"m{n}"), cpu=random.choice([4, 8, 16]))
        for n in range(draw(st.sampled_from([2, 1, 3])))
    ]
    rule = GroupRule(
        "default",
        max_bypass=random.choice([0.0, 900.0, math.inf]) if bound is None else bound,
        selection=random.choice(["concentrated", "dispersed"]),
        gpu_spread=random.choice(["packed", "even"]),
        gpu_placement=random.choice(["tightest", "fragments"]),
    )
    # What runs has come as anything comes, on machines of which nothing was lost yet.
    before = [
        replace(one, id=f"h{one.id}", agent=None)
        for one in (waiting(random, n) for n in range(draw(st.sampled_from([6, 3, 0]))))
    ]
    whole = [
        replace(one, devices=tuple(d.model_copy(update={"available": True}) for d in one.devices))
        for one in agents
    ]
    first = snapshot(before, whole, rules=[rule])
    holdings = holdings_of(first, schedule(first))
    some = [waiting(random, n) for n in range(draw(st.sampled_from([12, 6, 2])))]
    return snapshot(some, agents, holdings, rules=[rule])


def holdings_of(snap: Snapshot, decision: Decision) -> list[Holding]:
    by_id = {one.id: one for one in snap.pending}
    return [
        Holding(p.session_id, s.owner, s.project, s.group, p.agent, s.slots, p.devices, s.profile)
        for p in decision.placements
        for s in [by_id[p.session_id]]
    ]


def used_of(snap: Snapshot, placements: Sequence[Placement] = ()) -> dict[tuple[str, str], int]:
    """What is held of each GPU."""
    found: dict[tuple[str, str], int] = {}
    for one in (*snap.holdings, *placements):
        for uuid, amount in one.devices:
            found[one.agent, uuid] = found.get((one.agent, uuid), 0) + amount
    return found


@given(snapshots())
def test_what_is_given_is_what_was_asked_and_is_there(snap: Snapshot) -> None:
    decision = schedule(snap)
    agents = {one.name: one for one in snap.agents}
    by_id = {one.id: one for one in snap.pending}
    even = snap.rules["default"].gpu_spread == "even"
    for placement in decision.placements:
        one = by_id[placement.session_id]
        known = {d.uuid: d for d in agents[placement.agent].devices}
        devices = [known[uuid] for uuid, _ in placement.devices]
        parts = [amount for _, amount in placement.devices]
        slot = one.slots.gpu_slot
        assert sum(parts) == (getattr(one.slots, slot) if slot else 0), "never a little less"
        assert len(set(placement.devices)) == len(parts) == len(set(devices))
        assert all(d.available and d.slot == slot for d in devices)
        assert all(one.profile in {None, d.profile} for d in devices)
        assert len({(d.type, d.profile) for d in devices}) <= 1, "they are alike"
        if not devices:
            continue
        if sum(parts) <= devices[0].capacity:
            assert len(devices) == 1, "up to one GPU's worth is on one GPU"
        elif even:
            assert len(set(parts)) == 1
            assert parts[0] % devices[0].quantum == 0
        else:
            assert sum(part != devices[0].capacity for part in parts) <= 1
        event(f"{slot}, {len(parts)} GPUs")
    sizes = {(a.name, d.uuid): d.capacity for a in snap.agents for d in a.devices}
    before = used_of(snap)
    for key, amount in used_of(snap, decision.placements).items():
        assert amount <= sizes[key] or amount == before.get(key)


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_the_parts_does_not_matter(snap: Snapshot, random: Random) -> None:
    def mixed(some: Sequence) -> list:
        return random.sample(list(some), len(some))

    other = replace(
        snap, pending=mixed(snap.pending), agents=mixed(snap.agents), holdings=mixed(snap.holdings)
    )
    assert schedule(other) == schedule(snap)


def fits(one: Pending, on: Agent, free: dict[str, int], left: Slots, even: bool) -> bool:
    """Whether it could be given all it asks, by trying all choices of GPUs."""
    if one.slots.cpu > left.cpu or one.slots.mem > left.mem:
        return False
    slot = one.slots.gpu_slot
    if slot is None:
        return True
    amount = getattr(one.slots, slot)
    pools: dict[object, list[GpuDevice]] = {}
    for d in on.devices:
        if d.available and d.slot == slot and one.profile in {None, d.profile}:
            pools.setdefault((d.type, d.profile, d.quantum), []).append(d)
    for some in pools.values():
        size, quantum = some[0].capacity, some[0].quantum
        if even and amount > size:
            counts = [n for n in range(1, len(some) + 1) if amount % (n * quantum) == 0]
            parts = [[amount // n] * n for n in counts if amount // n <= size]
        else:
            parts = [[size] * (amount // size) + ([amount % size] if amount % size else [])]
        for asked in parts:
            for chosen in itertools.permutations(some, len(asked)):
                if all(free[d.uuid] >= p for d, p in zip(chosen, asked, strict=True)):
                    return True
    return False


@given(snapshots(bound=math.inf))
def test_nothing_waits_that_would_fit(snap: Snapshot) -> None:
    decision = schedule(snap)
    used = used_of(snap, decision.placements)
    even = snap.rules["default"].gpu_spread == "even"
    by_id = {one.id: one for one in snap.pending}
    everything = [*snap.holdings, *holdings_of(snap, decision)]
    for wait in decision.waits:
        one = by_id[wait.session_id]
        event(wait.code)
        assert wait.code in {"no_room", "agent_full", "never_fits", "no_agent"}
        for on in snap.agents:
            if one.agent not in {None, on.name}:
                continue
            free = {d.uuid: d.capacity - used.get((on.name, d.uuid), 0) for d in on.devices}
            there = sum((h.slots for h in everything if h.agent == on.name), Slots())
            assert not fits(one, on, free, on.capacity - there, even)
            if wait.code == "never_fits":
                size = {d.uuid: d.capacity for d in on.devices}
                with_all = replace(
                    on,
                    devices=tuple(d.model_copy(update={"available": True}) for d in on.devices),
                )
                assert not fits(one, with_all, size, on.capacity, even) or one.agent is not None


@given(snapshots())
def test_what_is_released_is_there_again(snap: Snapshot) -> None:
    """To the last thousandth: with all ended it is as if nothing had ever run."""
    idle = replace(snap, holdings=[])
    again = replace(idle, holdings=[h for h in snap.holdings if h.agent == "nowhere"])
    assert schedule(again) == schedule(idle)
    for one in snap.pending:
        alone = replace(idle, pending=[replace(one, avoid=frozenset())])
        placed = schedule(alone).placements
        even = snap.rules["default"].gpu_spread == "even"
        could = any(
            fits(one, on, {d.uuid: d.capacity for d in on.devices}, on.capacity, even)
            for on in snap.agents
            if one.agent in {None, on.name}
        )
        assert bool(placed) == could


@given(snapshots(bound=0.0))
def test_nothing_takes_what_one_before_it_waited_too_long_for(snap: Snapshot) -> None:
    """Of each single GPU that a protected session could have what is behind it leaves as much as
    the session would take of it there."""
    decision = schedule(snap)
    by_id = {one.id: one for one in snap.pending}
    agents = {one.name: one for one in snap.agents}
    even = snap.rules["default"].gpu_spread == "even"
    for wait in decision.waits:
        old = by_id[wait.session_id]
        slot = old.slots.gpu_slot
        if slot is None or wait.code in {"never_fits", "no_agent"}:
            continue
        asked = getattr(old.slots, slot)
        used = used_of(snap)
        for placement in decision.placements:
            for uuid, amount in placement.devices:
                used[placement.agent, uuid] = used.get((placement.agent, uuid), 0) + amount
            new, on = by_id[placement.session_id], agents[placement.agent]
            if turn(new) < turn(old) or old.agent not in {None, on.name}:
                continue
            size = {d.uuid: d.capacity for d in on.devices}
            for uuid, _ in placement.devices:
                device = next(d for d in on.devices if d.uuid == uuid)
                pool = (device.kind, device.type)
                alike = replace(
                    on, devices=tuple(d for d in on.devices if (d.kind, d.type) == pool)
                )
                if not fits(old, alike, size, on.capacity, even):
                    continue
                part = min(asked, device.capacity)
                if even and asked > device.capacity:
                    count = len(alike.devices)
                    part = min(asked // n for n in range(1, count + 1) if asked // n <= part)
                event("placed behind a protected one")
                assert device.capacity - used[on.name, uuid] >= part


def turn(one: Pending) -> tuple[int, float, str]:
    return (-one.priority, one.submitted_at, one.id)


def test_a_stream_of_shares_does_not_starve_who_waits_for_a_whole_gpu() -> None:
    """Two GPUs, always taken again by halves as soon as a half comes free."""
    one = machine("m", *gpus("m", 2), cpu=64)
    rule = GroupRule("default", max_bypass=10.0)
    large = pending("large", fgpu=1, submitted_at=0.5)
    running: dict[str, tuple[float, Holding]] = {}
    line: list[Pending] = []
    for now in range(60):
        line += [large] if now == 1 else []
        running = {key: (end, h) for key, (end, h) in running.items() if end > now}
        line += [pending(f"s{now:02}{n}", fgpu=0.5, submitted_at=float(now)) for n in range(4)]
        snap = snapshot(line, [one], [h for _, h in running.values()], rules=[rule], now=now)
        decision = schedule(snap)
        for number, holding in enumerate(holdings_of(snap, decision)):
            running[holding.session_id] = (now + 3 + number % 2, holding)
        line = [p for p in line if p.id not in running]
        if "large" in running:
            assert 10 < now <= 16
            return
    pytest.fail("it never started")


# ---- what one is told


def test_one_is_told_when_no_single_gpu_has_enough() -> None:
    one = machine("m", *gpus("m", 2, capacity=5))
    snap = snapshot([pending("s", fgpu=3)], [one], held("h", one, 3, 3))
    assert reason(snap, "s") == (
        "Waiting for 3 FGPU: 4 are free on the machine of default, but not on one GPU: "
        "the most on one GPU is 2; you are next."
    )


def test_one_is_told_the_kind() -> None:
    agents = [
        machine("m", *gpus("m", 1)),
        machine("w", *gpus("w", 2, slot="gpu", quantum=1)),
        machine("g", *gpus("g", 1, slot="mig", quantum=1, profile="1g.10gb")),
    ]
    two = replace(pending("s"), slots=Slots(1000, GIB, gpu=2000))
    taken = Holding(
        "h", "h", None, "default", "w", Slots(gpu=1000), ((agents[1].devices[0].uuid, 1000),)
    )
    assert reason(snapshot([two], agents, [taken]), "s") == (
        "Waiting for 2 whole GPUs: 1 is free on the machine of default with whole GPUs; "
        "you are next."
    )
    other = replace(pending("s"), slots=Slots(1000, GIB, mig=1000), profile="3g.40gb")
    assert wait_of(schedule(snapshot([other], agents)), "s").code == "never_fits"
    assert reason(snapshot([other], agents), "s") == (
        "Never fits: asks 1 MIG device 3g.40gb, no machine of default has any."
    )


def test_a_gpu_that_is_lost_is_waited_for() -> None:
    lost = gpus("m", 1)[0].model_copy(update={"available": False, "reason": "It is lost."})
    snap = snapshot([pending("s", fgpu=0.5)], [machine("m", lost)])
    wait = wait_of(schedule(snap), "s")
    assert wait.code == "no_agent"
    assert wait.reason == (
        "No GPU of default that works now has 0.5 FGPU; one that does not work may. "
        "The admin has been told."
    )


def test_a_session_without_gpus_stays_off_machines_that_have_some() -> None:
    plain, rich = agent("z", cpu=4), machine("a", *gpus("a", 2))
    snap = snapshot([pending("s", cpu=2)], [rich, plain])
    assert [p.agent for p in schedule(snap).placements] == ["z"]
    full = snapshot([pending("s", cpu=8)], [rich, plain])
    assert [p.agent for p in schedule(full).placements] == ["a"]


def test_cores_that_are_kept_are_kept_from_sessions_with_gpus_too() -> None:
    one = machine("m", *gpus("m", 2), cpu=4)
    old = pending("old", cpu=4, submitted_at=0.0)
    snap = snapshot(
        [old, pending("new", cpu=1, fgpu=0.5)], [one],
        [Holding("h", "h", None, "default", "m", slots(1, 1))],
    )  # fmt: skip
    assert schedule(snap).placements == ()
    assert reason(snap, "new").startswith("There is room, but it is kept")
