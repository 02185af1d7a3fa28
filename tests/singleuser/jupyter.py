"""A real Jupyter server with our extension, as a session has it, in a home of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.hub.harness import free_port, wait_for

TOKEN = "secret"
TMUX = shutil.which("tmux")
_TMUX_ONLY = pytest.mark.skipif(not TMUX, reason="no tmux here")
# Of images: with tmux, and without.
KINDS = [pytest.param(True, id="tmux", marks=_TMUX_ONLY), pytest.param(False, id="no tmux")]
EXTENSION = "jupyterhub_backendai.singleuser.server"


@dataclass
class Server:
    """A server that runs; `home` is its user's."""

    directory: Path
    port: int
    environment: dict[str, str]

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def url(self) -> str:
        """Where our routes are."""
        return f"http://127.0.0.1:{self.port}/user/ada/backendai/"

    @property
    def log(self) -> str:
        return (self.directory / "server.log").read_text()

    def ask(self, method: str, path: str, **headers: str) -> tuple[int, Any]:
        """The status and the JSON, or text, of an answer to whoever has the token."""
        given = {"Authorization": f"token {TOKEN}", **headers}
        url = urllib.parse.urljoin(self.url, path)
        request = urllib.request.Request(url, method=method, headers=given)
        try:
            with urllib.request.urlopen(request) as response:
                status, body = response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read().decode()
        return status, json.loads(body) if body[:1] in ("{", "[") else body

    def tmux(self, *words: str) -> str:
        """The output of a command of the user's own tmux, as in JupyterLab's terminal."""
        assert TMUX
        done = subprocess.run(
            [TMUX, "-u", *words], env=self.environment, cwd=self.home,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout


@contextlib.contextmanager
def running(
    directory: Path, tmux: bool = True, *words: str, port: int = 0, **variables: str
) -> Iterator[Server]:
    """A server in that directory; without tmux there is none on its PATH."""
    home = directory / "home"
    home.mkdir(exist_ok=True)
    (directory / "tmux").mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not _ours(name)} | {
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(directory / "config"),
        "JUPYTER_DATA_DIR": str(directory / "data"),
        "JUPYTER_RUNTIME_DIR": str(directory / "runtime"),
        "TMUX_TMPDIR": str(directory / "tmux"),
        "SHELL": shutil.which("bash") or "/bin/sh",
        "BACKENDAI_SESSION_ID": "s1",
        "BACKENDAI_SESSION_NAME": "train-1",
        "PATH": os.environ["PATH"] if tmux else _without_tmux(directory / "bin"),
        "MARK": "from the image",
        **variables,
    }
    server = Server(directory, port or free_port(), environment)
    command = [
        sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root",
        f"--port={server.port}", "--port-retries=0", "--ip=127.0.0.1",
        f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={home}",
        "--ServerApp.base_url=/user/ada/", f"--ServerApp.jpserver_extensions={EXTENSION}=True",
        *words,
    ]  # fmt: skip
    with (directory / "server.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_for("the server", lambda: process.poll() is not None or _answers(server))
        assert process.poll() is None, server.log
        yield server
    finally:
        process.terminate()
        process.wait(30)
        if tmux and TMUX:
            server.tmux("kill-server")


def _ours(name: str) -> bool:
    return name.startswith(("TMUX", "JUPYTER", "BACKENDAI", "LC_")) or name in ("LANG", "COLORTERM")


def _answers(server: Server) -> bool:
    try:
        return server.ask("GET", "apps")[0] == 200
    except OSError:
        return False


def _without_tmux(folder: Path) -> str:
    """A PATH with everything but tmux."""
    folder.mkdir(exist_ok=True)
    for entry in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(entry).glob("*"):
            with contextlib.suppress(FileExistsError):
                (folder / program.name).symlink_to(program)
    (folder / "tmux").unlink(missing_ok=True)
    return str(folder)
