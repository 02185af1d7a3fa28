"""Downloads of images: one for each image of a host, however many starts wait for it.

Docker's client gives no way to end a call that waits for a registry, so each download is a small
program that can be killed: with it its connection closes, and Docker gives the download up.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from traitlets.log import get_logger

from ..model.errors import shown
from .base import AgentUnreachable, EngineError, ImageMissing

AT_ONCE = 8  # downloads of one host; Docker itself loads three layers at a time
PROGRAM = Path(__file__).with_name("programs") / "download.py"
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
            # The program is the last thing that is begun, so that none can be lost.
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(PROGRAM), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
            )
            try:
                order = {"client": dict(client), "image": image, "auth": auth}
                await self._follow(process, order, image, download)
                self.came.set()
            finally:
                if process.returncode is None:
                    process.kill()
                await asyncio.shield(process.wait())

    async def _follow(
        self, process: Process, order: Mapping[str, Any], image: str, download: _Download
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order).encode() + b"\n")
        async for line in process.stdout:
            said = json.loads(line)
            if isinstance(said, list):
                download.last = (int(said[0]), int(said[1]))
                for tell in download.tellers:
                    tell(*download.last)
            elif "missing" in said:
                raise ImageMissing(
                    f"It cannot be downloaded: {said['missing'][:300]}. Check its name, and that "
                    "the Hub may read it (docker login)."
                )
            elif "unreachable" in said:
                raise AgentUnreachable(
                    f"Docker on {self.host} does not answer: {said['unreachable'][:300]}"
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
