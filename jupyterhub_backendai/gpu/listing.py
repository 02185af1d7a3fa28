"""The walk over all devices: which can be used, which cannot, and what stays when one is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from .devices import LostDevice, MigMode
from .driver import DeviceLost, Driver, DriverChanged, NvmlFailure
from .state import Answer, known

T = TypeVar("T")
NOT_LISTED = "NotListed"


@dataclass(frozen=True, slots=True)
class Part:
    """A MIG device: its UUID, and the driver's handle of it."""

    uuid: str
    handle: Any


@dataclass(frozen=True, slots=True)
class Handle:
    """A device that answers: the driver's handle of it, good until the next initialisation."""

    uuid: str
    index: int
    handle: Any
    mig: Answer[MigMode]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Walk(Generic[T]):
    """What was found out about each device, and those that could not be asked."""

    found: tuple[T, ...]
    lost: tuple[LostDevice, ...]


class Lister:
    """Walks over devices, and remembers those that it has seen."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._seen: dict[str, int] = {}  # index by UUID

    def walk(self, read: Callable[[Handle], T]) -> Walk[T]:
        """`read` of every device. One that is lost on the way is told as that, the others stay.

        Raises `DriverChanged`, and `NvmlFailure` where not even their number can be had.
        """
        found: dict[str, tuple[int, T]] = {}
        lost: list[LostDevice] = []
        for index in range(int(self._driver.call("nvmlDeviceGetCount"))):
            uuid: str | None = None
            try:
                device = self._driver.call("nvmlDeviceGetHandleByIndex", index)
                uuid = str(self._driver.call("nvmlDeviceGetUUID", device))
                handle, lost_parts = self._handle(uuid, index, device)
                found[uuid] = (index, read(handle))
                lost += lost_parts
            except DriverChanged:
                raise
            except NvmlFailure as failure:
                lost.append(LostDevice(uuid, index, failure.name))
        gone = self._recognised(lost, set(found))
        self._seen = {
            **{device.uuid: device.index for device in gone if device.uuid and not device.parent},
            **{uuid: index for uuid, (index, _) in found.items()},
        }
        if gone:
            self._driver.renew()
        return Walk(tuple(value for _, value in found.values()), tuple(gone))

    def missing(self) -> tuple[LostDevice, ...]:
        """All that were seen before, where there is nothing to be seen now."""
        return tuple(LostDevice(uuid, index, NOT_LISTED) for uuid, index in self._seen.items())

    def _recognised(self, lost: list[LostDevice], present: set[str]) -> list[LostDevice]:
        """The lost with their UUIDs where those are known from before, and those not listed now."""
        absent = {uuid: at for uuid, at in self._seen.items() if uuid not in present}
        for device in lost:
            absent.pop(device.uuid or "", None)
        found = []
        for device in lost:
            if device.uuid is None and device.parent is None:
                # Between two initialisations a device keeps its place.
                uuid = next((uuid for uuid, at in absent.items() if at == device.index), None)
                absent.pop(uuid or "", None)
                device = replace(device, uuid=uuid)
            found.append(device)
        return found + [LostDevice(uuid, at, NOT_LISTED) for uuid, at in absent.items()]

    def _handle(self, uuid: str, index: int, device: Any) -> tuple[Handle, list[LostDevice]]:
        mig = self._driver.ask(
            lambda modes: MigMode(bool(modes[0]), bool(modes[1])), "nvmlDeviceGetMigMode", device
        )
        mode = known(mig)
        if mode is None or not mode.current:
            return Handle(uuid, index, device, mig, ()), []
        parts, lost = self._parts(uuid, device)
        return Handle(uuid, index, device, mig, tuple(parts)), lost

    def _parts(self, parent: str, device: Any) -> tuple[list[Part], list[LostDevice]]:
        """All MIG devices. Their slots may have holes; each is looked at."""
        parts: list[Part] = []
        lost: list[LostDevice] = []
        slot = 0
        try:
            slots = int(self._driver.call("nvmlDeviceGetMaxMigDeviceCount", device))
        except (DeviceLost, DriverChanged):
            raise
        except NvmlFailure as failure:
            return [], [LostDevice(None, slot, failure.name, parent)]
        for slot in range(slots):
            try:
                part = self._driver.call("nvmlDeviceGetMigDeviceHandleByIndex", device, slot)
                parts.append(Part(str(self._driver.call("nvmlDeviceGetUUID", part)), part))
            except (DeviceLost, DriverChanged):
                raise
            except NvmlFailure as failure:
                if failure.name != "NotFound":
                    lost.append(LostDevice(None, slot, failure.name, parent))
        return parts, lost
