"""GPU memory limits by cgroup: what a container may have of a device, held by driver and kernel.

The limit is set on a cgroup of the session's own before its container starts, so that it holds from
the first instruction, and on the container's own cgroup as soon as there is one: only that is what
programs are told as the size of their GPU. (Drivers from 615 on, cgroup v2; memory that CUDA
manages and may move counts as the container's ordinary memory.)
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from ...model.gpu_settings import GpuSettings
from ..errors import GpuError
from ..thread import Hangs, OwnThread
from ..writes import DriverWrites
from .base import Grants, Running, session_name
from .whole import TimeSliced

T = TypeVar("T")
log = logging.getLogger(__name__)
CgroupDriver = Literal["systemd", "cgroupfs"]
SLICE = "fgpu"
TIMEOUT = 10.0  # seconds for the kernel's file systems


class MemoryLimits:
    """Limits of sessions' cgroups. `cgroup` and `proc` are where the machine has them mounted."""

    def __init__(
        self,
        driver: DriverWrites,
        cgroup_driver: CgroupDriver = "systemd",
        cgroup: Path = Path("/sys/fs/cgroup"),
        proc: Path = Path("/proc"),
    ) -> None:
        self.cgroup_driver: CgroupDriver = cgroup_driver
        self._driver = driver
        self._cgroup = cgroup
        self._proc = proc
        self._thread = OwnThread("cgroups")

    def parent(self, session: str) -> str:
        """What Docker is told as the parent of the session's container."""
        name = session_name(session)
        return f"{SLICE}-{name}.slice" if self.cgroup_driver == "systemd" else f"/{SLICE}/{name}"

    def path(self, session: str) -> Path:
        """The session's own cgroup. A slice `a-b` of systemd is within slice `a`."""
        parent = self.parent(session)
        if self.cgroup_driver == "systemd":
            return self._cgroup / f"{SLICE}.slice" / parent
        return self._cgroup / parent.lstrip("/")

    async def hold(self, session: str, granted: Grants) -> None:
        """Before the container starts. Raises `GpuError`."""
        path = self.path(session)
        await self._files(lambda: _make(self._cgroup, path))
        for one in granted:
            await self._driver.limit_memory(one.uuid, str(path), one.memory)

    async def attach(self, granted: Grants, running: Running) -> None:
        """As soon as the container runs. Raises `GpuError`."""
        leaf = await self._files(lambda: self._leaf(running))
        for one in granted:
            await self._driver.limit_memory(one.uuid, str(leaf), one.memory)

    async def free(self, session: str, granted: Grants) -> None:
        """After the container is gone; fine where nothing is there any more."""
        path = self.path(session)
        if not await self._files(path.is_dir):
            return
        for one in granted:
            await self._driver.free_memory(one.uuid, str(path))
        await self._files(lambda: _remove(path))

    async def sessions(self) -> set[str]:
        """Ids of all sessions that have a cgroup here."""
        systemd = self.cgroup_driver == "systemd"
        root = self._cgroup / (f"{SLICE}.slice" if systemd else SLICE)
        before, after = (f"{SLICE}-", ".slice") if systemd else ("", "")

        def run() -> set[str]:
            names = [path.name for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
            return {
                name.removeprefix(before).removesuffix(after)
                for name in names
                if name.startswith(before) and name.endswith(after)
            }

        return await self._files(run)

    def close(self) -> None:
        """Ends its thread."""
        self._thread.end()

    def _leaf(self, running: Running) -> Path:
        """The cgroup of the container's first process, which must be the container's own."""
        try:
            lines = (self._proc / str(running.pid) / "cgroup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            raise GpuError(f"Process {running.pid} of a session's container has ended.") from None
        own = next((line[3:] for line in lines if line.startswith("0::")), "")
        if running.container not in own:
            raise GpuError(f"Process {running.pid} is not in container {running.container[:12]}.")
        leaf = self._cgroup / own.lstrip("/")
        # An init below the container's own cgroup is still within it.
        inside = [part for part in (leaf, *leaf.parents) if running.container in part.name]
        return inside[-1]

    async def _files(self, work: Callable[[], T]) -> T:
        try:
            return await self._thread.run(work, TIMEOUT)
        except Hangs:
            raise GpuError("The machine's cgroups have not answered in time.") from None
        except OSError as error:
            raise GpuError(f"The cgroup of a session cannot be set up: {error}.") from error


def _make(root: Path, path: Path) -> None:
    """The cgroup, with GPU memory among the controllers of all on the way to it."""
    path.mkdir(parents=True, exist_ok=True)
    for parent in reversed(path.relative_to(root).parents):
        here = root / parent
        offered = (here / "cgroup.controllers").read_text().split()
        on = (here / "cgroup.subtree_control").read_text().split()
        if "dmem" in offered and "dmem" not in on:
            (here / "cgroup.subtree_control").write_text("+dmem")


def _remove(path: Path) -> None:
    try:
        path.rmdir()
    except FileNotFoundError:
        pass  # systemd takes an empty slice away by itself
    except OSError as error:
        # Its container is still going; whoever looks after what is left over comes again.
        if error.errno not in {errno.EBUSY, errno.ENOTEMPTY}:
            raise
        log.warning("The cgroup %s is still in use", path)


class Memory(TimeSliced):
    """Shares whose memory is held; computing time goes in equal slices to all that want some."""

    name = "memory"

    def __init__(self, driver: DriverWrites, limits: MemoryLimits) -> None:
        super().__init__(driver)
        self._limits = limits

    def settings(self, session: str, granted: Grants) -> GpuSettings:
        return GpuSettings(cgroup_parent=self._limits.parent(session))

    async def prepare(self, session: str, granted: Grants) -> None:
        await super().prepare(session, granted)
        await self._limits.hold(session, granted)

    async def attach(self, session: str, granted: Grants, running: Running) -> None:
        await self._limits.attach(granted, running)

    async def release(self, session: str, granted: Grants) -> None:
        await self._limits.free(session, granted)
