"""Where the output of a batch session's command goes, and how what is noted of it is kept."""

import json
import os
import shutil
import stat
import threading
from collections import deque
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

CHUNK = 64 * 1024  # bytes read at once
ROOM = 1024 * 1024  # bytes that wait for a slow file
KEPT = ("older.log", "newer.log")  # in `output/`
PATIENCE = 2  # seconds that a slow file holds up the command, before it misses something


class Output:
    """What the command writes goes to the container's log, to `output/`, and to a folder's file."""

    def __init__(self, directory, job):
        self.source: Any = None
        self._kept = Kept(directory, job["log_max"])
        self._sinks = [Sink(lambda: os.dup(1), "The container's log")]
        if path := job.get("log_path"):
            self._sinks.append(Sink(lambda: open_log(path), f"The log file {path}"))

    def say(self, text):
        """A line of ours in between."""
        self._write(f"[backendai] {now()} {text}\n".encode())

    def pump(self):
        """Passes on what there is; whether more may come now."""
        try:
            data = os.read(self.source, CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._write(data)
        else:
            os.close(self.source)
            self.source = None
        return bool(data)

    def drain(self):
        """Passes on what the command left; what it started in the background may still write."""
        if self.source is not None:
            os.set_blocking(self.source, False)
            most = 1024 * 1024  # the largest that a pipe can be
            while most > 0 and self.source is not None and self.pump():
                most -= CHUNK

    def settle(self):
        """Gives slow files a moment."""
        for sink in reversed(self._sinks):
            sink.settle(PATIENCE)
            self._tell_problem(sink)

    def discard(self):
        """Gives back the room of what was kept."""
        self._kept.discard()

    def _write(self, data):
        self._kept.write(data)
        for sink in self._sinks:
            sink.put(data)
            self._tell_problem(sink)

    def _tell_problem(self, sink):
        if problem := sink.problem():
            line = f"[backendai] {problem}\n".encode()
            self._kept.write(line)
            self._sinks[0].put(line)


class Kept:
    """The end of the output in two files, each begun with a line of how many bytes came before it.

    Both are the command's too, which may do with them what it likes.
    """

    def __init__(self, directory, limit):
        self._directory, self._half = directory, max(1, limit // 2)
        self._older, self._newer = (os.path.join(directory, name) for name in KEPT)
        self._file: Any = None
        self._size, self._total = 0, 0

    def write(self, data):
        view = memoryview(data)
        try:
            while view:
                if self._file is None or self._size >= self._half:
                    self._next()
                part = self._file.write(view[: self._half - self._size])
                self._size += part
                self._total += part
                view = view[part:]
        except OSError:
            # A full disk: the container's log has it all the same, and the gap shows in the lines.
            self._total += len(view)
            self._close()

    def discard(self):
        self._close()
        for name in (self._older, self._newer):
            with suppress(OSError):  # then it has no room to give back
                clear(name)

    def _close(self):
        if self._file is not None:
            self._file.close()
            self._file = None

    def _next(self):
        self._close()
        os.makedirs(self._directory, exist_ok=True)
        if self._size and os.path.isfile(self._newer):
            replace(self._newer, self._older)
        # What has nothing yet, because the disk is full, takes no other's place.
        self._size = 0
        clear(self._newer)
        # Unbuffered: what was written is there, whatever becomes of this process.
        self._file = open(self._newer, "xb", buffering=0)  # noqa: SIM115 - while the command runs
        write_all(self._file.fileno(), f"{self._total:020}\n".encode())


class Sink:
    """Writes to a file in a thread of its own: a file that hangs holds up nothing for long."""

    def __init__(self, opening, name):
        self._opening, self._name = opening, name
        self._queue: deque = deque()
        self._size = self._lost = 0
        self._stuck = self._failed = False
        self._problem = ""
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, data):
        with self._changed:
            wait = 0 if self._stuck else PATIENCE
            self._stuck = not self._changed.wait_for(self._has_room, wait)
            if self._stuck:
                self._lost += len(data)
                return
            if self._lost:
                data = f"\n[backendai] {self._lost} bytes are missing here\n".encode() + data
                self._lost = 0
            self._queue.append(data)
            self._size += len(data)
            self._changed.notify_all()

    def settle(self, seconds):
        with self._changed:
            self._changed.wait_for(lambda: self._size == 0, 0 if self._stuck else seconds)

    def problem(self):
        """What went wrong, once."""
        problem, self._problem = self._problem, ""
        return problem

    def _has_room(self):
        return self._size < ROOM

    def _run(self):
        descriptor = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue)
                data = self._queue.popleft()
            if not self._failed:
                try:
                    if descriptor is None:
                        descriptor = self._opening()
                    write_all(descriptor, data)
                except OSError as error:
                    self._failed = True
                    self._problem = f"{self._name} cannot be written: {error}"
            with self._changed:
                self._size -= len(data)
                self._changed.notify_all()


def write_all(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def open_log(path):
    """Opens a log in a folder, where others may have put anything in its place."""
    # NONBLOCK: a pipe without a reader is an error and nothing to wait for.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o640)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise OSError("it is not a plain file of its own")
    return descriptor


def now():
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def write_json(path, data):
    """All of it or nothing, and on the disk when this returns, whatever the command put there."""
    directory, draft = os.path.dirname(path), f"{path}.tmp"
    os.makedirs(directory, exist_ok=True)
    clear(draft)
    with open(draft, "x", encoding="utf-8") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    replace(draft, path)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(draft, path):
    """As os.replace, in a directory's place too."""
    if os.path.isdir(path):
        clear(path)
    os.replace(draft, path)


def clear(path):
    """Removes what is there, if anything is."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)
