"""A machine with GPUs for the tests: NVIDIA's library in a fake, and a /proc that a test fills."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyterhub_backendai.gpu import Nvml

from .machines import TWO_GPUS

SOURCE = Path(__file__).with_name("fake_nvml.c")
READ = """
import asyncio, pickle, sys
from jupyterhub_backendai.gpu import Nvml

async def read():
    nvml = Nvml()
    found = await nvml.inventory(), await nvml.usage()
    await nvml.close()
    return found

sys.stdout.buffer.write(pickle.dumps(asyncio.run(read())))
"""


def _build(folder: Path, *options: str) -> Path:
    if shutil.which("gcc") is None:
        pytest.fail("gcc is missing: run `make test`, it installs it")
    library = folder / "libnvidia-ml.so.1"
    command = ["gcc", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", *options]
    subprocess.run([*command, f"-Wl,-soname,{library.name}", "-o", library, SOURCE], check=True)
    return library


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a driver that does not have the newer calls at all."""
    return _build(tmp_path_factory.mktemp("old-nvml"), "-DOLD")


class Fake:
    """What the library tells, now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.machine = ""
        self.set(TWO_GPUS)

    def set(self, machine: str, *rules: str) -> None:
        """Another machine, and which calls fail or hang on it."""
        self.machine = machine
        self.rules(*rules)

    def rules(self, *rules: str) -> None:
        """The same machine, with these rules and no others."""
        new = self._path.with_suffix(".new")
        new.write_text("\n".join([self.machine, *rules]), errors="surrogateescape")
        new.replace(self._path)

    @property
    def was_set(self) -> list[str]:
        """What was set by calls, in order: `mode UUID N`, `limits UUID CGROUP SOFT HARD`."""
        path = Path(f"{self._path}.set")
        return path.read_text().splitlines() if path.exists() else []

    def change(self, old: str, new: str) -> None:
        """The same machine with one thing changed, and no rules."""
        assert old in self.machine
        self.set(self.machine.replace(old, new))


@pytest.fixture
def fake(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The library within this process: the binding finds it by the name that it has loaded."""
    path = tmp_path / "nvml.txt"
    monkeypatch.setenv("FAKE_NVML", str(path))
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    return Fake(path)


class Proc:
    """A /proc as of the machine itself, with processes as a test wants them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("uptime", "5000.00 9000.00\n")
        self.write("2/comm", "kthreadd\n")
        self.write("self/cgroup", "0::/system.slice/hub.service\n")

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def add(self, pid: int, cgroup: str, *, start: int = 1000, name: str = "python3") -> None:
        """A process in that cgroup, started so many clock ticks after the machine."""
        before = "S 1 2 3 0 -1 4194304 100 0 0 0 5 5 0 0 20 0 1 0"
        self.write(f"{pid}/stat", f"{pid} ({name}) {before} {start} 1000000 250\n")
        self.write(f"{pid}/cgroup", cgroup)

    def remove(self, pid: int) -> None:
        shutil.rmtree(self.root / str(pid))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    """Where cgroups are mounted: version 2, with GPU memory among its controllers."""
    root = tmp_path / "cgroup"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpuset cpu io memory pids dmem\n")
    return root


@pytest.fixture
async def nvml(fake: Fake, proc: Proc, cgroup: Path) -> AsyncIterator[Nvml]:
    """The product's door to the fake library."""
    nvml = Nvml(timeout=60, renew_after=0, proc=proc.root, cgroup=cgroup)
    yield nvml
    fake.rules()
    await nvml.close()


@pytest.fixture
def read_elsewhere(fake: Fake) -> Callable[[Path], Any]:
    """Inventory and usage as read by another process, which finds the library in that folder."""

    def read(folder: Path) -> Any:
        environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
        done = subprocess.run(
            [sys.executable, "-c", READ], env=environment, check=True, capture_output=True
        )
        return pickle.loads(done.stdout)

    return read


class Mps:
    """The fake program that MPS is run with, and what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / "nvidia-cuda-mps-control"
        program.symlink_to(Path(__file__).with_name("fake_mps_control.py"))
        self.program = str(program)

    def rules(self, *rules: str) -> None:
        (self.folder / "rules").write_text("\n".join(rules))

    @property
    def calls(self) -> list[str]:
        """Each call that changes something, in order: arguments, or lines of input after `<`."""
        path = self.folder / "calls"
        said = path.read_text().splitlines() if path.exists() else []
        return [line for line in said if " list" not in line and "get_" not in line]

    @property
    def daemons(self) -> dict[str, Any]:
        """By pipe directory, as the program keeps them."""
        path = self.folder / "daemons.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def change(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Something that happens to the daemons from elsewhere."""
        daemons = self.daemons
        change(daemons)
        (self.folder / "daemons.json").write_text(json.dumps(daemons))


@pytest.fixture
def mps(tmp_path: Path) -> Mps:
    return Mps(tmp_path / "mps")


@pytest.fixture
def mount(fake: Fake, proc: Proc, mps: Mps) -> Iterator[Path]:
    """The root of a machine: /proc with the servers of MPS in it, and cgroups of version 2.

    At a short path, as sockets need.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        root = Path(folder)
        (root / "proc").symlink_to(proc.root)
        (mps.folder / "proc").symlink_to(proc.root)
        for cgroup in ("sys/fs/cgroup", "sys/fs/cgroup/fgpu.slice", "sys/fs/cgroup/fgpu"):
            (root / cgroup).mkdir(parents=True)
            (root / cgroup / "cgroup.controllers").write_text("cpu memory pids dmem\n")
            (root / cgroup / "cgroup.subtree_control").write_text("cpu memory pids\n")
        yield root
