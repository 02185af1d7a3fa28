"""Counters of containers on this machine, as the kernel keeps them: control groups of version 1, 2,
or both together, whichever driver named them, and `/proc/<pid>/net/dev` for networks.

All calls are synchronous, for a thread: some twenty microseconds a file.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..model.usage import Reading

T = TypeVar("T")
_START = 19  # of the fields after the name in /proc/<pid>/stat: start, in ticks since boot
_UNIFIED = ""  # the controller's name of version 2 in /proc/<pid>/cgroup
COUNTING = ("cpuacct", "memory", "blkio")
FREEZER = "freezer"
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the counters of a container are. `groups`: its directory by controller, that of
    version 2 by the empty name. `own_net`: its interfaces are its own."""

    pid: int
    life: str
    groups: Mapping[str, Path]
    own_net: bool


@dataclass(frozen=True, slots=True)
class _Mount:
    root: str
    point: Path


class Files:
    """The counters' files. Where a file cannot be read, or says what nobody understands, that
    metric of that container is not known."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._mounts: dict[str, _Mount] | None = None

    def find(
        self,
        container: str,
        pid: int,
        own_net: bool = True,
        controllers: Collection[str] = COUNTING,
    ) -> Place | None:
        """Where the counters of a container are, whose first process this is; None where they
        cannot be seen from here: this process is in a container itself, or the other one ended.
        `controllers`: those of version 1 that are looked for; version 2 has all in one."""
        try:
            lines = (self._proc / str(pid) / "cgroup").read_text().splitlines()
            life = self._life(pid)
        except (OSError, ValueError, IndexError):
            return None
        groups: dict[str, Path] = {}
        for line in lines:
            _, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            # What runs inside may have made groups below that of the container.
            end = path.find("/", path.find(container)) if container in path else None
            if end is None:
                continue
            for name in {_UNIFIED, *controllers}.intersection(names.split(",")):
                directory = self._directory(name, path if end < 0 else path[:end])
                if directory is not None:
                    groups[name] = directory
        return Place(pid, f"{pid}-{life}", groups, own_net) if groups else None

    def read(self, place: Place) -> Reading | None:
        """The counters now; None where the process has ended."""
        if not self.lives(place):
            return None
        at = time.monotonic()
        cpu = _known(lambda: self._cpu(place))
        disk = _known(lambda: self._disk(place)) or (None, None)
        net = _known(lambda: self._net(place)) or (None, None)
        memory = _known(lambda: self._memory(place))
        return Reading(at, place.life, cpu, memory, *disk, *net)

    def lives(self, place: Place) -> bool:
        """Whether the process is still the one that was found, and not a later one of it."""
        try:
            return f"{place.pid}-{self._life(place.pid)}" == place.life
        except (OSError, ValueError, IndexError):
            return False

    def _life(self, pid: int) -> int:
        # A name may hold anything, brackets and spaces too; the last bracket ends it.
        text = (self._proc / str(pid) / "stat").read_text(errors="replace")
        return int(text.rpartition(")")[2].split()[_START])

    def _directory(self, controller: str, path: str) -> Path | None:
        mount = self._mounted().get(controller)
        if mount is None or ".." in path.split("/"):
            return None
        root = mount.root.rstrip("/")
        if not path.startswith(f"{root}/"):
            return None
        found = mount.point / path[len(root) :].lstrip("/")
        return found if found.is_dir() else None

    def _mounted(self) -> dict[str, _Mount]:
        if self._mounts is None:
            self._mounts = _mounts((self._proc / "self" / "mountinfo").read_text())
        return self._mounts

    def _cpu(self, place: Place) -> float:
        if group := place.groups.get("cpuacct"):
            return int((group / "cpuacct.usage").read_text()) / 1e9
        return _numbers(place.groups[_UNIFIED] / "cpu.stat")["usage_usec"] / 1e6

    def _memory(self, place: Place) -> int:
        """As `docker stats` counts: without the page cache that was not used lately."""
        if group := place.groups.get("memory"):
            used, cache = int((group / "memory.usage_in_bytes").read_text()), "total_inactive_file"
        else:
            group = place.groups[_UNIFIED]
            used, cache = int((group / "memory.current").read_text()), "inactive_file"
        dropped = _numbers(group / "memory.stat")[cache]
        return used - dropped if dropped < used else used

    def _disk(self, place: Place) -> tuple[int, int] | None:
        """Bytes read and written, of all devices together."""
        if group := place.groups.get("blkio"):
            name = "blkio.throttle.io_service_bytes"
            file = group / f"{name}_recursive"
            return _blkio((file if file.exists() else group / name).read_text())
        return _io_stat((place.groups[_UNIFIED] / "io.stat").read_text())

    def _net(self, place: Place) -> tuple[int, int] | None:
        if not place.own_net:
            return None
        return net_bytes((self._proc / str(place.pid) / "net" / "dev").read_text())


def net_bytes(text: str) -> tuple[int, int]:
    """Bytes that came in and went out by all interfaces but the loopback, of a `net/dev`. Raises
    `ValueError`, `IndexError`."""
    came = went = 0
    for line in text.splitlines()[2:]:
        name, _, fields = line.rpartition(":")
        numbers = fields.split()
        if name.strip() != "lo":
            came, went = came + int(numbers[0]), went + int(numbers[8])
    return came, went


def _blkio(text: str) -> tuple[int, int] | None:
    """`8:0 Read 4096`, a line for each device and direction. None where no device is told: newer
    kernels with version 1 count none before somebody sets a limit (blk-throttle, as of 6.18)."""
    sums = {"Read": 0, "Write": 0}
    counted = False
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in sums:
            sums[fields[1]] += int(fields[2])
            counted = True
    return (sums["Read"], sums["Write"]) if counted else None


def _io_stat(text: str) -> tuple[int, int]:
    """`8:0 rbytes=4096 wbytes=0 rios=1 …`, a line for each device."""
    read = written = 0
    for line in text.splitlines():
        pairs = dict(field.partition("=")[::2] for field in line.split()[1:])
        # A device without any of it is told by its number alone.
        read, written = read + int(pairs.get("rbytes", 0)), written + int(pairs.get("wbytes", 0))
    return read, written


def _numbers(file: Path) -> dict[str, int]:
    """A file of `name number` lines; others are left out."""
    found = {}
    for line in file.read_text().splitlines():
        with suppress(ValueError):
            name, number = line.split()
            found[name] = int(number)
    return found


def _known(read: Callable[[], T]) -> T | None:
    """None where the file is not there, not to be read, or says what is not understood."""
    try:
        return read()
    except (OSError, ValueError, IndexError, KeyError):
        return None


def _mounts(text: str) -> dict[str, _Mount]:
    """Where each controller is mounted; as in proc(5), `/proc/<pid>/mountinfo`."""
    found: dict[str, _Mount] = {}
    for line in text.splitlines():
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split()
        if len(fields) < 5 or not kind or kind[0] not in ("cgroup", "cgroup2"):
            continue
        mount = _Mount(_plain(fields[3]), Path(_plain(fields[4])))
        if kind[0] == "cgroup2":
            found.setdefault(_UNIFIED, mount)
        else:
            for name in set(kind[-1].split(",")).intersection((*COUNTING, FREEZER)):
                found.setdefault(name, mount)
    return found


def _plain(escaped: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), escaped)
