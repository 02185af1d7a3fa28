"""This machine's GPUs, for whoever starts sessions: one door to inventory, offers and providers."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from ..model.gpu_settings import GpuSettings
from ..model.gpus import GpuDevice, GpuRule, Granted, ProviderName
from .devices import Inventory
from .enforcement import LABELS
from .errors import GpuError
from .facts import NO_RELEASE, HostFacts
from .faults import Faults
from .nvml import Nvml
from .offers import offers
from .owners import sees_all
from .providers import mps, mps2
from .providers.advisory import Advisory
from .providers.base import Grants, Provider, Running
from .providers.memory import Memory, MemoryLimits
from .providers.mig import Mig
from .providers.mps import Mps
from .providers.mps2 import Mps2
from .providers.mps_control import Control, MpsThread
from .providers.simulated import Simulated
from .providers.whole import TimeSliced, Whole
from .state import known
from .usage import Usage
from .writes import DriverWrites

log = logging.getLogger(__name__)


class Gpus:
    """GPUs of the machine that this process runs on, and whose Docker engine it uses.

    How it is called, by the process that starts sessions and by no other:

    * `engine_says(info)` with what `docker info` says, before the first of the others and whenever
      it was asked anew: whether containers are on this machine, and how Docker names cgroups.
    * `devices(group)` for what the scheduler may give out. Where the engine is on another machine,
      or NVML finds nothing, that is the simulated devices alone, or nothing. Never raises
      `GpuError`.
    * `prepare(session, granted)` when a session has its place and before its container is made; its
      answer is `SessionFacts.gpu`, beside `granted` itself. Raises `GpuError`: the start fails, and
      `release` follows as for every start that failed. These GPUs are then not available for a
      while, or the next start would be given one of them.
    * `attach(session, granted, container, pid)` at once after the container was started, with its
      id and `State.Pid` of its inspection, and again for each container that a process which begins
      finds running. Raises `GpuError`: the container must not go on, because its share is not held.
    * `release(session, granted)` after the container was removed. It may be called for a session
      that was never prepared. Raises `GpuError` where something stays; calling it again later is
      safe, and `restore` does so too.
    * `restore(sessions, starting)` when this process begins, and now and then (with each
      reconciliation): all sessions of this machine that hold something now, from `SCHEDULED` to the
      last moment of `TERMINATING`, and the ids of those that a start of this process is busy with:
      each session is in one of the two before its `prepare`. What is missing is made anew, for
      programs that begin after it: nobody has shown on a GPU that a container which ran while the
      daemon of MPS was restarted finds the new sockets. What is of no other session is removed,
      whoever ended it, except that which is prepared while this goes on.
    * `close()` when the process ends. Nothing that sessions need goes with it.

    `simulated`: as `offers.simulated` makes them. `uid`: of the programs in sessions. `root`, where
    the machine has things mounted, and `clock` are for tests.
    """

    def __init__(
        self,
        rules: Sequence[GpuRule],
        *,
        simulated: Sequence[GpuDevice] = (),
        uid: int = 1000,
        nvml: Nvml | None = None,
        control: Control | None = None,
        root: bool | None = None,
        mount: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        cgroup, proc = mount / "sys/fs/cgroup", mount / "proc"
        self._proc = proc
        self._rules = tuple(rules)
        self._simulated = tuple(simulated)
        self._nvml = nvml or Nvml(proc=proc, cgroup=cgroup)
        self._root = os.geteuid() == 0 if root is None else root
        self._local = False
        self._offered: tuple[GpuDevice, ...] = ()
        self.trouble = ""  # why the last look found no GPU at all, for an admin; "" where it did
        driver = DriverWrites(self._nvml)
        self._limits = MemoryLimits(driver, cgroup=cgroup, proc=proc)
        self._control = control or Control(proc=proc)
        self._thread = MpsThread()
        self._servers = mps.Servers(self._control, mount / mps.PIPES, mount / mps.LOGS)
        self._daemons = mps2.Daemons(self._control, uid, mount / mps2.PIPES, mount / mps2.LOGS)
        self._cooperative = Mps2(driver, self._daemons, self._thread)
        self._asked = ""  # for which version of the driver the protocol of MPS is known
        self._facts_told = HostFacts(unasked=NO_RELEASE)
        self._open: set[str] = set()  # GPUs of whose open shared memory an admin was told
        providers: list[Provider] = [
            Whole(driver),
            Mig(),
            Mps(driver, self._limits, self._servers, self._thread),
            self._cooperative,
            Memory(driver, self._limits),
            Advisory(driver),
            Simulated(),
        ]
        self._providers: dict[ProviderName, Provider] = {one.name: one for one in providers}
        # What stays: what `restore` was told last, and what was prepared since.
        self._kept: set[str] = set()
        self._faults = Faults(clock)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def engine_says(self, info: Mapping[str, Any], *, local: bool = True) -> None:
        """What `docker info` says of the engine, and whether it is on this machine."""
        self._local = local
        if (driver := info.get("CgroupDriver")) in {"systemd", "cgroupfs"}:
            self._limits.cgroup_driver = driver

    async def devices(self, group: str) -> tuple[GpuDevice, ...]:
        """What sessions in a resource group may have here, available or not."""
        if not self._rules or not self._local:
            return self._simulated
        inventory = await self._nvml.inventory()
        trouble = "" if inventory.absence is None else inventory.absence.reason
        if trouble != self.trouble and trouble:
            log.warning("%s GPUs cannot be offered.", trouble)
        self.trouble = trouble
        facts = await self._facts(inventory)
        self._offered = offers(inventory, self._rules, group, facts, self._offered)
        self._tell_open_memory(facts)
        return (*self._faults.marked(self._offered), *self._simulated)

    async def prepare(self, session: str, granted: Grants) -> GpuSettings:
        """Makes ready what the session was granted. Raises `GpuError`."""
        if not granted:
            return GpuSettings()
        provider = self._provider(granted)
        async with self._lock(session):
            self._kept.add(session)
            uuids = [one.uuid for one in granted]
            try:
                if isinstance(provider, TimeSliced):
                    await self._end_mps(uuids)
                await provider.prepare(session, granted)
            except GpuError as error:
                self._faults.note(uuids, error)
                raise
            self._faults.forget(uuids)
        return provider.settings(session, granted)

    async def attach(self, session: str, granted: Grants, container: str, pid: int) -> None:
        """Holds what can be held of a running container only. Raises `GpuError`."""
        if granted:
            async with self._lock(session):
                await self._provider(granted).attach(session, granted, Running(container, pid))

    async def release(self, session: str, granted: Grants) -> None:
        """Takes back what the session had. Raises `GpuError`."""
        if granted:
            async with self._lock(session):
                # First: what this does not get done is left over, for `restore`.
                self._kept.discard(session)
                await self._provider(granted).release(session, granted)

    async def restore(self, sessions: Mapping[str, Grants], starting: Collection[str] = ()) -> None:
        """Puts right what is missing or left over. Raises the first `GpuError`, after all of it."""
        errors: list[GpuError] = []
        # The set itself goes to the providers: what is prepared meanwhile is in it.
        self._kept &= (told := {*sessions, *starting})
        self._kept |= told
        for name, provider in self._providers.items():
            own = {one: grants for one, grants in sessions.items() if _name(grants) == name}
            try:
                await provider.restore(own, self._kept)
            except GpuError as error:
                errors.append(error)
        errors += await self._sweep_cgroups()
        for more in errors[1:]:
            log.error("%s", more)
        if errors:
            raise errors[0]

    async def _sweep_cgroups(self) -> list[GpuError]:
        """Removes cgroups of sessions that are over; what went wrong."""
        errors: list[GpuError] = []
        try:
            there = await self._limits.sessions()
        except GpuError as error:
            return [error]
        for left in sorted(there - self._kept):
            try:
                async with self._lock(left):
                    if left not in self._kept:  # a start of it that was tried again
                        await self._limits.free(left, ())
            except GpuError as error:
                errors.append(error)
        return errors

    async def usage(self, containers: Collection[str] = ()) -> Usage:
        """What is used now, and by which of these containers."""
        return await self._nvml.usage(containers)

    async def close(self) -> None:
        """Lets the driver go."""
        self._limits.close()
        self._thread.close()
        await self._nvml.close()

    async def _facts(self, inventory: Inventory) -> HostFacts:
        """What there is now. What a driver that fails does not tell is as it was told last."""
        told = self._facts_told
        mps_, unasked, driver, cuda = told.mps, told.unasked, told.driver, told.cuda
        if version := known(inventory.driver_version):
            release = version.partition(".")[0]
            driver = int(release) if release.isdecimal() else None
            cuda = known(inventory.cuda_version)
            mps_, unasked = await self._mps_protocol(version)
        self._cooperative.driver_version = driver
        self._facts_told = HostFacts(
            root=self._root,
            contained=not await asyncio.to_thread(sees_all, self._proc),
            cgroup_v2=inventory.cgroup_v2,
            dmem=inventory.dmem_controller,
            mps=mps_,
            unasked=unasked,
            driver=driver,
            cuda=cuda,
        )
        return self._facts_told

    async def _mps_protocol(self, version: str) -> tuple[int, str]:
        """The newest protocol of the machine's MPS, asked once for each version of the driver: a
        new one may have brought another program. 0 where there is no answer, and why."""
        if version == self._asked:
            return self._facts_told.mps, ""
        try:
            found = await self._thread.run(self._control.protocol)
        except GpuError as error:
            why = str(error).rstrip(".")
            if why != self._facts_told.unasked:
                log.warning("%s. GPUs are offered without MPS.", why)
            return 0, why
        self._asked = version
        return found, ""

    def _tell_open_memory(self, facts: HostFacts) -> None:
        """Tells an admin, once for each GPU, what comes with the provider that a rule names."""
        why = facts.why_open_memory()
        shared = [one for one in self._offered if one.provider == "mps2" and one.available]
        open_ = {one.uuid for one in shared} if why else set()
        for uuid in sorted(open_ - self._open):
            log.warning("GPU %s is shared by %s: %s.", uuid, LABELS["mps2"], why)
        self._open = open_

    async def _end_mps(self, devices: Sequence[str]) -> None:
        """A GPU that was shared by MPS before its rule was changed has a server of ours still."""
        for uuid in devices:
            await self._thread.run(partial(self._servers.leave, uuid))
            await self._thread.run(partial(self._daemons.leave, uuid))

    def _provider(self, granted: Grants) -> Provider:
        names = {one.provider for one in granted}
        if len(names) > 1:
            raise GpuError(f"A session was granted GPUs of several providers: {sorted(names)}.")
        return self._providers[names.pop()]

    def _lock(self, session: str) -> asyncio.Lock:
        """One step of a session at a time; a start that was given up may still be at one."""
        return self._locks.setdefault(session, asyncio.Lock())


def _name(granted: tuple[Granted, ...]) -> ProviderName | None:
    return granted[0].provider if granted else None
