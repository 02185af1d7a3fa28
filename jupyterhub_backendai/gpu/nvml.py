"""The door to this machine's GPUs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TypeVar

from .devices import Inventory
from .driver import Absence, Absent, Driver, NoGpus, NvmlFailure
from .errors import GpuError
from .inventory import InventoryReader
from .listing import Lister
from .thread import Hangs, OwnThread
from .usage import Usage, UsageReader

T = TypeVar("T")
log = logging.getLogger(__name__)
TIMEOUT = 10.0  # seconds for one reading; the first wakes the devices
RENEW_AFTER = 60.0  # seconds between two initialisations in search of a lost device


class Nvml:
    """GPUs by NVIDIA's management library; no library, driver or GPU is an answer like others.

    Every reading runs on one thread of its own. `timeout` is in seconds, for a reading; `proc` and
    `cgroup` are where the machine's own /proc and cgroups are mounted.
    """

    def __init__(
        self,
        *,
        timeout: float = TIMEOUT,
        renew_after: float = RENEW_AFTER,
        proc: Path = Path("/proc"),
        cgroup: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self._timeout = timeout
        self._driver = Driver(renew_after)
        self._lister = Lister(self._driver)
        self._inventory = InventoryReader(self._driver, self._lister, proc, cgroup)
        self._usage = UsageReader(self._driver, self._lister, proc)
        self._thread = OwnThread("nvml")

    async def inventory(self) -> Inventory:
        """What there is now."""
        found = await self._read(self._inventory.read)
        if isinstance(found, Absence):
            return Inventory(absence=found, lost=self._lister.missing())
        return found

    async def usage(self, containers: Collection[str] = ()) -> Usage:
        """What is used now, and by which container.

        `containers`: ids of those that are asked for; needed only where containers run within
        others, and then what runs in them counts as theirs.
        """
        found = await self._read(partial(self._usage.read, containers))
        if isinstance(found, Absence):
            return Usage(absence=found, lost=self._lister.missing())
        return found

    async def run(self, work: Callable[[Driver], T]) -> T:
        """What `work` finds out or does. Raises `GpuError` where the driver cannot be used, or the
        device that it is about."""
        found = await self._read(partial(work, self._driver))
        if isinstance(found, Absence):
            raise GpuError(found.reason)
        return found

    async def close(self) -> None:
        """Lets the driver go. A reading after it begins anew."""
        try:
            await self._thread.run(self._driver.stop, self._timeout)
        except Hangs:
            log.warning("The GPU driver hangs, and was not shut down")
        self._thread.end()

    async def _read(self, work: Callable[[], T]) -> T | Absence:
        try:
            return await self._thread.run(partial(self._driver.read, work), self._timeout)
        except NoGpus as none:
            return none.absence
        except NvmlFailure as failure:
            return Absence(Absent.FAILED, f"The NVIDIA driver does not work: {failure.name}.")
        except Hangs:
            reason = f"The NVIDIA driver has not answered for {self._timeout:g} seconds."
            return Absence(Absent.HANGS, reason)
