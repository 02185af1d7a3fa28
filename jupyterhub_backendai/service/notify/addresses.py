"""Where a user's mail goes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...configuration_notices import address_function
from ...model.errors import shown
from ...model.notices import Mail, is_address
from .channel import NotTaken

THREADS = 4  # for an admin's function that takes its time; no other work waits for them


class Addresses:
    """The addresses of users, by the rule that is configured."""

    def __init__(self, settings: Mail) -> None:
        self._settings = settings
        self._function: Callable[[str], Any] | None = None  # not loaded yet
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="backendai-address")

    async def of(self, user: str) -> str:
        """The address of a user. Raises `NotTaken`: for good for a name that is part of none, and
        for who has none."""
        found = await self._find(user)
        if found is None:
            raise NotTaken(f"{shown(user)} has no address", unwanted=True)
        if not isinstance(found, str) or not is_address(found):
            told = shown(found)
            raise NotTaken(f"{told} is no address, of the user {shown(user)}", for_good=True)
        return found

    async def _find(self, user: str) -> Any:
        name, domain = self._settings.address, self._settings.domain
        if name is None:
            return f"{user}@{domain}" if domain else user
        loop = asyncio.get_running_loop()
        try:
            if self._function is None:
                self._function = await loop.run_in_executor(self._threads, address_function, name)
            if inspect.iscoroutinefunction(self._function):
                return await self._function(user)
            found = await loop.run_in_executor(self._threads, self._function, user)
            return await found if inspect.isawaitable(found) else found
        except Exception as error:  # whatever an admin's own function raises
            raise NotTaken(f"the address of {shown(user)} is not known: {error!r}") from error

    def close(self) -> None:
        """Begins no more; the process ends when what still runs is over."""
        self._threads.shutdown(wait=False, cancel_futures=True)
