"""The files that every session's container gets before it starts, as one archive.

They are put into the created container through the engine's own API: a bind mount would need a
path that the Docker host knows, which a Hub in a container or another machine does not have. They
are root's there, so that nothing in a session can change them. What is secret goes into the home, a
volume: all else is in the layer of which an image can be made.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from ..model.keys import SshKeys
from ..model.rules import HOME, MARKER
from .passwd import with_user
from .settings import (
    IMPORT_DIR,
    OWN_DIR,
    RUNTIME_DIR,
    SERVER_DIR,
    SESSION_FILE,
    SSH_DIR,
    SUPPORT_DIR,
    SiteSettings,
)
from .tar import Entry, archive, members

_MARKER_TEXT = b"""Files here go when the session ends. Files in mounted folders stay.
"""


def support_files(
    site: SiteSettings,
    targets: Iterable[str] = (),
    told: Mapping[str, Any] | None = None,
    keys: SshKeys | None = None,
    passwd: str | None = None,
    shell: str = "",
    more: Iterable[Entry] = (),
) -> bytes:
    """The archive, to be unpacked at `/`: start-up support, a home that its user owns, and what is
    of this session alone.

    `targets` are the places of mounted folders: what the engine would make on the way to them,
    as root, is made for the user here. `told`: what the server's extension reads. `passwd`: the
    image's, which is given a line for the session's user, with `shell`. `more` comes last.

    Reads files, the first time, and makes a copy of all of it: for a thread.
    """
    own = _home(site, sorted(_on_the_way(targets)))
    if told is not None:
        own.append((SESSION_FILE.lstrip("/"), 0, 0, 0o644, json.dumps(told).encode()))
    if keys is not None:
        own += _ssh(keys, site)
    if passwd is not None and site.uid:
        text = with_user(passwd, site.uid, site.gid, HOME, shell)
        own.append(("etc/passwd", 0, 0, 0o644, text.encode("utf-8", "surrogateescape")))
    return archive([*own, *more], after=_support())


def _ssh(keys: SshKeys, site: SiteSettings) -> list[Entry]:
    home, place = HOME.lstrip("/"), SSH_DIR.lstrip("/")
    public = keys.public.encode() + b"\n"
    return [
        (f"{home}/id_container", site.uid, site.gid, 0o600, keys.private.encode()),
        (f"{home}/id_container.pub", site.uid, site.gid, 0o644, public),
        (f"{place}/", 0, 0, 0o755, None),
        (f"{place}/authorized_keys", 0, 0, 0o644, public),
        # SSH's server runs as the session's user, and takes no key that others can read.
        (f"{place}/host_key", site.uid, site.gid, 0o600, keys.host_private.encode()),
        (f"{place}/host_key.pub", 0, 0, 0o644, keys.host_public.encode() + b"\n"),
    ]


def _on_the_way(targets: Iterable[str]) -> set[str]:
    """Directories inside the home, and above one of the targets."""
    found: set[str] = set()
    for target in targets:
        parent = posixpath.dirname(target)
        while parent.startswith(HOME + "/"):
            found.add(parent)
            parent = posixpath.dirname(parent)
    return found


def _home(site: SiteSettings, directories: Iterable[str]) -> list[Entry]:
    home = HOME.lstrip("/")
    own = [
        (f"{home}/", site.uid, site.gid, 0o755, None),
        (f"{home}/{MARKER}", site.uid, site.gid, 0o644, _MARKER_TEXT),
        (OWN_DIR.lstrip("/") + "/", 0, 0, 0o755, None),
        (RUNTIME_DIR.lstrip("/") + "/", site.uid, site.gid, 0o700, None),
    ]
    return own + [(f"{path.lstrip('/')}/", site.uid, site.gid, 0o755, None) for path in directories]


@lru_cache(maxsize=1)
def _support() -> bytes:
    """What is the same in every container, half a megabyte: read once, and kept once."""
    entries: list[Entry] = [
        (path.lstrip("/") + "/", 0, 0, 0o755, None)
        for path in (SUPPORT_DIR, IMPORT_DIR, posixpath.dirname(SERVER_DIR), SERVER_DIR)
    ]
    source = files("jupyterhub_backendai.singleuser")
    entries += tree(source / "imports", IMPORT_DIR.lstrip("/"))
    entries += tree(source / "server", SERVER_DIR.lstrip("/"))
    return members(entries)


def tree(directory: Traversable, path: str) -> list[Entry]:
    """Entries for the files in a directory, at `path`, readable by everybody."""
    entries: list[Entry] = []
    for item in sorted(directory.iterdir(), key=lambda item: item.name):
        if item.name == "__pycache__" or item.name.startswith("."):
            continue
        if item.is_dir():
            entries.append((f"{path}/{item.name}/", 0, 0, 0o755, None))
            entries += tree(item, f"{path}/{item.name}")
        elif not item.name.endswith(".pyc"):
            entries.append((f"{path}/{item.name}", 0, 0, 0o644, item.read_bytes()))
    return entries
