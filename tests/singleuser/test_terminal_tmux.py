"""What the terminal's tmux is to the user's own: the same server, their settings last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.harness import wait_for

from .jupyter import TMUX, Server, running
from .window import attach

pytestmark = pytest.mark.skipif(not TMUX, reason="no tmux here")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The user's settings are there before."""
    directory = tmp_path_factory.mktemp("jupyter")
    (directory / "home").mkdir()
    theirs = 'set -g status-left "mine "\nset -g history-limit 4321\nset -g default-shell /bin/sh\n'
    (directory / "home" / ".tmux.conf").write_text(theirs)
    with running(directory) as started:
        yield started


@pytest.fixture(autouse=True)
def fresh(server: Server) -> None:
    """No tmux runs."""
    server.tmux("kill-server")
    wait_for("its end", lambda: not names(server))


def names(server: Server) -> list[str]:
    return server.ask("GET", "terminal/shells")[1]["shells"]


def option(server: Server, name: str, *where: str) -> str:
    return server.tmux("show-options", *(where or ("-g",)), "-v", name).strip()


async def test_the_users_settings_win_and_ours_are_there(server: Server) -> None:
    name = server.ask("POST", "terminal/shells")[1]["shell"]
    assert option(server, "status-left") == "mine"
    assert option(server, "history-limit") == "4321"
    assert option(server, "mouse") == "on"
    assert option(server, "set-clipboard", "-s") == "on"
    assert "BACKENDAI_TMUX_CONF" not in server.tmux("show-environment", "-g")
    window = await attach(server, name)
    await window.run("echo $0=", "/bin/sh=")  # their default-shell, and not a login shell
    await window.close()


async def test_no_browser_is_asked_to_tell_its_focus(server: Server) -> None:
    """One that told it of a shell that just ends would make tmux crash, with all other shells."""
    window = await attach(server, server.ask("POST", "terminal/shells")[1]["shell"])
    window.type("\x1b[?1;2c\x1b[>0;276;0c")  # what xterm.js says that it is
    await window.run("echo he$((1))re", "he1re")
    assert "\x1b[?1004h" not in window.text
    await window.close()


async def test_shells_of_both_kinds_of_terminal_are_the_same(server: Server) -> None:
    """One that was started in JupyterLab's terminal, with tmux's own settings."""
    server.tmux("-f", "/dev/null", "new-session", "-d", "-s", "train ü")
    made = server.ask("POST", "terminal/shells")[1]["shell"]
    assert names(server) == ["train ü", made]
    assert option(server, "mouse") == "off"
    window = await attach(server, "train ü")
    assert option(server, "mouse") == "on"
    assert option(server, "status-left") == "mine"
    await window.run("echo he$((1))re", "he1re")
    assert server.ask("DELETE", "terminal/shells/train%20%C3%BC?force=1")[0] == 204
    await window.until(lambda: window.closed, "closed")
    assert names(server) == [made]


async def test_what_the_user_changes_meanwhile_stays(server: Server) -> None:
    name = server.ask("POST", "terminal/shells")[1]["shell"]
    server.tmux("set-option", "-g", "mouse", "off")
    window = await attach(server, name)
    assert option(server, "mouse") == "off"
    await window.close()


async def test_a_shell_goes_on_when_the_server_is_gone(server: Server, tmp_path: Path) -> None:
    socket = {"TMUX_TMPDIR": server.environment["TMUX_TMPDIR"]}
    with running(tmp_path, **socket) as other:
        name = other.ask("POST", "terminal/shells")[1]["shell"]
        window = await attach(other, name)
        await window.run("echo on$((1))e", "on1e")
        await window.close()
        # `running` would end this tmux: the first server looks before
        again = await attach(server, name)
        await again.sees("on1e")
        await again.close()


async def test_detaching_leaves_the_shell(server: Server) -> None:
    name = server.ask("POST", "terminal/shells")[1]["shell"]
    window = await attach(server, name)
    await window.sees("mine")
    window.type("\x02d")
    await window.until(lambda: window.closed, "closed")
    assert window.kinds[-1] == "disconnect"
    assert names(server) == [name]


async def test_the_window_that_was_used_last_has_the_size(server: Server) -> None:
    name = server.ask("POST", "terminal/shells")[1]["shell"]
    large = await attach(server, name, rows=40, columns=120)
    small = await attach(server, name, rows=20, columns=60)
    for window in (large, small):
        await window.sees("mine")  # it is attached
    for window, width in ((large, "120"), (small, "60"), (large, "120")):
        window.type("x")
        form = ("list-windows", "-F", "#{window_width}")
        await window.until(lambda form=form, width=width: width in server.tmux(*form), width)
    for window in (large, small):
        await window.close()


async def test_a_closed_window_leaves_no_client(server: Server) -> None:
    name = server.ask("POST", "terminal/shells")[1]["shell"]
    slow = await attach(server, name, slow=True)
    # More than there is time for: to who takes it slowly tmux sends a part of it only.
    slow.type("seq 100000000\r")
    await slow.until(lambda: len(slow.text) > 300_000, "a lot")
    await slow.close()
    wait_for("no client", lambda: not server.tmux("list-clients"))
    assert server.ask("DELETE", f"terminal/shells/{name}?force=1")[0] == 204


def test_a_tmux_that_does_not_start_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tmux").write_text("#!/bin/sh\necho 'missing\nlibrary' >&2\nexit 127\n")
    (broken / "tmux").chmod(0o755)
    with running(tmp_path, PATH=f"{broken}:{os.environ['PATH']}") as server:
        status, answer = server.ask("POST", "terminal/shells")
    assert status == 503
    said = answer["errors"][0]["message"]
    assert said == "tmux does not start a shell: missing library."
