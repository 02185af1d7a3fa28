"""What the Hub runs so that its service is there again at once: real processes, and signals."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from jupyterhub_backendai.service import keeper

from ..hub.harness import free_port, wait_for

# A service that says that it is there, by its pid in a file.
SERVICE = """
import os, signal, sys
{first}
with open(sys.argv[1], "a") as file:
    print(os.getpid(), file=file)
signal.pause()
"""


class Kept:
    """A keeper that runs, and the pids of the services that it has started."""

    def __init__(
        self, folder: Path, first: str = "", grace: float = keeper.GRACE, **others: float
    ) -> None:
        self.pids_file = folder / "pids"
        program = folder / "keeper.py"
        text = Path(keeper.__file__).read_text()
        for name, value in {"GRACE": grace, **others}.items():
            was = f"\n{name} = {getattr(keeper, name)} "
            assert was in text
            text = text.replace(was, f"\n{name} = {value} ")
        program.write_text(text)
        command = [sys.executable, "-c", SERVICE.format(first=first), str(self.pids_file)]
        self.arguments = [sys.executable, "-I", "-S", str(program), *command]

    def pids(self) -> list[int]:
        found = self.pids_file.read_text().split() if self.pids_file.exists() else []
        return [int(pid) for pid in found]

    def until(self, count: int) -> int:
        """The pid of that service, once it is there."""
        return wait_for("the service", lambda: len(self.pids()) >= count and self.pids()[-1], 20)


@contextmanager
def running(kept: Kept) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(kept.arguments, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()
            for pid in kept.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_service_that_is_killed_is_started_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    with running(kept) as process:
        for count in (1, 2):
            os.kill(kept.until(count), signal.SIGKILL)
        assert not gone(kept.until(3))
        assert len(set(kept.pids())) == 3
        process.terminate()
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert said.count("The sessions service ended (signal 9); it is started again") == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_its_service(number: signal.Signals, tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    with running(kept) as process:
        service = kept.until(1)
        process.send_signal(number)
        assert process.wait(20) == 0
        assert gone(service)
    assert kept.pids() == [service]


def test_a_service_that_does_not_end_is_killed(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN)", grace=0.1)
    with running(kept) as process:
        service = kept.until(1)
        process.terminate()
        assert process.wait(20) == 0
        assert gone(service)


ALIVE = f"""
import faulthandler, time
faulthandler.register(signal.SIGUSR1)
def main_loop():
    with open(sys.argv[1], "a") as file:
        print(os.getpid(), file=file)
    while not os.path.exists(sys.argv[1] + ".hang"):
        os.write(int(os.environ["{keeper.LIFE}"]), b".")
        time.sleep(0.05)
    time.sleep(600)
main_loop()
"""


def test_a_service_that_hangs_is_started_again_and_says_where_it_hung(tmp_path: Path) -> None:
    kept = Kept(tmp_path, ALIVE, PATIENCE=1.5, START_PATIENCE=20.0)
    with running(kept) as process:
        hangs = kept.until(1)
        (tmp_path / "pids.hang").touch()
        wait_for("it to be gone", lambda: gone(hangs), 20)
        (tmp_path / "pids.hang").unlink()
        assert not gone(kept.until(2))
        process.terminate()
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert said.count("The sessions service hangs; it is ended") == 1
    assert "in main_loop" in said


def test_a_service_that_never_comes_to_answer_is_started_again(tmp_path: Path) -> None:
    """Who called meanwhile is let go: the port is closed with it."""
    kept = Kept(tmp_path, START_PATIENCE=1.5)
    with running(kept):
        first = kept.until(1)
        kept.until(2)
        assert gone(first)


def test_who_calls_a_service_that_hangs_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real one, stopped in its tracks: it takes calls and never answers."""
    place = ("127.0.0.1", free_port())
    monkeypatch.setenv(keeper.URL, f"http://{place[0]}:{place[1]}")
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/services/backendai/")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "token")
    monkeypatch.setenv("JUPYTERHUB_CLIENT_ID", "service-backendai")

    def answer() -> bytes:
        with suppress(ConnectionError), socket.create_connection(place, timeout=30) as call:
            call.sendall(b"GET /services/backendai/health HTTP/1.0\r\n\r\n")
            return call.recv(12)
        return b""

    first = (
        "import runpy; print(os.getpid(), file=open(sys.argv[1], 'a'), flush=True); "
        "sys.argv[1:] = []; "
        "runpy.run_module('jupyterhub_backendai.service', run_name='__main__')"
    )
    kept = Kept(tmp_path, first, PATIENCE=3.0)
    with running(kept):
        service = kept.until(1)
        wait_for("an answer", answer)
        os.kill(service, signal.SIGSTOP)
        assert answer() == b""
        # Its connections are closed a moment before it is gone.
        wait_for("it to be gone", lambda: gone(service))
        wait_for("an answer of the next", answer)
        assert kept.pids()[-1] != service


def test_it_ends_where_the_hub_was_killed(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    hub = f"import subprocess; subprocess.run({kept.arguments!r})"
    with subprocess.Popen([sys.executable, "-c", hub], stderr=subprocess.DEVNULL) as process:
        service = kept.until(1)
        process.kill()
    wait_for("the service to be gone", lambda: gone(service), 20)


# A service that begins to answer once it is told by a file that is there.
SLOW = f"""
import os, socket, sys, time
while not os.path.exists(sys.argv[1] + ".go"):
    time.sleep(0.01)
for number in os.environ["{keeper.SOCKETS}"].split():
    caller, _ = socket.socket(fileno=int(number)).accept()
    caller.sendall(b"here")
    caller.close()
"""


def test_who_calls_a_service_that_starts_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And who calls one that ended is refused, rather than kept waiting for the next."""
    place = ("127.0.0.1", free_port())
    monkeypatch.setenv(keeper.URL, f"http://{place[0]}:{place[1]}/services/backendai/")

    def caller() -> socket.socket | None:
        with suppress(ConnectionRefusedError):
            return socket.create_connection(place, timeout=20)
        return None

    kept = Kept(tmp_path, SLOW)
    with running(kept) as process:
        with wait_for("the port", caller) as call:
            (tmp_path / "pids.go").touch()
            assert call.recv(10) == b"here"
        service = kept.until(1)
        process.send_signal(signal.SIGSTOP)  # so that there is no next one yet
        os.kill(service, signal.SIGKILL)
        with socket.socket() as probe:
            wait_for("it to be refused", lambda: probe.connect_ex(place) == errno.ECONNREFUSED)


def test_the_service_itself_finds_out_that_its_port_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        monkeypatch.setenv(keeper.URL, f"http://127.0.0.1:{holder.getsockname()[1]}")
        kept = Kept(tmp_path, f"assert os.environ['{keeper.SOCKETS}'] == ''")
        with running(kept):
            kept.until(1)
            assert len(kept.pids()) == 1


def test_the_service_ends_whatever_a_thread_of_it_is_at(tmp_path: Path) -> None:
    busy = (
        "import runpy, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "runpy.run_module('jupyterhub_backendai.service', run_name='__main__')"
    )
    port = free_port()
    environment = {
        **os.environ,
        "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}",
        "JUPYTERHUB_SERVICE_PREFIX": "/services/backendai/",
        "JUPYTERHUB_API_TOKEN": "token",
        "JUPYTERHUB_CLIENT_ID": "service-backendai",
    }

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    command = [sys.executable, "-c", busy]
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as process:
        try:
            wait_for("the service", listens)
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
