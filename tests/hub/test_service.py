"""The sessions service behind a real Hub and its proxy: signing in, tokens, failed starts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import requests

from .harness import Hub, running, wait_for

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One Hub with its service."""
    with running(tmp_path_factory.mktemp("hub"), service=True) as started:
        wait_for("the service to open", lambda: api(started, "health").status_code == 200)
        yield started


def api(
    hub: Hub, path: str, token: str = "", method: str = "GET", **more: object
) -> requests.Response:
    headers = {"Authorization": f"token {token}"} if token else {}
    url = f"{hub.url}/services/backendai/{path}"
    return requests.request(
        method,
        url,
        headers=headers,
        timeout=30,
        allow_redirects=False,
        **more,  # type: ignore[arg-type]
    )


def token_of(hub: Hub, name: str, **body: object) -> str:
    hub.add_user(name)
    reply = hub.call("POST", f"users/{name}/tokens", json=body)
    assert reply.status_code == 201, reply.text
    return str(reply.json()["token"])


def sign_in(hub: Hub, name: str) -> requests.Session:
    """A browser that came to the service's page and signed in at the Hub."""
    browser = requests.Session()
    browser.headers["Sec-Fetch-Mode"] = "navigate"
    page = browser.get(f"{hub.url}/services/backendai/", timeout=30)
    xsrf = re.search(r'name="_xsrf" value="([^"]+)"', page.text)
    assert xsrf, page.text[:2000]
    data = {"username": name, "password": "secret", "_xsrf": xsrf.group(1)}
    page = browser.post(page.url, data=data, timeout=30)
    assert page.url == f"{hub.url}/services/backendai/", page.text[:2000]
    return browser


def test_signing_in_by_cookie_and_by_token(hub: Hub) -> None:
    browser = sign_in(hub, "rosa")
    xsrf = next(c.value for c in browser.cookies if c.name == "_xsrf" and "services" in c.path)
    url = f"{hub.url}/services/backendai/api/sessions"
    seen = browser.get(url, headers={"Sec-Fetch-Mode": "cors"}, timeout=30)
    assert (seen.status_code, seen.json()["errors"][0]["code"]) == (403, "xsrf")
    headers = {"Sec-Fetch-Mode": "cors", "X-XSRFToken": str(xsrf)}
    seen = browser.get(url, headers=headers, timeout=30)
    assert (seen.status_code, seen.json()["total"]) == (200, 0)
    everybody = {"owner": "*"}
    assert browser.get(url, headers=headers, params=everybody, timeout=30).status_code == 403

    assert api(hub, "api/sessions", token_of(hub, "rosa")).status_code == 200
    narrow = token_of(hub, "rosa", scopes=["read:users:name!user=rosa"])
    assert api(hub, "api/sessions", narrow).status_code == 403
    assert api(hub, "api/sessions", "nonsense").status_code == 401

    chief = sign_in(hub, "admin")
    xsrf = next(c.value for c in chief.cookies if c.name == "_xsrf" and "services" in c.path)
    headers["X-XSRFToken"] = str(xsrf)
    assert chief.get(url, headers=headers, params=everybody, timeout=30).status_code == 200
