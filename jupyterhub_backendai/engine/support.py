"""The files that every session's container gets before it starts, as one archive.

They are put into the created container through the engine's own API: a bind mount would need a
path that the Docker host knows, which a Hub in a container or another machine does not have.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from ..model.rules import HOME, MARKER
from .docker import archive
from .settings import IMPORT_DIR, SUPPORT_DIR, SiteSettings

_MARKER_TEXT = b"""Files here go when the session ends. Files in mounted folders stay.
"""


def support_files(site: SiteSettings, targets: Iterable[str] = ()) -> bytes:
    """The archive, to be unpacked at `/`: start-up support, and a home that its user owns.

    `targets` are the places of mounted folders: what the engine would make on the way to them,
    as root, is made for the user here.
    """
    return _archive(site.uid, site.gid, tuple(sorted(_on_the_way(targets))))


def _on_the_way(targets: Iterable[str]) -> set[str]:
    """Directories inside the home, and above one of the targets."""
    found: set[str] = set()
    for target in targets:
        parent = posixpath.dirname(target)
        while parent.startswith(HOME + "/"):
            found.add(parent)
            parent = posixpath.dirname(parent)
    return found


@lru_cache(maxsize=64)
def _archive(uid: int, gid: int, directories: tuple[str, ...]) -> bytes:
    entries: list[tuple[str, int, int, int, bytes | None]] = [
        (HOME.lstrip("/") + "/", uid, gid, 0o755, None),
        (f"{HOME.lstrip('/')}/{MARKER}", uid, gid, 0o644, _MARKER_TEXT),
        (SUPPORT_DIR.lstrip("/") + "/", 0, 0, 0o755, None),
        (IMPORT_DIR.lstrip("/") + "/", 0, 0, 0o755, None),
    ]
    entries += [(path.lstrip("/") + "/", uid, gid, 0o755, None) for path in directories]
    root = files("jupyterhub_backendai.singleuser") / "imports"
    entries += tree(root, IMPORT_DIR.lstrip("/"))
    return archive(entries)


def tree(directory: Traversable, path: str) -> list[tuple[str, int, int, int, bytes | None]]:
    """Entries for the Python files in a directory, at `path`, readable by everybody."""
    entries: list[tuple[str, int, int, int, bytes | None]] = []
    for item in sorted(directory.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            if item.name != "__pycache__":
                entries.append((f"{path}/{item.name}/", 0, 0, 0o755, None))
                entries += tree(item, f"{path}/{item.name}")
        elif item.name.endswith(".py"):
            entries.append((f"{path}/{item.name}", 0, 0, 0o644, item.read_bytes()))
    return entries
