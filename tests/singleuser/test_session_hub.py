"""The extension in the servers that JupyterHub starts, of either kind."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from .session_server import BASE, DEMO, KEY, Server, free_port
from .stand_in_hub import TOKEN, Hub

KINDS = {
    "extension": {"JUPYTERHUB_SINGLEUSER_EXTENSION": "1"},
    "mixin": {
        "JUPYTERHUB_SINGLEUSER_EXTENSION": "0",
        "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp",
    },
}


@pytest.fixture(scope="module", params=list(KINDS))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    demo = [sys.executable, DEMO, "{port}"]
    said = {"apps": [{"name": "demo", "ports": [free_port()], "command": demo}]}
    made = Server(tmp_path_factory.mktemp(request.param), said)
    with Hub() as hub:
        made.environment = {**KINDS[request.param], **hub.environment(made.port, BASE)}
        made.start("--allow-root", program=(sys.executable, "-m", "jupyterhub.singleuser"))
        assert made.by_key("open/demo", "POST").json()["ready"], made.log
        yield made
        assert "Traceback" not in made.log
        made.stop()


def signed_in(server: Server) -> requests.Session:
    """A browser that was at the Hub, and came back."""
    session = requests.Session()
    session.headers["Accept"] = "text/html"
    led = session.get(server.url("open/demo"), timeout=60, allow_redirects=False)
    assert led.status_code == 302, led.text
    state = parse_qs(urlsplit(led.headers["Location"]).query)["state"][0]
    back = f"http://127.0.0.1:{server.port}{BASE}oauth_callback"
    came = session.get(
        back, params={"code": "c", "state": state}, timeout=60, allow_redirects=False
    )
    assert came.status_code == 302, came.text
    assert urlsplit(came.headers["Location"]).path == f"{BASE}backendai/open/demo"
    return session


def test_strangers_are_refused(server: Server) -> None:
    for path in ("apps", "open/demo", "app/demo/", "static/pages.css", "tunnel/demo"):
        for headers in ({}, {"Authorization": "token x"}, {"X-Backendai-Key": "x"}):
            answer = server.ask(path, headers=headers)
            assert answer.status_code == 403, (path, headers)
    assert server.by_key("apps").status_code == 200
    assert server.by_key("app/demo/x").status_code == 403


def test_with_a_token_of_the_hub(server: Server) -> None:
    headers = {"Authorization": f"token {TOKEN}"}
    assert server.ask("apps", headers=headers).status_code == 200
    said = server.ask("app/demo/x", "POST", headers=headers, data="x").json()
    assert TOKEN not in json.dumps(said)
    said = server.ask(f"app/demo/x?token={TOKEN}&a=1", headers={}).json()
    assert TOKEN not in json.dumps(said)
    assert said["uri"] == "/x?a=1"


def test_in_a_browser(server: Server) -> None:
    browser = signed_in(server)
    assert browser.get(server.url("apps"), timeout=60).status_code == 200
    said = browser.post(server.url("app/demo/x"), data={"a": "b"}, timeout=60).json()
    assert said["body"] == "a=b", "the app's own forms need nothing of ours"
    seen = {name.lower(): value for name, value in said["headers"]}
    assert "cookie" not in seen
    scripts = {"Accept": "application/json"}
    assert browser.post(server.url("open/demo"), headers=scripts, timeout=60).status_code == 403
    late = browser.post(server.url("open/demo"), timeout=60, allow_redirects=False)
    assert (late.status_code, late.headers["Location"]) == (303, f"{BASE}backendai/open/demo")
    xsrf = browser.cookies.get("_xsrf", path=BASE)
    headers = {"X-XSRFToken": xsrf}
    posted = browser.post(server.url("open/demo"), headers=headers, timeout=60)
    assert posted.status_code == 200
    plain = browser.get(server.url("app/demo/x"), timeout=60)
    assert plain.headers["Content-Security-Policy"] == "frame-ancestors 'self'"


def test_a_form_that_comes_too_late_leads_to_the_sign_in(server: Server) -> None:
    headers = {"Accept": "text/html"}
    late = server.ask("open/demo", "POST", headers=headers, data={"logdir": "x"})
    assert (late.status_code, late.headers["Location"]) == (303, f"{BASE}backendai/open/demo")
    assert server.ask("open/demo", headers=headers).status_code == 302, "to the sign-in"


async def test_websockets_need_the_sign_in(server: Server) -> None:
    url = server.url("app/demo/talk", "ws")
    for headers in ({}, {"X-Backendai-Key": KEY}, {"Authorization": "token x"}):
        with pytest.raises(HTTPClientError) as refused:
            await websocket_connect(HTTPRequest(url, headers=headers))
        assert refused.value.code == 403
    browser = signed_in(server)
    cookie = "; ".join(f"{c.name}={c.value}" for c in browser.cookies)
    own = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{server.port}"}
    talk = await websocket_connect(HTTPRequest(url, headers=own))
    await talk.write_message("headers")
    assert "Cookie" not in json.loads(await talk.read_message())
    talk.close()
    other = {**own, "Origin": "https://evil.example.org"}
    with pytest.raises(HTTPClientError) as refused:
        await websocket_connect(HTTPRequest(url, headers=other))
    assert refused.value.code == 403


def test_the_log_says_who_asked(server: Server) -> None:
    server.by_key("apps")
    assert "(key@127.0.0.1)" in Path(server.log_file).read_text()
