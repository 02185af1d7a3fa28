"""What a user is told that they may choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.model.catalog import Catalog, ResourceGroup
from jupyterhub_backendai.model.gpus import Enforcement, GpuDevice, even_parts, split
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.resolve import AgentFacts, Context
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.scheduling.snapshot import Agent, Holding, Snapshot
from jupyterhub_backendai.site.gpus import most_now
from jupyterhub_backendai.site.options import _View

CATALOG = Catalog(
    environments=({"name": "python", "image": "python:3"},),  # type: ignore[arg-type]
    presets=(
        {"name": "share", "cpu": 1, "mem": "1g", "fgpu": 0.5},  # type: ignore[arg-type]
        {"name": "plain", "cpu": 1, "mem": "1g"},  # type: ignore[arg-type]
    ),
    resource_groups=({"name": "cpu"}, {"name": "gpu"}),  # type: ignore[arg-type]
)
AGENTS = (
    Agent("c1", "cpu", Slots(4000, 8 * GIB)),
    Agent("g1", "gpu", Slots(4000, 8 * GIB, 2000)),
)


def view(agents: Sequence[Agent] = AGENTS) -> dict[str, Any]:
    context = Context(
        "alice", frozenset(), False, CATALOG, Policies(),
        agents=tuple(AgentFacts(a.name, a.group, a.capacity) for a in agents),
    )  # fmt: skip
    return _View(context, Snapshot(0.0, [], agents, [], {}, {}, {}), True).as_dict()


def test_a_preset_with_fgpu_is_for_groups_that_have_some() -> None:
    found = view()
    groups = {group["name"]: group for group in found["resource_groups"]}
    told = {
        (name, preset["name"]): preset["verdict"]
        for name, group in groups.items()
        for preset in group["presets"]
    }
    assert {name: bool(group["gpus"]) for name, group in groups.items()} == {
        "cpu": False, "gpu": True,
    }  # fmt: skip
    assert {place: verdict["code"] for place, verdict in told.items()} == {
        ("cpu", "share"): "never", ("cpu", "plain"): "now",
        ("gpu", "share"): "now", ("gpu", "plain"): "now",
    }  # fmt: skip
    assert told["cpu", "share"]["text"] == "Never fits: asks 0.5 FGPU, no machine of cpu has any."
    # The default is what can be granted, and its verdict is of that.
    assert found["default"]["verdict"]["code"] == "now"
    assert "FGPU" not in found["default"]["summary"]


def test_an_agent_that_is_drained_is_told_and_not_counted() -> None:
    other = Agent("c2", "cpu", Slots(2000, 4 * GIB))
    found = view([replace(AGENTS[0], schedulable=False), other, AGENTS[1]])
    group = found["resource_groups"][0]
    assert [(a["name"], a["available"], a["schedulable"]) for a in group["agents"]] == [
        ("c1", True, False), ("c2", True, True),
    ]  # fmt: skip
    assert [a["free"]["cpu"] for a in group["agents"]] == [0, 2000]
    assert (group["free"]["cpu"], group["capacity"]["cpu"]) == (2000, 2000)
    assert group["limits"]["cpu"]["most"] == 4000, "what it has can be waited for"
    alone = view([replace(AGENTS[0], schedulable=False)])["resource_groups"][0]
    (verdict,) = (p["verdict"] for p in alone["presets"] if p["name"] == "plain")
    assert verdict["code"] == "waits"
    assert "the admin is draining its machine" in verdict["text"]


def device(uuid: str, slot: Any = "fgpu", **changes: Any) -> GpuDevice:
    """A device of five shares, or of one."""
    given: dict[str, Any] = {
        "name": "NVIDIA L40S", "slot": slot, "memory": 45 * GIB, "provider": "memory",
    }  # fmt: skip
    if slot == "fgpu":
        given |= {"capacity": 5000, "quantum": 100}
    return GpuDevice(uuid=uuid, **{**given, **changes})


def with_devices(
    *devices: GpuDevice, free: dict[str, int] | None = None, **changes: Any
) -> dict[str, Any]:
    """The group `gpu` of a site whose one agent there has these devices."""
    sums = {
        slot: sum(d.capacity for d in devices if d.slot == slot) for slot in ("fgpu", "gpu", "mig")
    }
    known = () if free is None else devices
    agents = (AGENTS[0], Agent("g1", "gpu", Slots(4000, 8 * GIB, **sums), devices=known))
    catalog = CATALOG.model_copy(
        update={
            "resource_groups": (ResourceGroup(name="cpu"), ResourceGroup(name="gpu", **changes))
        }
    )
    context = Context(
        "alice", frozenset(), False, catalog, Policies(),
        agents=(
            AgentFacts("c1", "cpu", AGENTS[0].capacity),
            AgentFacts("g1", "gpu", agents[1].capacity, devices),
        ),
    )  # fmt: skip
    held = [(d.uuid, d.capacity - free[d.uuid]) for d in known if free and d.uuid in free]
    holdings = [Holding("s1", "bob", None, "gpu", "g1", Slots(), (one,)) for one in held]
    snapshot = Snapshot(0.0, [], agents, holdings, {}, {}, {})
    found = _View(context, snapshot, True).as_dict()["resource_groups"][1]
    assert isinstance(found, dict)
    return found


def test_each_kind_of_gpus_is_told_with_its_steps_and_what_is_free() -> None:
    found = with_devices(
        device("GPU-a"), device("GPU-b", enforcement=Enforcement(memory="hard"), verified=True),
        device("MIG-1", "mig", profile="1g.10gb", provider="simulated"),
        free={"GPU-a": 1250},
    )  # fmt: skip
    shares, part = found["gpus"]
    assert (shares["slot"], shares["quantum"], shares["capacity"]) == ("fgpu", 100, 10_000)
    assert (shares["free"], shares["largest_free"]) == (6250, 5000)
    assert shares["limits"] == {"most": 10_000, "left": None, "free": 6200}, "in steps"
    assert shares["enforcement"]["memory"] == "none", "what one can rely on whichever one gets"
    assert (shares["verified"], shares["simulated"], shares["providers"]) == (
        False,
        False,
        ["memory"],
    )
    assert shares["means"] == {
        "500": "0.5 FGPU: 4.5 GB of GPU memory, 10 % of the computing time (NVIDIA L40S).",
        "1000": "1 FGPU: 9 GB of GPU memory, 20 % of the computing time (NVIDIA L40S).",
    }
    assert [one["count"] for one in shares["types"]] == [1, 1]
    assert (part["slot"], part["profile"], part["simulated"]) == ("mig", "1g.10gb", True)
    (agent,) = found["agents"]
    assert agent["gpus"] == {"fgpu": 6200, "1g.10gb": 1000}


def test_what_is_free_on_each_gpu_may_not_be_known() -> None:
    (shares,) = with_devices(device("GPU-a"))["gpus"]
    assert (shares["free"], shares["largest_free"], shares["limits"]["free"]) == (5000, None, 5000)


def test_what_is_not_available_is_not_free_and_can_be_waited_for() -> None:
    away = device("GPU-b", available=False, reason="It has errors.")
    (shares,) = with_devices(device("GPU-a"), away, free={})["gpus"]
    assert (shares["free"], shares["limits"]) == (
        5000, {"most": 10_000, "left": None, "free": 5000},
    )  # fmt: skip


def test_a_preset_between_two_steps_never_fits_there() -> None:
    found = with_devices(device("GPU-a", quantum=1000))
    (verdict,) = (p["verdict"] for p in found["presets"] if p["name"] == "share")
    assert verdict == {
        "code": "never", "text": "FGPU here comes in steps of 1: ask for 1.", "ahead": 0,
    }  # fmt: skip


@given(
    st.lists(st.integers(0, 10).map(lambda n: n * 100), max_size=5),
    st.sampled_from(["packed", "even"]),
)
def test_the_most_that_can_be_had_now_can_be_had(free: list[int], spread: Any) -> None:
    best = most_now(free, 1000, spread, 100)
    rest = sorted(free, reverse=True)
    if spread == "packed":
        parts = split(best, 1000, 100, spread, len(free)) or ()
        assert all(part <= has for part, has in zip(parts, rest, strict=False)) or best == 0
        assert best >= max(rest, default=0)
        return
    # Whatever is less, and can be divided so at all, fits now as well; the next such does not.
    for amount in range(100, 1000 * len(free) + 1, 100):
        ways = list(even_parts(amount, 1000, 100, len(free))) if amount > 1000 else [(1, amount)]
        fits = any(rest[number - 1] >= part for number, part in ways)
        if ways and amount <= best:
            assert fits
        elif ways:
            assert not fits
            break
