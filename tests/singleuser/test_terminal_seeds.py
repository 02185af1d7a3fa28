"""The files that a session's home begins with, and bash with them."""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path

import pytest

from jupyterhub_backendai.singleuser.server import seeds

from .jupyter import running

LOG = logging.getLogger("seeds")
FILES = (".bashrc", ".bash_profile", ".tmux.conf")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def bash(home: Path, script: str, *flags: str, **variables: str) -> str:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm", **variables}
    done = subprocess.run(
        ["bash", *flags], input=script, env=environment, cwd=home,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_what_is_not_there_is_written(home: Path) -> None:
    seeds.sow(LOG)
    for name in FILES:
        assert (home / name).stat().st_mode & 0o777 == 0o644 & ~_umask()
        assert (home / name).read_text().startswith("# ")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_is_there_is_left(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = home / "elsewhere"
    (home / ".bashrc").write_text("mine")
    (home / ".tmux.conf").symlink_to(elsewhere)
    (home / ".bash_profile").mkdir()
    seeds.sow(LOG)
    assert (home / ".bashrc").read_text() == "mine"
    assert not elsewhere.exists()
    assert not caplog.records


@pytest.mark.parametrize("nowhere", [None, "", "home"])
def test_without_a_home_nothing_is_written(
    nowhere: str | None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    (home / "home").mkdir()
    if nowhere is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", nowhere)
    seeds.sow(LOG)
    assert sorted(path.name for path in home.rglob("*")) == ["home"]


@pytest.mark.parametrize("other", [".profile", ".bash_login"])
def test_a_login_file_is_not_hidden(home: Path, other: str) -> None:
    (home / other).write_text("")
    seeds.sow(LOG)
    assert not (home / ".bash_profile").exists()
    assert (home / ".bashrc").exists()


def test_a_home_that_takes_no_files_is_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(home / "missing"))
    seeds.sow(LOG)
    (record,) = caplog.records
    assert "No such file" in record.getMessage()


def test_only_a_session_has_its_home_filled(tmp_path: Path) -> None:
    with running(tmp_path, True, BACKENDAI_SESSION_ID="") as server:
        assert not (server.home / ".bashrc").exists()


def test_a_session_has_them_when_its_server_is_there(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        assert all((server.home / name).exists() for name in FILES)


def test_the_prompt_has_the_sessions_name_and_runs_nothing_of_it(home: Path) -> None:
    seeds.sow(LOG)
    name = r"a $(touch hit) `touch hit` \u"
    said = bash(home, "echo", "-i", BACKENDAI_SESSION_NAME=name)
    assert f"@{name}" in said
    assert not (home / "hit").exists()


@pytest.mark.parametrize("flags", [("-i",), ("-l",), ("-il",), ()])
def test_the_path_of_the_image_stays(home: Path, flags: tuple[str, ...]) -> None:
    """But for a login shell's, which the system's own /etc/profile sets before ours is read."""
    before = bash(home, "echo =$PATH=", *flags)
    seeds.sow(LOG)
    after = bash(home, "echo =$PATH=", *flags)
    assert [line for line in before.splitlines() if line.startswith("=")] == [
        line for line in after.splitlines() if line.startswith("=")
    ]


@pytest.mark.parametrize("lost", [True, False])
def test_conda_is_there_and_the_path_only_where_it_was_lost(home: Path, lost: bool) -> None:
    seeds.sow(LOG)
    conda = home / "opt" / "conda"
    hook = conda / "etc" / "profile.d" / "conda.sh"
    hook.parent.mkdir(parents=True)
    hook.write_text('conda() { echo "conda $*"; }\n')
    rc = home / ".bashrc"
    rc.write_text(rc.read_text().replace("/opt/conda", str(conda)))
    path = os.environ["PATH"] if lost else f"{conda}/envs/mine/bin:{os.environ['PATH']}"
    said = bash(home, 'conda info; echo "=$PATH="', "-i", PATH=path)
    assert "conda info" in said
    assert ("conda activate base" in said) == lost
    assert f"={path}=" in said


def test_a_script_reads_none_of_it(home: Path) -> None:
    seeds.sow(LOG)
    assert bash(home, "alias; echo $HISTFILESIZE", BASH_ENV=str(home / ".bashrc")) == "\n"


def test_the_history_is_that_of_all_shells(home: Path) -> None:
    seeds.sow(LOG)
    (home / "first").mkdir()
    bash(home, "cd first\n", "-i")
    bash(home, "echo second\n", "-i")
    assert "cd first\necho second\n" in (home / ".bash_history").read_text()


def test_reading_it_twice_changes_nothing(home: Path) -> None:
    seeds.sow(LOG)
    said = bash(home, "echo a=$PROMPT_COMMAND=; . ~/.bashrc; echo b=$PROMPT_COMMAND=", "-i")
    assert "a=history -a=" in said
    assert "b=history -a=" in said
