"""Reads what GPUs there are."""

from __future__ import annotations

import re
from pathlib import Path

from .devices import (
    ComputeMode,
    Device,
    Features,
    Inventory,
    MigDevice,
    cores_per_multiprocessor,
)
from .driver import Absence, Absent, Driver, DriverChanged
from .listing import Handle, Lister, Part
from .questions import memory, memory_limits, mps_processes, samples
from .state import Answer, Failed, Known, NotSupported, either, mapped

_PROFILE = re.compile(r" MIG (\S+)$")
_MIB = 2**20


class InventoryReader:
    """Reads inventories. `proc` and `cgroup` are where the kernel's file systems are mounted."""

    def __init__(self, driver: Driver, lister: Lister, proc: Path, cgroup: Path) -> None:
        self._driver = driver
        self._lister = lister
        self._proc = proc
        self._cgroup = cgroup
        self._versions: tuple[int, Answer[str]] | None = None

    def read(self) -> Inventory:
        """All devices now. Raises `DriverChanged` and `NvmlFailure`; for `Driver.read`."""
        version = self._version()
        walk = self._lister.walk(self._device)
        controllers = self._controllers()
        return Inventory(
            devices=walk.found,
            lost=walk.lost,
            driver_version=version,
            cuda_version=self._cuda_version(),
            absence=None if walk.found else none_of(bool(walk.lost)),
            initialisations=self._driver.starts,
            cgroup_v2=controllers is not None,
            dmem_controller="dmem" in (controllers or ()),
        )

    def _version(self) -> Answer[str]:
        """The driver's; another one than at the last initialisation means that it was replaced."""
        version = self._driver.ask(str, "nvmlSystemGetDriverVersion")
        starts = self._driver.starts
        if self._versions and self._versions[0] == starts:
            before = self._versions[1]
            if isinstance(before, Known) and isinstance(version, Known) and before != version:
                raise DriverChanged(f"from {before.value} to {version.value}")
        self._versions = (starts, version)
        return version

    def _cuda_version(self) -> Answer[tuple[int, int]]:
        """The newest CUDA that the driver runs."""
        return self._driver.ask(
            lambda number: (number // 1000, number % 1000 // 10),
            "nvmlSystemGetCudaDriverVersion_v2",
        )

    def _device(self, found: Handle) -> Device:
        ask, handle = self._driver.ask, found.handle
        bytes_ = memory(self._driver, handle)
        capability = ask(
            lambda numbers: (int(numbers[0]), int(numbers[1])),
            "nvmlDeviceGetCudaComputeCapability",
            handle,
        )
        return Device(
            uuid=found.uuid,
            index=found.index,
            name=ask(str, "nvmlDeviceGetName", handle),
            total_bytes=mapped(bytes_, lambda m: m.total),
            reserved_bytes=_reserved(mapped(bytes_, lambda m: m.reserved)),
            multiprocessors=self._multiprocessors(handle, capability),
            compute_capability=capability,
            compute_mode=self._compute_mode(handle),
            mig=found.mig,
            mig_devices=tuple(self._part(part, found.uuid) for part in found.parts),
            features=self._features(handle),
        )

    def _compute_mode(self, handle: object) -> Answer[ComputeMode]:
        mode = self._driver.ask(int, "nvmlDeviceGetComputeMode", handle)
        if isinstance(mode, Known) and mode.value not in list(ComputeMode):
            return Failed(f"Mode{mode.value}")
        return mapped(mode, ComputeMode)

    def _multiprocessors(self, handle: object, capability: Answer[tuple[int, int]]) -> Answer[int]:
        """Cores by those in each: NVML tells the number itself only of MIG devices."""
        cores = self._driver.ask(int, "nvmlDeviceGetNumGpuCores", handle)
        if not isinstance(cores, Known):
            return cores
        if not isinstance(capability, Known):
            return capability
        each = cores_per_multiprocessor(capability.value)
        if each is None:
            major, minor = capability.value
            return NotSupported(f"compute capability {major}.{minor}")
        return Failed(f"{cores.value} cores") if cores.value % each else Known(cores.value // each)

    def _part(self, part: Part, parent: str) -> MigDevice:
        ask, handle = self._driver.ask, part.handle
        call = "nvmlDeviceGetAttributes"
        return MigDevice(
            uuid=part.uuid,
            parent=parent,
            profile=_profile(ask(str, "nvmlDeviceGetName", handle)),
            total_bytes=either(
                mapped(memory(self._driver, handle), lambda m: m.total),
                lambda: ask(lambda a: int(a.memorySizeMB) * _MIB, call, handle),
            ),
            multiprocessors=ask(lambda a: int(a.multiprocessorCount), call, handle),
            gpu_instance=ask(int, "nvmlDeviceGetGpuInstanceId", handle),
            compute_instance=ask(int, "nvmlDeviceGetComputeInstanceId", handle),
        )

    def _features(self, handle: object) -> Features:
        return Features(
            memory_limits=self._memory_limits(handle),
            mps_processes=mapped(mps_processes(self._driver, handle), lambda _: True),
            process_utilisation=mapped(samples(self._driver, handle, 0), lambda _: True),
        )

    def _memory_limits(self, handle: object) -> Answer[bool]:
        own = self._own_cgroup()
        if own is None:
            return NotSupported("no cgroup v2")
        return mapped(memory_limits(self._driver, handle, own), lambda _: True)

    def _controllers(self) -> frozenset[str] | None:
        """The controllers of the root cgroup; None where the machine has no cgroup v2."""
        try:
            return frozenset((self._cgroup / "cgroup.controllers").read_text().split())
        except OSError:
            return None

    def _own_cgroup(self) -> str | None:
        if self._controllers() is None:
            return None
        try:
            lines = (self._proc / "self/cgroup").read_text().splitlines()
        except OSError:
            return None
        own = next((line[3:] for line in lines if line.startswith("0::")), None)
        return None if own is None else str(self._cgroup) + own.rstrip("/")


def none_of(lost: bool) -> Absence:
    """Why a driver that works has no device for us."""
    if lost:
        return Absence(Absent.FAILED, "The NVIDIA driver has lost all GPUs of this machine.")
    return Absence(Absent.DEVICES, "The NVIDIA driver is loaded and finds no GPU.")


def _reserved(reserved: Answer[int | None]) -> Answer[int]:
    if isinstance(reserved, Known):
        if reserved.value is None:
            return NotSupported("FunctionNotFound")
        return Known(reserved.value)
    return reserved


def _profile(name: Answer[str]) -> Answer[str]:
    """The end of a MIG device's name, as in `NVIDIA H100 80GB HBM3 MIG 1g.10gb`."""
    if not isinstance(name, Known):
        return name
    found = _PROFILE.search(name.value)
    return Known(found[1]) if found else NotSupported("not in its name")
