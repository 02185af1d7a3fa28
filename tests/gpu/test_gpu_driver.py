"""No library, no driver, a driver that is replaced, and devices that are lost and come back."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyterhub_backendai.gpu import Absence, Absent, Known, LostDevice, NotSupported, Nvml

from .conftest import Fake, Proc
from .machines import H100, L40S, MIB, PLAIN, SYSTEM

Elsewhere = Callable[[Path], Any]


def kind(absence: Absence | None) -> Absent | None:
    return absence.kind if absence else None


# ---- what is not there ----


def test_no_library_is_a_machine_without_gpus(read_elsewhere: Elsewhere, tmp_path: Path) -> None:
    # Also on a machine that has the real one: the loader looks no further than this.
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    inventory, usage = read_elsewhere(tmp_path)
    assert inventory.devices == inventory.lost == usage.devices == ()
    assert inventory.absence.kind is usage.absence.kind is Absent.LIBRARY
    assert not inventory.absence.kind.trouble
    assert "no NVIDIA driver library" in inventory.absence.reason


async def test_no_binding_is_a_machine_without_gpus(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    inventory = await nvml.inventory()
    assert kind(inventory.absence) is Absent.BINDING
    assert "nvidia-ml-py" in (inventory.absence or Absence(Absent.FAILED, "")).reason
    assert kind((await nvml.usage()).absence) is Absent.BINDING


async def test_a_binding_that_is_older_than_the_driver(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "c_nvmlGetMemoryLimits_v1_t",
        "nvmlDeviceGetMemoryLimits_v1",
    ):
        monkeypatch.delattr(f"pynvml.{name}")
    found = (await nvml.inventory()).device(L40S)
    assert found is not None
    assert found.features.mps_processes == NotSupported("FunctionNotFound")
    assert found.features.memory_limits == NotSupported("FunctionNotFound")


def test_the_library_is_found_where_the_loader_looks(
    read_elsewhere: Elsewhere, library: Path
) -> None:
    inventory, usage = read_elsewhere(library.parent)
    assert [device.uuid for device in inventory.devices] == [L40S, H100]
    assert inventory.devices[0].reserved_bytes == Known(572 * MIB)
    assert usage.absence is None


def test_a_driver_that_never_had_the_newer_calls(
    read_elsewhere: Elsewhere, old_library: Path
) -> None:
    inventory, usage = read_elsewhere(old_library.parent)
    found = inventory.device(L40S)
    assert found.total_bytes == Known(46064 * MIB)
    assert found.reserved_bytes == NotSupported("FunctionNotFound")
    assert found.features.mps_processes == NotSupported("FunctionNotFound")
    # What is used has what is reserved in it, and clients of MPS are not told.
    assert usage.devices[0].used_bytes == Known((8583 + 572) * MIB)
    assert not usage.devices[0].all_listed


@pytest.mark.parametrize(
    ("error", "absent", "trouble", "words"),
    [
        ("DriverNotLoaded", Absent.DRIVER, False, "not loaded"),
        ("LibRmVersionMismatch", Absent.CHANGED, True, "Restart this service"),
        ("NoPermission", Absent.FAILED, True, "NoPermission"),
        ("Unknown", Absent.FAILED, True, "Unknown"),
        ("777", Absent.FAILED, True, "Code777"),
    ],
)
async def test_a_driver_that_cannot_be_used_is_told_and_tried_again(
    error: str, absent: Absent, trouble: bool, words: str, fake: Fake, nvml: Nvml
) -> None:
    fake.rules(f"fail nvmlInitWithFlags {error}")
    inventory = await nvml.inventory()
    assert inventory.devices == ()
    assert inventory.absence is not None
    assert inventory.absence.kind is absent
    assert inventory.absence.kind.trouble is trouble
    assert words in inventory.absence.reason
    assert inventory.driver_version == NotSupported("no driver")
    assert (await nvml.usage()).absence == inventory.absence
    fake.rules()
    later = await nvml.inventory()
    assert (later.absence, len(later.devices)) == (None, 2)


# ---- a driver that changes ----


@pytest.mark.parametrize("error", ["Uninitialized", "LibRmVersionMismatch", "DriverNotLoaded"])
async def test_a_replaced_driver_is_initialised_anew(
    error: str, fake: Fake, nvml: Nvml, caplog: pytest.LogCaptureFixture
) -> None:
    fake.set(f"stale {error}\n{fake.machine}")
    assert (await nvml.inventory()).initialisations == 1
    fake.change("driver 615.71.09", "driver 620.10.01")
    inventory = await nvml.inventory()
    assert inventory.driver_version == Known("620.10.01")
    assert inventory.initialisations == 2
    assert len(inventory.devices) == 2
    assert error in caplog.text


async def test_another_version_alone_tells_that_the_driver_was_replaced(
    fake: Fake, nvml: Nvml, caplog: pytest.LogCaptureFixture
) -> None:
    await nvml.inventory()
    assert (await nvml.inventory()).initialisations == 1
    fake.change("driver 615.71.09", "driver 620.10.01")
    assert (await nvml.inventory()).initialisations == 2
    assert "from 615.71.09 to 620.10.01" in caplog.text


async def test_a_driver_that_changes_in_the_middle_of_a_reading(fake: Fake, nvml: Nvml) -> None:
    whole = (await nvml.inventory()).devices
    fake.rules("fail nvmlDeviceGetName Uninitialized after 2 times 1")
    inventory = await nvml.inventory()
    assert inventory.devices == whole
    assert inventory.lost == ()
    assert inventory.initialisations == 2


@pytest.mark.parametrize("call", ["nvmlDeviceGetCount_v2", "nvmlDeviceGetUUID"])
async def test_library_and_kernel_that_do_not_match_are_told(
    call: str, fake: Fake, nvml: Nvml
) -> None:
    await nvml.inventory()
    fake.rules(f"fail {call} LibRmVersionMismatch")
    inventory = await nvml.inventory()
    assert kind(inventory.absence) is Absent.CHANGED
    assert {device.uuid for device in inventory.lost} == {L40S, H100}
    assert kind((await nvml.usage()).absence) is Absent.CHANGED
    fake.rules()
    later = await nvml.inventory()
    assert later.absence is None
    # Each of the two readings began anew and tried a second time, and so does the last.
    assert later.initialisations == 1 + 1 + 2 + 1


async def test_usage_too_survives_a_replaced_driver(fake: Fake, nvml: Nvml) -> None:
    before = await nvml.usage()
    fake.rules("fail nvmlDeviceGetUtilizationRates Uninitialized times 1")
    after = await nvml.usage()
    assert [device.uuid for device in after.devices] == [device.uuid for device in before.devices]
    assert after.absence is None


async def test_a_shutdown_that_fails_is_no_failure(
    fake: Fake, nvml: Nvml, caplog: pytest.LogCaptureFixture
) -> None:
    await nvml.inventory()
    fake.rules("fail nvmlShutdown Unknown times 1")
    with caplog.at_level(logging.INFO):
        await nvml.close()
    assert "Unknown" in caplog.text
    inventory = await nvml.inventory()
    assert (inventory.absence, inventory.initialisations) == (None, 2)


async def test_close_twice_or_before_anything(nvml: Nvml) -> None:
    await nvml.close()
    await nvml.close()
    assert (await nvml.inventory()).initialisations == 1


# ---- a device that is lost ----


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetName",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetNumGpuCores",
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlDeviceGetProcessUtilization",
    ],
)
async def test_a_device_lost_in_the_middle_leaves_the_others(
    call: str, fake: Fake, nvml: Nvml
) -> None:
    await nvml.inventory()
    fake.rules(f"fail {call} GpuIsLost on {L40S}")
    inventory = await nvml.inventory()
    assert [device.uuid for device in inventory.devices] == [H100]
    assert inventory.lost == (LostDevice(L40S, 0, "GpuIsLost"),)
    assert inventory.absence is None


@pytest.mark.parametrize(
    "call", ["nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetMaxMigDeviceCount"]
)
async def test_a_divided_device_that_is_lost_while_its_parts_are_listed(
    call: str, fake: Fake, nvml: Nvml
) -> None:
    fake.rules(f"fail {call} GpuIsLost")
    inventory = await nvml.inventory()
    assert [device.uuid for device in inventory.devices] == [L40S]
    assert inventory.lost == (LostDevice(H100, 1, "GpuIsLost"),)


async def test_a_lost_device_keeps_its_uuid_and_comes_back(fake: Fake, nvml: Nvml) -> None:
    await nvml.inventory()
    machine = fake.machine
    fake.change("memory", "lost\nmemory")  # both
    gone = await nvml.inventory()
    assert gone.devices == ()
    assert gone.lost == (LostDevice(L40S, 0, "GpuIsLost"), LostDevice(H100, 1, "GpuIsLost"))
    assert kind(gone.absence) is Absent.FAILED
    assert gone.absence is not None
    assert gone.absence.kind.trouble
    fake.set(machine)
    back = await nvml.inventory()
    assert [device.uuid for device in back.devices] == [L40S, H100]
    assert back.lost == ()
    assert back.initialisations > gone.initialisations


async def test_a_device_that_was_never_seen_has_no_uuid(fake: Fake, nvml: Nvml) -> None:
    fake.rules("fail nvmlDeviceGetHandleByIndex_v2 InsufficientPower times 1")
    inventory = await nvml.inventory()
    assert inventory.lost == (LostDevice(None, 0, "InsufficientPower"),)
    assert [device.uuid for device in inventory.devices] == [H100]


async def test_a_device_that_is_not_listed_any_more_is_lost(fake: Fake, nvml: Nvml) -> None:
    await nvml.inventory()
    fake.set(SYSTEM + PLAIN)
    for _ in range(2):
        inventory = await nvml.inventory()
        assert [device.uuid for device in inventory.devices] == [L40S]
        assert inventory.lost == (LostDevice(H100, 1, "NotListed"),)
    assert (await nvml.usage()).lost == inventory.lost


async def test_a_lost_device_does_not_make_the_driver_start_over_and_over(
    fake: Fake, nvml: Nvml, proc: Proc
) -> None:
    patient = Nvml(timeout=60, renew_after=3600, proc=proc.root)
    fake.rules(f"fail nvmlDeviceGetName GpuIsLost on {L40S}")
    for _ in range(3):
        assert (await patient.inventory()).initialisations == 1
    await patient.close()


async def test_usage_tells_a_lost_device_too(fake: Fake, nvml: Nvml) -> None:
    fake.rules(f"fail nvmlDeviceGetComputeRunningProcesses_v3 GpuIsLost on {L40S}")
    usage = await nvml.usage()
    assert usage.lost == (LostDevice(L40S, 0, "GpuIsLost"),)
    assert L40S not in {device.uuid for device in usage.devices}
    assert H100 in {device.uuid for device in usage.devices}
    fake.rules("fail nvmlDeviceGetUUID GpuIsLost")
    assert kind((await nvml.usage()).absence) is Absent.FAILED
