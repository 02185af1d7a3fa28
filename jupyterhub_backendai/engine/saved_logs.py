"""Logs that outlive their containers: files in one directory, each the end of a log."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO

from .logs import CHUNK, LogPart, cut

CONTAINER, COMMAND = "log", "command.log"  # what it wrote in all; its batch command's output alone


class LogShelf:
    """`root/SESSION/KERNEL.log` for every container that was, `KERNEL.command.log` for the output
    of a batch session's command. Every call blocks: it is for a thread."""

    def __init__(self, root: str | Path, log_max: int) -> None:
        self.root, self.log_max = Path(root), log_max

    def path(self, session_id: str, kernel: str, kind: str = CONTAINER) -> Path:
        """Where a log is or would be. Raises ValueError for what is no id of ours."""
        if not (session_id.isalnum() and kernel.isalnum() and (session_id + kernel).isascii()):
            raise ValueError(f"{session_id!r} and {kernel!r} name no container")
        return self.root / session_id / f"{kernel}.{kind}"

    def save(
        self, chunks: Iterable[bytes], session_id: str, kernel: str, kind: str = CONTAINER
    ) -> None:
        """Keeps the last `log_max` bytes, all of them or nothing. Raises OSError."""
        target = self.path(session_id, kernel, kind)
        for directory in (self.root, target.parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".", delete=False) as file:
            try:
                _keep_end(chunks, file, self.log_max)
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise

    def open(
        self, session_id: str, kernel: str, part: LogPart, kind: str = CONTAINER
    ) -> SavedLog | None:
        """A part of a saved log; None where nothing was saved. Times are not kept: there is no
        `since` of it."""
        try:
            file = self.path(session_id, kernel, kind).open("rb")
        except FileNotFoundError:
            return None
        return SavedLog(file, part)

    def forget(self, session_id: str) -> None:
        """Removes what is kept of a session."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path(session_id, "main1").parent)

    def forget_before(self, when: datetime) -> int:
        """Removes what was saved before; of how many sessions."""
        if not self.root.is_dir():
            return 0
        old = [
            entry.name
            for entry in os.scandir(self.root)
            if entry.is_dir(follow_symlinks=False) and entry.stat().st_mtime < when.timestamp()
        ]
        for session_id in old:
            self.forget(session_id)
        return len(old)


class SavedLog:
    """A part of a saved log, as a source of chunks."""

    def __init__(self, file: IO[bytes], part: LogPart) -> None:
        self._file, self._part = file, part
        self.size = os.fstat(file.fileno()).st_size

    def __iter__(self) -> Iterator[bytes]:
        start = 0 if self._part.tail is None else _start_of_tail(self._file, self._part.tail)
        self._file.seek(start + self._part.offset)
        return cut(iter(lambda: self._file.read(CHUNK), b""), 0, self._part.limit)

    def close(self) -> None:
        self._file.close()

    def cancel(self) -> None:
        """Nothing: it waits for nobody."""


def _keep_end(chunks: Iterable[bytes], file: IO[bytes], limit: int) -> None:
    """Writes the last `limit` bytes, with a line before them that says how many are missing."""
    with tempfile.TemporaryFile(dir=os.path.dirname(file.name)) as ring:
        total = 0
        for chunk in chunks:
            view = memoryview(chunk)
            while view:
                at = total % limit
                total += ring.write(view[: limit - at])
                view = view[limit - at :]
                if total % limit == 0:
                    ring.seek(0)
        if total > limit:
            file.write(f"[backendai] {total - limit} bytes before this are not kept\n".encode())
            ring.seek(total % limit)
            shutil.copyfileobj(ring, file)
        ring.seek(0)
        left = total if total <= limit else total % limit
        while left > 0:
            data = ring.read(min(left, CHUNK))
            file.write(data)
            left -= len(data)
    file.flush()
    os.fsync(file.fileno())  # the only other copy goes with its container


def _start_of_tail(file: IO[bytes], lines: int) -> int:
    """Where the last `lines` lines begin; read from the end, a chunk at a time."""
    at = end = file.seek(0, os.SEEK_END)
    wanted = lines
    while at > 0 and wanted > 0:
        step = min(CHUNK, at)
        at -= step
        file.seek(at)
        data = file.read(step)
        if at + step == end and data.endswith(b"\n"):
            wanted += 1  # the newline of the last line begins no other
        found = len(data)
        while wanted > 0 and (found := data.rfind(b"\n", 0, found)) >= 0:
            wanted -= 1
            if wanted == 0:
                return at + found + 1
    return end if lines == 0 else 0
