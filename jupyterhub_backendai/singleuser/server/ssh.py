"""SSH and SFTP: the image's own `sshd`, as the session's user, on the session's SSH port.

It is started on first use and listens on 127.0.0.1: it is reached through the service's ports, or
by a websocket (`E/ssh`) where only HTTPS gets through. Whoever signs in has the user's key
(`id_container`), and is in the session: its home, its variables, its limits.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from tornado.iostream import IOStream, StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from . import activity, ports
from .access import Failure, SignedIn, WebSocketMixin, checked
from .processes import NotStarted

NAME = "sshd"
KEYS = "/home/work/.backendai/ssh"  # that the Hub has put there
CHUNK = 1 << 16  # bytes
NO_SERVER = (
    "There is no SSH server in this environment. Ask your admin for an image that has "
    "openssh-server, or use the terminal."
)
NO_USER = "This environment has no user of this session's number, so nobody can sign in by SSH."
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/sbin")
# Of the server alone: what opens it, and what each shell has anew.
_NOT_PASSED = re.compile(
    r"(JUPYTERHUB_|JPY_|SSH_|TMUX).*|JUPYTER_TOKEN|PWD|OLDPWD|SHLVL|_|TERM|HOME|USER|LOGNAME|SHELL"
)


def handlers(parts):
    return [(parts.pattern("ssh"), SshSocket, {"parts": parts})]


def item(parts: Any) -> dict:
    """What there is to say of it."""
    why = "" if program() else NO_SERVER
    if not why and not _has_user():
        why = NO_USER
    return {"available": not why, "why": why, "port": parts.declared.ssh_port}


def program() -> str:
    """The SSH server, which starts itself anew and so has to be called by its whole path."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *_PLACES])
    found = shutil.which("sshd", path=path)
    return os.path.abspath(found) if found else ""


def _has_user() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


async def start(parts: Any) -> int:
    """Starts it where it does not run; its port. Raises NotStarted."""
    said = item(parts)
    if not said["available"]:
        raise NotStarted(said["why"])
    words = [program(), "-D", "-e", "-f"]

    def command(port: int) -> list[str]:
        unsaid = [name for name, value in os.environ.items() if _unsaid(name, value)]
        if unsaid:
            why = "its value cannot be written in the configuration of every sshd"
            parts.log.info("Backend.AI: by SSH there is no %s: %s", ", ".join(unsaid), why)
        path = os.path.join(parts.runtime_dir, "sshd_config")
        _write(path, "\n".join(settings(port, host_key(parts.runtime_dir), os.environ)) + "\n")
        return [*words, path]

    found: int = await parts.processes.start(NAME, command, parts.declared.ssh_port)
    return found


def host_key(folder: str) -> str:
    """The server's own key: the Hub's, or one made here where the Hub knows nothing of us."""
    given = os.path.join(KEYS, "host_key")
    if os.access(given, os.R_OK):
        return given
    own = os.path.join(folder, "host_key")
    if not os.path.exists(own):
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", own]
        subprocess.run(keygen, check=True, stdin=subprocess.DEVNULL)
    return own


def settings(port: int, key: str, environment: Mapping[str, str]) -> Iterator[str]:
    """The server's configuration, line by line."""
    home = os.path.expanduser("~")
    yield f"Port {port}"
    yield "ListenAddress 127.0.0.1"
    yield f'HostKey "{key}"'
    yield f'AuthorizedKeysFile "{KEYS}/authorized_keys" "{home}/.ssh/authorized_keys"'
    # A home that several may write to is the admin's choice; the Hub's keys are root's.
    yield "StrictModes no"
    yield "AuthenticationMethods publickey"
    yield "PasswordAuthentication no"
    yield "KbdInteractiveAuthentication no"
    yield "UsePAM no"
    yield "PidFile none"
    yield "PrintMotd no"
    yield "AcceptEnv LANG LC_* COLORTERM"
    yield f'Subsystem sftp internal-sftp -d "{home}"'
    passed = " ".join(
        f'"{name}={value}"' for name, value in environment.items() if _passed(name, value)
    )
    if passed:
        yield f"SetEnv {passed}"  # on one line: of several the first alone counts


def _passed(name: str, value: str) -> bool:
    """Whether a variable of the server is one of a shell's by SSH too."""
    return _is_of_a_shell(name) and _can_be_said(value)


def _unsaid(name: str, value: str) -> bool:
    return _is_of_a_shell(name) and not _can_be_said(value)


def _is_of_a_shell(name: str) -> bool:
    return not _NOT_PASSED.fullmatch(name) and bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name))


def _can_be_said(value: str) -> bool:
    """Whether every OpenSSH reads it as it is: before 8.7 no quoting of these was known."""
    return value.isprintable() and '"' not in value and "\\" not in value


def _write(path: str, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


class SshSocket(WebSocketMixin, WebSocketHandler, SignedIn):
    """`E/ssh`: bytes to and from the SSH server, in binary messages."""

    _link: Any = None

    @checked
    async def get(self, *args: Any, **kwargs: Any) -> None:
        await super().get(*args, **kwargs)

    async def prepare(self):  # type: ignore[override]
        await SignedIn.prepare(self)
        if self._finished:
            return
        if self.request.headers.get("Upgrade", "").lower() != "websocket":
            self.set_header("Upgrade", "websocket")
            raise Failure(426, "upgrade", "This is a websocket for SSH. The app SSH says how.")
        if not self._is_of_this_site():
            raise Failure(403, "origin", "This request comes from another site.")
        try:
            self._link = IOStream(await ports.connect(await start(self.parts)))
        except (NotStarted, OSError, subprocess.SubprocessError) as error:
            raise Failure(503, "not_started", f"SSH cannot be started: {error}") from error

    def _is_of_this_site(self) -> bool:
        try:
            return bool(self.check_origin())
        except ValueError:  # an origin that is none
            return False

    def get_compression_options(self):
        return None  # what is encrypted does not get smaller

    def open(self, *args: Any, **kwargs: Any) -> None:
        super().open(*args, **kwargs)
        self._heard = activity.Bulk(lambda: activity.note(self.settings))
        asyncio.ensure_future(self._to_the_client())

    async def _to_the_client(self) -> None:
        try:
            while True:
                await self.write_message(await self._link.read_bytes(CHUNK, True), binary=True)
        except (StreamClosedError, WebSocketClosedError):
            self.close()

    async def on_message(self, message):
        data = message.encode() if isinstance(message, str) else message
        self._heard(data)
        try:
            await self._link.write(data)
        except StreamClosedError:
            self.close()

    def on_close(self) -> None:
        self._link.close()

    def on_finish(self) -> None:
        super().on_finish()
        if self._link is not None and self.ws_connection is None:  # there was no handshake
            self._link.close()
