"""Lets a container go on that stands still without its engine's knowing.

A Docker that is killed just when it has had a container frozen, and has not noted that yet, takes
it for one that runs when it is back, and refuses to let it go on. What knows better is the kernel,
which has it in a file, and containerd's shim, the process above the container's first one, which
refuses to freeze what it takes for frozen. So the shim is asked first, by containerd's own `ctr`.
All of this is only possible where the container is on this machine, and for root.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from traitlets.log import get_logger

from .readings import FREEZER, Files

_LONGEST = 30  # seconds that containerd is given to answer
_PROC = Path("/proc")


def thaw(container: str, pid: int) -> bool:
    """Whether a container, whose first process this is, stood still and goes on now. False also
    where that cannot be seen from here."""
    return _change(container, pid, still=False)


def freeze(container: str, pid: int) -> bool:
    """Whether a container ran and stands still now; otherwise as `thaw`."""
    return _change(container, pid, still=True)


def _change(container: str, pid: int, still: bool) -> bool:
    found = _switch(container, pid)
    if found is None:
        return False
    file, words = found
    try:
        # A word of neither kind: it is about to stand still (FREEZING).
        if (file.read_text().strip() != words[False]) == still:
            return False
        if not _ask_shim(container, pid, "pause" if still else "resume"):
            file.write_text(words[still])
    except OSError as error:
        get_logger().error(
            "A container stands still, and its engine does not know: %s. Restart it by hand: %s",
            error, container,
        )  # fmt: skip
        return False
    return True


def _switch(container: str, pid: int) -> tuple[Path, dict[bool, str]] | None:
    """The kernel's file that says whether a container stands still, and its words for that."""
    place = Files().find(container, pid, controllers=[FREEZER]) if pid > 0 else None
    if place is None:
        return None
    # Where there are both, engines freeze by version 1.
    if group := place.groups.get(FREEZER):
        return group / "freezer.state", {True: "FROZEN", False: "THAWED"}
    if group := place.groups.get(""):
        return group / "cgroup.freeze", {True: "1", False: "0"}
    return None


def _ask_shim(container: str, pid: int, verb: str) -> bool:
    """Whether the container's shim has done so. Not where it takes the container for one to which
    that was done already, or cannot be asked."""
    given = _shim(container, pid)
    if not given:
        return False
    words = ["ctr", "--address", given["-address"], "--namespace", given["-namespace"]]
    try:
        subprocess.run(
            [*words, "tasks", verb, container],
            check=True, capture_output=True, text=True, timeout=_LONGEST,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        get_logger().info("containerd did not %s %s: %s", verb, container, error.stderr.strip())
        return False
    except (OSError, subprocess.TimeoutExpired) as error:
        get_logger().warning(
            "containerd could not be asked to %s a container, so the kernel is; Docker may refuse "
            "to have it stand still from now on, as for an image of it: %s. %s",
            verb, container, error,
        )  # fmt: skip
        return False
    return True


def _shim(container: str, pid: int) -> dict[str, str]:
    """What the shim of a container was started with; nothing where it has none."""
    try:
        status = (_PROC / str(pid) / "status").read_text(errors="replace")
        [parent] = [line.split()[1] for line in status.splitlines() if line.startswith("PPid:")]
        words = (_PROC / parent / "cmdline").read_text(errors="replace").split("\0")
    except (OSError, ValueError):
        return {}
    given = dict(zip(words[1::2], words[2::2], strict=False))
    named = Path(words[0]).name.startswith("containerd-shim")
    whole = {"-address", "-namespace"} <= given.keys()
    return given if named and whole and given.get("-id") == container else {}
