"""Downloads of images: one for each image of a host, however many starts wait for it.

Docker's client gives no way to end a call that waits for a registry, so each download is a small
program that can be killed: with it its connection closes, and Docker gives the download up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from traitlets.log import get_logger

from ..model.errors import shown
from .base import AgentUnreachable, EngineError, ImageMissing
from .helper_programs import said

AT_ONCE = 8  # downloads of one host; Docker itself loads three layers at a time
Tell = Callable[[int, int], None]  # bytes done, bytes in all


class Downloads:
    """The downloads of one host.

    `options` gives, for an image, the arguments of the Docker client and what it signs in with.
    """

    def __init__(
        self,
        host: str,
        options: Callable[[str], Awaitable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]],
    ) -> None:
        self.host = host
        self._options = options
        self._room = asyncio.Semaphore(AT_ONCE)
        self._running: dict[str, _Download] = {}
        self.came = asyncio.Event()  # set when an image has come; who waits for one clears it

    async def wait(self, image: str, tell: Tell) -> None:
        """Until `image` is there; `tell` hears how far it is, also where others began it.

        The download ends when nobody waits for it any more. Raises `ImageMissing`, and
        `AgentUnreachable` or another `EngineError` when the download itself cannot be made.
        """
        download = self._running.get(image)
        if download is None:
            download = self._running[image] = _Download()
            download.task = asyncio.ensure_future(self._run(image, download))
            download.task.add_done_callback(lambda task: self._over(image, task))
        download.tellers.append(tell)
        if download.last:
            tell(*download.last)
        try:
            await asyncio.shield(download.task)
        finally:
            download.tellers.remove(tell)
            if not download.tellers and not download.task.done():
                # Nobody may join what is being ended.
                self._running.pop(image, None)
                download.task.cancel()

    def _over(self, image: str, task: asyncio.Task[None]) -> None:
        running = self._running.get(image)
        if running is not None and running.task is task:
            del self._running[image]
        if not task.cancelled() and (error := task.exception()) is not None:
            get_logger().warning("%s on %s: %s", image, self.host, shown(error, 500))

    async def _run(self, image: str, download: _Download) -> None:
        async with self._room:
            client, auth = await self._options(image)
            await self._follow(
                {"client": dict(client), "image": image, "auth": auth}, image, download
            )
            self.came.set()

    async def _follow(self, order: Mapping[str, Any], image: str, download: _Download) -> None:
        async with aclosing(said("download.py", order)) as lines:
            async for line in lines:
                if isinstance(line, list):
                    download.last = (int(line[0]), int(line[1]))
                    for tell in download.tellers:
                        tell(*download.last)
                elif "missing" in line:
                    raise ImageMissing(
                        f"It cannot be downloaded: {line['missing'][:300]}. Check its name, and "
                        "that the Hub may read it (docker login)."
                    )
                elif "unreachable" in line:
                    raise AgentUnreachable(
                        f"Docker on {self.host} does not answer: {line['unreachable'][:300]}"
                    )
                else:
                    return
        raise EngineError(
            f"The download of {image} to {self.host} ended with no result. "
            "It is tried again by the next start that needs it."
        )


class _Download:
    """One that is under way, and who hears of it."""

    task: asyncio.Task[None]

    def __init__(self) -> None:
        self.tellers: list[Tell] = []
        self.last: tuple[int, int] | None = None
