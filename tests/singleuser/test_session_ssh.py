"""SSH in a session with a real `sshd`: who may, variables, and the connection by a websocket."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from jupyterhub_backendai.singleuser.server import ssh

from .session_server import KEY, TOKEN, Server, children, free_port, wait_for

SIGNED_IN = {"Authorization": f"token {TOKEN}"}
MEGABYTE = 1 << 20
VARIABLES = {
    "PLAIN": "a", "SPACES": " a  b ", "HASH": "#a #b", "SINGLE": "it's",
    "DOLLAR": "$HOME `id` $(id)",
    "EQUALS": "a=b=c", "UMLAUT": "ü", "EMPTY": "", "PERCENT": "%h %%",
}  # fmt: skip
UNSAID = {"DOUBLE": 'say "a"', "BACKSLASH": "a\\b", "LINES": "a\nPermitRootLogin yes"}
SECRET = {"JUPYTERHUB_API_TOKEN": "secret-1", "JPY_API_TOKEN": "secret-2"}
# What a ProxyCommand does: between its input and output and the websocket.
BRIDGE = """
import asyncio, os, sys
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

async def main():
    asked = HTTPRequest(sys.argv[1], headers={"Authorization": "token " + sys.argv[2]})
    talk = await websocket_connect(asked, max_message_size=1 << 26)
    loop = asyncio.get_running_loop()

    async def up():
        while True:
            data = await loop.run_in_executor(None, os.read, 0, 65536)
            if not data:
                os._exit(0)
            await talk.write_message(data, binary=True)

    task = asyncio.ensure_future(up())
    while True:
        message = await talk.read_message()
        if message is None:
            os._exit(0)
        view = memoryview(message)
        while view:
            view = view[await loop.run_in_executor(None, os.write, 1, view):]

asyncio.run(main())
"""

pytestmark = pytest.mark.skipif(
    not (ssh.program() and shutil.which("ssh")), reason="this machine has no openssh-server"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if os.getuid() == 0:  # as root alone sshd wants it; a session has another user
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    root = tmp_path_factory.mktemp("server")
    said = {"ssh_port": free_port()}
    made = Server(root / "s", said, **VARIABLES, **UNSAID, **SECRET)
    made.start()
    keys = made.home / ".ssh"
    keys.mkdir()
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / "key")]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    shutil.copy(root / "key.pub", keys / "authorized_keys")
    (root / "bridge.py").write_text(BRIDGE)
    yield made
    assert "Traceback" not in made.log
    made.stop()


def command(server: Server, *words: str, by_websocket: bool = False) -> list[str]:
    """The words of `ssh`, to the session, for what is to run there."""
    root = server.root.parent
    how = ["-o", f"Port={server.item('sshd')['port']}"]
    if by_websocket:
        bridge = [sys.executable, str(root / "bridge.py"), server.url("ssh", "ws"), TOKEN]
        how = ["-o", f"ProxyCommand={shlex.join(bridge)}".replace("%", "%%")]
    user = subprocess.run(["id", "-un"], check=True, capture_output=True, text=True).stdout.strip()
    return [
        "ssh", "-F", "none", "-i", str(root / "key"), "-o", "BatchMode=yes", *how,
        "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={root / 'known'}",
        "-o", "LogLevel=ERROR", f"{user}@127.0.0.1", *words,
    ]  # fmt: skip


async def test_who_is_not_signed_in_or_is_elsewhere_starts_nothing(server: Server) -> None:
    browser = server.browser()
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.get_dict().items())
    for headers in (
        {}, {"Authorization": "token x"}, {"X-Backendai-Key": KEY},
        {"Cookie": cookie, "Origin": "https://evil.example.org"},
        {"Cookie": cookie, "Origin": "null"}, {"Cookie": cookie, "Origin": "http://[x"},
    ):  # fmt: skip
        with pytest.raises(HTTPClientError) as refused:
            await websocket_connect(HTTPRequest(server.url("ssh", "ws"), headers=headers))
        assert refused.value.code == 403, headers
    assert server.ask("ssh").status_code == 426, "no websocket"
    assert not server.item("sshd")["running"]
    own = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{server.port}"}
    talk = await websocket_connect(HTTPRequest(server.url("ssh", "ws"), headers=own))
    assert str(await talk.read_message(), "ascii").startswith("SSH-2.0-")  # type: ignore[arg-type]
    talk.close()
    assert server.item("sshd")["running"]


def test_the_shell_has_the_session_s_variables(server: Server) -> None:
    assert server.by_key("open/sshd", "POST").json() == {"ready": True, "why": ""}
    done = subprocess.run(
        command(server, "env", "-0"), capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, (done.stderr, server.log)
    said = dict(line.split("=", 1) for line in done.stdout.decode().split("\0") if line)
    assert {name: said.get(name) for name in VARIABLES} == VARIABLES
    assert not {*UNSAID, *SECRET} & set(said)
    assert "secret-" not in done.stdout.decode()
    assert "by SSH there is no BACKSLASH, DOUBLE, LINES:" in server.log.replace(
        ", ".join(UNSAID), ", ".join(sorted(UNSAID))
    )


def test_by_a_websocket(server: Server) -> None:
    done = subprocess.run(
        command(server, "cat; echo; exit 7", by_websocket=True),
        input=b"\x00\xff" * MEGABYTE, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    assert done.stdout == b"\x00\xff" * MEGABYTE + b"\n"


def memory(server: Server) -> int:
    """The most that the server has used, in bytes."""
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def test_who_does_not_read_is_not_read_for(server: Server) -> None:
    size = 300 * MEGABYTE
    words = command(server, f"head -c {size} /dev/zero", by_websocket=True)
    before, total = memory(server), 0
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1000)
        for _ in range(20):  # the server goes on to answer others meanwhile
            assert server.ask("apps").status_code == 200
        while chunk := process.stdout.read(MEGABYTE):
            total += len(chunk)
    assert total + 1000 == size
    assert memory(server) - before < 64 * MEGABYTE


def test_an_end_is_told_to_the_other_side(server: Server) -> None:
    assert server.process is not None
    assert server.by_key("open/sshd", "POST").json()["ready"]
    before = children(server.process.pid)
    words = command(server, "echo there; sleep 1000", by_websocket=True)
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        assert children(server.process.pid) - before
        process.kill()
    wait_for(lambda: not children(server.process.pid) - before)  # type: ignore[union-attr]
