"""MPS as drivers before 615 have it: a session's share is in its own environment.

One daemon a GPU, with nothing held back, for one session may have all of it. Programs that leave
the variables as they are keep to their share; those that change them do not: cooperative.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from ...model.gpu_settings import GpuSettings
from ...model.slots import MIB
from ..devices import ComputeMode
from ..facts import OWN_MEMORY
from ..writes import DriverWrites
from .base import Grants, Provider, only_one
from .mps_control import (
    Control,
    ControlFailed,
    Daemon,
    MpsThread,
    check_socket,
    server_name,
    wait_for,
)

PIPES = "run/nvidia-mps2"  # from the root
LOGS = "var/log/nvidia-mps2"
# Of the machine: daemons before 580 share some with programs.
SHARED_MEMORY = "/dev/shm"  # noqa: S108


class Daemons:
    """The daemons of the GPUs. Everything here blocks. `uid` is that of sessions' programs: a
    server serves those of its own user only."""

    def __init__(self, control: Control, uid: int, pipes: Path, logs: Path) -> None:
        self._control = control
        self._uid = uid
        self._pipes = pipes
        self._logs = logs

    def directory(self, uuid: str) -> Path:
        """Where a GPU's sockets are."""
        return self._pipes / server_name(uuid)

    def ready(self, uuid: str) -> None:
        """Until the GPU's daemon and its server are there. Raises `ControlFailed`."""
        daemon = self._daemon(uuid)
        check_socket(daemon.pipes)
        if not self._runs(daemon):
            daemon.make_folders()
            self._control.call(daemon, "-d")
            wait_for(lambda: self._answers(daemon), f"the control daemon of {uuid}")
        if not self._servers(daemon):
            self._tell(daemon, f"start_server -uid {self._uid}")
        wait_for(lambda: self._servers(daemon) or None, f"the server of {uuid}")
        for pid in self._servers(daemon):
            if "FAULT" in (status := self._tell(daemon, f"get_server_status {pid}")).upper():
                raise ControlFailed(f"the server of {uuid} is not well: {status}")

    def leave(self, uuid: str) -> None:
        """Ends the GPU's daemon, so that others may use it. Raises `ControlFailed` where sessions
        still do by MPS."""
        daemon = self._daemon(uuid)
        if not self._runs(daemon):
            return
        for pid in self._servers(daemon):
            if self._tell(daemon, f"get_client_list {pid}"):
                raise ControlFailed(f"{uuid} is still in use")
        self._tell(daemon, "quit")

    def _daemon(self, uuid: str) -> Daemon:
        return Daemon(self.directory(uuid), self._logs / server_name(uuid), uuid)

    def _answers(self, daemon: Daemon) -> bool:
        self._tell(daemon, "get_server_list")
        return True

    def _runs(self, daemon: Daemon) -> bool:
        try:
            return daemon.pipes.is_dir() and self._answers(daemon)
        except ControlFailed:
            return False

    def _servers(self, daemon: Daemon) -> list[str]:
        """PIDs of its servers that live."""
        said = self._tell(daemon, "get_server_list").split()
        return [pid for pid in said if self._control.runs(pid)]

    def _tell(self, daemon: Daemon, line: str) -> str:
        return self._control.call(daemon, text=f"{line}\n")


class Mps2(Provider):
    """Shares of computing time and memory, as long as programs keep to them."""

    name = "mps2"

    def __init__(self, driver: DriverWrites, daemons: Daemons, thread: MpsThread) -> None:
        self._driver = driver
        self._daemons = daemons
        self._thread = thread
        self.driver_version: int | None = None  # as 580 of 580.65; None is not known

    def settings(self, session: str, granted: Grants) -> GpuSettings:
        one = only_one(granted)
        directory = str(self._daemons.directory(one.uuid))
        shares = self.driver_version is None or self.driver_version < OWN_MEMORY
        return GpuSettings(
            environment={
                "CUDA_MPS_PIPE_DIRECTORY": directory,
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(one.percent),
                # By the place that the one GPU has in the container.
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={one.memory // MIB}M",
            },
            mounts=(directory, SHARED_MEMORY) if shares else (directory,),
        )

    async def ready(self, devices: Sequence[str]) -> None:
        for uuid in devices:
            await self._driver.set_compute_mode(uuid, ComputeMode.EXCLUSIVE_PROCESS)
            await self._thread.run(partial(self._daemons.ready, uuid))

    async def prepare(self, session: str, granted: Grants) -> None:
        await self.ready([only_one(granted).uuid])

    async def restore(self, sessions: Mapping[str, Grants], kept: Collection[str]) -> None:
        await self.ready(sorted({one.uuid for granted in sessions.values() for one in granted}))
