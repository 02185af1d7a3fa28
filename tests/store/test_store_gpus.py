"""The very GPUs: what agents have, what sessions were granted, and what is free of them."""

from __future__ import annotations

from typing import Any

import pytest
from store_samples import CATALOG, NOW, POLICIES, after, end, request, run_pass, start, submit

from jupyterhub_backendai.model.gpus import Enforcement, GpuDevice
from jupyterhub_backendai.model.slots import GIB, MIB, Slots
from jupyterhub_backendai.store import AgentReport, SessionResult, Store


def gpu(number: int, **more: Any) -> GpuDevice:
    facts: dict[str, Any] = {
        "uuid": f"GPU-{number}", "name": "NVIDIA L40S", "slot": "fgpu", "capacity": 5000,
        "quantum": 100, "memory": 45_552 * MIB, "provider": "memory",
        "enforcement": Enforcement(memory="hard"),
    }  # fmt: skip
    return GpuDevice(**{**facts, **more})


def report(store: Store, *devices: GpuDevice, seconds: float = 0, name: str = "node-1") -> None:
    sums = {s: sum(d.capacity for d in devices if d.slot == s) for s in ("fgpu", "gpu", "mig")}
    capacity = Slots(64_000, 512 * GIB, **sums)
    store.report_agents(
        [AgentReport(name, "default", capacity, devices=devices)], now=after(seconds)
    )


def free_of(store: Store) -> dict[str, int]:
    """What is free of each GPU, as a pass sees it."""
    found = store.snapshot(POLICIES, CATALOG, NOW)
    left = {d.uuid: d.capacity for a in found.agents for d in a.devices}
    for holding in found.holdings:
        for uuid, amount in holding.devices:
            left[uuid] = left.get(uuid, 0) - amount
    return left


def test_devices_are_what_was_reported_last(store: Store) -> None:
    report(store, gpu(0), gpu(1))
    (agent,) = store.agents()
    assert agent.devices == (gpu(0), gpu(1))
    assert (agent.capacity.fgpu, agent.capacity.gpu) == (10_000, 0)
    lost = gpu(1, available=False, reason="It is lost.")
    seq = store.seq()
    report(store, gpu(0), lost, seconds=1)
    assert store.agents()[0].devices == (gpu(0), lost)
    assert store.seq() > seq, "who listens is told"
    store.report_agents([AgentReport("node-1", "default", Slots(), available=False)], now=after(2))
    assert store.agents()[0].devices == (gpu(0), lost), "one that is silent says nothing"


def test_what_a_session_is_granted_is_written_down(store: Store) -> None:
    report(store, gpu(0), gpu(1))
    one = submit(store, "one", request=request(fgpu=500))
    two = submit(store, "two", request=request(fgpu=5500))
    plain = submit(store, "plain")
    assert sorted(run_pass(store)) == ["one", "plain", "two"]
    (held,) = store.granted(one.id)
    assert (held.amount, held.capacity, held.percent) == (500, 5000, 10)
    # 45,552 MiB in five: 9,110 each, in steps of two; a half of that.
    assert held.memory == 4554 * MIB
    assert held.enforcement.memory == "hard"
    parts = {part.uuid: part.amount for part in store.granted(two.id)}
    assert sorted(parts.values()) == [500, 5000]
    assert store.granted(plain.id) == ()
    assert set(store.all_granted()) == {one.id, two.id}
    assert sorted(free_of(store).values()) == [0, 4000]


def test_it_is_free_again_after_the_end_and_told_still(store: Store) -> None:
    report(store, gpu(0))
    one = submit(store, "one", request=request(fgpu=3000))
    run_pass(store)
    start(store, one.id, 1)
    waits = submit(store, "waits", request=request(fgpu=3000), now=after(2))
    assert run_pass(store, 2) == []
    assert "the most on one GPU" not in store.get(waits.id).reason, "there is one GPU"
    end(store, one.id, 3, SessionResult.SUCCESS)
    assert run_pass(store, 4) == ["waits"]
    assert store.granted(one.id) == store.granted(waits.id)
    assert set(store.all_granted()) == {waits.id}


def test_a_gpu_that_is_divided_in_another_way_keeps_what_is_held_of_it(store: Store) -> None:
    """Half of a GPU is half of it, whether it has five shares or ten, and is never less."""
    report(store, gpu(0))
    one = submit(store, "one", request=request(fgpu=2500))
    run_pass(store)
    report(store, gpu(0, capacity=10_000), seconds=1)
    assert free_of(store) == {"GPU-0": 5000}
    submit(store, "two", request=request(fgpu=6000), now=after(1))
    assert run_pass(store, 2) == []
    report(store, gpu(0, capacity=3000), seconds=3)
    assert free_of(store) == {"GPU-0": 1500}
    report(store, gpu(0, capacity=1000, slot="gpu", provider="whole"), seconds=4)
    assert free_of(store) == {"GPU-0": 0}, "a GPU has one provider at a time"
    assert store.granted(one.id)[0].capacity == 5000, "what runs was granted so"


def test_a_gpu_that_another_agent_offers_is_held_all_the_same(store: Store) -> None:
    """Two agents may be two names of one machine, and their order may change."""
    one = AgentReport("b", "default", Slots(8000, 8 * GIB))
    other = AgentReport("a", "default", Slots(8000, 8 * GIB, 5000), devices=(gpu(0),))
    store.report_agents([one, other], now=NOW)
    submit(store, "one", request=request(fgpu=3000))
    assert run_pass(store) == ["one"]
    one = AgentReport("b", "default", Slots(8000, 8 * GIB, 5000), devices=(gpu(0),))
    other = AgentReport("a", "default", Slots(8000, 8 * GIB))
    store.report_agents([one, other], now=after(1))
    submit(store, "two", request=request(fgpu=3000), now=after(1))
    assert run_pass(store, 2) == []
    submit(store, "three", request=request(fgpu=2000), now=after(3))
    assert run_pass(store, 4) == ["three"]


def test_a_silent_agent_with_a_configured_size_keeps_its_gpus(store: Store) -> None:
    report(store, gpu(0))
    store.report_agents(
        [AgentReport("node-1", "default", Slots(32_000, 64 * GIB), available=False)], now=after(1)
    )
    (agent,) = store.agents()
    assert (agent.capacity.fgpu, agent.capacity.cpu) == (5000, 32_000)
    assert agent.devices == (gpu(0),)


@pytest.mark.parametrize("profile", [None, "1g.10gb"])
def test_mig_devices_of_a_profile(store: Store, profile: str | None) -> None:
    parts = [
        gpu(n, uuid=f"MIG-{n}", slot="mig", profile=p, capacity=1000, provider="mig")
        for n, p in enumerate(("3g.40gb", "1g.10gb"))
    ]
    report(store, *parts)
    one = submit(store, "one", request=request(mig=1000, mig_profile=profile))
    assert run_pass(store) == ["one"]
    (held,) = store.granted(one.id)
    assert held.slot == "mig"
    assert profile in {None, held.profile}
