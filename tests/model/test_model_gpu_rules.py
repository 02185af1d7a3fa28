"""What may be asked of GPUs: one kind, in its steps, of a profile there is; else what could be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_samples import (
    ALICE,
    CATALOG,
    GPU_AGENTS,
    WITH_GPUS,
    context,
    granted,
    machine,
    mig,
    places,
    refused,
    shared,
    the_error,
    whole,
)

from jupyterhub_backendai.model.catalog import Environment, Preset, ResourceGroup
from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.gpus import GpuKind, pools, split
from jupyterhub_backendai.model.request import AgentFacts, Context, SessionRequest
from jupyterhub_backendai.model.resolve import resolve
from jupyterhub_backendai.model.slots import Slots, format_thousandths


def asks(**resources: Any) -> dict[str, Any]:
    return {"resource_group": "lab", "resources": resources}


def lab(*agents: AgentFacts, **changes: Any) -> Context:
    """A site whose lab has these agents, and settings."""
    groups = tuple(
        g.model_copy(update=changes) if g.name == "lab" else g for g in CATALOG.resource_groups
    )
    catalog = CATALOG.model_copy(update={"resource_groups": groups})
    return context(agents=agents, catalog=catalog)


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ({"fgpu": "1.5"}, (1500, 0, 0, None)),
        ({"fgpu": 7.3}, (7300, 0, 0, None)),
        ({"gpu": 2}, (0, 2000, 0, None)),
        ({"mig": 2, "mig_profile": "1g.10gb"}, (0, 0, 2000, "1g.10gb")),
        ({"mig": 1, "mig_profile": "3g.40gb", "fgpu": 0, "gpu": ""}, (0, 0, 1000, "3g.40gb")),
    ],
)
def test_each_kind_is_granted_as_it_was_asked(asked: Any, got: tuple[Any, ...]) -> None:
    found = granted(asks(**asked), WITH_GPUS)
    assert (found.fgpu, found.gpu, found.mig, found.mig_profile) == got


@pytest.mark.parametrize(
    ("asked", "field", "code", "message"),
    [
        ({"fgpu": 1.45}, "fgpu", "not_in_steps",
         "FGPU here comes in steps of 0.1: ask for 1.4 or 1.5."),
        ({"fgpu": 0.05}, "fgpu", "not_in_steps", "FGPU here comes in steps of 0.1: ask for 0.1."),
        ({"fgpu": 10.5}, "fgpu", "too_much",
         "Never fits: the largest machine of lab has 10 FGPU."),
        ({"gpu": 3}, "gpu", "too_much",
         "Never fits: the largest machine of lab has 2 whole GPUs."),
        ({"gpu": 1.5}, "gpu", "not_whole", "This is a whole number such as 1 or 2."),
        ({"gpu": 1, "mig": 1, "mig_profile": "1g.10gb"}, "mig", "two_kinds",
         "A session has GPUs of one kind: whole GPUs or MIG devices. Leave one of them out."),
        ({"fgpu": 1, "gpu": 1}, "gpu", "two_kinds",
         "A session has GPUs of one kind: FGPU or whole GPUs. Leave one of them out."),
        ({"mig": 1}, "mig_profile", "missing", "Say which MIG devices: 1g.10gb or 3g.40gb."),
        ({"mig": 1, "mig_profile": "7g"}, "mig_profile", "unknown",
         "There are no 7g here. Choose 1g.10gb or 3g.40gb."),
        ({"mig": 2, "mig_profile": "3g.40gb"}, "mig", "too_much",
         "Never fits: the largest machine of lab has 1 MIG device (3g.40gb) of one type."),
        ({"mig_profile": "3g.40gb"}, "mig_profile", "without_mig",
         "This says which MIG devices. Say in mig how many, such as 1."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_at_its_field_with_what_can(
    asked: Any, field: str, code: str, message: str
) -> None:
    error = the_error(asks(**asked), WITH_GPUS)
    assert (error.field, error.code, error.message) == (f"resources.{field}", code, message)


def test_three_kinds_are_two_too_many() -> None:
    found = places(asks(fgpu=1, gpu=1, mig=1, mig_profile="1g.10gb"), WITH_GPUS)
    assert found == [("resources.gpu", "two_kinds"), ("resources.mig", "two_kinds")]


def test_what_could_not_be_read_is_the_only_error_of_it() -> None:
    assert places(asks(mig="x", mig_profile="1g.10gb"), WITH_GPUS) == [
        ("resources.mig", "not_a_number")
    ]


def test_one_kind_takes_the_place_of_the_presets() -> None:
    preset = {"resource_group": "lab", "preset": "gpu"}  # of 0.5 FGPU
    whole_one = granted({**preset, "resources": {"gpu": 1}}, WITH_GPUS)
    assert (whole_one.fgpu, whole_one.gpu, whole_one.preset_changed) == (0, 1000, True)
    assert granted({**preset, "resources": {"gpu": 0}}, WITH_GPUS).fgpu == 500
    assert granted({**preset, "resources": {"fgpu": 0}}, WITH_GPUS).slots.gpu_slot is None


def test_the_only_profile_there_is_needs_no_word() -> None:
    one = lab(machine("h100", mig("MIG-1"), mig("MIG-2")))
    assert granted(asks(mig=2), one).mig_profile == "1g.10gb"
    preset = Preset(name="part", cpu=1, mem="2g", mig=1, mig_profile="2g.20gb")
    catalog = CATALOG.model_copy(update={"presets": (preset, *CATALOG.presets)})
    both = machine("h100", mig("MIG-1"), mig("MIG-2", "2g.20gb"))
    of = context(agents=(both,), catalog=catalog)
    got = granted({"resource_group": "lab"}, of)
    assert (got.preset, got.mig_profile, got.preset_changed) == ("part", "2g.20gb", False)
    got = granted(asks(mig_profile="1g.10gb"), of)
    assert (got.mig, got.mig_profile, got.preset_changed) == (1000, "1g.10gb", True)


def test_a_preset_that_can_never_be_had_is_nobodys_default() -> None:
    presets = (
        Preset(name="fine", cpu=1, mem="2g", fgpu="0.25"),
        Preset(name="any", cpu=1, mem="2g", mig=1),
        Preset(name="gone", cpu=1, mem="2g", mig=1, mig_profile="7g.80gb"),
        Preset(name="plain", cpu=1, mem="2g"),
    )
    catalog = CATALOG.model_copy(update={"presets": presets})
    of = replace(WITH_GPUS, catalog=catalog)
    assert granted({"resource_group": "lab"}, of).preset == "plain"
    for name, field in (
        ("fine", "resources.fgpu"), ("any", "resources.mig_profile"),
        ("gone", "resources.mig_profile"),
    ):  # fmt: skip
        assert the_error({"resource_group": "lab", "preset": name}, of).field == field


def test_a_group_without_that_kind_says_what_it_has() -> None:
    shares_only = lab(GPU_AGENTS[0])
    assert the_error(asks(gpu=1), shares_only).message == "lab has no whole GPUs. It has FGPU."
    on_h100 = {**asks(fgpu=1), "agent": "h100"}
    assert the_error(on_h100, WITH_GPUS).message == (
        "h100 has no FGPU. It has whole GPUs and MIG devices (1g.10gb, 3g.40gb)."
    )
    assert the_error({"resources": {"gpu": 1}}, WITH_GPUS).message == "default has no GPUs."


def test_an_agent_that_is_picked_narrows_what_can_be_had() -> None:
    fine = machine("fine", shared("GPU-x", quantum=50, capacity=1000))
    coarse = machine("coarse", *(shared(f"GPU-{n}", quantum=500, capacity=2000) for n in range(2)))
    both = lab(fine, coarse)
    assert granted(asks(fgpu=0.85), both).fgpu == 850
    assert granted(asks(fgpu=3.5), both).fgpu == 3500
    error = the_error(asks(fgpu=1.25), both)
    assert error.message == "1.25 FGPU is not in the steps of the GPUs here: ask for 1 or 1.5."
    error = the_error({**asks(fgpu=0.85), "agent": "coarse"}, both)
    assert error.message == "FGPU here comes in steps of 0.5: ask for 0.5 or 1."
    error = the_error({**asks(fgpu=1.5), "agent": "fine"}, both)
    assert error.message == "Never fits: fine has 1 FGPU."


def test_devices_that_are_not_alike_are_not_had_together() -> None:
    mixed = lab(machine("mixed", shared("GPU-x"), shared("GPU-y", name="NVIDIA A100")))
    assert granted(asks(fgpu=5), mixed).fgpu == 5000
    assert the_error(asks(fgpu=6), mixed).message == (
        "Never fits: the largest machine of lab has 5 FGPU of one type."
    )


def test_an_even_spread_divides_or_says_what_does() -> None:
    two = machine("two", shared("GPU-x", capacity=1000), shared("GPU-y", capacity=1000))
    even = lab(two, gpu_spread="even")
    assert granted(asks(fgpu=1.6), even).fgpu == 1600
    assert granted(asks(fgpu=0.7), even).fgpu == 700
    error = the_error(asks(fgpu=1.5), even)
    assert (error.field, error.code, error.message) == (
        "resources.fgpu", "not_in_steps",
        "1.5 FGPU cannot be divided evenly among the GPUs here: ask for 1.4 or 1.6.",
    )  # fmt: skip
    assert granted(asks(fgpu=1.5), lab(two)).fgpu == 1500


def test_what_is_not_available_now_can_be_waited_for() -> None:
    """As with a machine that does not answer: it has what it had."""
    away = lab(machine("m", shared("GPU-x", available=False, reason="It has errors.")))
    assert granted(asks(fgpu=5), away).fgpu == 5000
    assert the_error(asks(fgpu=5.1), away).code == "too_much"
    silent = lab(AgentFacts("new", "lab", Slots()))
    assert granted(asks(mig=1, mig_profile="1g.10gb"), silent).mig_profile == "1g.10gb"
    assert granted(asks(fgpu="0.123"), silent).fgpu == 123  # nobody knows its steps


def test_each_kind_fits_and_all_together_fit_none() -> None:
    small = machine("small", shared("GPU-x"), cpu=2000)
    found = refused({**asks(fgpu=1, cpu=8)}, lab(small, machine("cpus"))).errors
    assert [(e.field, e.message) for e in found] == [
        ("resources", "Never fits: no machine has 8 CPU cores, 2 GB of memory, 1 FGPU together.")
    ]


@pytest.mark.parametrize(
    ("minimum", "asked", "problem"),
    [
        ({"fgpu": "0.5"}, {"fgpu": "0.4"}, ("resources.fgpu", "CUDA needs at least 0.5 FGPU.")),
        ({"fgpu": "0.5"}, {"fgpu": "0.5"}, None),
        ({"fgpu": "0.5"}, {"gpu": 1}, None),
        ({"fgpu": "0.5"}, {}, None),
        ({"fgpu": "0.5", "gpu": 2}, {"gpu": 1},
         ("resources.gpu", "CUDA needs at least 0.5 FGPU or 2 whole GPUs.")),
        ({"fgpu": "0.5", "gpu": 2}, {"fgpu": 0},
         ("resources.fgpu", "CUDA needs at least 0.5 FGPU or 2 whole GPUs.")),
        ({"gpu": 1}, {"mig": 1, "mig_profile": "1g.10gb"}, None),
    ],
)  # fmt: skip
def test_the_least_of_an_environment_is_of_any_kind_that_it_names(
    minimum: Any, asked: Any, problem: Any
) -> None:
    environment = Environment(name="cuda", title="CUDA", image="cuda:1", minimum=minimum)
    catalog = CATALOG.model_copy(update={"environments": (environment,), "presets": ()})
    of = replace(WITH_GPUS, catalog=catalog, policies=type(WITH_GPUS.policies)())
    if problem is None:
        assert granted(asks(**asked), of).slots.gpu_slot
    else:
        error = the_error(asks(**asked), of)
        assert (error.field, error.message) == problem


def test_the_least_that_is_between_two_steps_is_the_next_one_by_default() -> None:
    environment = Environment(name="cuda", image="cuda:1", minimum={"fgpu": "0.25"})
    catalog = CATALOG.model_copy(update={"environments": (environment,), "presets": ()})
    of = replace(WITH_GPUS, catalog=catalog, policies=type(WITH_GPUS.policies)())
    assert granted({"resource_group": "lab"}, of).fgpu == 300


def test_limits_on_each_kind() -> None:
    policy = ALICE.policy.model_copy(
        update={"per_session": ALICE.policy.per_session.model_copy(update={"gpu": 1000})}
    )
    of = context(policy, agents=GPU_AGENTS)
    assert the_error(asks(gpu=2), of).message == "Your limit for one session is 1 whole GPU."
    group = ResourceGroup(name="lab", per_session={"mig": 0})
    catalog = CATALOG.model_copy(update={"resource_groups": (group,)})
    error = the_error(asks(mig=1, mig_profile="1g.10gb"), replace(WITH_GPUS, catalog=catalog))
    assert error.message == "The limit of lab for one session is 0 MIG devices (1g.10gb)."


devices = st.builds(
    shared,
    uuid=st.uuids().map(str),
    name=st.sampled_from(["NVIDIA L40S", "NVIDIA A100"]),
    capacity=st.sampled_from([1000, 2000, 5000]),
    quantum=st.sampled_from([100, 250, 500, 1000]),
    available=st.booleans(),
) | st.builds(whole, uuid=st.uuids().map(str))


@given(
    st.lists(st.lists(devices, max_size=4), min_size=1, max_size=3),
    st.integers(1, 11_000),
    st.sampled_from(["packed", "even"]),
)
def test_what_is_accepted_can_be_divided_to_the_thousandth(
    machines: list[list[Any]], amount: int, spread: Any
) -> None:
    agents = [machine(f"m{n}", *some) for n, some in enumerate(machines)]
    kind = GpuKind("fgpu")
    divided = [
        parts
        for agent in agents
        for pool in pools(kind, agent.devices)
        if (parts := split(amount, pool.capacity, pool.quantum, spread, pool.count))
    ]
    options = asks(fgpu=format_thousandths(amount))
    try:
        found: SessionRequest | RequestError = resolve(options, lab(*agents, gpu_spread=spread))
    except RequestError as error:
        found = error
    if isinstance(found, RequestError):
        assert not divided, "what could be had is not refused"
        (problem,) = found.errors
        assert problem.field == "resources.fgpu"
    else:
        assert found.fgpu == amount
        assert divided
        assert all(sum(parts) == amount for parts in divided)
