"""What the form is told to judge by is what the server decides by."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.gpus import GpuDevice
from jupyterhub_backendai.model.policy import Policies, Policy
from jupyterhub_backendai.model.resolve import AgentFacts, Context, resolve
from jupyterhub_backendai.model.slots import GIB, SLOT_NAMES, Slots, format_thousandths
from jupyterhub_backendai.scheduling.snapshot import Agent, Holding, Snapshot
from jupyterhub_backendai.site.options import _View

CATALOG = Catalog(
    environments=({"name": "python", "image": "python:3", "minimum": {"mem": "512m"}},),  # type: ignore[arg-type]
    resource_groups=({"name": "default"}, {"name": "lab"}),  # type: ignore[arg-type]
    presets=(
        {"name": "small", "cpu": 1, "mem": "1g"},
        {"name": "gpu", "cpu": 1, "mem": "1g", "fgpu": 1},
    ),  # type: ignore[arg-type]
)
POLICY = Policy(total={"cpu": 12, "mem": "40g"}, per_session={"fgpu": 3}, choose_agent=True)  # type: ignore[arg-type]
CAPACITY = {
    ("default", "cpu-1"): Slots(8000, 32 * GIB), ("default", "cpu-2"): Slots(16000, 8 * GIB),
    ("lab", "gpu-1"): Slots(8000, 32 * GIB, 2000), ("lab", "gpu-2"): Slots(4000, 64 * GIB, 4000),
}  # fmt: skip
CONTEXT = Context(
    "ada", frozenset(), False, CATALOG, Policies(default=POLICY),
    agents=tuple(AgentFacts(name, group, slots) for (group, name), slots in CAPACITY.items()),
)  # fmt: skip


def shown(holdings: tuple[Holding, ...] = ()) -> tuple[dict[str, Any], Snapshot]:
    """The options view, as the page gets it, and the snapshot that it was made from."""
    agents = [Agent(name, group, slots) for (group, name), slots in CAPACITY.items()]
    snapshot = Snapshot(1000.0, (), agents, holdings, {"ada": POLICY.limits}, {}, {})
    return json.loads(json.dumps(_View(CONTEXT, snapshot, False).as_dict())), snapshot


def judge(
    group: dict[str, Any], amounts: dict[str, int], agent: str, profile: str | None = None
) -> str:
    """What the page makes of the figures (`judge` in resources.js), with nothing else to go by."""
    agents = [a for a in group["agents"] if agent in ("auto", a["name"])]
    place = group if agent == "auto" else agents[0]

    def within(room: dict[str, int]) -> bool:
        return all(amounts.get(slot, 0) <= room[slot] for slot in SLOT_NAMES)

    def counts(bound: dict[str, Any]) -> bool:
        return bound.get("profile") in (None, profile)

    def now(a: dict[str, Any]) -> bool:
        kinds = a.get("gpus", {})
        best = {**kinds, "mig": kinds.get(profile, kinds.get("mig", 10**9))}
        return within(a["free"]) and all(
            amounts.get(slot, 0) <= best.get(slot, 10**9) for slot in ("fgpu", "gpu", "mig")
        )

    over = [
        str(b["code"])
        for b in place["bounds"]
        if counts(b) and amounts.get(b["slot"], 0) > b["over"]
    ]
    over = over[:1]
    known = [a for a in agents if any(a["capacity"].values())]
    if over != ["never"] and known and not any(within(a["capacity"]) for a in known):
        return str(place["apart"]["code"])
    if over:
        return over[0]
    fits = any(a["available"] and now(a) for a in agents)
    return str(place["otherwise" if fits else "together"]["code"])


halves = st.integers(1, 40).map(lambda n: n * 500)
sizes = st.integers(1, 140).map(lambda n: n * GIB // 2)


@example(
    "default",
    "auto",
    {"cpu": 8500, "mem": 17 * GIB // 2, "fgpu": 0},
    [(("default", "cpu-1"), "ada")] * 2,
)
@given(
    st.sampled_from(["default", "lab"]),
    st.sampled_from(["auto", "first", "second"]),
    st.builds(dict, cpu=halves, mem=sizes, fgpu=st.just(0) | halves),
    st.lists(st.tuples(st.sampled_from([*CAPACITY]), st.sampled_from(["ada", "bob"])), max_size=4),
)
def test_the_page_judges_as_the_server_does(
    group: str, which: str, amounts: dict[str, int], held: list[tuple[tuple[str, str], str]]
) -> None:
    holdings = tuple(
        Holding(f"s{n}", owner, None, place[0], place[1], Slots(2000, 4 * GIB, 500))
        for n, (place, owner) in enumerate(held)
    )
    view, snapshot = shown(holdings)
    (told,) = (g for g in view["resource_groups"] if g["name"] == group)
    agent = {
        "auto": "auto",
        "first": told["agents"][0]["name"],
        "second": told["agents"][1]["name"],
    }[which]
    spec = {
        "resource_group": group, "agent": agent, "preset": "small",
        "resources": {
            "cpu": format_thousandths(amounts["cpu"]), "mem": amounts["mem"],
            "fgpu": format_thousandths(amounts["fgpu"]),
        },
    }  # fmt: skip
    found = judge(told, amounts, agent)
    if found == "never":
        with pytest.raises(RequestError) as caught:
            resolve(spec, CONTEXT)
        assert {e.code for e in caught.value.errors} == {"too_much"}
        return
    request = resolve(spec, CONTEXT)
    free = {a.name: a.capacity for a in snapshot.agents}
    for holding in holdings:
        free[holding.agent] = (free[holding.agent] - holding.slots).floor()
    mine = sum((h.slots for h in holdings if h.owner == "ada"), Slots())
    room = any(
        request.slots.fits(free[name])
        for (of, name) in CAPACITY
        if of == group and agent in ("auto", name)
    )
    rest = POLICY.limits.left(mine)
    most = {slot: getattr(rest, slot) for slot in SLOT_NAMES}
    allowed = all(most[slot] is None or amount <= most[slot] for slot, amount in request.slots)
    assert found == ("now" if room and allowed else "waits")


def gpu(uuid: str, slot: Any, model: str = "NVIDIA L40S", **more: Any) -> GpuDevice:
    return GpuDevice(uuid=uuid, name=model, slot=slot, **more)


DEVICES = (
    (gpu("GPU-a", "fgpu", capacity=2000, quantum=100),
     gpu("GPU-b", "fgpu", capacity=2000, quantum=100),
     gpu("GPU-c", "fgpu", "NVIDIA A100", quantum=500)),
    (gpu("GPU-d", "gpu"), gpu("GPU-e", "gpu"), gpu("MIG-1", "mig", profile="1g.10gb"),
     gpu("MIG-2", "mig", profile="1g.10gb"), gpu("MIG-3", "mig", profile="3g.40gb")),
)  # fmt: skip
KINDS = st.sampled_from([("fgpu", None), ("gpu", None), ("mig", "1g.10gb"), ("mig", "3g.40gb")])


@given(
    KINDS,
    st.integers(1, 12),
    st.dictionaries(
        st.sampled_from([d.uuid for ds in DEVICES for d in ds]), st.just(0) | st.just(500)
    ),
)
def test_the_page_judges_kinds_of_gpus_as_the_server_does(
    kind: tuple[str, str | None], number: int, free: dict[str, int]
) -> None:
    slot, profile = kind
    amount = number * 500 if slot == "fgpu" else number * 1000
    agents = []
    for name, devices in zip(("lab-1", "lab-2"), DEVICES, strict=True):
        sums = {s: sum(d.capacity for d in devices if d.slot == s) for s in ("fgpu", "gpu", "mig")}
        agents.append(AgentFacts(name, "lab", Slots(8000, 32 * GIB, **sums), devices))
    context = replace(CONTEXT, agents=tuple(agents), policies=Policies())
    machines = [Agent(a.name, "lab", a.capacity, devices=a.devices) for a in agents]
    held = [
        Holding("s1", "bob", None, "lab", a.name, Slots(), ((d.uuid, d.capacity - free[d.uuid]),))
        for a in agents
        for d in a.devices
        if d.uuid in free
    ]
    view = _View(context, Snapshot(0.0, (), machines, held, {}, {}, {}), False).as_dict()
    lab = view["resource_groups"][1]
    found = judge(lab, {"cpu": 1000, "mem": GIB, slot: amount}, "auto", profile)
    asked = {slot: format_thousandths(amount), "mig_profile": profile or ""}
    spec = {"resource_group": "lab", "preset": "small", "resources": asked}
    if found == "never":
        with pytest.raises(RequestError) as caught:
            resolve(spec, context)
        assert {e.field for e in caught.value.errors} == {f"resources.{slot}"}
        return
    request = resolve(spec, context)
    assert (getattr(request, slot), request.mig_profile) == (amount, profile)
    (told,) = (k for k in lab["gpus"] if (k["slot"], k["profile"]) == kind)
    assert found == ("now" if amount <= told["limits"]["free"] else "waits")


def test_nothing_is_told_that_never_decides() -> None:
    view, _ = shown()
    for place in (of for g in view["resource_groups"] for of in (g, *g["agents"])):
        for slot in SLOT_NAMES:
            over = [bound["over"] for bound in place["bounds"] if bound["slot"] == slot]
            assert over == sorted(set(over), reverse=True), (place["name"], slot)


@pytest.mark.parametrize(
    "options", [{"resources": {"fgpu": 0.5}}, {"preset": "gpu"}], ids=["amount", "preset"]
)
def test_no_gpu_is_offered_or_granted_where_there_is_none(options: dict[str, Any]) -> None:
    view, _ = shown()
    default, lab = view["resource_groups"]
    assert (bool(default["gpus"]), default["limits"]["fgpu"]["most"]) == (False, 0)
    assert (bool(lab["gpus"]), lab["limits"]["fgpu"]["most"]) == (True, 3000)
    with pytest.raises(RequestError) as caught:
        resolve({"resource_group": "default", **options}, CONTEXT)
    (error,) = caught.value.errors
    assert (error.field, error.message) == ("resources.fgpu", "default has no GPUs.")
    assert resolve({"resource_group": "lab", **options}, CONTEXT).fgpu


@pytest.mark.parametrize("total", [{"cpu": 12}, {"cpu": 0.5, "mem": "600m"}], ids=["", "small"])
def test_without_a_preset_the_page_judges_what_the_server_would_take(total: Any) -> None:
    catalog = Catalog(
        environments=(
            {"name": "python", "image": "python:3"},
            {"name": "tiny", "image": "tiny:1", "minimum": {"cpu": 0.25, "mem": "128m"}},
        ),  # type: ignore[arg-type]
        resource_groups=({"name": "default"}, {"name": "lab"}),  # type: ignore[arg-type]
    )
    policies = Policies(default=Policy(total=total, manual_image=True))
    context = replace(CONTEXT, catalog=catalog, policies=policies)
    view = _View(context, Snapshot(0.0, (), (), (), {}, {}, {}), False).as_dict()
    for group in view["resource_groups"]:
        assert set(group["usual"]) == {"", "python", "tiny"}
        for environment, told in group["usual"].items():
            spec = {"environment": environment} if environment else {"image": "any/image:1"}
            request = resolve({"resource_group": group["name"], **spec}, context)
            assert told == request.slots.as_dict()


def test_the_least_and_the_ports_of_an_environment_are_the_servers_own() -> None:
    view, _ = shown()
    (environment,) = view["environments"]
    for need in environment["needs"]:
        less = need["least"] - 1
        asked = {need["slot"]: less if need["slot"] == "mem" else format_thousandths(less)}
        with pytest.raises(RequestError) as caught:
            resolve({"preset": "small", "resources": asked}, CONTEXT)
        assert need["text"] in {e.message for e in caught.value.errors}
    for first, last, why in view["ports"]["closed"]:
        for port in (first, last):
            with pytest.raises(RequestError) as caught:
                resolve({"preopen_ports": [port]}, CONTEXT)
            assert [e.message for e in caught.value.errors] == [f"Port {port} {why}"]
