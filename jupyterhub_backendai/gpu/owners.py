"""Which container a process is in, by the kernel's own word: `/proc/<pid>/cgroup`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

# Docker's and Podman's ids, whichever cgroup version and driver puts whatever around them.
_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_START = 19  # of the fields after the name in /proc/<pid>/stat: start, in ticks since boot
_KTHREADD = 2  # in the machine's own PID namespace, and in no other


class Whose(Enum):
    """What is known of a process."""

    CONTAINER = "container"
    MACHINE = "machine"  # in no container
    GONE = "gone"  # ended, or another process has its number by now
    UNKNOWN = "unknown"  # not to be seen from here


@dataclass(frozen=True, slots=True)
class Owner:
    """A process's container; `start` is in clock ticks since boot and makes the number unique."""

    whose: Whose
    container: str | None = None
    start: int | None = None


class Processes:
    """The machine's processes, at one moment: made before the driver is asked for its list.

    A process that is younger than that is not the one that the driver spoke of, or came too late
    for this reading.
    """

    def __init__(self, proc: Path, containers: Collection[str] = ()) -> None:
        self._proc = proc
        self._containers = frozenset(containers)
        self._visible = sees_all(proc)
        self._now = _uptime(proc)

    def owner(self, pid: int) -> Owner:
        """Whose process this is.

        Of containers within containers it is the one among `containers`, else the outermost.
        """
        # The driver counts in the machine's namespace: seen from another, it is a wrong number.
        if not self._visible or self._now is None:
            return Owner(Whose.UNKNOWN)
        try:
            start = self._start(pid)
            cgroup = (self._proc / str(pid) / "cgroup").read_text()
            after = self._start(pid)
        except (FileNotFoundError, ProcessLookupError):
            return Owner(Whose.GONE)
        except OSError:
            return Owner(Whose.UNKNOWN)
        if start is None or after is None:
            return Owner(Whose.UNKNOWN)
        if start != after or start > self._now:
            return Owner(Whose.GONE)
        ids = _CONTAINER.findall(cgroup)
        if not ids:
            return Owner(Whose.MACHINE, start=start)
        ours = next((found for found in ids if found in self._containers), ids[0])
        return Owner(Whose.CONTAINER, ours, start)

    def _start(self, pid: int) -> int | None:
        # A name may hold anything, brackets and spaces too; the last bracket ends it.
        fields = (self._proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return int(fields[_START]) if len(fields) > _START else None


def _uptime(proc: Path) -> int | None:
    """Clock ticks since boot, rounded up."""
    try:
        seconds = (proc / "uptime").read_text().split()[0]
    except (OSError, IndexError):
        return None
    return int(float(seconds) * os.sysconf("SC_CLK_TCK")) + 1


def sees_all(proc: Path) -> bool:
    """Whether this /proc is of the machine itself, and not of a container on it."""
    try:
        return (proc / str(_KTHREADD) / "comm").read_text().strip() == "kthreadd"
    except OSError:
        return False
