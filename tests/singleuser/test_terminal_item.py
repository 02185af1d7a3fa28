"""Whether a session has a terminal, and what is said where it has none or less of one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .jupyter import TMUX, running


def item(server: Any) -> Any:
    apps = server.ask("GET", "apps")[1]["apps"]
    return next(app for app in apps if app["name"] == "terminal")


def test_with_tmux_nothing_is_to_be_said(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        found = item(server)
    assert (found["available"], found["why"], found["shareable"]) == (True, "", False)
    assert found["path"] == "backendai/terminal/"
    assert (found["notes"] == []) == bool(TMUX)


def test_without_tmux_it_says_what_is_less(tmp_path: Path) -> None:
    with running(tmp_path, False) as server:
        found = item(server)
    assert found["available"] is True
    assert "install tmux in the image" in found["notes"][0]


def test_who_switched_terminals_off_has_none(tmp_path: Path) -> None:
    for words in (
        ["--ServerApp.terminals_enabled=False"],
        ["--ServerApp.jpserver_extensions=jupyter_server_terminals=False"],
    ):
        with running(tmp_path, True, *words) as server:
            found = item(server)
            assert found["available"] is False
            assert "switched off" in found["why"]
            status, page = server.ask("GET", "terminal/", Accept="text/html")
            assert status == 404
            assert "switched off" in page
            assert server.ask("POST", "terminal/shells")[0] == 404


def test_an_image_without_terminado_has_none() -> None:
    code = """
        import json, sys
        sys.modules["terminado"] = None
        from types import SimpleNamespace as Some
        from jupyterhub_backendai.singleuser.server import terminal
        server = Some(terminals_enabled=True, jpserver_extensions={})
        parts = Some(serverapp=server, pattern=lambda path: path, log=None)
        print(json.dumps([terminal.item(parts), len(terminal.handlers(parts))]))
    """
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line[8:] for line in code.splitlines())],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found, routes = json.loads(done.stdout)
    assert found["available"] is False
    assert "pip install terminado" in found["why"]
    assert routes == 1
