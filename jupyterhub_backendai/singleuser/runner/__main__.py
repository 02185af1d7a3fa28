"""Runs a batch session's command beside its Jupyter server. Runs in the session's container.

    python3 -I -S runner JOB.json SERVER-COMMAND...

Beside the job's file lie `go` (whoever puts it there lets the command start), `state/` (what became
of the command) and `output/` (what it wrote). They are in the container's own layer, so that they
can be read when the container has ended, whoever was away meanwhile.

The job is a JSON object: `command` (for `/bin/sh -c`), `timeout_seconds` or null, `grace_seconds`
(from SIGTERM to SIGKILL when it takes too long), `linger_seconds` (how long the server stays after
the command's end when nobody ends the session), `log_max` (bytes of `output/`), `log_path` (a file
that gets the output too) or null.

Standard library only, for any Python that JupyterHub 5 or later runs on.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

from command import LOOK_INTERVAL, Command, oom_kills
from output import Output, now, write_json

STOP_GRACE = 3  # seconds from SIGTERM to SIGKILL when the container is stopped
RETRY = 5  # seconds until what could not be written is written again
NOT_FOUND = 127  # as shells have it
STOPPED = 128 + signal.SIGTERM
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def main(argv):
    if len(argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    return Runner(argv[1], argv[2:]).run()


class Runner:
    """One life of the container: the server, and the command once in all its lives."""

    def __init__(self, job_file, server_command):
        with open(job_file, encoding="utf-8") as file:
            self.job = json.load(file)
        self.root = os.path.dirname(os.path.abspath(job_file))
        self.server_command = server_command
        self.server: Any = None
        self.stopping = False
        self.output: Any = None
        self._wake, wake = os.pipe()
        for end in (self._wake, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # its only use is to wake us
        for number in STOPS:
            signal.signal(number, self._stop)

    def _stop(self, *_):
        self.stopping = True

    def run(self):
        """The container's exit code: the command's, where it has one."""
        try:
            # The container's standard output is the command's alone.
            self.server = subprocess.Popen(self.server_command, stdout=2, start_new_session=True)
        except OSError as error:
            print(f"[backendai] The server cannot be started: {error}", file=sys.stderr)
            return NOT_FOUND
        result = self._earlier_result() or self._do_the_job()
        if result is not None:
            self._linger()
        code = self._end_server()
        if result is None:
            return code  # the server ended before the command's time came
        return STOPPED if result["exit_code"] is None else result["exit_code"]

    def _earlier_result(self):
        """Of an earlier life of this container: nothing is run twice."""
        result, started = self._read("result.json"), self._read("started.json")
        if result is None and started is not None:
            return self._finish(None, started["at"], "interrupted")
        return result

    def _do_the_job(self):
        """The result, or None when the server could not stay until the start."""
        while not os.path.exists(os.path.join(self.root, "go")):
            if self.stopping:
                return self._finish(None, None, "terminated")
            if self.server.poll() is not None:
                return None
            self._wait(LOOK_INTERVAL)
        started_at = now()
        if not self._note("started.json", {"at": started_at}):
            return self._finish(None, None, "terminated")
        self.output = Output(os.path.join(self.root, "output"), self.job)
        self.output.say("The command starts.")
        kills = oom_kills()
        try:
            command = Command(self.job["command"], self.output)
        except (OSError, ValueError) as error:
            self.output.say(f"The command cannot be started: {error}")
            return self._finish(NOT_FOUND, started_at, "failed")
        self._attend(command)
        code = command.returncode
        reason = command.cut_off
        if not reason and code:
            out_of_memory = oom_kills() > kills
            reason = "out_of_memory" if out_of_memory else "killed" if code < 0 else "failed"
        return self._finish(code, started_at, reason or "finished")

    def _attend(self, command):
        """Until the command has ended, or was ended."""
        timeout = self.job.get("timeout_seconds")
        deadline = time.monotonic() + timeout if timeout else None
        server_told = False
        while not command.over():
            if self.stopping:
                self._signal_server(signal.SIGTERM)
                command.end("terminated", STOP_GRACE)
            elif deadline is not None and time.monotonic() >= deadline:
                if not command.cut_off:
                    self.output.say(f"The command took more than {timeout} seconds.")
                command.end("timed_out", self.job["grace_seconds"])
            if not server_told and not self.stopping and self.server.poll() is not None:
                server_told = True
                self.output.say("The Jupyter server ended. The command goes on.")
            self._wait(command.next_look(deadline))
        self.output.drain()

    def _finish(self, code, started_at, reason):
        """Writes the result. `code` is as Popen has it: negative for a signal."""
        number = -code if code is not None and code < 0 else None
        result = {
            "exit_code": 128 + number if number else code,
            "signal": number,
            "started_at": started_at,
            "ended_at": now(),
            "timed_out": reason == "timed_out",
            "reason": reason,
        }
        if self.output is not None:
            self.output.say(f"The command is over: {reason}, exit code {result['exit_code']}.")
            self.output.settle()
        self._note("result.json", result)
        return result

    def _linger(self):
        """Keeps the server until somebody ends the session, but not for long."""
        deadline = time.monotonic() + self.job["linger_seconds"]
        while not self.stopping and self.server.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._wait(left)

    def _end_server(self):
        """Ends the server; its exit code."""
        self._signal_server(signal.SIGTERM)
        try:
            code = self.server.wait(STOP_GRACE)
        except subprocess.TimeoutExpired:
            self._signal_server(signal.SIGKILL)
            code = self.server.wait()
        return 128 - code if code < 0 else code

    def _signal_server(self, number):
        if self.server.poll() is None:
            self.server.send_signal(number)

    def _wait(self, seconds):
        """Until a signal comes, a child ends, the command writes, or the time is over."""
        source = self.output.source if self.output is not None else None
        readable = [self._wake] if source is None else [self._wake, source]
        ready, _, _ = select.select(readable, [], [], max(0, seconds))
        if self._wake in ready:
            os.read(self._wake, 1024)
        if source in ready:
            self.output.pump()

    def _read(self, name):
        try:
            with open(os.path.join(self.root, "state", name), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def _note(self, name, data):
        """Writes a file of the state, however long it takes; False if we were stopped first."""
        while True:
            try:
                write_json(os.path.join(self.root, "state", name), data)
                return True
            except OSError as error:
                print(f"[backendai] {name} cannot be written: {error}", file=sys.stderr)
                if self.output is not None:
                    self.output.discard()  # its room may be what is missing
                if self.stopping:
                    return False
                self._wait(RETRY)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
