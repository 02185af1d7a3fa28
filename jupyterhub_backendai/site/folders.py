"""Folders: directories that outlive sessions, `users/<name>/…` and `projects/<group>/…`.

What is on the disk is the truth. Directories are made by the Docker host itself, as root, so that
owners are right whether or not the Hub is root or in a container.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from traitlets.log import get_logger

from ..engine.settings import path_part
from ..model.errors import Problem
from ..model.resolve import Folder, MountPoint
from ..model.rules import check_folder_name

if TYPE_CHECKING:
    from .runtime import Site

THREADS = 4  # listings at a time


class FolderShelf:
    """The folders below one root."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.root = site.configuration.folder_root
        # Not the loop's own threads: those look up names and sign people in, and a file server
        # that hangs must not hold that up.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="backendai-folders")

    @property
    def enabled(self) -> bool:
        """Whether this site has folders."""
        return bool(self.root)

    async def of(self, user: str, groups: Iterable[str]) -> list[Folder]:
        """The user's own folders, then those of the user's groups (named `group/folder`)."""
        if not self.enabled:
            return []
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._list, user, sorted(groups)
        )

    def _list(self, user: str, groups: list[str]) -> list[Folder]:
        found = [Folder(name=name) for name in _names(self.root, "users", path_part(user))]
        for group in groups:
            found += [
                Folder(name=f"{group}/{name}", project=group)
                for name in _names(self.root, "projects", path_part(group))
                if not name.startswith(".")
            ]
        return found

    async def create(self, agent: str, image: str, user: str, mounts: Iterable[MountPoint]) -> None:
        """Makes the folders that a request asks to be made. Raises `EngineError`."""
        names = [m.folder for m in mounts if m.create]
        if not names:
            return
        settings, home = self.site.settings, f"users/{path_part(user)}"
        entries = [("users/", 0, 0, 0o755), (f"{home}/", 0, 0, 0o755)]
        entries += [(f"{home}/{name}/", settings.uid, settings.gid, 0o770) for name in names]
        await self.site.engine.host(agent).make_directories(image, settings.folder_root, entries)


def _names(*path: str) -> list[str]:
    """Names of the real directories in a directory; links and unusable names are left out.

    A person can put anything inside a folder but nothing beside it, so only this level is read.
    """
    names = []
    try:
        with os.scandir(os.path.join(*path)) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and _usable(entry.name):
                    names.append(entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        # A directory that the Hub may not read hides its folders, not those of everybody else.
        get_logger().error("Folders cannot be listed: %s", error)
        return []
    return sorted(names)


def _usable(name: str) -> bool:
    try:
        check_folder_name(name)
    except Problem:
        return False
    return True
