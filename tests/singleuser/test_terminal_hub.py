"""The terminal in the servers that JupyterHub starts, for a browser that signed in at the Hub."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from .session_server import BASE, Server
from .stand_in_hub import Hub
from .test_session_hub import KINDS, signed_in

# What browsers say of a script's requests, which JupyterHub asks more of.
SCRIPT = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin", "Accept": "application/json"}
FILE = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Site": "same-origin", "Accept": "*/*"}


@pytest.fixture(scope="module", params=list(KINDS))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    said = {"apps": [{"name": "demo", "ports": [9]}]}
    root = tmp_path_factory.mktemp(request.param)
    made = Server(root, said, BACKENDAI_SESSION_NAME="train <1>")
    with Hub() as hub:
        made.environment.update({**KINDS[request.param], **hub.environment(made.port, BASE)})
        made.start("--allow-root", program=("jupyterhub-singleuser",))
        yield made
        assert "Traceback" not in made.log
        made.stop()


async def test_page_scripts_shells_and_sockets(server: Server) -> None:
    browser = signed_in(server)

    def ask(method: str, path: str, **headers: str) -> tuple[int, str]:
        answer = browser.request(
            method, server.url(path), headers=headers, timeout=60, allow_redirects=False
        )
        return answer.status_code, answer.text

    status, page = ask("GET", "terminal/", **{"Sec-Fetch-Mode": "navigate"})
    assert status == 200
    assert "train &lt;1&gt;" in page
    assert 'data-home="/hub/home"' in page
    token = html.unescape(re.findall('data-xsrf="([^"]*)"', page)[0])
    for file in re.findall('(?:src|href)="([^"]*)"', page):
        path = file.partition("/backendai/")[2]
        assert ask("GET", path, **FILE)[0] == 200, file

    with_token = {**SCRIPT, "X-XSRFToken": token}
    assert ask("POST", "terminal/shells", **SCRIPT)[0] == 403
    status, made = ask("POST", "terminal/shells", **with_token)
    assert status == 201, made
    status, found = ask("GET", "terminal/shells", **with_token)
    assert json.loads(found)["shells"] == ["shell-1"]

    url = server.url("terminal/shells/shell-1/socket", "ws")
    cookie = "; ".join(f"{c.name}={c.value}" for c in browser.cookies)
    own = {
        "Cookie": cookie, "Sec-Fetch-Mode": "websocket",
        "Origin": f"http://127.0.0.1:{server.port}",
    }  # fmt: skip
    for other in ({**own, "Origin": "https://evil.example.org"}, {**own, "Cookie": "a=b"}):
        with pytest.raises(HTTPClientError) as refused:
            await websocket_connect(HTTPRequest(url, headers=other))
        assert refused.value.code in (302, 403)
    socket = await websocket_connect(HTTPRequest(url, headers=own))
    assert json.loads(await socket.read_message() or "[]")[0] == "setup"
    socket.close()
    assert ask("DELETE", "terminal/shells/shell-1?force=1", **with_token)[0] == 204
