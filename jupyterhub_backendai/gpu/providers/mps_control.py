"""`nvidia-cuda-mps-control`, the program that MPS is run with: how it is called, and what it says.

Called with lists of arguments and with lines of input, never by a shell. Everything here blocks,
and is for the one thread of `MpsThread`: steps of two sessions never mix.

Source: NVIDIA's documentation of MPS for release 615, of both interfaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..errors import GpuError
from ..thread import Hangs, OwnThread

T = TypeVar("T")
PROGRAM = "nvidia-cuda-mps-control"
CALL_TIMEOUT = 10.0  # seconds for one call
STEP_TIMEOUT = 60.0  # seconds for a step of several
START_TIMEOUT = 15.0  # seconds for a daemon or a server to be there
POLL = 0.05  # seconds between two looks while it comes
LONGEST_SOCKET = 107  # bytes of a socket's path, by the kernel


class ControlFailed(Exception):
    """The program did not do what it was told; the text is what it said."""


class Control:
    """The program, by its name or path. `proc` is where the machine's own /proc is."""

    def __init__(self, program: str = PROGRAM, proc: Path = Path("/proc")) -> None:
        self._program = program
        self._proc = proc

    def protocol(self) -> int:
        """The newest interface that it has: 3, 2, or 0 where there is no such program."""
        if shutil.which(self._program) is None:
            return 0
        try:
            said = self.call(None, "-p", "3", "-h")
        except ControlFailed as failure:
            said = str(failure)
        return 3 if "namespace" in said and "server" in said else 2

    def call(self, daemon: Daemon | None, *arguments: str, text: str = "") -> str:
        """What it writes, with `text` as its input. Raises `ControlFailed`.

        Into a file and not a pipe: a daemon that it starts would hold a pipe open for good.
        """
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run(
                    [self._program, *arguments],
                    input=text.encode(),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=_environment(daemon),
                    timeout=CALL_TIMEOUT,
                    # No Ctrl-C that is meant for the Hub ends a daemon that sessions need.
                    start_new_session=True,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise ControlFailed(f"no answer in {CALL_TIMEOUT:g} seconds") from None
            except OSError as error:
                raise ControlFailed(str(error)) from error
            output.seek(0)
            said = output.read().decode("utf-8", "replace").strip()
        if done.returncode:
            raise ControlFailed(said or f"exit code {done.returncode}")
        return said

    def runs(self, pid: str) -> bool:
        """Whether there is a process of that number."""
        return pid.isdecimal() and (self._proc / pid).is_dir()


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon: where its sockets are, where it writes its log, which GPU it sees (None: all)."""

    pipes: Path
    logs: Path
    device: str | None = None

    def make_folders(self) -> None:
        """Folders that root alone may write to: that of the sockets all may go through, whatever
        the umask is. Raises `ControlFailed`."""
        try:
            _make_folder(self.pipes, 0o755)
            _make_folder(self.logs, 0o750)
        except OSError as error:
            raise ControlFailed(str(error)) from error


def _make_folder(path: Path, mode: int) -> None:
    """The folder with this mode; those above it that are missing all may go through."""
    if not path.parent.exists():
        _make_folder(path.parent, 0o755)
    path.mkdir(mode=mode, exist_ok=True)
    path.chmod(mode)


class MpsThread:
    """The thread on which all that has to do with MPS is done, one after the other."""

    def __init__(self) -> None:
        self._thread = OwnThread("mps")

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`. Raises `GpuError`."""
        try:
            return await self._thread.run(work, STEP_TIMEOUT)
        except ControlFailed as failure:
            raise GpuError(f"MPS: {failure}") from failure
        except Hangs:
            raise GpuError(f"MPS has not answered for {STEP_TIMEOUT:g} seconds.") from None

    def close(self) -> None:
        """Ends the thread."""
        self._thread.end()


def server_name(uuid: str) -> str:
    """A GPU's server: lower-case letters, digits and `_` alone, the same after a restart, and short
    enough for a socket's path."""
    return "gpu_" + "".join(c for c in uuid.lower() if c.isalnum())[-16:]


def check_socket(directory: Path) -> None:
    """Raises `ControlFailed` where a socket in there would have too long a path: the daemon then
    fails without a word."""
    if len(os.fsencode(directory / "control")) > LONGEST_SOCKET:
        raise ControlFailed(f"{directory} is too long a path for its sockets")


def wait_for(found: Callable[[], T | None], what: str) -> T:
    """What `found` returns as soon as it is something. Raises `ControlFailed`."""
    deadline = time.monotonic() + START_TIMEOUT
    last = ""
    while True:
        try:
            if (value := found()) is not None:
                return value
        except ControlFailed as failure:
            last = f": {failure}"
        if time.monotonic() >= deadline:
            raise ControlFailed(f"{what} has not come in {START_TIMEOUT:g} seconds{last}")
        time.sleep(POLL)


def _environment(daemon: Daemon | None) -> dict[str, str]:
    """Where programs and libraries are, and which daemon it is about: nothing else of the Hub's,
    whose secrets a daemon would keep."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    if daemon is not None:
        kept["CUDA_MPS_PIPE_DIRECTORY"] = str(daemon.pipes)
        kept["CUDA_MPS_LOG_DIRECTORY"] = str(daemon.logs)
        if daemon.device is not None:
            kept["CUDA_VISIBLE_DEVICES"] = daemon.device
    return kept
