"""What people paste to come in by SSH, as OpenSSH itself reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jupyterhub_backendai.service.ssh import fingerprint, words
from jupyterhub_backendai.site.ssh_keys import new_keys

KEYS = new_keys()
URL = "https://hub.example.org/user/a%40b.org/train1/"


def read(tmp_path: Path, config: str, host: str) -> dict[str, str]:
    """What `ssh` makes of the entry."""
    path = tmp_path / "config"
    path.write_text(config)
    done = subprocess.run(
        ["ssh", "-G", "-F", path, host], capture_output=True, text=True, check=True
    )
    return dict(line.partition(" ")[::2] for line in done.stdout.splitlines())


def test_at_a_port(tmp_path: Path) -> None:
    said = words("train1", "hub1", KEYS, host="hub.example.org", port=30001, server_url=URL)
    found = read(tmp_path, said.config, "train1")
    assert (found["hostname"], found["port"], found["user"]) == ("hub.example.org", "30001", "work")
    assert found["hostkeyalias"] == "backendai-hub1"
    assert found["identitiesonly"] == "yes"
    assert "proxycommand" not in found
    assert said.command.endswith("-p 30001 work@hub.example.org")


@pytest.mark.parametrize("system", ["config", "windows"])
def test_by_websocket(tmp_path: Path, system: str) -> None:
    said = words("train1", "hub1", KEYS, host="", port=None, server_url=URL)
    found = read(tmp_path, getattr(said, system), "train1")
    # OpenSSH's own names are still to be filled in: %% is a percent sign.
    command = found["proxycommand"].replace("%%", "%")
    assert command.endswith(URL)
    assert ("%USERPROFILE%" in command) == (system == "windows")


def test_the_fingerprint_is_the_one_that_ssh_shows(tmp_path: Path) -> None:
    path = tmp_path / "key.pub"
    path.write_text(KEYS.host_public)
    done = subprocess.run(["ssh-keygen", "-lf", path], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == fingerprint(KEYS.host_public)


def test_ssh_takes_the_private_key(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEYS.private)
    path.chmod(0o600)
    done = subprocess.run(["ssh-keygen", "-yf", path], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == KEYS.public.split()[:2]
    assert KEYS.private not in repr(KEYS)
