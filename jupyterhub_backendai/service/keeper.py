"""Keeps the sessions service going: starts it, and starts it again when it ends by itself.

    python -I -S keeper.py COMMAND...

This is what the Hub runs, for the Hub looks at its services every half minute only. The standard
library alone, so that it is small and has little that could fail.

It opens the service's port for it. Until the service has read its code, who calls waits for the
answer instead of being refused and trying again later, the Hub at its start above all.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

URL = "JUPYTERHUB_SERVICE_URL"
SOCKETS = "BACKENDAI_SOCKETS"  # the variable with the numbers of the sockets that it opened
FIRST_WAIT = 0.5  # seconds before a service that ended is started again
LONGEST_WAIT = 10.0  # seconds; each end that comes early doubles the wait up to this
STEADY = 5.0  # seconds after which an end is no early one: it did start
GRACE = 8.0  # seconds for the service to end before it is killed; the Hub gives us ten
LOOK_INTERVAL = 1.0  # seconds between two looks at whether the Hub is there

log = logging.getLogger("keeper")


class Keeper:
    """One command, until whoever started this ends it, or is gone."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.ending = False
        self._parent = os.getppid()
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        # A signal that comes between two looks is in the pipe, so that no wait misses it.
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)

    def _end(self, *_: object) -> None:
        self.ending = True

    def run(self) -> None:
        """Returns when it was told to end, and the command has."""
        wait = FIRST_WAIT
        while not self.ending:
            began = time.monotonic()
            with self._start() as process:
                self._attend(process)
            if self.ending:
                return
            if time.monotonic() - began > STEADY:
                wait = FIRST_WAIT
            log.error("The sessions service ended (%s); it is started again", _how(process))
            until = time.monotonic() + wait
            while not self.ending and (left := until - time.monotonic()) > 0:
                self._wait(left)
            wait = min(2 * wait, LONGEST_WAIT)

    def _start(self) -> subprocess.Popen[bytes]:
        """The command, as the only one that has its port: when it ends, nobody waits for it."""
        with ExitStack() as stack:
            opened = [stack.enter_context(one) for one in _listen(os.environ.get(URL, ""))]
            numbers = [one.fileno() for one in opened]
            environment = {**os.environ, SOCKETS: " ".join(map(str, numbers))}
            return subprocess.Popen(self.command, pass_fds=numbers, env=environment)

    def _attend(self, process: subprocess.Popen[bytes]) -> None:
        """Until it has ended: by itself, or because we are to end."""
        while process.poll() is None and not self.ending:
            self._wait(LOOK_INTERVAL)
        process.terminate()
        until = time.monotonic() + GRACE
        while process.poll() is None:
            if (left := until - time.monotonic()) <= 0:
                log.warning("The sessions service does not end; it is killed")
                process.kill()
                return
            self._wait(left)

    def _wait(self, seconds: float) -> None:
        """Until a signal comes, or it is time to look; and looks whether the Hub is there."""
        if select.select([self._woken], [], [], min(seconds, LOOK_INTERVAL))[0]:
            os.read(self._woken, 4096)
        if os.getppid() != self._parent and not self.ending:
            log.warning("The Hub is gone; the sessions service ends")
            self.ending = True


def _listen(url: str) -> list[socket.socket]:
    """Sockets that listen at `url`; none where that cannot be: the service tells why."""
    place = urlsplit(url)
    opened: list[socket.socket] = []
    try:
        if place.hostname:
            kind = socket.SOCK_STREAM
            for found in socket.getaddrinfo(place.hostname, place.port or 80, type=kind):
                opened.append(socket.create_server(found[4][:2], family=found[0]))
    except (OSError, ValueError):  # a port that is none
        for one in opened:
            one.close()
        return []
    return opened


def _how(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"signal {-code}" if code < 0 else f"exit code {code}"


if __name__ == "__main__":
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="[%(levelname).1s %(asctime)s backendai %(name)s] %(message)s",
    )
    Keeper(sys.argv[1:]).run()
