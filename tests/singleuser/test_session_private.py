"""What is its owner's alone: apps on ports that may be open to others, and pages of other sites."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from jupyterhub_backendai.singleuser.server import apps, declared, processes
from jupyterhub_backendai.singleuser.server import known as known_apps

from .session_server import DEMO, Server, free_port, wait_for

UPGRADE = {"Connection": "Upgrade", "Upgrade": "backendai-tcp"}
ELSEWHERE = "https://evil.example.org"
EDITOR = """
import sys
from http.server import HTTPServer, SimpleHTTPRequestHandler
port = int(sys.argv[2].rpartition(':')[2])
HTTPServer(('127.0.0.1', port), SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    known = known_apps.find("vscode")
    assert known is not None
    ports = [free_port() for _ in range(3)]
    said = {
        "preopen_ports": [known.port, ports[0]],
        "apps": [
            {"name": "demo", "ports": [ports[1]], "shareable": True,
             "command": [sys.executable, DEMO, "{port}"]},
            {"name": "both", "ports": [ports[0]], "command": [sys.executable, DEMO, "{port}"]},
            {"name": "other", "ports": [ports[2]], "shareable": True},
        ],
    }  # fmt: skip
    made = Server(tmp_path_factory.mktemp("server"), said)
    program = made.bin / "code-server"
    program.write_text(f"#!{sys.executable}\n{EDITOR}")
    program.chmod(0o755)
    made.start()
    assert made.by_key("open/demo", "POST").json()["ready"]
    yield made
    assert "Traceback" not in made.log
    made.stop()


# ---- ports


def test_what_we_start_is_on_no_port_that_may_be_public(server: Server) -> None:
    preopen = server.said["preopen_ports"]
    for name in ("vscode", "both"):
        assert server.by_key(f"open/{name}", "POST").json() == {"ready": True, "why": ""}
        assert server.item(name)["port"] not in preopen
        assert server.ask(f"app/{name}/").status_code == 200
    for port in preopen:
        assert server.by_key(f"tunnel/{port}", headers=UPGRADE).status_code == 502
        assert server.ask(f"app/{port}/").status_code == 503
        assert not server.item(str(port))["listening"]


async def test_a_port_of_one_app_does_not_open_another(tmp_path: Path) -> None:
    """Whatever brought it there: a port that is asked for by its number runs another app."""
    port = free_port()
    parts: Any = SimpleNamespace(
        declared=declared.Declared(), runtime_dir=str(tmp_path), modules={}, root="/"
    )
    parts.processes = processes.Processes(parts)
    command = [sys.executable, DEMO, str(port)]
    try:
        assert await parts.processes.start("vscode", lambda _: command, port) == port
        parts.declared = declared.Declared(preopen_ports=(port,))
        found = apps.Apps(parts)
        numbered = found.get(str(port))
        assert numbered is not None
        assert not found.is_listening(numbered)
        with pytest.raises(ConnectionRefusedError):
            found.target(numbered)
    finally:
        parts.processes.end_all()
    wait_for(lambda: parts.processes.running("vscode") is None)
    with socket.create_server(("127.0.0.1", port)):
        assert found.target(numbered) == port, "what the user starts there"


def test_ports_that_an_app_is_kept_from() -> None:
    said = declared.Declared(
        preopen_ports=(8080,), ssh_port=2200,
        apps=(declared.App("a", ports=(5000, 8080)), declared.App("b", ports=(5001,))),
    )  # fmt: skip
    assert said.kept_from("a") == {8080, 5001, 2200}
    assert said.kept_from("vscode") == {8080, 5000, 5001, 2200}
    assert said.kept_from("sshd") == {8080, 5000, 5001}


# ---- other sites


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
def test_pages_of_other_sites_are_refused(server: Server, method: str) -> None:
    browser = server.browser()
    url = server.url("app/demo/x")
    here = f"http://127.0.0.1:{server.port}"

    def status(**headers: str) -> int:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return browser.request(method, url, headers=sent, timeout=60).status_code

    served = status(Origin=here, Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")
    assert served in (200, 405)
    assert status() == served
    assert status(Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="no-cors") == served
    assert status(Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate") == served
    for other in (ELSEWHERE, "https://x.apps.example.org", "null", "http://[x"):
        assert status(Origin=other) == 403
        assert status(Origin=other, Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors") == 403
    for site in ("same-site", "cross-site"):
        assert status(Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors") == 403
    follows = status(Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert follows == (served if method in ("GET", "HEAD") else 403)


def test_programs_with_the_token_may_be_anywhere(server: Server) -> None:
    headers = {"Authorization": "token the-token-of-the-server", "Origin": ELSEWHERE}
    assert server.ask("app/demo/x", headers=headers).status_code == 200


def test_what_an_app_lets_others_read_is_not_enough(server: Server) -> None:
    query = {
        "status": "200",
        "header": [
            f"Access-Control-Allow-Origin:{ELSEWHERE}", "Access-Control-Allow-Credentials:true",
        ],
    }  # fmt: skip
    browser = server.browser()
    headers = {"Origin": ELSEWHERE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
    url = server.url("app/demo/answer")
    found: requests.Response = browser.get(url, params=query, headers=headers, timeout=60)
    assert found.status_code == 403
    assert "Access-Control-Allow-Origin" not in found.headers


@pytest.mark.parametrize("app", known_apps.APPS, ids=lambda app: app.name)
def test_no_known_app_lets_every_site_read(app: known_apps.Known) -> None:
    assert not [name for name, value in app.env if value == "*" and "ORIGIN" in name]
