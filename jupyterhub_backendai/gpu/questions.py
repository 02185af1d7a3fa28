"""The questions to NVML whose answers need to be read with care."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from .driver import DeviceLost, Driver, DriverChanged, NvmlFailure, answer_of
from .state import Answer, Failed, Known, NotSupported, either, known

_MEMORY_V2 = 0x02000028  # of nvmlMemory_v2_t: its version, and its size
_UNLIMITED = 2**64 - 1
_TRIES = 3  # of a list that grows between its two calls: one for its length, one for its rows


class Memory(NamedTuple):
    """Bytes of a device. Where `reserved` is not known, `used` has it in it."""

    total: int
    used: int
    reserved: int | None


class MemoryLimits(NamedTuple):
    """What a cgroup may have of a device, and has, in bytes; None is no limit."""

    soft: int | None
    hard: int | None
    used: int


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a device: the bytes it holds there, None where the driver does not tell."""

    pid: int
    memory_bytes: int | None


class Sample(NamedTuple):
    """Percent of a sample period in which a process had work running; time in the driver's µs."""

    pid: int
    time: int
    busy: int


def memory(driver: Driver, handle: object) -> Answer[Memory]:
    """By the second version of the call, else the first, which does not tell what is reserved."""
    call = "nvmlDeviceGetMemoryInfo"
    return either(
        driver.ask(lambda m: Memory(m.total, m.used, m.reserved), call, handle, _MEMORY_V2),
        lambda: driver.ask(lambda m: Memory(m.total, m.used, None), call, handle),
    )


def memory_limits(driver: Driver, handle: object, cgroup: str) -> Answer[MemoryLimits]:
    """The limits of a cgroup, by its full path. Drivers from r615 on have such."""
    limits = driver.struct("c_nvmlGetMemoryLimits_v1_t", nameSpace=cgroup.encode())
    if limits is None:
        return NotSupported("FunctionNotFound")

    def read(_: object) -> MemoryLimits:
        soft, hard = (
            None if value == _UNLIMITED else int(value)
            for value in (limits.softLimit, limits.hardLimit)
        )
        return MemoryLimits(soft, hard, int(limits.currentUsed))

    return driver.ask(read, "nvmlDeviceGetMemoryLimits_v1", handle, limits)


def mps_processes(driver: Driver, handle: object) -> Answer[list[Process]]:
    """Clients of MPS on a device or a part of one."""
    return _processes(driver, "nvmlDeviceGetMPSComputeRunningProcesses_v3", handle)


def processes(driver: Driver, handle: object) -> tuple[Answer[tuple[Process, ...]], bool]:
    """All compute processes, clients of MPS too, each once and in the order of their numbers; and
    whether these are certainly all: an old driver may not tell the clients of MPS."""
    compute = _processes(driver, "nvmlDeviceGetComputeRunningProcesses_v3", handle)
    clients = mps_processes(driver, handle)
    if not isinstance(compute, Known):
        return compute, False
    if isinstance(clients, Failed):
        return clients, False
    found: dict[int, Process] = {}
    for process in [*compute.value, *(known(clients) or [])]:
        before = found.get(process.pid)
        # One that is in both lists holds its memory once.
        if before is None or before.memory_bytes is None:
            found[process.pid] = process
    return Known(tuple(found[pid] for pid in sorted(found))), isinstance(clients, Known)


def samples(driver: Driver, handle: object, since: int) -> Answer[list[Sample]]:
    """Samples of single processes that are newer than `since`; an empty list is no news.

    No news is not idleness: the driver has nothing to say about these processes.
    """
    try:
        rows = _rows(driver, "nvmlDeviceGetProcessUtilization", handle, since)
    except (DeviceLost, DriverChanged):
        raise
    except NvmlFailure as failure:
        # "Success" is how the binding raises a list without rows.
        return Known([]) if failure.name in {"NotFound", "Success"} else answer_of(failure)
    found = [Sample(int(row.pid), int(row.timeStamp), int(row.smUtil)) for row in rows]
    # Drivers fill the rest of their buffer with rows that are old or make no sense.
    return Known([s for s in found if s.pid and s.time > since and s.busy <= 100])


def _processes(driver: Driver, name: str, handle: object) -> Answer[list[Process]]:
    try:
        rows = _rows(driver, name, handle)
    except (DeviceLost, DriverChanged):
        raise
    except NvmlFailure as failure:
        return answer_of(failure)
    return Known([Process(int(row.pid), row.usedGpuMemory) for row in rows])


def _rows(driver: Driver, name: str, *arguments: object) -> list[Any]:
    """Rows of a list, asked again where it grew meanwhile."""
    for left in reversed(range(_TRIES)):
        try:
            return list(driver.call(name, *arguments))
        except NvmlFailure as failure:
            if failure.name != "InsufficientSize" or not left:
                raise
    raise AssertionError("the last try returns or raises")
