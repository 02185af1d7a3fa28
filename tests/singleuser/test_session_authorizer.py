"""What the authorizer says holds for apps too; and what else the handlers have in common."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from tornado import web

from jupyterhub_backendai.singleuser.server import access

from .session_server import BASE, DEMO, TOKEN, Server, free_port

READS = """
from jupyter_server.auth import Authorizer
class Reads(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return action == "read"
"""
# The place of a class before jupyter_server 2.1.
OF_OLD = """
import importlib, sys, types
from jupyter_server.base import websocket
old = types.ModuleType("jupyter_server.base.zmqhandlers")
old.WebSocketMixin = websocket.WebSocketMixin
sys.modules[old.__name__] = old
sys.modules["jupyter_server.base.websocket"] = None
for name in ("ssh", "windows"):
    importlib.import_module("jupyterhub_backendai.singleuser.server." + name)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("server")
    said = {"apps": [{"name": "demo", "ports": [free_port()],
                      "command": [sys.executable, DEMO, "{port}"]}]}  # fmt: skip
    made = Server(root / "s", said, PYTHONPATH=f"{root}:{Path.cwd()}")
    (root / "reads.py").write_text(READS)
    made.start("--ServerApp.authorizer_class=reads.Reads")
    assert made.by_key("open/demo", "POST").json()["ready"], "the service is no user"
    yield made
    assert "Traceback" not in made.log
    made.stop()


def test_who_may_only_read_runs_nothing(server: Server) -> None:
    headers = {"Authorization": f"token {TOKEN}"}
    kernels = f"http://127.0.0.1:{server.port}{BASE}api/kernels"
    assert requests.post(kernels, headers=headers, timeout=60).status_code == 403
    for path, method in (
        ("open/demo", "GET"), ("open/demo", "POST"), ("app/demo/x", "GET"), ("app/demo/x", "POST"),
        ("ssh", "GET"), ("terminal/", "GET"), ("terminal/shells", "GET"),
    ):  # fmt: skip
        refused = server.ask(path, method)
        assert refused.status_code == 403, (path, method)
        assert "may not run programs" in refused.json()["errors"][0]["message"]
    for path in ("apps", "static/pages.css"):
        assert server.ask(path).status_code == 200


def test_a_page_of_an_error_leads_back(server: Server) -> None:
    refused = server.browser().get(server.url("open/demo"), timeout=60)
    assert refused.status_code == 403
    assert f'<a href="{BASE}">Back to Jupyter</a>' in refused.text


def test_who_may_frame_is_the_configuration_s_to_say(tmp_path: Path) -> None:
    said = {"apps": [{"name": "demo", "ports": [free_port()],
                      "command": [sys.executable, DEMO, "{port}"]}]}  # fmt: skip
    framing = "frame-ancestors 'self' https://a.example"
    made = Server(tmp_path / "s", said)
    headers = {"headers": {"Content-Security-Policy": f"{framing}; report-uri /x"}}
    made.start(f"--ServerApp.tornado_settings={headers}")
    try:
        assert made.by_key("open/demo", "POST").json()["ready"]
        assert made.ask("app/demo/x").headers["Content-Security-Policy"] == framing
    finally:
        made.stop()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (web.HTTPError(400, "No %s of %d", "place", 3), "No place of 3"),
        (web.HTTPError(400, "100%"), "100%"),
        (web.HTTPError(400, "%d", "x"), "%d"),
        (web.HTTPError(400), ""),
        (None, ""),
    ],
)
def test_what_an_error_says_has_its_values(error: object, said: str) -> None:
    assert access._said(error) == said


def test_sockets_where_jupyter_server_had_them_of_old() -> None:
    subprocess.run([sys.executable, "-c", OF_OLD], check=True, timeout=60)
