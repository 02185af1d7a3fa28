"""Keeps the sessions service going: starts it, and starts it again when it ends by itself.

    python -I -S keeper.py COMMAND...

This is what the Hub runs, for the Hub looks at its services every half minute only. The standard
library alone, so that it is small and has little that could fail.

One that hangs is ended and started again too. Its port is open, so that whoever calls it would wait
for as long as they have patience: the Hub at its start for five minutes, a browser for good.

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
from contextlib import ExitStack, suppress
from types import TracebackType
from urllib.parse import urlsplit

URL = "JUPYTERHUB_SERVICE_URL"
SOCKETS = "BACKENDAI_SOCKETS"  # the variable with the numbers of the sockets that it opened
LIFE = "BACKENDAI_LIFE"  # the variable with the number of the pipe that it writes to while it lives
FIRST_WAIT = 0.5  # seconds before a service that ended is started again
LONGEST_WAIT = 10.0  # seconds; each end that comes early doubles the wait up to this
STEADY = 5.0  # seconds after which an end is no early one: it did start
GRACE = 8.0  # seconds for the service to end before it is killed; the Hub gives us ten
LOOK_INTERVAL = 1.0  # seconds between two looks at whether the Hub is there
PATIENCE = 30.0  # seconds without a sign of life after which a service hangs; it gives one a second
START_PATIENCE = 90.0  # the same before its first, while it reads its code
TELL = 1.0  # seconds for one that hangs to write where it does

log = logging.getLogger("keeper")


class Life:
    """The pipe through which a service shows that it does not hang. It writes there from what
    answers its callers, so that whatever stops that, silence tells."""

    def __init__(self) -> None:
        self._reads, self.writes = os.pipe()
        os.set_blocking(self._reads, False)
        os.set_blocking(self.writes, False)
        self._patience = START_PATIENCE
        self._silent = 0.0
        self._looked = time.monotonic()

    def __enter__(self) -> Life:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._reads)
        os.close(self.writes)

    def hangs(self) -> bool:
        """Whether it has been silent for too long; to be asked often."""
        now = time.monotonic()
        # No more than the time between two looks: what stops us stops the service as well.
        self._silent += min(now - self._looked, 2 * LOOK_INTERVAL)
        self._looked = now
        with suppress(BlockingIOError):
            if os.read(self._reads, 4096):
                self._silent, self._patience = 0.0, PATIENCE
        return self._silent > self._patience


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
            with Life() as life, self._start(life) as process:
                self._attend(process, life)
            if self.ending:
                return
            if time.monotonic() - began > STEADY:
                wait = FIRST_WAIT
            log.error("The sessions service ended (%s); it is started again", _how(process))
            until = time.monotonic() + wait
            while not self.ending and (left := until - time.monotonic()) > 0:
                self._wait(left)
            wait = min(2 * wait, LONGEST_WAIT)

    def _start(self, life: Life) -> subprocess.Popen[bytes]:
        """The command, as the only one that has its port: when it ends, nobody waits for it."""
        with ExitStack() as stack:
            opened = [stack.enter_context(one) for one in _listen(os.environ.get(URL, ""))]
            numbers = [one.fileno() for one in opened]
            environment = {
                **os.environ, SOCKETS: " ".join(map(str, numbers)), LIFE: str(life.writes),
            }  # fmt: skip
            return subprocess.Popen(self.command, pass_fds=[*numbers, life.writes], env=environment)

    def _attend(self, process: subprocess.Popen[bytes], life: Life) -> None:
        """Until it has ended: by itself, because it hangs, or because we are to end."""
        while process.poll() is None and not self.ending:
            self._wait(LOOK_INTERVAL)
            if life.hangs():
                log.error("The sessions service hangs; it is ended")
                process.send_signal(signal.SIGUSR1)  # it says where, if it still can
                with suppress(subprocess.TimeoutExpired):
                    process.wait(TELL)
                process.kill()
                return
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
