"""The machine that the red team tries: a real one, or for tests of the red team itself a fake."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

from jupyterhub_backendai.gpu import Nvml, known
from jupyterhub_backendai.gpu.machine import Gpus
from jupyterhub_backendai.gpu.providers import mps, mps2
from jupyterhub_backendai.gpu.providers.mps_control import (
    PROGRAM,
    Control,
    ControlFailed,
    Daemon,
    server_name,
)
from jupyterhub_backendai.model.gpus import GpuRule

INSIDE = "/opt/backendai/redteam"
FAKE_NOTE = "FAKE LIBRARIES, NO GPU: this shows that the red team works, and nothing about a GPU."


class OlderControl(Control):
    """MPS by its older interface, on a driver that has both."""

    def protocol(self) -> int:
        return min(2, super().protocol())


class Machine:
    """This machine, as it is."""

    note = ""
    mount = Path("/")
    program = PROGRAM

    def __init__(self) -> None:
        self.nvml = Nvml()

    @property
    def proc(self) -> Path:
        return self.mount / "proc"

    def gpus(self, rule: GpuRule, *, older: bool) -> Gpus:
        """The product's door to the GPUs. `older`: MPS by its older interface."""
        kind = OlderControl if older else Control
        control = kind(self.program, self.proc)
        return Gpus((rule,), nvml=self.nvml, control=control, root=self.root, mount=self.mount)

    @property
    def root(self) -> bool:
        return os.geteuid() == 0

    async def used(self, uuid: str) -> int:
        """Bytes in use on a device, as seen from outside of all containers."""
        usage = await self.nvml.usage()
        found = (known(one.used_bytes) for one in usage.devices if one.uuid == uuid)
        return next(found, None) or 0

    def daemons(self, uuid: str) -> list[Daemon]:
        """The MPS daemons of ours that run and could have this GPU."""
        name = server_name(uuid)
        ours = [
            Daemon(self.mount / mps.PIPES, self.mount / mps.LOGS),
            Daemon(self.mount / mps2.PIPES / name, self.mount / mps2.LOGS / name, uuid),
        ]
        return [one for one in ours if self._answers(one)]

    def end(self, daemon: Daemon) -> None:
        """Raises `ControlFailed`."""
        Control(self.program, self.proc).call(daemon, text="quit\n")

    def _answers(self, daemon: Daemon) -> bool:
        if not daemon.pipes.is_dir():
            return False
        control = Control(self.program, self.proc)
        newer = daemon.device is None
        try:
            if newer:
                control.call(daemon, "-p", "3", "server", "list")
            else:
                control.call(daemon, text="get_server_list\n")
        except ControlFailed:
            return False
        return True

    def control_program(self) -> bytes | None:
        """The program that MPS is run with, for a container to try it."""
        path = shutil.which(self.program)
        return Path(path).read_bytes() if path else None

    def files(self) -> list[tuple[str, bytes]]:
        """What a container gets besides, by path."""
        return []

    def changed(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments that a container is made with."""
        return kwargs

    def started(self, container: str, pid: int) -> None:
        """A container was started."""


class FakeMachine(Machine):
    """A machine with fake libraries, which lie in a folder that tests make:

    libnvidia-ml.so.1, libcuda.so.1     the second is put into the containers
    mps/, inside/                       nvidia-cuda-mps-control, for the product and for them
    nvml.txt                            what the driver tells
    cuda/                               mounted into all containers: cuda.json, state/
    machine/                            what is / on a machine: proc, sys/fs/cgroup, run
    """

    note = FAKE_NOTE

    def __init__(self, folder: Path) -> None:
        self._folder = folder = folder.resolve()
        self.mount = folder / "machine"
        self.program = str(folder / "mps" / PROGRAM)
        os.environ["FAKE_NVML"] = str(folder / "nvml.txt")
        library = folder / "libnvidia-ml.so.1"
        if library.exists():  # the product then finds it by its name
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self.nvml = Nvml(timeout=60, proc=self.proc, cgroup=self.mount / "sys/fs/cgroup")

    @property
    def root(self) -> bool:
        return True

    async def used(self, uuid: str) -> int:
        # Files of processes that have ended stay; their locks do not, and nobody else looks.
        state = self._folder / "cuda" / "state"
        return sum(_bytes_of(path) for path in state.glob("*-*"))

    def control_program(self) -> bytes | None:
        path = self._folder / "inside" / PROGRAM
        return path.read_bytes() if path.exists() else None

    def files(self) -> list[tuple[str, bytes]]:
        return [("/usr/lib/libcuda.so.1", (self._folder / "libcuda.so.1").read_bytes())]

    def changed(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """No device and no cgroup, which this machine has not; the fake's folder instead."""
        host_config = dict(kwargs["host_config"])
        host_config.pop("DeviceRequests", None)
        host_config.pop("CgroupParent", None)
        shared = {"Type": "bind", "Source": str(self._folder / "cuda"), "Target": "/fake-cuda"}
        return {**kwargs, "host_config": {
            **host_config, "Mounts": [*host_config["Mounts"], shared],
        }}  # fmt: skip

    def started(self, container: str, pid: int) -> None:
        own = f"/docker/{container}"
        (self.mount / f"sys/fs/cgroup{own}").mkdir(parents=True, exist_ok=True)
        (self.proc / str(pid)).mkdir(parents=True, exist_ok=True)
        (self.proc / str(pid) / "cgroup").write_text(f"0::{own}\n")


def _bytes_of(path: Path) -> int:
    """What a process of the fake library has, if it still runs."""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            words = file.read().split()
            return int(words[0]) if words else 0
    return 0
