"""The command of a batch session, and the processes that it starts."""

import os
import signal
import subprocess
import time

LOOK_INTERVAL = 0.2  # seconds between two looks at what nothing wakes us for


class Command:
    """The user's command and the processes of its group."""

    def __init__(self, text, output):
        environment = {**os.environ, "_BACKEND_BATCH_MODE": "1"}
        # The server's start-up help is the server's alone.
        here = os.path.dirname(os.path.abspath(__file__))
        support = os.path.join(os.path.dirname(here), "import")
        paths = environment.pop("PYTHONPATH", "").split(os.pathsep)
        if kept := [path for path in paths if path and path != support]:
            environment["PYTHONPATH"] = os.pathsep.join(kept)
        output.source, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", text],
                stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.STDOUT,
                start_new_session=True, env=environment,
            )  # fmt: skip
        finally:
            os.close(writing)
        self.cut_off = ""  # why it was ended, if it was
        self.returncode = None
        self._kill_at = None

    def end(self, why, grace):
        """SIGTERM to all of it now, SIGKILL `grace` seconds later. Only the first call counts,
        but that a stop may shorten the time."""
        kill_at = time.monotonic() + grace
        if not self.cut_off:
            self.cut_off = why
            self._kill_at = kill_at
            self._signal(signal.SIGTERM)
        elif self._kill_at is not None:
            self._kill_at = min(self._kill_at, kill_at)

    def over(self):
        """Whether it has ended. One that was ended is over when its last process is: the shell goes
        at once, while the program that it ran may be saving its work."""
        # Its number stays its own until it is waited for, so that no signal hits a stranger.
        if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            alive = True
        else:
            alive = bool(self.cut_off) and self._kill_at is not None and self._has_members()
        if alive:
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._signal(signal.SIGKILL)
                self._kill_at = None
            return False
        self.returncode = self._process.wait()
        return True

    def next_look(self, deadline):
        """Seconds until there may be something to do."""
        if self._kill_at is not None:
            return min(LOOK_INTERVAL, self._kill_at - time.monotonic())
        if self.cut_off or deadline is None:
            return 60
        return deadline - time.monotonic()

    def _signal(self, number):
        os.killpg(self._process.pid, number)

    def _has_members(self):
        """Whether a process of its group still runs."""
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The second field is a name in brackets, which may have anything in it.
                    state, _, group = file.read().rpartition(b")")[2].split()[:3]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(group) == self._process.pid and state not in (b"Z", b"X"):
                return True
        return False


def oom_kills():
    """How often memory ran out in this container so far."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path, encoding="ascii") as file:
                return sum(int(n) for key, n in map(str.split, file) if key == "oom_kill")
        except OSError:
            continue  # the other version of cgroups, or none that we may read
    return 0
