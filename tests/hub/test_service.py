"""The sessions service behind a real Hub and its proxy: signing in, tokens, failed starts."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from .harness import Hub, running, wait_for

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One Hub with its service, and a user who may look at what a group has."""
    role = {"name": "tutor", "users": ["tutor"], "scopes": ["read:servers!group=lab"]}
    extra = f"c.JupyterHub.load_roles.append({role})"
    with running(tmp_path_factory.mktemp("hub"), extra=extra) as started:
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
    # A browser's EventSource can send no header, but a query.
    stream = f"{hub.url}/services/backendai/api/events?_xsrf={xsrf}"
    cors = {"Sec-Fetch-Mode": "cors"}
    with browser.get(stream, headers=cors, timeout=30, stream=True) as events:
        assert next(events.iter_lines()) == b"event: begin"

    assert api(hub, "api/sessions", token_of(hub, "rosa")).status_code == 200
    narrow = token_of(hub, "rosa", scopes=["read:users:name!user=rosa"])
    assert api(hub, "api/sessions", narrow).status_code == 403
    assert api(hub, "api/sessions", "nonsense").status_code == 401

    chief = sign_in(hub, "admin")
    xsrf = next(c.value for c in chief.cookies if c.name == "_xsrf" and "services" in c.path)
    headers["X-XSRFToken"] = str(xsrf)
    assert chief.get(url, headers=headers, params=everybody, timeout=30).status_code == 200

    # The metrics: for whom the Hub's own are, by their one scope.
    metrics = f"{hub.url}/services/backendai/metrics"
    seen = chief.get(metrics, headers=headers, timeout=30)
    assert (seen.status_code, "backendai_database_up 1.0" in seen.text) == (200, True), seen.text
    narrow = token_of(hub, "admin", scopes=["read:metrics"])
    assert api(hub, "metrics", narrow).status_code == 200
    assert api(hub, "metrics", token_of(hub, "rosa")).status_code == 403
    assert api(hub, "metrics", "").status_code == 401


def test_who_may_see_and_do_what(hub: Hub) -> None:
    """The matrix at a real Hub: whose scopes they are is the Hub's to say."""
    people = {name: token_of(hub, name) for name in ("alice", "bob", "mate", "admin", "tutor")}
    assert hub.call("POST", "groups/lab").status_code in {201, 409}
    members = {"users": ["alice", "mate"]}
    assert hub.call("POST", "groups/lab/users", json=members).status_code == 200
    access = "access:services!service=backendai"
    people["narrow"] = token_of(hub, "alice", scopes=["read:servers!user=alice"])
    people["reader"] = token_of(hub, "alice", scopes=["read:servers!user=alice", access])

    made = api(hub, "api/sessions", people["alice"], "POST", json={"name": "hers"})
    assert made.status_code == 201, made.text
    path = f"api/sessions/{made.json()['sessions'][0]['id']}"
    for who, get, delete in (
        ("", 401, 401),
        ("narrow", 403, 403),
        ("bob", 404, 404),
        ("mate", 404, 404),
        ("tutor", 200, 403),
        ("reader", 200, 403),
        ("alice", 200, 202),
        ("admin", 200, 202),
    ):
        assert api(hub, path, people.get(who, "")).status_code == get, who
        assert api(hub, path, people.get(who, ""), "DELETE").status_code == delete, who
    for owner, status in (("alice", 200), ("bob", 403), ("*", 403)):
        listed = api(hub, f"api/sessions?owner={owner}", people["tutor"])
        assert listed.status_code == status, owner
    body = {"owner": "alice", "name": "from-above"}
    assert api(hub, "api/sessions", people["bob"], "POST", json=body).status_code == 403
    made = api(hub, "api/sessions", people["admin"], "POST", json=body)
    assert made.json()["sessions"][0]["owner"] == "alice"
    (row,) = [row for row in hub.sessions("alice") if row["name"] == "from-above"]
    assert json.loads(row["owner_groups"]) == ["lab"]
    path = f"api/sessions/{row['id']}"
    assert api(hub, path, people["alice"], "DELETE").json()["status"] == "CANCELLED"


def test_a_running_session_is_ended_through_the_hub(hub: Hub) -> None:
    token = token_of(hub, "carl")
    hub.launch("carl", {"preset": None}, "work")
    hub.until_ready("carl", "work")
    (row,) = hub.sessions("carl")
    path = f"api/sessions/{row['id']}"
    assert "Jupyter" in api(hub, f"{path}/logs", token).text
    ended = api(hub, path, token, "DELETE")
    assert ended.status_code == 202, ended.text
    wait_for("its end", lambda: api(hub, path, token).json()["status"] == "TERMINATED")
    history = api(hub, f"{path}/history", token).json()["items"]
    assert any(entry["message"] == "carl ended it." for entry in history)
    made = next(entry for entry in history if entry["phase"] == "create")
    (waited,) = (step for step in made["sub_steps"] if step["step"] == "wait_for_server")
    assert waited["result"] == "SUCCESS"
    assert waited["started_at"] < waited["ended_at"] <= made["created_at"]
    assert api(hub, path, token, "DELETE").json()["status"] == "TERMINATED"


def test_a_hub_that_was_killed_leaves_no_second_service(hub: Hub) -> None:
    token = token_of(hub, "dora")
    (old,) = hub.services()
    hub.kill()
    hub.start()
    wait_for("another service", lambda: hub.services() not in ([], [old]))
    wait_for("it to open", lambda: api(hub, "health").status_code == 200)
    assert len(hub.services()) == 1
    assert api(hub, "api/sessions", token).status_code == 200


def test_a_service_that_was_killed_is_soon_there_again(hub: Hub) -> None:
    (old,) = hub.services()
    os.kill(old, signal.SIGKILL)
    wait_for("another service", lambda: hub.services() not in ([], [old]), 5)
    wait_for("it to open", lambda: api(hub, "health").status_code == 200, 15)
    assert "The sessions service ended (signal 9); it is started again" in hub.log_text()


def test_a_service_that_cannot_open_keeps_no_hub_from_starting(tmp_path: Path) -> None:
    """Its configuration is broken on the way; the Hub is there all the same, and says what is."""
    broken = 'c.JupyterHub.services[-1]["environment"]["BACKENDAI_CONFIGURATION"] = "broken"'
    with running(tmp_path, after=broken) as hub:
        tokens = [token_of(hub, name) for name in ("ella", "admin")]
        wait_for("the failure", lambda: api(hub, "health").json() == {"status": "not_working"})
        told = [api(hub, "api/sessions", token).json()["errors"][0]["message"] for token in tokens]
        assert told[0] == "The sessions service does not work at the moment. Tell your admin."
        assert "no configuration it can read" in told[1]
        page = api(hub, "", tokens[1])
        assert (page.status_code, "no configuration" in page.text) == (200, True)
        assert hub.call("GET", "users").status_code == 200
        assert "Traceback" not in hub.log_text()


def test_nothing_is_changed_by_another_page_in_the_same_browser(hub: Hub) -> None:
    """A browser sends its cookies along with whatever a page makes it post, but no token."""
    browser = sign_in(hub, "admin")
    url = f"{hub.url}/services/backendai"
    token = token_of(hub, "admin")
    made = api(hub, "api/sessions", token, "POST", json={"name": "stays", "count": 1})
    session = made.json()["sessions"][0]["id"]
    agent = api(hub, "api/agents", token).json()["items"][0]["name"]
    before = len(hub.sessions("admin"))
    for mode, site in (("navigate", "cross-site"), ("cors", "same-origin"), ("no-cors", "")):
        headers = {"Sec-Fetch-Mode": mode, "Sec-Fetch-Site": site, "Origin": "https://evil.example"}
        for method, path, body in (
            ("POST", "launch", {"data": {"name": "evil-one", "type": "interactive"}}),
            ("POST", f"sessions/{session}/end", {}),
            ("POST", "api/sessions", {"json": {"name": "evil-two"}}),
            ("DELETE", f"api/sessions/{session}", {}),
            ("PATCH", f"api/sessions/{session}", {"json": {"name": "evil-three"}}),
            ("PATCH", f"api/agents/{agent}", {"json": {"schedulable": False}}),
        ):
            reply = browser.request(
                method, f"{url}/{path}", headers=headers, timeout=30, allow_redirects=False, **body
            )
            assert reply.status_code == 403, (mode, method, path, reply.status_code)
    assert len(hub.sessions("admin")) == before
    (row,) = [row for row in hub.sessions("admin") if row["id"] == session]
    assert (row["name"], row["ended_at"]) == ("stays", None)
    assert api(hub, "api/agents", token).json()["items"][0]["schedulable"] is True
    assert api(hub, f"api/sessions/{session}", token, "DELETE").status_code in {200, 202}
