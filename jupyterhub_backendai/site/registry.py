"""The registry of users' images as this site signs in to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..configuration_registry import password_problem
from ..engine.images import Login, RegistryRefused
from ..model.registry import ImageRegistry

MOST_PASSWORD = 64 * 1024  # bytes; tokens of cloud registries are long


class Registry:
    """Where images go, if anywhere."""

    def __init__(self, configured: ImageRegistry | None) -> None:
        self._configured = configured

    @property
    def prefix(self) -> str:
        """In front of the names of images that go there; "": they stay on their agents."""
        return "" if self._configured is None else self._configured.prefix

    def has(self, reference: str) -> bool:
        """Whether an image of that reference is there."""
        return bool(self.prefix) and reference.startswith(f"{self.prefix}/")

    async def login(self, reference: str) -> Login | None:
        """Who we are where an image of that reference is, as the file says now; None where that is
        another registry, as one that the site had before. Raises `RegistryRefused`."""
        if reference.partition("/")[0] != self.prefix.partition("/")[0]:
            return None
        return await asyncio.to_thread(self._login)

    def login_for(self, reference: str) -> Login | None:
        """Who we are to the registry of an image, if it is ours. Blocking. Raises
        `RegistryRefused`."""
        return self._login() if self.has(reference) else None

    def _login(self) -> Login | None:
        given = self._configured
        if given is None or given.user is None or given.password_file is None:
            return None
        where = f"c.BackendAI.image_registry.password_file = {given.password_file!r}"
        if (problem := password_problem(given.password_file)) is not None:
            raise RegistryRefused(f"{where}: {' '.join(problem)}")
        try:
            with Path(given.password_file).open("rb") as file:
                password = file.read(MOST_PASSWORD).decode().rstrip("\r\n")
        except (OSError, ValueError) as error:
            # Of the text that is not UTF-8 nothing may be told.
            raise RegistryRefused(f"{where}: it cannot be read: {type(error).__name__}") from None
        if not password:
            raise RegistryRefused(f"{where}: it is empty. Write the password to that file.")
        return Login(given.user, password)
