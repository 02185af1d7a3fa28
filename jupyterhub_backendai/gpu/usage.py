"""Which container uses how much of which GPU. What is not known is None, never zero."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .devices import LostDevice
from .driver import Absence, Driver
from .inventory import none_of
from .listing import Handle, Lister
from .owners import Owner, Processes, Whose
from .questions import Process, Sample, memory, processes, samples
from .state import Answer, NotSupported, known, mapped


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Percent of the driver's last sample period in which anything ran, or used the memory.

    Of time, not of multiprocessors: one small kernel that runs all the time makes 100.
    """

    busy: int
    memory_busy: int


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """A device, or a MIG device where there is a `parent`. The processes of a divided device are
    told at its parts.

    `used_bytes` is of all processes; with drivers that do not tell the reserved part it is in
    there. `all_listed`: whoever is not among `processes` has nothing there.
    """

    uuid: str
    parent: str | None
    used_bytes: Answer[int]
    utilisation: Answer[Utilisation]
    processes: Answer[tuple[Process, ...]]
    all_listed: bool


@dataclass(frozen=True, slots=True)
class PartUsage:
    """A container on one device. `busy`: percent of time, as the samples since the last reading
    say; of several processes the sum, 100 at most. None is unknown."""

    device: str
    pids: tuple[int, ...]
    memory_bytes: int | None
    busy: int | None


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """A container on several devices. Amounts are sums, None as soon as one part is unknown."""

    container: str
    parts: tuple[PartUsage, ...]

    @property
    def memory_bytes(self) -> int | None:
        return _sum(part.memory_bytes for part in self.parts)

    @property
    def busy(self) -> int | None:
        """Percent of time, up to 100 for each device."""
        return _sum(part.busy for part in self.parts)


@dataclass(frozen=True, slots=True)
class Unattributed:
    """A process on a device that is in no container, has ended, or cannot be seen from here."""

    device: str
    process: Process
    whose: Whose


@dataclass(frozen=True, slots=True)
class Usage:
    """One reading. `containers` are those that were seen; `absence` says why there are none."""

    devices: tuple[DeviceUsage, ...] = ()
    containers: tuple[ContainerUsage, ...] = ()
    unattributed: tuple[Unattributed, ...] = ()
    lost: tuple[LostDevice, ...] = ()
    absence: Absence | None = None

    def of(self, container: str, devices: Iterable[str]) -> ContainerUsage:
        """A container on the devices that it was given: zero where it certainly has nothing, None
        where that is not known."""
        return ContainerUsage(container, tuple(self._part(container, uuid) for uuid in devices))

    def _part(self, container: str, device: str) -> PartUsage:
        seen = next(
            (
                part
                for one in self.containers
                if one.container == container
                for part in one.parts
                if part.device == device
            ),
            None,
        )
        if self._all_known(device):
            return seen or PartUsage(device, (), 0, 0)
        return PartUsage(device, seen.pids if seen else (), None, None)

    def _all_known(self, device: str) -> bool:
        """Whether every process on it is known, and whose it is."""
        return any(one.uuid == device and one.all_listed for one in self.devices) and not any(
            one.device == device and one.whose is Whose.UNKNOWN for one in self.unattributed
        )


class UsageReader:
    """Reads usage. Each reading covers the samples since the one before, the first all that the
    driver keeps."""

    def __init__(self, driver: Driver, lister: Lister, proc: Path) -> None:
        self._driver = driver
        self._lister = lister
        self._proc = proc
        self._since: dict[str, int] = {}  # the newest sample's time, by device

    def read(self, containers: Collection[str] = ()) -> Usage:
        """Usage now. Raises `DriverChanged` and `NvmlFailure`; for `Driver.read`.

        `containers`: ids of those that are asked for. What runs in a container within one of
        them is theirs, whichever engine made which.
        """
        table = Processes(self._proc, containers)
        walk = self._lister.walk(self._device)
        readings = [reading for device in walk.found for reading in device]
        for device, sampled in readings:
            if sampled:
                self._since[device.uuid] = max(sample.time for sample in sampled)
        seen, unattributed = _by_container(readings, table)
        return Usage(
            devices=tuple(device for device, _ in readings),
            containers=seen,
            unattributed=unattributed,
            lost=walk.lost,
            absence=None if walk.found else none_of(bool(walk.lost)),
        )

    def _device(self, found: Handle) -> list[_Reading]:
        """The device, and its parts."""
        mode = known(found.mig)
        divided = mode is not None and mode.current
        whole = self._one(found.uuid, None, found.handle, divided)
        return [whole, *(self._one(p.uuid, found.uuid, p.handle, False) for p in found.parts)]

    def _one(self, uuid: str, parent: str | None, handle: Any, divided: bool) -> _Reading:
        driver = self._driver
        listed: Answer[tuple[Process, ...]] = NotSupported("divided")
        every = False
        if not divided:
            listed, every = processes(driver, handle)
        device = DeviceUsage(
            uuid=uuid,
            parent=parent,
            used_bytes=mapped(memory(driver, handle), lambda m: m.used),
            utilisation=driver.ask(
                lambda rates: Utilisation(int(rates.gpu), int(rates.memory)),
                "nvmlDeviceGetUtilizationRates",
                handle,
            ),
            processes=listed,
            all_listed=every,
        )
        return device, known(samples(driver, handle, self._since.get(uuid, 0))) or []


_Reading = tuple[DeviceUsage, list[Sample]]


def _by_container(
    readings: Iterable[_Reading], table: Processes
) -> tuple[tuple[ContainerUsage, ...], tuple[Unattributed, ...]]:
    parts: dict[str, list[PartUsage]] = {}
    others: list[Unattributed] = []
    owners: dict[int, Owner] = {}
    for device, sampled in readings:
        members: dict[str, list[Process]] = {}
        for process in known(device.processes) or ():
            if process.pid not in owners:
                owners[process.pid] = table.owner(process.pid)
            owner = owners[process.pid]
            if owner.container is None:
                others.append(Unattributed(device.uuid, process, owner.whose))
            else:
                members.setdefault(owner.container, []).append(process)
        for container, found in members.items():
            parts.setdefault(container, []).append(_part_of(device.uuid, found, sampled))
    return tuple(ContainerUsage(one, tuple(found)) for one, found in parts.items()), tuple(others)


def _part_of(device: str, members: list[Process], sampled: list[Sample]) -> PartUsage:
    pids = tuple(process.pid for process in members)
    return PartUsage(
        device=device,
        pids=pids,
        memory_bytes=_sum(process.memory_bytes for process in members),
        busy=_busy(pids, sampled),
    )


def _busy(pids: tuple[int, ...], sampled: list[Sample]) -> int | None:
    """The sum of each process's mean. Nothing is said of one without samples: the sum is unknown
    then, unless what is known is more than nothing already."""
    means = []
    for pid in pids:
        own = [sample.busy for sample in sampled if sample.pid == pid]
        means += [sum(own) / len(own)] if own else []
    total = min(100, round(sum(means)))
    return total if total or len(means) == len(pids) else None


def _sum(amounts: Iterable[int | None]) -> int | None:
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
