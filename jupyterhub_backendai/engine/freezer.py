"""Lets a container go on that stands still without its engine's knowing.

A Docker that is killed just when it has had a container frozen, and has not noted that yet, takes
it for one that runs when it is back, and refuses to let it go on. What froze it is a file of the
kernel's, which can be written where the container is on this machine.
"""

from __future__ import annotations

from pathlib import Path

from traitlets.log import get_logger

from .readings import Files


def thaw(container: str, pid: int) -> bool:
    """Whether a container, whose first process this is, stood still and goes on now. False also
    where that cannot be seen from here."""
    place = Files().find(container, pid) if pid > 0 else None
    if place is None:
        return False
    if group := place.groups.get("freezer"):
        return _write(group / "freezer.state", "FROZEN", "THAWED")
    if group := place.groups.get(""):
        return _write(group / "cgroup.freeze", "1", "0")
    return False


def _write(file: Path, still: str, goes: str) -> bool:
    try:
        if file.read_text().strip() != still:
            return False
        file.write_text(goes)
    except OSError as error:
        get_logger().error(
            "A container stands still, and its engine does not know: %s. Restart it by hand: %s",
            error, file.parent.name,
        )  # fmt: skip
        return False
    return True
