"""The archive of files that a session's container gets before it starts."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

import jupyterhub_backendai.singleuser
from jupyterhub_backendai.engine.settings import IMPORT_DIR, SiteSettings
from jupyterhub_backendai.engine.support import support_files
from jupyterhub_backendai.model.rules import HOME, MARKER

SOURCE = Path(jupyterhub_backendai.singleuser.__file__).parent / "imports"


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


def test_the_support_is_roots_and_everybody_reads_it(members: dict[str, tarfile.TarInfo]) -> None:
    ours = {n: m for n, m in members.items() if not n.startswith(HOME.strip("/"))}
    assert IMPORT_DIR.strip("/") in ours
    for member in ours.values():
        assert (member.uid, member.gid) == (0, 0)
        assert member.mode == (0o755 if member.isdir() else 0o644)
        assert member.isdir() or member.isfile()


def test_all_of_the_support_is_in_it_and_nothing_else(members: dict[str, tarfile.TarInfo]) -> None:
    there = {n.removeprefix(f"{IMPORT_DIR.strip('/')}/") for n, m in members.items() if m.isfile()}
    source = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")}
    assert there - {f"{HOME.strip('/')}/{MARKER}"} == source
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
    assert made == {"home/work/a", "home/work/a/b"}
