"""Lets a container go on that stands still without its engine's knowing.

A Docker that is killed just when it has had a container frozen, and has not noted that yet, takes
it for one that runs when it is back, and refuses to let it go on. What knows better is the kernel,
which has it in a file, and containerd's shim, the process above the container's first one, which
refuses to freeze what it takes for frozen. So the shim is asked first, by containerd's own `ctr`.
All of this is only possible where the container is on this machine, and for root.
"""

from __future__ import annotations

import errno
import os
import subprocess
import time
from pathlib import Path

from traitlets.log import get_logger

from .base import EngineError
from .readings import FREEZER, Files, Place

_LONGEST = 30  # seconds that containerd is given to answer
_SETTLED = 10.0  # seconds that the kernel is given to have all processes stand still
_LOOKS = 10  # at whether they do, a millisecond apart, before they are told once more
_PROC = Path("/proc")
_ENDED = {errno.ENOENT, errno.ENODEV, errno.ESRCH}  # the container, while it was looked at
# What `ctr` says where the shim takes the container for one to which that was done already.
_DONE_ALREADY = ("cannot pause a paused", "cannot resume a running")


def stands_still(container: str, pid: int) -> bool | None:
    """Whether the kernel keeps a container, whose first process this is, from running; None where
    that cannot be seen from here."""
    found = _switch(container, pid)
    return None if found is None else _reads(container, *found[:2])


def thaw(container: str, pid: int) -> bool:
    """Whether a container, whose first process this is, stood still and goes on now. False also
    where that cannot be seen from here. Raises `EngineError` where it cannot be changed."""
    return _change(container, pid, still=False)


def freeze(container: str, pid: int) -> bool:
    """Whether a container ran and stands still now; otherwise as `thaw`."""
    return _change(container, pid, still=True)


def _change(container: str, pid: int, still: bool) -> bool:
    found = _switch(container, pid)
    if found is None:
        return False
    file, words, place = found
    if _reads(container, file, words) in {still, None}:
        return False
    verb = "pause" if still else "resume"
    why = _ask_shim(container, place, verb)
    if why is None:
        return True
    try:
        _write(file, words, still)
    except OSError as error:
        if error.errno in _ENDED:
            return False
        has, takes = ("runs", "stands still") if still else ("stands still", "runs")
        raise EngineError(
            f"The container {container[:12]} {has}, its engine may think that it {takes}, and "
            f"neither containerd ({why or 'it thinks so too'}) nor the kernel ({error}) could be "
            "told from here. Restart its session; as root the service can do it by itself."
        ) from error
    if why:
        get_logger().warning(
            "The kernel was told to %s the container %s, and not containerd: %s. Docker may refuse "
            "to have it stand still from now on: restart its session if images of it fail. Install "
            "containerd's `ctr`, and run the service as root, for this not to happen again.",
            verb, container[:12], why,
        )  # fmt: skip
    return True


def _write(file: Path, words: dict[bool, str], still: bool) -> None:
    """Until it is so. With version 1 a process that just starts another one may be missed, and then
    all the others stand still and it is never done (FREEZING): whoever asks Docker hangs."""
    until = time.monotonic() + _SETTLED
    while True:
        file.write_text(words[still])
        for _ in range(_LOOKS):
            if file.read_text().strip() == words[still]:
                return
            time.sleep(0.001)
        file.write_text(words[False])
        if time.monotonic() > until:
            raise OSError(errno.EBUSY, "The kernel does not come to an end with it")


def _reads(container: str, file: Path, words: dict[bool, str]) -> bool | None:
    try:
        # A word of neither kind: it is about to stand still (FREEZING).
        return file.read_text().strip() != words[False]
    except OSError as error:
        if error.errno not in _ENDED:
            get_logger().warning(
                "Whether the container %s stands still cannot be read: %s. Restart its session if "
                "it does not answer.", container[:12], error,
            )  # fmt: skip
        return None


def _switch(container: str, pid: int) -> tuple[Path, dict[bool, str], Place] | None:
    """The kernel's file that says whether a container stands still, and its words for that."""
    place = Files().find(container, pid, controllers=[FREEZER]) if pid > 0 else None
    if place is None:
        return None
    # Where there are both, engines freeze by version 1.
    if group := place.groups.get(FREEZER):
        return group / "freezer.state", {True: "FROZEN", False: "THAWED"}, place
    if group := place.groups.get(""):
        return group / "cgroup.freeze", {True: "1", False: "0"}, place
    return None


def _ask_shim(container: str, place: Place, verb: str) -> str | None:
    """Has the container's shim do so: None. Else why it did not, in words; "" where it takes the
    container for one to which that was done already."""
    given = _shim(container, place)
    if not given:
        return "its shim is not found above it"
    words = ["ctr", "--address", given["-address"], "--namespace", given["-namespace"]]
    try:
        subprocess.run(
            [*words, "tasks", verb, container],
            check=True, capture_output=True, text=True, timeout=_LONGEST,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        said = str(error.stderr).strip() or str(error)
        return "" if any(words in said for words in _DONE_ALREADY) else said
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None


def _shim(container: str, place: Place) -> dict[str, str]:
    """What the shim of a container was started with; nothing where it has none that is root's, or
    of this process's own user: anybody may name a program as he likes."""
    try:
        [parent] = _status(place.pid, "PPid")
        owners = {int(user) for user in _status(parent, "Uid")}
        words = (_PROC / str(parent) / "cmdline").read_text(errors="replace").split("\0")
    except (OSError, ValueError):
        return {}
    # Its number may be another process's by now, and then so is what was found above it.
    if not owners <= {0, os.geteuid()} or not Files().lives(place):
        return {}
    given = dict(zip(words[1::2], words[2::2], strict=False))
    named = Path(words[0]).name.startswith("containerd-shim")
    whole = {"-address", "-namespace"} <= given.keys()
    return given if named and whole and given.get("-id") == container else {}


def _status(pid: int | str, field: str) -> list[str]:
    """Words of one line of what the kernel says of a process."""
    lines = (_PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    [found] = [line.split()[1:] for line in lines if line.startswith(f"{field}:")]
    return found
