"""A Hub below a prefix of its host, as behind a proxy that has other things too."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from .harness import ENVIRONMENTS, IMAGE, Hub, wait_for
from .visitor import sign_in

pytestmark = pytest.mark.docker
LINK = re.compile(r'(?:href|src|action)="(/[^"]*)"')
SETTINGS = {
    "environments": [
        *ENVIRONMENTS,
        {"name": "gone", "image": "backendai-no-such-image:1"},
        {"name": "sleeps", "image": IMAGE, "command": ["sleep", "600"]},
    ],
    "presets": [{"name": "small", "cpu": 0.5, "mem": "256m"}],
}

# Others beside ours, of which only some may use one.
SERVICES = """
for name, shown in [("grafana", True), ("hidden", False)]:
    c.JupyterHub.services.append(
        {"name": name, "url": "http://127.0.0.1:1", "display": shown, "timeout": 1}
    )
scopes = ["access:services!service=grafana", "access:services!service=hidden"]
c.JupyterHub.load_roles.append({"name": "looks", "users": ["pia"], "scopes": scopes})
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    directory: Path = tmp_path_factory.mktemp("hub")
    hub = Hub(directory, extra=SERVICES)
    hub.settings = {
        "BackendAI": SETTINGS, "JupyterHub": {"bind_url": f"{hub.url}/jhub/"},
    }  # fmt: skip
    hub.url += "/jhub"
    try:
        hub.start()
        health = f"{hub.url}/services/backendai/health"
        wait_for("the service", lambda: requests.get(health, timeout=30).status_code == 200)
        yield hub
    finally:
        hub.end()


def outside(page: str) -> list[str]:
    """Addresses on a page that are not below the prefix."""
    return [link for link in LINK.findall(page) if not link.startswith("/jhub/")]


def test_launch_and_look(hub: Hub) -> None:
    user = hub.add_user("pia")
    visitor = sign_in(hub.url, user)
    home = visitor.get(f"{hub.url}/hub/home", timeout=30)
    assert 'href="/jhub/services/backendai/"' in home.text
    token = hub.call("POST", f"users/{user}/tokens").json()["token"]
    api = f"{hub.url}/services/backendai/api/sessions"
    asked = {"name": "below", "preset": "small"}
    headers = {"Authorization": f"token {token}"}
    reply = requests.post(api, json=asked, headers=headers, timeout=30)
    assert reply.status_code == 201, reply.text
    (session,) = reply.json()["sessions"]
    name = session["server_name"]
    wait_for("it to be ready", lambda: hub.server(user, name).get("ready"))
    page = visitor.get(f"{hub.url}/services/backendai/", timeout=30)
    assert (page.status_code, outside(page.text)) == (200, [])
    (server,) = re.findall(r'href="([^"]+)" aria-label="Open below"', page.text)
    assert server == f"/jhub/user/{user}/{name}/"
    origin = hub.url.removesuffix("/jhub")
    opened = visitor.get(f"{origin}{server}", timeout=30)
    assert (opened.status_code, opened.url.partition("?")[0]) == (200, f"{origin}{server}lab")
    for address in re.findall(r'<(?:script src|link rel="stylesheet" href)="([^"]+)"', page.text):
        assert visitor.get(f"{origin}{address}", timeout=30).status_code == 200, address
    for path in ("launch", f"sessions/{session['id']}", f"sessions/{session['id']}/history"):
        page = visitor.get(f"{hub.url}/services/backendai/{path}", timeout=30)
        assert (page.status_code, outside(page.text)) == (200, [])


def test_a_start_that_failed_leads_to_the_form_that_was_filled(hub: Hub) -> None:
    """By the Hub's own page of it, to the launcher."""
    user = hub.add_user("max")
    visitor = sign_in(hub.url, user)
    options = {"name": "wanted", "environment": "gone", "env": {"LEVEL": "3"}}
    assert hub.launch(user, options, "first").status_code in {202, 503}
    wait_for("it to fail", lambda: [s["status"] for s in hub.sessions(user)] == ["ERROR"])
    wait_for("the Hub to know", lambda: not hub.server(user, "first").get("pending"))
    page = visitor.get(f"{hub.url}/hub/spawn-pending/{user}/first", timeout=30)
    assert "did not start" in page.text
    (session,) = hub.sessions(user)
    (link,) = re.findall(r'href="([^"]+)">Edit and start again', page.text)
    assert link == f"/jhub/services/backendai/launch?like={session['id']}"
    assert f'href="/jhub/services/backendai/sessions/{session["id"]}/history"' in page.text
    assert outside(page.text) == []
    form = visitor.get(hub.url.removesuffix("/jhub") + link, timeout=30)
    assert form.status_code == 200
    assert 'value="wanted"' in form.text
    assert "LEVEL" in html.unescape(form.text)
    assert "As it was launched before." in form.text


def test_a_start_that_was_cancelled_leaves_its_name_to_the_next(hub: Hub) -> None:
    """From the page that tells of it, the form is filled with all that was asked at once."""
    user = hub.add_user("ida")
    visitor = sign_in(hub.url, user)
    assert hub.launch(user, {"name": "again", "environment": "sleeps"}).status_code == 202
    wait_for("a container", lambda: [s["status"] for s in hub.sessions(user)] == ["CREATING"])
    page = visitor.get(f"{hub.url}/hub/spawn-pending/{user}", timeout=30)
    (session,) = hub.sessions(user)
    address = f"/jhub/services/backendai/sessions/{session['id']}"
    assert f'<a href="{address}">About this session</a>' in page.text
    assert 'data-service="/jhub/services/backendai/"' in page.text
    assert outside(page.text) == []
    assert hub.delete(user).status_code == 204
    form = visitor.get(f"{hub.url}/services/backendai/launch?like={session['id']}", timeout=30)
    assert 'value="again"' in form.text


@pytest.mark.parametrize(
    ("user", "shown"), [("pia", ["grafana"]), ("max", []), ("admin", ["grafana"])]
)
def test_the_menu_of_services_is_the_hub_s(hub: Hub, user: str, shown: list[str]) -> None:
    visitor = sign_in(hub.url, hub.add_user(user))
    for path in ("hub/home", "services/backendai/"):
        page = visitor.get(f"{hub.url}/{path}", timeout=30).text
        menu = re.findall(r'class="dropdown-item" href="(/jhub/services/\w+/)">', page)
        assert menu == [f"/jhub/services/{name}/" for name in shown], path
