"""The processes of apps: started on first use, one start at a time for each, ended with the server.

What they write goes to a log of bounded size in the server's runtime folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import ports

LOG_MAX = 1 << 20  # bytes of a log; as many are kept of what came before
TAIL = 4000  # bytes of a log that are shown
LOOK = 0.05  # seconds from look to look whether it answers
START_TIMEOUT = 120.0  # seconds
GRACE = 5.0  # seconds from SIGTERM to SIGKILL
END_GRACE = 2.0  # the same at the server's end


class NotStarted(Exception):
    """An app cannot be started: why, and what it wrote last."""

    def __init__(self, why: str, wrote: str = "") -> None:
        super().__init__(why)
        self.wrote = wrote


class Process:
    """A process of an app, with all that it starts."""

    def __init__(self, command: Sequence[str], port: int, log: str, **how: Any) -> None:
        self.port = port
        self._log = log
        self._popen = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, **how,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._keep, daemon=True, name="backendai-log")
        self._reader.start()

    @property
    def ended(self) -> int | None:
        """Its exit code once it has ended."""
        return self._popen.poll()

    def wrote_in_the_end(self) -> str:
        """What it wrote before it ended. Blocks a moment, for the rest of it."""
        self._reader.join(0.5)  # longer where what it started goes on writing
        return self.wrote()

    def wrote(self) -> str:
        """What it wrote last."""
        try:
            with open(self._log, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
                return file.read().decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def _keep(self) -> None:
        pipe = self._popen.stdout
        assert pipe is not None
        with pipe:
            file = self._open()
            size = 0
            while True:
                chunk = os.read(pipe.fileno(), 65536)
                if not chunk:
                    break
                if size > LOG_MAX:
                    file, size = self._turn(file), 0
                size += len(chunk)
                with contextlib.suppress(OSError):  # a full disk stops no app
                    file.write(chunk)
            file.close()

    def _open(self) -> Any:
        try:
            return open(self._log, "wb", buffering=0)
        except OSError:
            return open(os.devnull, "wb", buffering=0)

    def _turn(self, file: Any) -> Any:
        file.close()
        with contextlib.suppress(OSError):  # then it is written anew
            os.replace(self._log, self._log + ".1")
        return self._open()

    @property
    def is_there(self) -> bool:
        """Whether it, or something that it has started in its group, is there."""
        if self.ended is None:
            return True
        pid = self._popen.pid
        if os.path.exists(f"/proc/{pid}"):
            return False  # its number is another's by now
        try:
            os.killpg(pid, 0)
        except OSError:
            return False
        return True

    def signal(self, number: int) -> None:
        if not self.is_there:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone
            os.killpg(self._popen.pid, number)

    async def end(self) -> None:
        self.signal(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._wait, GRACE)
        self.signal(signal.SIGKILL)
        await loop.run_in_executor(None, self._wait, None)

    def _wait(self, seconds: float | None) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)


class Processes:
    """All of them, by the app's name."""

    def __init__(self, parts: Any) -> None:
        self._parts = parts
        self._processes: dict[str, Process] = {}
        self._starts: dict[str, asyncio.Task] = {}
        self._failures: dict[str, NotStarted] = {}
        self._taken: set[int] = set()  # ports of those that are being started
        self._ending = False

    def running(self, name: str) -> Process | None:
        process = self._processes.get(name)
        return process if process is not None and process.ended is None else None

    def others(self, name: str) -> set[int]:
        """The ports of what runs and is another app."""
        running = list(self._processes.items())
        return {p.port for other, p in running if other != name and p.ended is None}

    def starting(self, name: str) -> bool:
        return name in self._starts

    def failure(self, name: str) -> NotStarted | None:
        """Why its last start failed."""
        return self._failures.get(name)

    def failed(self, name: str, why: NotStarted) -> None:
        """Notes a start that failed before there was a process."""
        self._failures[name] = why

    def wrote(self, name: str) -> str:
        process = self._processes.get(name)
        return process.wrote() if process is not None else ""

    async def start(
        self,
        name: str,
        command: Callable[[int], Sequence[str]],
        port: int,
        *,
        again: bool = False,
        **how: Any,
    ) -> int:
        """Starts it unless it runs and answers, and waits until it does; the port where it does.

        `command` is asked for the words of the command for a port; `port` is the one to try first.
        `again` ends what runs first. `how` is for `Popen` (`env`, `cwd`). Raises NotStarted.
        """
        task = self._starts.get(name)
        if task is not None and again:
            await asyncio.wait([task])  # that start was with other arguments
            return await self.start(name, command, port, again=True, **how)
        if task is None:
            process = self.running(name)
            if process is not None and not again and process.port in ports.listening():
                return process.port
            task = asyncio.ensure_future(self._start(name, command, port, how))
            self._starts[name] = task
            task.add_done_callback(lambda done: self._started(name, done))
        return await asyncio.shield(task)

    def _started(self, name: str, task: asyncio.Task) -> None:
        self._starts.pop(name, None)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, NotStarted):
            self._failures[name] = error

    async def _start(
        self, name: str, command: Callable[[int], Sequence[str]], port: int, how: dict
    ) -> int:
        self._failures.pop(name, None)
        earlier = self._processes.get(name)
        if earlier is not None:
            await earlier.end()
        if self._ending:
            raise NotStarted("This server is about to end.")
        process = await self._popen(name, command, port, how)
        self._processes[name] = process
        return await self._answers(process)

    async def _popen(
        self, name: str, command: Callable[[int], Sequence[str]], port: int, how: dict
    ) -> Process:
        loop = asyncio.get_running_loop()
        found = 0
        try:
            log = os.path.join(self._parts.runtime_dir, name + ".log")
            found = self._free(name, port)
            self._taken.add(found)
            # what makes the command may look at files, or run a program
            return await loop.run_in_executor(
                None, lambda: Process(command(found), found, log, **how)
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise NotStarted(f"It cannot be started: {error}") from error
        finally:
            self._taken.discard(found)

    def _free(self, name: str, port: int) -> int:
        """A port for that app: never one that is somebody else's, or may be open to others."""
        alive = {p.port for p in self._processes.values() if p.ended is None}
        kept = self._parts.declared.kept_from(name)
        return ports.free(port, ports.listening() | alive | self._taken | kept)

    async def _answers(self, process: Process) -> int:
        until = time.monotonic() + START_TIMEOUT
        while True:
            code = process.ended
            if code is not None:
                ended = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                loop = asyncio.get_running_loop()
                wrote = await loop.run_in_executor(None, process.wrote_in_the_end)
                raise NotStarted(f"It ended {ended} before it answered.", wrote)
            if process.port in ports.listening():
                return process.port
            if time.monotonic() > until:
                wrote = process.wrote()
                await process.end()
                why = f"It did not answer on port {process.port} within {START_TIMEOUT:.0f} s."
                raise NotStarted(why, wrote)
            await asyncio.sleep(LOOK)

    def end_all(self) -> None:
        """At the server's end: all of them, with what they started. Blocks END_GRACE s at most."""
        self._ending = True
        alive = [p for p in list(self._processes.values()) if p.is_there]
        for process in alive:
            process.signal(signal.SIGTERM)
        until = time.monotonic() + END_GRACE
        while time.monotonic() < until and any(p.is_there for p in alive):
            time.sleep(LOOK)
        for process in alive:
            process.signal(signal.SIGKILL)
