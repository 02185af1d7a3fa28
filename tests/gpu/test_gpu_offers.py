"""What is offered of the GPUs of a machine, and why something is not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from jupyterhub_backendai.gpu.devices import (
    ComputeMode,
    Device,
    Features,
    Inventory,
    LostDevice,
    MigDevice,
    MigMode,
)
from jupyterhub_backendai.gpu.driver import Absence, Absent
from jupyterhub_backendai.gpu.facts import HostFacts
from jupyterhub_backendai.gpu.offers import offers, simulated
from jupyterhub_backendai.gpu.state import Answer, Failed, Known, NotSupported
from jupyterhub_backendai.model.gpus import Enforcement, GpuDevice, GpuRule
from jupyterhub_backendai.model.slots import GIB, MIB
from jupyterhub_backendai.scheduling.fgpu import grant, usable_memory

from .machines import H100, L40S, LARGE, SMALL

NOTHING = NotSupported("NotSupported")
PLAIN = Device(
    uuid=L40S,
    index=0,
    name=Known("NVIDIA L40S"),
    total_bytes=Known(46064 * MIB),
    reserved_bytes=Known(572 * MIB),
    multiprocessors=Known(142),
    compute_capability=Known((8, 9)),
    compute_mode=Known(ComputeMode.DEFAULT),
    mig=NOTHING,
    mig_devices=(),
    features=Features(Known(True), Known(True), Known(True)),
)
PARTS = tuple(
    MigDevice(uuid, H100, Known(profile), Known(size * MIB), Known(sms), Known(1), Known(0))
    for uuid, profile, size, sms in ((SMALL, "1g.10gb", 9984, 16), (LARGE, "3g.40gb", 40448, 60))
)
DIVIDED = replace(
    PLAIN,
    uuid=H100,
    index=1,
    name=Known("NVIDIA H100 80GB HBM3"),
    total_bytes=Known(81559 * MIB),
    multiprocessors=Known(132),
    mig=Known(MigMode(current=True, pending=True)),
    mig_devices=PARTS,
)
STRONG = HostFacts(root=True, cgroup_v2=True, dmem=True, mps=3, driver=615, cuda=(13, 4))
WEAK = HostFacts()
FIVE = GpuRule(shares_per_gpu=5)


def one(rule: GpuRule, device: Device = PLAIN, facts: HostFacts = STRONG) -> GpuDevice:
    (found,) = offers(Inventory((device,)), (rule,), "default", facts)
    return found


def held(device: GpuDevice) -> tuple[str, str, str]:
    return device.enforcement.memory, device.enforcement.compute, device.enforcement.faults


def test_a_whole_gpu() -> None:
    found = one(GpuRule())
    assert found == GpuDevice(
        uuid=L40S,
        name="NVIDIA L40S",
        slot="gpu",
        memory=46064 * MIB,
        multiprocessors=142,
        provider="whole",
        enforcement=Enforcement(memory="hard", compute="hard", faults="hard"),
    )
    assert not found.verified


def test_the_parts_of_a_divided_gpu_and_not_the_gpu_itself() -> None:
    for rule in (GpuRule(), FIVE):
        small, large = offers(Inventory((DIVIDED,)), (rule,), "default", WEAK)
        assert (small.uuid, small.slot, small.profile, small.parent) == (
            SMALL, "mig", "1g.10gb", H100,
        )  # fmt: skip
        assert (large.multiprocessors, large.memory) == (60, 40448 * MIB)
        assert (small.provider, held(small)) == ("mig", ("hard", "hard", "hard"))
        assert small.available
        assert (small.capacity, small.quantum) == (1000, 1000)


def test_a_gpu_that_is_to_be_divided_and_has_no_parts() -> None:
    found = one(GpuRule(), replace(DIVIDED, mig_devices=()))
    assert not found.available
    assert "has no MIG devices" in found.reason
    assert found.slot == "mig"


def test_a_gpu_in_shares() -> None:
    found = one(FIVE)
    assert (found.slot, found.capacity, found.quantum) == ("fgpu", 5000, 100)
    assert found.memory == usable_memory(46064 * MIB)
    assert found.available
    assert not found.verified
    assert grant(found, 1000).memory == 9110 * MIB


def test_a_share_of_a_given_size() -> None:
    rule = GpuRule.model_validate({"unit": {"mem": "8g", "multiprocessors": 16}, "quantum": "0.5"})
    found = one(rule)
    # 45,554 MiB are 5.56 times 8 GiB, 142 multiprocessors 8.9 times 16.
    assert (found.capacity, found.quantum) == (5500, 500)
    assert grant(found, 1000).memory == 8 * GIB
    assert grant(found, 5500).memory == 44 * GIB
    assert found.available


@given(st.integers(512 * MIB // MIB, 20 * 1024), st.integers(2, 60))
def test_shares_of_a_given_size_have_it(mebibytes: int, multiprocessors: int) -> None:
    unit = {"mem": mebibytes * MIB, "multiprocessors": multiprocessors}
    found = one(GpuRule.model_validate({"unit": unit, "quantum": 1}))
    assert found.memory <= usable_memory(46064 * MIB)
    if found.available:
        share = grant(found, 1000).memory
        assert share == mebibytes * MIB - mebibytes % 2 * MIB


@given(
    st.none() | st.integers(0, 300 * GIB), st.none() | st.integers(1, 300),
    st.none() | st.integers(1, 100), st.integers(512, 100 * 1024), st.integers(1, 3000),
    st.sampled_from([STRONG, WEAK]),
)  # fmt: skip
def test_what_is_offered_can_be_granted(
    total: int | None,
    multiprocessors: int | None,
    shares: int | None,
    mebibytes: int,
    quantum: int,
    facts: HostFacts,
) -> None:
    if shares:  # a step goes into a GPU a whole number of times
        quantum = next(step for step in range(quantum, 0, -1) if not shares * 1000 % step)
    size = {"shares_per_gpu": shares} if shares else {"unit": {"mem": mebibytes * MIB}}
    assume(shares is None or shares * 1000 % quantum == 0)
    rule = GpuRule.model_validate({**size, "quantum": f"{quantum / 1000:.3f}"})
    device = replace(
        PLAIN,
        total_bytes=NOTHING if total is None else Known(total),
        multiprocessors=NOTHING if multiprocessors is None else Known(multiprocessors),
    )
    for found in (one(rule, device, facts), *simulated(1, rule)):
        assert found.available == (not found.reason)
        assert found.memory <= usable_memory(16 * GIB if found.simulated else total or 0)
        if found.available:
            step = grant(found, found.quantum)
            assert step.memory > 0
            assert step.percent > 0
            steps = found.capacity // found.quantum
            assert steps * step.memory <= found.memory
            assert steps * step.percent <= 100


@pytest.mark.parametrize(
    ("facts", "limits", "provider", "how"),
    [
        (STRONG, Known(True), "mps", ("hard", "soft", "none")),
        (replace(STRONG, mps=2), Known(True), "memory", ("hard", "none", "soft")),
        (replace(STRONG, mps=0), Known(True), "memory", ("hard", "none", "soft")),
        (STRONG, NOTHING, "mps", ("soft", "soft", "none")),
        (replace(STRONG, cgroup_v2=False), Known(True), "mps", ("soft", "soft", "none")),
        (replace(STRONG, mps=2), NOTHING, "mps2", ("soft", "soft", "none")),
        (replace(STRONG, mps=2, driver=580), NOTHING, "mps2", ("soft", "soft", "none")),
        # Older ones would leave sessions at each other's shared memory.
        (replace(STRONG, mps=2, driver=579), NOTHING, "advisory", ("none", "none", "soft")),
        (replace(STRONG, mps=2, driver=None), NOTHING, "advisory", ("none", "none", "soft")),
        (replace(STRONG, mps=0), NOTHING, "advisory", ("none", "none", "soft")),
        (replace(STRONG, root=False), Known(True), "advisory", ("none", "none", "soft")),
        (replace(STRONG, contained=True), Known(True), "advisory", ("none", "none", "soft")),
        # Where no cgroup has such limits yet the kernel says whether they can be had.
        (STRONG, Failed("NotFound"), "mps", ("hard", "soft", "none")),
        (replace(STRONG, dmem=False), Failed("NotFound"), "mps", ("soft", "soft", "none")),
    ],
)
def test_the_strongest_that_is_possible(
    facts: HostFacts, limits: Answer[bool], provider: str, how: tuple[str, str, str]
) -> None:
    device = replace(PLAIN, features=replace(PLAIN.features, memory_limits=limits))
    found = one(FIVE, device, facts)
    assert (found.provider, held(found)) == (provider, how)
    assert found.available
    # A provider that was asked for by its name is that one or none.
    for wanted in ("mps", "memory", "advisory"):
        named = one(GpuRule(shares_per_gpu=5, provider=wanted), device, facts)
        assert named.provider.startswith(wanted)
        assert named.available == (not named.reason)
        if wanted == "advisory":
            assert named.available


@pytest.mark.parametrize(
    ("wanted", "facts", "said"),
    [
        ("mps", replace(STRONG, root=False), "does not run as root"),
        ("mps", replace(STRONG, mps=0), "nvidia-cuda-mps-control is not on this machine"),
        ("mps", replace(STRONG, mps=0, unasked="it hangs"), "here: it hangs."),
        ("mps", replace(STRONG, contained=True), "does not see the machine's processes"),
        ("memory", replace(STRONG, cgroup_v2=False), "no cgroup v2"),
    ],
)
def test_a_provider_that_cannot_be_had(wanted: str, facts: HostFacts, said: str) -> None:
    rule = GpuRule.model_validate({"shares_per_gpu": 5, "provider": wanted})
    found = one(rule, facts=facts)
    assert not found.available
    assert said in found.reason


@pytest.mark.parametrize("driver", [570, None])
def test_memory_that_others_see_is_taken_only_by_name(driver: int | None) -> None:
    facts = replace(STRONG, mps=2, driver=driver)
    device = replace(PLAIN, features=replace(PLAIN.features, memory_limits=NOTHING))
    found = one(GpuRule(shares_per_gpu=5, least=Enforcement(memory="soft")), device, facts)
    assert (found.provider, found.available) == ("advisory", False)
    assert "each other's shared memory" in found.reason
    assert ("does not tell its release" in found.reason) == (driver is None)
    named = one(GpuRule(shares_per_gpu=5, provider="mps"), device, facts)
    assert (named.provider, named.available) == ("mps2", True)


def test_old_gpus_and_drivers() -> None:
    old = replace(PLAIN, compute_capability=Known((6, 1)))
    assert "older than Volta" in one(GpuRule(shares_per_gpu=5, provider="mps"), old).reason
    rule = GpuRule(shares_per_gpu=5, provider="memory")
    for answer, said in ((NOTHING, "which come with 615"), (Failed("Unknown"), "Unknown")):
        device = replace(PLAIN, features=replace(PLAIN.features, memory_limits=answer))
        assert said in one(rule, device).reason


def test_what_an_admin_asks_for_at_least() -> None:
    rule = GpuRule(shares_per_gpu=5, least=Enforcement(memory="hard", compute="soft"))
    assert one(rule).available
    weak = one(rule, facts=replace(STRONG, mps=2))
    assert not weak.available
    assert "compute is held `none`, and its rule asks for at least `soft`" in weak.reason
    assert "memory is held" not in weak.reason
    none = one(rule, facts=WEAK)
    assert "memory is held `none`" in none.reason
    assert "does not run as root" in none.reason
    assert "Lower `least`" in none.reason
    assert one(GpuRule(least=rule.least), facts=WEAK).available


def test_steps_that_are_too_fine() -> None:
    found = one(GpuRule(shares_per_gpu=20, quantum="0.1", provider="advisory"))
    assert not found.available
    assert "less than 1 %" in found.reason
    assert "`quantum` to 0.2 or more" in found.reason
    assert one(GpuRule(shares_per_gpu=20, quantum="0.2", provider="advisory")).available
    with pytest.raises(ValidationError, match="whole number of times"):
        GpuRule(shares_per_gpu=1, quantum=2)


LARGE_GPU = replace(PLAIN, total_bytes=Known(144 * GIB))


@pytest.mark.parametrize(
    ("cuda", "refused", "said", "least"),
    [
        ((13, 1), "0.05", "is one of 100 of this GPU, and MPS has at most 60 programs", "0.1"),
        ((13, 0), "0.1", "is one of 50 of this GPU, and MPS has at most 48 programs", "0.125"),
        (None, "0.1", "at most 48 programs", "0.125"),
    ],
)
def test_programs_that_mps_has_no_room_for(
    cuda: tuple[int, int] | None, refused: str, said: str, least: str
) -> None:
    facts = replace(STRONG, cuda=cuda)
    found = one(GpuRule(shares_per_gpu=5, quantum=refused), LARGE_GPU, facts)
    assert not found.available
    assert said in found.reason
    assert f"`quantum` to {least} or more" in found.reason
    assert one(GpuRule(shares_per_gpu=5, quantum=least), LARGE_GPU, facts).available
    rule = GpuRule(shares_per_gpu=5, quantum="0.05", provider="memory")
    assert one(rule, LARGE_GPU, facts).available


@pytest.mark.parametrize("provider", ["mps", "memory", "advisory"])
def test_steps_with_too_little_memory_for_a_program(provider: str) -> None:
    small = replace(PLAIN, total_bytes=Known(24564 * MIB))
    found = one(GpuRule(shares_per_gpu=5, provider=provider), small)
    assert found.available == (provider == "advisory")
    if not found.available:
        assert "has 480 MB of this GPU's memory, and a program needs 512 MB" in found.reason
        assert "`quantum` to 0.125 or more" in found.reason
    tiny = replace(PLAIN, total_bytes=Known(1000 * MIB))
    found = one(GpuRule(shares_per_gpu=1, provider=provider), tiny)
    assert found.available == (provider == "advisory")
    assert found.available or found.reason.endswith("Offer it as a whole.")
    assert one(GpuRule(shares_per_gpu=5, provider=provider)).available  # 911 MiB


@given(
    st.integers(1, 300 * GIB), st.none() | st.integers(1, 100), st.integers(512, 100 * 1024),
    st.integers(1, 3000), st.sampled_from(["mps", "memory", "advisory"]),
    st.sampled_from([None, (13, 1)]),
)  # fmt: skip
def test_the_step_that_is_named_can_be_had(
    total: int,
    shares: int | None,
    mebibytes: int,
    quantum: int,
    provider: str,
    cuda: tuple[int, int] | None,
) -> None:
    size = {"shares_per_gpu": shares} if shares else {"unit": {"mem": mebibytes * MIB}}
    assume(shares is None or shares * 1000 % quantum == 0)
    device, facts = replace(PLAIN, total_bytes=Known(total)), replace(STRONG, cuda=cuda)

    def offered(step: str) -> GpuDevice:
        rule = {**size, "quantum": step, "provider": provider}
        return one(GpuRule.model_validate(rule), device, facts)

    found = offered(f"{quantum / 1000:.3f}")
    if named := re.search("Set `quantum` to ([0-9.]+) or more", found.reason):
        better = offered(named[1])
        assert better.available, (found.reason, better.reason)
        assert better.quantum > found.quantum


def test_what_the_driver_does_not_tell() -> None:
    unknown = replace(PLAIN, multiprocessors=NOTHING)
    found = one(GpuRule.model_validate({"unit": {}}), unknown)
    assert not found.available
    assert "`shares_per_gpu`" in found.reason
    assert one(FIVE, unknown).available
    unknown = replace(PLAIN, total_bytes=NOTHING)
    assert "how much memory" in one(FIVE, unknown).reason
    assert one(GpuRule(), unknown).available
    assert one(GpuRule(), replace(PLAIN, name=Failed("NoPermission"))).name == "GPU"


def test_a_unit_that_is_larger_than_the_gpu() -> None:
    found = one(GpuRule.model_validate({"unit": {"mem": "100g"}, "quantum": "0.5"}))
    assert (found.capacity, found.available) == (0, False)
    assert "smaller `unit`" in found.reason


def test_a_compute_mode_that_nobody_here_may_change() -> None:
    device = replace(PLAIN, compute_mode=Known(ComputeMode.EXCLUSIVE_PROCESS))
    assert one(GpuRule(), device).available
    found = one(GpuRule(), device, WEAK)
    assert not found.available
    assert f"nvidia-smi -i {L40S} -c DEFAULT" in found.reason


def test_the_first_rule_counts_and_without_one_nothing_is_offered() -> None:
    rules = (
        GpuRule(model="*L40S*", resource_group="other"),
        GpuRule(devices=(L40S[:12],), shares_per_gpu=3),
        GpuRule(model="*L40S*"),
    )
    inventory = Inventory((PLAIN, replace(PLAIN, uuid="GPU-9")))
    shared, whole = offers(inventory, rules, "default", STRONG)
    assert (shared.capacity, whole.slot) == (3000, "gpu")
    assert offers(inventory, rules, "other", STRONG)[0].slot == "gpu"
    assert offers(inventory, (GpuRule(model="*A100*"),), "default", STRONG) == ()


def test_lost_devices_stay_in_the_list() -> None:
    before = offers(Inventory((PLAIN, DIVIDED)), (FIVE,), "default", STRONG)
    lost = (LostDevice(L40S, 0, "GpuIsLost"), LostDevice(None, 1, "GpuIsLost"))
    found = offers(Inventory((DIVIDED,), lost), (FIVE,), "default", STRONG, before)
    small, large, gone = found
    assert small.available
    assert large.available
    assert (gone.uuid, gone.capacity, gone.available) == (L40S, 5000, False)
    assert "lost this GPU (GpuIsLost)" in gone.reason
    # And the parts of a divided one.
    whole = (LostDevice(H100, 1, "GpuIsLost"),)
    found = offers(Inventory((PLAIN,), whole), (FIVE,), "default", STRONG, before)
    assert [device.uuid for device in found if not device.available] == [SMALL, LARGE]
    part = (LostDevice(None, 5, "Unknown", H100),)
    fewer = replace(DIVIDED, mig_devices=PARTS[:1])
    found = offers(Inventory((PLAIN, fewer), part), (FIVE,), "default", STRONG, before)
    assert [device.uuid for device in found if not device.available] == [LARGE]


def test_a_driver_that_is_gone() -> None:
    before = offers(Inventory((PLAIN,)), (FIVE,), "default", STRONG)
    absence = Absence(Absent.HANGS, "The NVIDIA driver has not answered for 10 seconds.")
    inventory = Inventory(lost=(LostDevice(L40S, 0, "NotListed"),), absence=absence)
    (found,) = offers(inventory, (FIVE,), "default", STRONG, before)
    assert (found.available, found.reason) == (False, absence.reason)


def test_simulated_gpus() -> None:
    first, second = simulated(2, FIVE)
    assert (first.uuid, second.uuid, first.name) == ("SIM-0", "SIM-1", "Simulated GPU")
    assert (first.slot, first.capacity, first.provider) == ("fgpu", 5000, "simulated")
    assert first.simulated
    assert first.enforcement == Enforcement()
    (whole,) = simulated(1, GpuRule())
    assert (whole.slot, whole.memory, whole.multiprocessors) == ("gpu", 16 * GIB, 64)
    (unit,) = simulated(1, GpuRule.model_validate({"unit": {}}))
    assert (unit.capacity, unit.available) == (7700, True)
    assert not simulated(1, GpuRule(shares_per_gpu=50))[0].available


def test_mps_has_one_gpu_for_a_session() -> None:
    first, second = offers(
        Inventory((PLAIN, replace(PLAIN, uuid="GPU-9"))), (FIVE,), "default", STRONG
    )
    assert first.provider == "mps"
    assert first.type != second.type
    rule = GpuRule(shares_per_gpu=5, provider="memory")
    first, second = offers(
        Inventory((PLAIN, replace(PLAIN, uuid="GPU-9"))), (rule,), "default", STRONG
    )
    assert first.type == second.type
