"""The archive of files that a session's container gets before it starts."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import jupyterhub_backendai.singleuser
from jupyterhub_backendai.engine.passwd import with_user
from jupyterhub_backendai.engine.settings import (
    IMPORT_DIR,
    OWN_DIR,
    RUNTIME_DIR,
    SERVER_DIR,
    SESSION_FILE,
    SSH_DIR,
    SiteSettings,
)
from jupyterhub_backendai.engine.support import support_files
from jupyterhub_backendai.model.keys import SshKeys
from jupyterhub_backendai.model.rules import HOME, MARKER

SOURCE = Path(jupyterhub_backendai.singleuser.__file__).parent
PLACES = {"imports": IMPORT_DIR, "server": SERVER_DIR}


@pytest.fixture(scope="module")
def members() -> dict[str, tarfile.TarInfo]:
    data = support_files(SiteSettings(hub_id="h", uid=2000, gid=2001))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar.getmembers()}


def test_the_home_is_its_users_and_says_that_it_goes(members: dict[str, tarfile.TarInfo]) -> None:
    home, marker = members[HOME.strip("/")], members[f"{HOME.strip('/')}/{MARKER}"]
    assert home.isdir()
    assert (home.uid, home.gid, home.mode) == (2000, 2001, 0o755)
    assert (marker.uid, marker.gid, marker.mode) == (2000, 2001, 0o644)
    assert marker.size > 0
    own, runtime = members[OWN_DIR.strip("/")], members[RUNTIME_DIR.strip("/")]
    assert (own.uid, own.gid, own.mode) == (0, 0, 0o755)
    assert (runtime.uid, runtime.gid, runtime.mode) == (2000, 2001, 0o700)


def test_the_support_is_roots_and_everybody_reads_it(members: dict[str, tarfile.TarInfo]) -> None:
    ours = {n: m for n, m in members.items() if not n.startswith(HOME.strip("/"))}
    assert IMPORT_DIR.strip("/") in ours
    for member in ours.values():
        assert (member.uid, member.gid) == (0, 0)
        assert member.mode == (0o755 if member.isdir() else 0o644)
        assert member.isdir() or member.isfile()


def test_all_of_the_support_is_in_it_and_nothing_else(members: dict[str, tarfile.TarInfo]) -> None:
    there = {f"/{name}" for name, member in members.items() if member.isfile()}
    source = {
        f"{place}/{path.relative_to(SOURCE / folder)}"
        for folder, place in PLACES.items()
        for path in (SOURCE / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there - {f"{HOME}/{MARKER}"} == source
    assert not [name for name in members if "pycache" in name or name.endswith(".pyc")]
    assert not [name for name in members if name.startswith("/") or ".." in name.split("/")]


def test_a_directory_comes_before_what_is_in_it(members: dict[str, tarfile.TarInfo]) -> None:
    names = list(members)
    for index, name in enumerate(names):
        parent = name.rpartition("/")[0]
        assert parent not in names or names.index(parent) < index


def test_each_owner_has_an_archive_of_his_own() -> None:
    one, two = (SiteSettings(hub_id="h", uid=uid) for uid in (1000, 1001))
    assert support_files(one) != support_files(two)
    assert support_files(one) == support_files(SiteSettings(hub_id="other", uid=1000))


def test_directories_on_the_way_to_a_folder_are_the_users() -> None:
    site = SiteSettings(hub_id="h", uid=2000, gid=2001)
    data = support_files(site, ["/home/work/a/b/c", "/data/x", "/home/work/top"])
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        made = {m.name for m in archive if m.isdir() and m.uid == 2000 and m.name != "home/work"}
    assert made == {"home/work/a", "home/work/a/b", RUNTIME_DIR.strip("/")}


# ---- what is of one session ----------------------------------------------------------------------

KEYS = SshKeys("PRIVATE", "ssh-ed25519 AAAA id_container", "HOST", "ssh-ed25519 BBBB host")
PASSWD = "root:x:0:0:root:/root:/bin/bash\njovyan:x:1000:100::/home/jovyan:/bin/zsh\n"


def own(**what: Any) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """What these put beside what every session has."""
    site = SiteSettings(hub_id="h", uid=1000, gid=100)
    with tarfile.open(fileobj=io.BytesIO(support_files(site))) as tar:
        common = set(tar.getnames())
    with tarfile.open(fileobj=io.BytesIO(support_files(site, **what))) as tar:
        found = [member for member in tar if member.name not in common]
        return {f"/{member.name}": (member, _read(tar, member)) for member in found}


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    return file.read() if file else b""


def test_what_the_extension_is_told_is_not_the_sessions_to_change() -> None:
    [(path, (member, text))] = own(told={"key_sha256": "ab"}).items()
    assert (path, member.uid, member.mode) == (SESSION_FILE, 0, 0o644)
    assert json.loads(text) == {"key_sha256": "ab"}


def test_keys_are_where_ssh_takes_them_and_nobody_else_reads_them() -> None:
    found = own(keys=KEYS)
    modes = {path: (member.uid, member.mode) for path, (member, _) in found.items()}
    assert modes == {
        f"{HOME}/id_container": (1000, 0o600),
        f"{HOME}/id_container.pub": (1000, 0o644),
        SSH_DIR: (0, 0o755),
        f"{SSH_DIR}/authorized_keys": (0, 0o644),
        f"{SSH_DIR}/host_key": (1000, 0o600),
        f"{SSH_DIR}/host_key.pub": (0, 0o644),
    }
    assert found[f"{HOME}/id_container"][1] == b"PRIVATE"
    assert found[f"{SSH_DIR}/authorized_keys"][1] == b"ssh-ed25519 AAAA id_container\n"
    assert not [path for path in found if not path.startswith(HOME + "/")], "no image may have them"
    assert "PRIVATE" not in repr(KEYS)
    assert "HOST" not in repr(KEYS)


def test_the_user_has_a_name_and_a_home_in_any_image() -> None:
    [(path, (member, text))] = own(passwd=PASSWD).items()
    assert (path, member.uid, member.mode) == ("/etc/passwd", 0, 0o644)
    assert text.decode() == f"work:x:1000:100::{HOME}:/bin/zsh\n{PASSWD}"


@pytest.mark.parametrize(
    ("passwd", "shell", "found"),
    [
        ("", "", "/bin/sh"),
        ("", "/bin/fish", "/bin/fish"),
        ("root:x:0:0::/root:/bin/ash\n", "", "/bin/ash"),
        ("x:x:1000:1000::/x:/usr/sbin/nologin\nroot:x:0:0::/root:/bin/bash\n", "", "/bin/bash"),
        ("broken\nroot:x:0:0::/root:/bin/bash", "", "/bin/bash"),
    ],
)
def test_a_shell_that_the_image_has(passwd: str, shell: str, found: str) -> None:
    first, _, rest = with_user(passwd, 1000, 100, HOME, shell).partition("\n")
    assert first == f"work:x:1000:100::{HOME}:{found}"
    assert rest == passwd


def test_root_stays_root() -> None:
    assert with_user(PASSWD, 0, 0, HOME) == PASSWD


def test_an_image_made_of_a_session_gets_no_second_line() -> None:
    once = with_user(PASSWD, 1000, 100, HOME, "/bin/fish")
    assert with_user(once, 1000, 100, HOME) == with_user(PASSWD, 1000, 100, HOME)
    assert with_user(once, 2000, 100, HOME).count("\n") == once.count("\n") + 1
