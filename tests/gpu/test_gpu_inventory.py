"""The inventory: what each device tells, and what it says where a device does not tell it."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest

from jupyterhub_backendai.gpu import (
    Absent,
    ComputeMode,
    Device,
    Failed,
    Known,
    LostDevice,
    MigMode,
    NotSupported,
    Nvml,
)

from .conftest import Fake, Proc
from .machines import DIVIDED, H100, L40S, LARGE, MIB, PLAIN, SMALL, SYSTEM

CONTROLLERS = "cgroup.controllers"


async def device(nvml: Nvml, uuid: str) -> Device:
    found = (await nvml.inventory()).device(uuid)
    assert found is not None
    return found


async def test_a_whole_device(nvml: Nvml) -> None:
    inventory = await nvml.inventory()
    assert inventory.absence is None
    assert inventory.lost == ()
    assert inventory.driver_version == Known("615.71.09")
    assert inventory.cuda_version == Known((13, 4))
    found = inventory.devices[0]
    assert (found.uuid, found.index, found.name) == (L40S, 0, Known("NVIDIA L40S"))
    assert found.total_bytes == Known(46064 * MIB)
    assert found.reserved_bytes == Known(572 * MIB)
    assert found.multiprocessors == Known(142)
    assert found.compute_capability == Known((8, 9))
    assert found.compute_mode == Known(ComputeMode.EXCLUSIVE_PROCESS)
    assert found.mig == NotSupported("NotSupported")
    assert found.mig_devices == ()
    assert found.features.mps_processes == Known(True)
    assert found.features.process_utilisation == Known(True)


async def test_a_divided_device_with_holes_among_its_slots(nvml: Nvml) -> None:
    inventory = await nvml.inventory()
    whole = inventory.devices[1]
    assert (whole.uuid, whole.index) == (H100, 1)
    assert whole.mig == Known(MigMode(current=True, pending=True))
    assert whole.multiprocessors == Known(132)
    assert whole.features.process_utilisation == NotSupported("NotSupported")
    small, large = whole.mig_devices
    assert (small.uuid, small.parent, small.profile) == (SMALL, H100, Known("1g.10gb"))
    assert (small.total_bytes, small.multiprocessors) == (Known(9984 * MIB), Known(16))
    assert (small.gpu_instance, small.compute_instance) == (Known(7), Known(0))
    assert (large.uuid, large.profile, large.multiprocessors) == (
        LARGE,
        Known("3g.40gb"),
        Known(60),
    )


async def test_a_device_that_could_be_divided_and_is_not(fake: Fake, nvml: Nvml) -> None:
    fake.change("mig 1 1 7", "mig 0 1 7")
    found = await device(nvml, H100)
    assert found.mig == Known(MigMode(current=False, pending=True))
    assert found.mig_devices == ()


OPTIONAL = {
    "nvmlDeviceGetName": "name",
    "nvmlDeviceGetMemoryInfo": "total_bytes",
    "nvmlDeviceGetNumGpuCores": "multiprocessors",
    "nvmlDeviceGetCudaComputeCapability": "compute_capability",
    "nvmlDeviceGetComputeMode": "compute_mode",
    "nvmlDeviceGetMigMode": "mig",
}


@pytest.mark.parametrize(("call", "field"), OPTIONAL.items())
@pytest.mark.parametrize(
    ("error", "answer"),
    [
        ("NotSupported", NotSupported("NotSupported")),
        ("FunctionNotFound", NotSupported("FunctionNotFound")),
        ("ArgumentVersionMismatch", NotSupported("ArgumentVersionMismatch")),
        ("NoPermission", Failed("NoPermission")),
        ("Unknown", Failed("Unknown")),
        ("777", Failed("Code777")),
    ],
)
async def test_a_question_without_an_answer_spoils_no_other(
    call: str, field: str, error: str, answer: object, fake: Fake, nvml: Nvml
) -> None:
    before = await device(nvml, L40S)
    # Memory is asked for in two versions.
    fake.rules(f"fail {call} {error} on {L40S}", f"fail {call}_v2 {error} on {L40S}")
    found = await device(nvml, L40S)
    assert getattr(found, field) == answer
    spoilt = {field}
    if call == "nvmlDeviceGetMemoryInfo":
        spoilt.add("reserved_bytes")
    if call == "nvmlDeviceGetCudaComputeCapability":
        spoilt.add("multiprocessors")  # derived from it
    for other in set(Device.__dataclass_fields__) - spoilt:
        assert getattr(found, other) == getattr(before, other), other


NAMES = {
    code: kind.__name__.removeprefix("NVMLError_")
    for code, kind in pynvml.NVMLError._valClassMapping.items()
}


@pytest.mark.parametrize("code", sorted(NAMES))
async def test_every_error_that_nvml_has_is_of_the_question_the_device_or_the_driver(
    code: int, fake: Fake, nvml: Nvml
) -> None:
    name = NAMES[code]
    fake.rules(f"fail nvmlDeviceGetName {code} on {L40S}")
    inventory = await nvml.inventory()
    found = inventory.device(L40S)
    if name in {"GpuIsLost", "GpuNotFound", "ResetRequired"}:
        assert found is None
        assert inventory.lost == (LostDevice(L40S, 0, name),)
        assert [one.uuid for one in inventory.devices] == [H100]
    elif name in {"Uninitialized", "DriverNotLoaded", "LibRmVersionMismatch"}:
        assert inventory.devices == ()
        assert inventory.absence
        assert inventory.initialisations == 0
    else:
        absent = name in {"NotSupported", "FunctionNotFound", "ArgumentVersionMismatch"}
        absent = absent or name == "Deprecated"
        assert found is not None
        assert found.name == (NotSupported(name) if absent else Failed(name))


async def test_without_the_second_version_of_memory_the_reserved_part_is_not_known(
    fake: Fake, nvml: Nvml
) -> None:
    fake.rules("fail nvmlDeviceGetMemoryInfo_v2 FunctionNotFound")
    found = await device(nvml, L40S)
    assert found.total_bytes == Known(46064 * MIB)
    assert found.reserved_bytes == NotSupported("FunctionNotFound")


async def test_memory_of_a_part_by_its_attributes(fake: Fake, nvml: Nvml) -> None:
    fake.rules(
        f"fail nvmlDeviceGetMemoryInfo NotSupported on {SMALL}",
        f"fail nvmlDeviceGetMemoryInfo_v2 NotSupported on {SMALL}",
    )
    small, large = (await device(nvml, H100)).mig_devices
    assert small.total_bytes == Known(9984 * MIB)
    assert large.total_bytes == Known(40448 * MIB)


async def test_a_profile_that_the_name_does_not_tell_is_not_guessed(fake: Fake, nvml: Nvml) -> None:
    fake.change("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H100 80GB HBM3")
    small, _ = (await device(nvml, H100)).mig_devices
    assert small.profile == NotSupported("not in its name")


async def test_a_profile_with_media_extensions(fake: Fake, nvml: Nvml) -> None:
    fake.change("MIG 1g.10gb", "MIG 1g.10gb+me")
    small, _ = (await device(nvml, H100)).mig_devices
    assert small.profile == Known("1g.10gb+me")


@pytest.mark.parametrize(
    ("call", "slot"),
    [("nvmlDeviceGetMigDeviceHandleByIndex", 0), ("nvmlDeviceGetMaxMigDeviceCount", 0)],
)
async def test_parts_that_cannot_be_listed_are_told(
    call: str, slot: int, fake: Fake, nvml: Nvml
) -> None:
    fake.rules(f"fail {call} NoPermission times 1")
    inventory = await nvml.inventory()
    assert inventory.lost == (LostDevice(None, slot, "NoPermission", parent=H100),)
    assert inventory.device(H100) is not None
    assert inventory.device(L40S) is not None


async def test_one_part_that_does_not_answer_leaves_the_other(fake: Fake, nvml: Nvml) -> None:
    fake.rules(f"fail nvmlDeviceGetUUID NoPermission on {SMALL}")
    inventory = await nvml.inventory()
    assert inventory.lost == (LostDevice(None, 1, "NoPermission", parent=H100),)
    found = inventory.device(H100)
    assert found is not None
    assert [part.uuid for part in found.mig_devices] == [LARGE]


@pytest.mark.parametrize(
    ("capability", "cores", "count"),
    [
        ("6 0", 3584, 56),  # P100
        ("6 1", 3840, 30),  # P40
        ("7 0", 5120, 80),  # V100
        ("7 5", 2560, 40),  # T4
        ("8 0", 6912, 108),  # A100
        ("8 6", 10752, 84),  # A40
        ("9 0", 16896, 132),  # H100
        ("12 0", 24064, 188),  # RTX PRO 6000
    ],
)
async def test_multiprocessors_of_known_generations(
    capability: str, cores: int, count: int, fake: Fake, nvml: Nvml
) -> None:
    fake.set(f"{SYSTEM}gpu {L40S} X\ncapability {capability}\ncores {cores}")
    assert (await device(nvml, L40S)).multiprocessors == Known(count)


async def test_multiprocessors_of_an_unknown_generation(fake: Fake, nvml: Nvml) -> None:
    fake.change("capability 8 9", "capability 42 1")
    found = await device(nvml, L40S)
    assert found.multiprocessors == NotSupported("compute capability 42.1")


async def test_cores_that_do_not_divide(fake: Fake, nvml: Nvml) -> None:
    fake.change("cores 18176", "cores 18177")
    assert (await device(nvml, L40S)).multiprocessors == Failed("18177 cores")


async def test_a_compute_mode_that_nobody_knows(fake: Fake, nvml: Nvml) -> None:
    fake.change("mode 3", "mode 9")
    assert (await device(nvml, L40S)).compute_mode == Failed("Mode9")


async def test_a_name_that_is_no_text(fake: Fake, nvml: Nvml) -> None:
    fake.change("NVIDIA L40S", "NVIDIA \udcff")
    assert (await device(nvml, L40S)).name == Failed("UnicodeDecodeError")


async def test_a_machine_without_devices(fake: Fake, nvml: Nvml) -> None:
    fake.set(SYSTEM)
    inventory = await nvml.inventory()
    assert inventory.devices == ()
    assert inventory.absence is not None
    assert inventory.absence.kind is Absent.DEVICES
    assert not inventory.absence.kind.trouble
    assert inventory.driver_version == Known("615.71.09")


async def test_the_number_of_devices_cannot_be_had(fake: Fake, nvml: Nvml) -> None:
    fake.rules("fail nvmlDeviceGetCount_v2 NoPermission")
    inventory = await nvml.inventory()
    assert inventory.absence is not None
    assert inventory.absence.kind is Absent.FAILED
    assert "NoPermission" in inventory.absence.reason


async def test_versions_that_cannot_be_had(fake: Fake, nvml: Nvml) -> None:
    fake.rules(
        "fail nvmlSystemGetDriverVersion Unknown",
        "fail nvmlSystemGetCudaDriverVersion_v2 FunctionNotFound",
    )
    inventory = await nvml.inventory()
    assert inventory.driver_version == Failed("Unknown")
    assert inventory.cuda_version == NotSupported("FunctionNotFound")
    assert len(inventory.devices) == 2


async def test_a_device_is_known_by_its_uuid_wherever_it_stands(fake: Fake, nvml: Nvml) -> None:
    assert (await device(nvml, L40S)).index == 0
    fake.set(SYSTEM + DIVIDED + PLAIN)
    moved = await device(nvml, L40S)
    assert (moved.index, moved.name) == (1, Known("NVIDIA L40S"))


async def test_memory_limits_where_they_answer_for_our_own_cgroup(
    fake: Fake, nvml: Nvml, cgroup: Path
) -> None:
    own = f"{cgroup}/system.slice/hub.service"
    fake.change("busy 37 12", f"busy 37 12\nlimits {own} 0 {2**64 - 1} 0")
    inventory = await nvml.inventory()
    assert inventory.cgroup_v2
    assert inventory.dmem_controller
    first, second = inventory.devices
    assert first.features.memory_limits == Known(True)
    assert second.features.memory_limits == Failed("NotFound")


async def test_memory_limits_where_our_own_cgroup_is_the_root(
    fake: Fake, nvml: Nvml, proc: Proc, cgroup: Path
) -> None:
    proc.write("self/cgroup", "0::/\n")
    fake.change("busy 37 12", f"busy 37 12\nlimits {cgroup} 0 0 0")
    assert (await device(nvml, L40S)).features.memory_limits == Known(True)


async def test_memory_limits_need_cgroup_v2(nvml: Nvml, cgroup: Path) -> None:
    (cgroup / CONTROLLERS).unlink()
    inventory = await nvml.inventory()
    assert not inventory.cgroup_v2
    assert not inventory.dmem_controller
    for found in inventory.devices:
        assert found.features.memory_limits == NotSupported("no cgroup v2")


@pytest.mark.parametrize("text", ["9:memory:/system.slice\n", None])
async def test_memory_limits_need_a_cgroup_of_our_own(
    text: str | None, nvml: Nvml, proc: Proc
) -> None:
    file = proc.root / "self/cgroup"
    file.write_text(text) if text else file.unlink()
    found = await device(nvml, L40S)
    assert found.features.memory_limits == NotSupported("no cgroup v2")


async def test_a_kernel_without_the_controller(nvml: Nvml, cgroup: Path) -> None:
    (cgroup / CONTROLLERS).write_text("cpu memory pids\n")
    inventory = await nvml.inventory()
    assert inventory.cgroup_v2
    assert not inventory.dmem_controller


async def test_a_driver_without_the_newer_features(fake: Fake, nvml: Nvml) -> None:
    fake.rules(
        "fail nvmlDeviceGetMPSComputeRunningProcesses_v3 FunctionNotFound",
        "fail nvmlDeviceGetMemoryLimits_v1 FunctionNotFound",
        "fail nvmlDeviceGetProcessUtilization NoPermission",
    )
    features = (await device(nvml, L40S)).features
    assert features.mps_processes == NotSupported("FunctionNotFound")
    assert features.memory_limits == NotSupported("FunctionNotFound")
    assert features.process_utilisation == Failed("NoPermission")
