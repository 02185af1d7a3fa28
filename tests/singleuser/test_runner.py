"""The batch runner as a real process, beside a real process that stands for the Jupyter server."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jupyterhub_backendai.singleuser
from jupyterhub_backendai.engine.batch import Ending, Outcome, outcome_of

RUNNER = Path(jupyterhub_backendai.singleuser.__file__).parent / "runner"
DEADLINE = 30  # seconds; nothing here takes three
FOREVER = "sleep 1000"


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to pass in time")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class Batch:
    """A job in a directory of its own, and the lives of its container."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lives: list[subprocess.Popen[bytes]] = []
        for name in ("state", "output", "work"):
            (root / name).mkdir(parents=True)

    def start(
        self,
        command: str = "true",
        server: str = FOREVER,
        go: bool = True,
        stdout: int | None = None,
        env: dict[str, str] | None = None,
        **job: Any,
    ) -> Batch:
        job = {
            "command": command, "timeout_seconds": None, "grace_seconds": 0.5,
            "linger_seconds": 0, "log_max": 10**6, "log_path": None, **job,
        }  # fmt: skip
        (self.root / "job.json").write_text(json.dumps(job))
        note = f"echo $$ >> {shlex.quote(str(self.root / 'pids'))}; exec {server}"
        if go:
            self.go()
        with (self.root / "container.log").open("ab") as log:
            self.lives.append(
                subprocess.Popen(
                    [sys.executable, "-I", "-S", RUNNER, self.root / "job.json", "sh", "-c", note],
                    stdin=subprocess.DEVNULL, stdout=log if stdout is None else stdout,
                    stderr=log, cwd=self.root / "work", env={**os.environ, **(env or {})},
                )
            )  # fmt: skip
        return self

    def go(self) -> None:
        (self.root / "go").touch()

    def end(self) -> int:
        """Until the container has ended; its exit code."""
        return int(self.lives[-1].wait(DEADLINE))

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.lives[-1].send_signal(number)

    @property
    def outcome(self) -> Outcome:
        return outcome_of(self.state("started.json"), self.state("result.json"), False)

    def state(self, name: str) -> bytes | None:
        path = self.root / "state" / name
        return path.read_bytes() if path.exists() else None

    @property
    def output(self) -> bytes:
        return b"".join(data for _, data in self.kept)

    @property
    def kept(self) -> list[tuple[int, bytes]]:
        """The files that are kept of it: how many bytes came before, and their own."""
        paths = [self.root / "output" / name for name in ("older.log", "newer.log")]
        found = [path.read_bytes() for path in paths if path.is_file()]
        return [(int(data[:20]), data[21:]) for data in found]

    @property
    def container_log(self) -> str:
        return (self.root / "container.log").read_text()

    def pid(self, name: str) -> int:
        """What the command wrote of itself (`echo $$ > name`)."""
        path = self.root / "work" / name
        return int(wait_for(lambda: path.exists() and path.read_text().strip()))

    def clean_up(self) -> None:
        for life in self.lives:
            if life.poll() is None:
                life.terminate()
                try:
                    life.wait(DEADLINE)
                except subprocess.TimeoutExpired:
                    life.kill()
                    life.wait()
        pids = (self.root / "pids").read_text().split() if (self.root / "pids").exists() else ()
        for pid in map(int, pids):  # a server whose runner was killed
            if alive(pid) and os.getsid(pid) == pid:
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def batch(tmp_path: Path) -> Iterator[Batch]:
    made = Batch(tmp_path)
    try:
        yield made
    finally:
        made.clean_up()


# ---- how it ends ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "ending", "code", "number"),
    [
        ("echo hello", Ending.FINISHED, 0, None),
        ("exit 3", Ending.FAILED, 3, None),
        ("/no/such/program --now", Ending.FAILED, 127, None),
        ("kill -KILL $$", Ending.KILLED, 137, 9),
        ("sh -c 'kill -SEGV $$'; exit $?", Ending.FAILED, 139, None),
        ("x" * 200_000, Ending.FAILED, 127, None),  # more than the kernel takes of one argument
    ],
    ids=["0", "3", "missing", "killed", "child-killed", "too-long"],
)
def test_the_end_is_noted(
    batch: Batch, command: str, ending: Ending, code: int, number: int | None
) -> None:
    assert batch.start(command).end() == code
    found = batch.outcome
    assert (found.ending, found.exit_code, found.signal) == (ending, code, number)
    assert found.started_at is not None
    assert found.ended_at is not None
    assert found.started_at <= found.ended_at
    assert found.succeeded is (code == 0)
    assert not (batch.root / "state" / "result.json.tmp").exists()
    assert f"exit code {code}" in batch.container_log


def test_the_command_is_data_and_knows_that_it_is_a_batch(batch: Batch) -> None:
    command = """echo "$_BACKEND_BATCH_MODE|$PYTHONPATH|$0|%s {x} ünïcode"; cat; echo oops >&2"""
    support = RUNNER.parent / "import"
    batch.start(command, env={"PYTHONPATH": f"{support}:/mine"}).end()
    assert "1|/mine|/bin/sh|%s {x} ünïcode\n" in batch.output.decode()
    assert b"\noops\n" in batch.output
    assert batch.output.decode() in batch.container_log


# ---- its time ------------------------------------------------------------------------------------


def test_it_waits_for_the_word_and_runs_once(batch: Batch) -> None:
    batch.start("echo ran >> ran", go=False, linger_seconds=1000)
    server = batch.pid("../pids")
    assert alive(server)
    assert batch.outcome.ending is Ending.NEVER_STARTED
    assert not (batch.root / "work" / "ran").exists()
    batch.go()
    wait_for(lambda: batch.state("result.json"))
    assert alive(server), "it stays until somebody ends the session"
    batch.stop()
    assert batch.end() == 0
    assert not alive(server)
    # The container is started once more, by whomever.
    before = batch.state("result.json")
    assert batch.start("echo ran >> ran").end() == 0
    assert batch.state("result.json") == before
    assert (batch.root / "work" / "ran").read_text() == "ran\n"


def test_too_long_is_ended_and_what_ignores_it_is_killed(batch: Batch) -> None:
    command = "(trap '' TERM; echo $$ > shell; exec sleep 1000) & echo $! > child; wait"
    batch.start(command, timeout_seconds=0.3).end()
    assert (batch.outcome.ending, batch.outcome.exit_code) == (Ending.TIMED_OUT, -2)
    assert batch.outcome.succeeded is False
    assert not alive(batch.pid("child"))
    assert "took more than 0.3 seconds" in batch.container_log


# ---- the container is stopped, or worse ----------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_stop_is_passed_on(batch: Batch, number: int) -> None:
    batch.start("echo $$ > pid; exec sleep 1000")
    pid = batch.pid("pid")
    batch.stop(number)
    assert batch.end() == 143
    assert batch.outcome.ending is Ending.TERMINATED
    assert batch.outcome.succeeded is None
    assert not alive(pid)


def test_a_program_may_save_its_work_though_its_shell_goes_at_once(batch: Batch) -> None:
    worker = """python3 -c '
import os, signal, time
def save(*_):
    time.sleep(0.3)
    open("saved", "w").close()
    raise SystemExit(0)
signal.signal(signal.SIGTERM, save)
with open("pid", "w") as file:
    file.write(str(os.getpid()))
time.sleep(1000)' ; true"""
    batch.start(worker)
    batch.pid("pid")
    batch.stop()
    batch.end()
    assert (batch.root / "work" / "saved").exists()
    assert batch.outcome.ending is Ending.TERMINATED


def test_a_stop_before_its_time(batch: Batch) -> None:
    batch.start(go=False)
    wait_for(lambda: (batch.root / "pids").exists())
    batch.stop()
    assert batch.end() == 143
    assert batch.outcome == Outcome(Ending.TERMINATED, ended_at=batch.outcome.ended_at)


def test_a_death_without_a_word_is_known_as_that(batch: Batch) -> None:
    batch.start("echo $$ > pid; echo ran >> ran; exec sleep 1000")
    pid = batch.pid("pid")
    batch.stop(signal.SIGKILL)
    batch.end()
    os.killpg(pid, signal.SIGKILL)
    found = batch.outcome
    assert (found.ending, found.exit_code, found.succeeded) == (Ending.INTERRUPTED, None, None)
    assert found.started_at is not None
    # Started again, it says so itself and does not run it a second time.
    assert batch.start("echo ran >> ran").end() == 143
    assert batch.outcome.ending is Ending.INTERRUPTED
    assert batch.outcome.started_at == found.started_at
    assert (batch.root / "work" / "ran").read_text() == "ran\n"


# ---- the server beside it ------------------------------------------------------------------------


def test_a_server_that_cannot_start_ends_the_container(batch: Batch) -> None:
    assert batch.start(server="/no/such/server", go=False).end() == 127
    assert batch.outcome.ending is Ending.NEVER_STARTED


def test_the_command_outlives_the_server(batch: Batch) -> None:
    batch.start("while [ ! -e finish ]; do sleep 0.05; done", server="sleep 0.2")
    wait_for(lambda: b"server ended" in batch.output)
    assert batch.state("result.json") is None
    (batch.root / "work" / "finish").touch()
    assert batch.end() == 0
    assert batch.outcome.ending is Ending.FINISHED


# ---- output --------------------------------------------------------------------------------------


def test_only_the_end_of_much_output_is_kept(batch: Batch) -> None:
    batch.start("seq 1 20000; echo the last line", log_max=20_000).end()
    assert len(batch.output) <= 20_000
    assert b"19999\n20000\nthe last line\n" in batch.output
    (before, older), (between, _) = batch.kept
    assert before > 80_000
    assert between == before + len(older)
    assert len(list((batch.root / "output").iterdir())) == 2
    assert batch.container_log.count("\n") >= 20_001, "the container's log has all of it"


def test_output_that_nobody_takes_does_not_hold_it_up(batch: Batch) -> None:
    reading, writing = os.pipe()
    try:
        batch.start("seq 1 600000", stdout=writing)
        batch.end()
    finally:
        os.close(writing)
        os.close(reading)
    assert batch.outcome.ending is Ending.FINISHED
    assert b"599999\n600000\n" in batch.output


def test_what_stays_in_the_background_does_not_hold_it_up(batch: Batch) -> None:
    batch.start(f"{FOREVER} & echo $! > pid; echo done").end()
    assert batch.outcome.ending is Ending.FINISHED
    assert b"done\n" in batch.output
    os.kill(batch.pid("pid"), signal.SIGKILL)


def test_the_folder_gets_the_output_too(batch: Batch, tmp_path: Path) -> None:
    log = tmp_path / "train1.log"
    batch.start("echo hello; echo world >&2", log_path=str(log)).end()
    assert log.stat().st_mode & 0o777 == 0o640
    assert log.read_bytes() == batch.output
    assert "hello\nworld\n" in log.read_text()
    # The next session of that name goes on after it.
    (again := Batch(tmp_path / "again")).start("echo more", log_path=str(log)).end()
    assert log.read_bytes() == batch.output + again.output


@pytest.mark.parametrize("trick", ["symlink", "hardlink", "fifo", "directory", "no-folder"])
def test_what_others_put_in_the_logs_place_is_left_alone(
    batch: Batch, tmp_path: Path, trick: str
) -> None:
    target, log = tmp_path / "precious", tmp_path / "train1.log"
    target.write_text("precious")
    if trick == "symlink":
        log.symlink_to(target)
    elif trick == "hardlink":
        log.hardlink_to(target)
    elif trick == "fifo":
        os.mkfifo(log)
    elif trick == "directory":
        log.mkdir()
    else:
        log = tmp_path / "missing" / "train1.log"
    assert batch.start("echo hello", log_path=str(log)).end() == 0
    assert target.read_text() == "precious"
    assert f"The log file {log} cannot be written" in batch.container_log
    assert b"hello\n" in batch.output


def test_a_result_that_cannot_be_written_is_written_later(batch: Batch) -> None:
    batch.start("rm -r ../state; touch ../state; exit 5")
    wait_for(lambda: "result.json cannot be written" in batch.container_log)
    assert batch.lives[-1].poll() is None
    (batch.root / "state").unlink()
    batch.lives[-1].send_signal(signal.SIGCHLD)  # instead of five seconds
    assert batch.end() == 5
    assert batch.outcome.exit_code == 5


@pytest.mark.parametrize(
    "trick",
    [
        "rm -rf ../output ../state",
        "mkdir -p ../state/result.json/x ../state/result.json.tmp/x",
        "rm -r ../output/*; mkdir -p ../output/newer.log/x; mkfifo ../state/result.json.tmp",
        "ln -s /dev/full ../state/result.json.tmp; ln -sf /dev/full ../output/newer.log",
    ],
    ids=["gone", "directories", "pipe", "links"],
)
def test_whatever_a_command_does_to_its_runners_files(batch: Batch, trick: str) -> None:
    assert batch.start(f"seq 1 500; {trick}; seq 501 1000; exit 4", log_max=1000).end() == 4
    assert (batch.outcome.ending, batch.outcome.exit_code) == (Ending.FAILED, 4)
    assert b"\n999\n1000\n" in batch.output
