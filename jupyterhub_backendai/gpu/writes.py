"""What is set on a device through the driver, and read back. All of it needs root."""

from __future__ import annotations

from .devices import ComputeMode
from .driver import Driver, DriverChanged, NvmlFailure
from .errors import GpuError
from .nvml import Nvml
from .questions import MemoryLimits, memory_limits
from .state import Answer, Failed, Known, NotSupported

UNLIMITED = 2**64 - 1
# Of a cgroup that is gone: nothing is left of its limits either.
_GONE = Failed("NotFound")


class DriverWrites:
    """Sets limits and modes. Each call may be repeated, and raises `GpuError`."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    async def set_compute_mode(self, uuid: str, mode: ComputeMode) -> None:
        """Who may make contexts on a device from now on; does nothing where that is so already."""

        def work(driver: Driver) -> Answer[int]:
            handle = _handle(driver, uuid)
            now = driver.ask(int, "nvmlDeviceGetComputeMode", handle)
            if isinstance(now, Known) and now.value != mode:
                done = driver.ask(lambda _: 0, "nvmlDeviceSetComputeMode", handle, int(mode))
                if not isinstance(done, Known):
                    return done
                now = driver.ask(int, "nvmlDeviceGetComputeMode", handle)
            return now

        mode_now = await self._nvml.run(work)
        if isinstance(mode_now, NotSupported) and mode is ComputeMode.DEFAULT:
            return  # a device that has no modes is for everybody
        if mode_now != Known(int(mode)):
            raise GpuError(f"The compute mode of {uuid} cannot be {mode.name}: {_why(mode_now)}.")

    async def limit_memory(self, uuid: str, cgroup: str, most: int) -> None:
        """Has a cgroup, by its full path, have so many bytes of a device and no more.

        The hard limit alone: what is guaranteed to one would count for all cgroups above it, and
        for good where the cgroup goes before its guarantee is taken back.
        """
        limits = await self._nvml.run(lambda driver: _limit(driver, uuid, cgroup, most))
        found = limits.value.hard if isinstance(limits, Known) else None
        if found is None or found > most:
            raise GpuError(
                f"The memory of {uuid} cannot be limited to {most} bytes for {cgroup}: "
                f"{_why(limits) if found is None else f'it is limited to {found}'}."
            )

    async def free_memory(self, uuid: str, cgroup: str) -> None:
        """Takes the limit back, before the cgroup goes; fine where it is gone."""
        done = await self._nvml.run(lambda driver: _set(driver, uuid, cgroup, UNLIMITED))
        if not isinstance(done, Known) and done != _GONE:
            raise GpuError(f"The memory limit of {cgroup} on {uuid} stays: {_why(done)}.")


def _handle(driver: Driver, uuid: str) -> object:
    try:
        return driver.call("nvmlDeviceGetHandleByUUID", uuid)
    except DriverChanged:
        raise
    except NvmlFailure as failure:
        raise GpuError(f"The GPU {uuid} cannot be used: {failure.name}.") from failure


def _limit(driver: Driver, uuid: str, cgroup: str, most: int) -> Answer[MemoryLimits]:
    handle = _handle(driver, uuid)
    done = _set(driver, uuid, cgroup, most)
    return memory_limits(driver, handle, cgroup) if isinstance(done, Known) else done


def _set(driver: Driver, uuid: str, cgroup: str, hard: int) -> Answer[bool]:
    handle = _handle(driver, uuid)
    limits = driver.struct(
        "c_nvmlSetMemoryLimits_v1_t", nameSpace=cgroup.encode(), softLimit=0, hardLimit=hard
    )
    if limits is None:
        return Failed("FunctionNotFound")
    return driver.ask(lambda _: True, "nvmlDeviceSetMemoryLimits_v1", handle, limits)


def _why(answer: Answer[MemoryLimits] | Answer[int] | Answer[bool]) -> str:
    if isinstance(answer, Known):
        return "the driver has not done it"
    return answer.error if isinstance(answer, Failed) else answer.reason
