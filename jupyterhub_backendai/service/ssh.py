"""What somebody needs to come into a session by SSH, in words to be pasted."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from ..model.keys import SshKeys

USER = "work"
KEY = "~/.ssh/id_container"
CLIENT = "python3 ~/.ssh/backendai-ssh.py"
WINDOWS_CLIENT = 'python "%USERPROFILE%\\.ssh\\backendai-ssh.py"'


@dataclass(frozen=True, slots=True)
class SshWords:
    """The command, the entry of `~/.ssh/config` and the same for Windows, and the host key's
    fingerprint as `ssh` shows it.

    `port`: where there is one, else the connection goes by websocket.
    """

    command: str
    config: str
    windows: str
    fingerprint: str
    port: int | None


def words(
    session: str, hub_id: str, keys: SshKeys, *, host: str, port: int | None, server_url: str
) -> SshWords:
    """For the session of that name, at `host` and `port`, or by its server's address.

    The names are such that a shell and OpenSSH's configuration take them as they are: a session's
    by the rule for it, a host's and an address' as they came from a request or the configuration.
    """
    alias = f"backendai-{hub_id}"
    common = [
        f"User {USER}", f"IdentityFile {KEY}",
        "IdentitiesOnly yes",  # of an agent's keys each counts as a try
        f"HostKeyAlias {alias}", "ServerAliveInterval 30",
    ]  # fmt: skip
    if port is None:
        # OpenSSH has names of its own for %x; Windows' shell takes %USERPROFILE% after it has.
        address = server_url.replace("%", "%%")
        config = _entry(session, [*common, f"ProxyCommand {CLIENT} {address}"])
        there = WINDOWS_CLIENT.replace("%", "%%")
        windows = _entry(session, [*common, f"ProxyCommand {there} {address}"])
        command = f"ssh {session}"
    else:
        config = windows = _entry(session, [f"HostName {host}", f"Port {port}", *common])
        command = f"ssh -i {KEY} -o HostKeyAlias={alias} -p {port} {USER}@{host}"
    return SshWords(command, config, windows, fingerprint(keys.host_public), port)


def _entry(session: str, lines: list[str]) -> str:
    return "\n".join([f"Host {session}", *(f"    {line}" for line in lines)])


def fingerprint(public: str) -> str:
    """A public key's, as OpenSSH writes it (RFC 4253 §6.6, and SHA-256 without padding)."""
    blob = base64.b64decode(public.split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
