"""Which container uses how much. What the driver does not tell is unknown, never zero."""

from __future__ import annotations

import pytest

from jupyterhub_backendai.gpu import (
    ContainerUsage,
    DeviceUsage,
    Failed,
    Known,
    NotSupported,
    Nvml,
    PartUsage,
    Usage,
    Utilisation,
)
from jupyterhub_backendai.gpu.owners import Whose
from jupyterhub_backendai.gpu.questions import Process

from .conftest import Fake, Proc
from .machines import DIVIDED, H100, L40S, LARGE, MIB, SMALL, SYSTEM

ONE, TWO, THREE = "1a" * 32, "2b" * 32, "3c" * 32


@pytest.fixture(autouse=True)
def sessions(proc: Proc) -> None:
    """Two containers on the first device, a third on a part of the second."""
    proc.add(1111, f"0::/system.slice/docker-{ONE}.scope\n")
    proc.add(2222, f"0::/system.slice/docker-{TWO}.scope\n")
    proc.add(3333, "0::/system.slice/nvidia-mps.service\n")
    proc.add(4444, f"0::/docker/{THREE}\n")


def machine(*lines: str, head: str = "") -> str:
    return "\n".join([f"{SYSTEM}{head}gpu {L40S} NVIDIA L40S", f"memory {99 * MIB} 0 0", *lines])


def device(usage: Usage, uuid: str) -> DeviceUsage:
    return next(device for device in usage.devices if device.uuid == uuid)


def parts(usage: Usage, container: str) -> tuple[PartUsage, ...]:
    return next((one.parts for one in usage.containers if one.container == container), ())


# ---- devices ----


async def test_devices_and_their_parts(nvml: Nvml) -> None:
    usage = await nvml.usage()
    assert [(one.uuid, one.parent) for one in usage.devices] == [
        (L40S, None),
        (H100, None),
        (SMALL, H100),
        (LARGE, H100),
    ]
    first = device(usage, L40S)
    assert first.utilisation == Known(Utilisation(busy=37, memory_busy=12))
    assert first.used_bytes == Known(8583 * MIB)
    for uuid in (H100, SMALL, LARGE):
        assert device(usage, uuid).utilisation == NotSupported("NotSupported")
    assert device(usage, SMALL).used_bytes == Known(1000 * MIB)


async def test_processes_are_those_of_both_lists(nvml: Nvml) -> None:
    usage = await nvml.usage()
    first = device(usage, L40S)
    assert first.processes == Known(
        (Process(1111, 5000000000), Process(2222, 4000000000), Process(3333, None))
    )
    assert first.all_listed
    assert device(usage, H100).processes == NotSupported("divided")
    assert device(usage, SMALL).processes == Known((Process(4444, 900 * MIB),))
    assert device(usage, LARGE).processes == Known(())


@pytest.mark.parametrize(
    ("lines", "memory"),
    [
        (("process 1 50", "mps 1 50"), 50),
        (("process 1 unknown", "mps 1 50"), 50),
        (("process 1 50", "mps 1 unknown"), 50),
        (("process 1 unknown", "mps 1 unknown"), None),
        (("mps 1 0",), 0),
    ],
)
async def test_a_process_in_both_lists_holds_its_memory_once(
    lines: tuple[str, ...], memory: int | None, fake: Fake, nvml: Nvml
) -> None:
    fake.set(machine(*lines))
    assert device(await nvml.usage(), L40S).processes == Known((Process(1, memory),))


async def test_a_list_that_grows_while_it_is_read(fake: Fake, nvml: Nvml) -> None:
    call = "nvmlDeviceGetComputeRunningProcesses_v3"
    whole = device(await nvml.usage(), L40S).processes
    # The first call is for the length, the second for the rows.
    fake.rules(f"fail {call} InsufficientSize on {L40S} after 1 times 1")
    assert device(await nvml.usage(), L40S).processes == whole
    # Growing all the time: neither call ever has enough room.
    fake.rules(f"fail {call} InsufficientSize on {L40S}")
    assert device(await nvml.usage(), L40S).processes == Failed("InsufficientSize")


async def test_many_processes(fake: Fake, nvml: Nvml) -> None:
    fake.set(machine(*(f"process {pid} {pid}" for pid in range(100, 160))))
    processes = device(await nvml.usage(), L40S).processes
    assert processes == Known(tuple(Process(pid, pid) for pid in range(100, 160)))


# ---- containers ----


async def test_a_record_for_each_container(nvml: Nvml) -> None:
    usage = await nvml.usage()
    assert usage.containers == (
        ContainerUsage(ONE, (PartUsage(L40S, (1111,), 5000000000, 30),)),
        ContainerUsage(TWO, (PartUsage(L40S, (2222,), 4000000000, 7),)),
        ContainerUsage(THREE, (PartUsage(SMALL, (4444,), 900 * MIB, None),)),
    )
    assert [(one.device, one.process.pid, one.whose) for one in usage.unattributed] == [
        (L40S, 3333, Whose.MACHINE)
    ]


async def test_several_processes_of_one_container_add_up(
    fake: Fake, nvml: Nvml, proc: Proc
) -> None:
    proc.add(1112, f"0::/docker/{ONE}\n")
    fake.set(
        machine("process 1111 10", "mps 1112 5", "sample 1111 9 60", "sample 1112 9 70") + DIVIDED
    )
    assert parts(await nvml.usage(), ONE) == (PartUsage(L40S, (1111, 1112), 15, 100),)


async def test_memory_of_one_process_unknown_is_memory_of_the_container_unknown(
    fake: Fake, nvml: Nvml, proc: Proc
) -> None:
    proc.add(1112, f"0::/docker/{ONE}\n")
    fake.set(machine("process 1111 10", "process 1112 unknown"))
    usage = await nvml.usage()
    assert parts(usage, ONE) == (PartUsage(L40S, (1111, 1112), None, None),)
    assert usage.containers[0].memory_bytes is None


async def test_a_container_on_two_devices(fake: Fake, nvml: Nvml) -> None:
    other = f"gpu {H100} X\nmemory 9 0 0\n"
    fake.set(
        machine(
            "process 1111 10", "sample 1111 5 80", head=f"{other}process 1111 7\nsample 1111 5 90\n"
        )
    )
    (found,) = (await nvml.usage()).containers
    assert [part.device for part in found.parts] == [H100, L40S]
    assert (found.memory_bytes, found.busy) == (17, 170)


async def test_containers_within_containers_count_for_who_is_asked_for(
    fake: Fake, nvml: Nvml, proc: Proc
) -> None:
    proc.add(1111, f"0::/docker/{ONE}/docker/{TWO}\n")
    fake.set(machine("process 1111 10"))
    assert [one.container for one in (await nvml.usage()).containers] == [ONE]
    assert [one.container for one in (await nvml.usage([TWO])).containers] == [TWO]


async def test_a_process_that_ended_meanwhile_belongs_to_nobody(nvml: Nvml, proc: Proc) -> None:
    proc.remove(1111)
    usage = await nvml.usage()
    assert parts(usage, ONE) == ()
    assert (L40S, 1111, Whose.GONE) in [
        (one.device, one.process.pid, one.whose) for one in usage.unattributed
    ]
    assert usage.of(ONE, [L40S]).memory_bytes == 0


# ---- samples ----


async def test_samples_are_those_since_the_last_reading(fake: Fake, nvml: Nvml) -> None:
    fake.set(machine("process 1111 1", "sample 1111 100 20", "sample 1111 101 41"))
    assert parts(await nvml.usage(), ONE)[0].busy == 30  # the mean, to the even
    assert parts(await nvml.usage(), ONE)[0].busy is None  # nothing new is not idleness
    fake.change("sample 1111 101 41", "sample 1111 101 41\nsample 1111 102 90")
    assert parts(await nvml.usage(), ONE)[0].busy == 90
    fake.change("sample 1111 102 90", "sample 1111 102 90\nsample 1111 103 0")
    assert parts(await nvml.usage(), ONE)[0].busy == 0


async def test_a_success_without_rows_is_no_news_either(fake: Fake, nvml: Nvml) -> None:
    fake.set(machine("norows", "process 1111 1"))
    usage = await nvml.usage()
    assert parts(usage, ONE) == (PartUsage(L40S, (1111,), 1, None),)
    found = (await nvml.inventory()).device(L40S)
    assert found is not None
    assert found.features.process_utilisation == Known(True)


@pytest.mark.parametrize("error", ["NotSupported", "NoPermission", "FunctionNotFound"])
async def test_without_samples_utilisation_is_unknown_and_memory_is_not(
    error: str, fake: Fake, nvml: Nvml
) -> None:
    fake.rules(f"fail nvmlDeviceGetProcessUtilization {error}")
    assert parts(await nvml.usage(), ONE) == (PartUsage(L40S, (1111,), 5000000000, None),)


async def test_one_process_without_samples(fake: Fake, nvml: Nvml, proc: Proc) -> None:
    proc.add(1112, f"0::/docker/{ONE}\n")
    two = machine("process 1111 1", "process 1112 1")
    fake.set(f"{two}\nsample 1111 5 0")
    assert parts(await nvml.usage(), ONE)[0].busy is None  # the other may be at work
    fake.set(f"{two}\nsample 1111 6 25")
    assert parts(await nvml.usage(), ONE)[0].busy == 25


async def test_rows_that_make_no_sense_are_left_out(fake: Fake, nvml: Nvml) -> None:
    fake.set(machine("process 1111 1", "sample 0 5 50", "sample 1111 5 4000000000"))
    assert parts(await nvml.usage(), ONE)[0].busy is None


async def test_samples_that_grow_while_they_are_read(fake: Fake, nvml: Nvml) -> None:
    fake.rules("fail nvmlDeviceGetProcessUtilization InsufficientSize after 1 times 1")
    assert parts(await nvml.usage(), ONE)[0].busy == 30


# ---- a container on the devices that it was given ----


async def test_zero_where_it_certainly_has_nothing(nvml: Nvml) -> None:
    usage = await nvml.usage()
    assert usage.of(ONE, [L40S]).parts == (PartUsage(L40S, (1111,), 5000000000, 30),)
    nothing = usage.of("f" * 64, [L40S, SMALL])
    assert nothing.parts == (PartUsage(L40S, (), 0, 0), PartUsage(SMALL, (), 0, 0))
    assert (nothing.memory_bytes, nothing.busy) == (0, 0)
    both = usage.of(ONE, [L40S, LARGE])
    assert (both.memory_bytes, both.busy) == (5000000000, 30)


@pytest.mark.parametrize(
    "rule",
    [
        "fail nvmlDeviceGetComputeRunningProcesses_v3 NoPermission",
        "fail nvmlDeviceGetComputeRunningProcesses_v3 NotSupported",
        "fail nvmlDeviceGetMPSComputeRunningProcesses_v3 NoPermission",
        f"fail nvmlDeviceGetUUID GpuIsLost on {L40S}",
        "fail nvmlDeviceGetHandleByIndex_v2 Unknown times 1",
    ],
)
async def test_unknown_where_the_processes_cannot_be_listed(
    rule: str, fake: Fake, nvml: Nvml
) -> None:
    fake.rules(rule)
    usage = await nvml.usage()
    assert usage.of(ONE, [L40S]).parts == (PartUsage(L40S, (), None, None),)
    assert usage.of("f" * 64, [L40S]).memory_bytes is None


async def test_unknown_where_clients_of_mps_are_not_told(fake: Fake, nvml: Nvml) -> None:
    fake.rules("fail nvmlDeviceGetMPSComputeRunningProcesses_v3 FunctionNotFound")
    usage = await nvml.usage()
    assert device(usage, L40S).processes == Known((Process(1111, 5000000000), Process(3333, None)))
    assert usage.of(ONE, [L40S]).parts == (PartUsage(L40S, (1111,), None, None),)
    assert usage.of(TWO, [L40S]).memory_bytes is None


async def test_unknown_where_a_process_cannot_be_seen(nvml: Nvml, proc: Proc) -> None:
    proc.write("2/comm", "sh\n")  # in a PID namespace of our own
    usage = await nvml.usage()
    assert usage.containers == ()
    assert {one.whose for one in usage.unattributed} == {Whose.UNKNOWN}
    assert usage.of(ONE, [L40S]).memory_bytes is None
    assert usage.of(ONE, [LARGE]).memory_bytes == 0  # there is no process at all


async def test_a_device_that_is_not_there_is_unknown(nvml: Nvml) -> None:
    usage = await nvml.usage()
    assert usage.of(ONE, ["GPU-of-another-machine"]).memory_bytes is None
    assert usage.of(ONE, [H100]).memory_bytes is None  # it is divided: its parts are what is given


async def test_a_driver_that_is_absent_makes_everything_unknown(fake: Fake, nvml: Nvml) -> None:
    fake.rules("fail nvmlInitWithFlags DriverNotLoaded")
    usage = await nvml.usage()
    assert usage.absence is not None
    assert usage.of(ONE, [L40S]).busy is None
