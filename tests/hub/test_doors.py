"""Bad input through every door: a clear error on its field, nothing created, never a 500."""

from __future__ import annotations

import itertools
import json
from typing import Any
from urllib.parse import urlencode

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .harness import Hub

pytestmark = pytest.mark.docker
SETTINGS = {
    "BackendAI": {
        "presets": [{"name": "small", "cpu": 0.5, "mem": "256m"}],
        "default_policy": {"per_session": {"cpu": 1}, "total": {"cpu": 1}},
        "resource_groups": [{"name": "default"}, {"name": "staff", "users": ["boss"]}],
    },
    "JupyterHub": {"log_level": "WARN"},
}
FUZZ = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

BAD = [
    ({"name": "ab"}, 400, "name"),
    ({"name": "from-template"}, 400, "name"),
    ({"bogus": 1}, 400, "bogus"),
    ({"__jupyterhub_bytes__": "x"}, 400, "__jupyterhub_bytes__"),
    ({"environment": "nope"}, 400, "environment"),
    ({"version": "0"}, 400, "version"),
    ({"resource_group": "staff"}, 400, "resource_group"),
    ({"resources": {"cpu": 2}}, 403, "resources.cpu"),
    ({"resources": {"mem": "1 parsec"}}, 400, "resources.mem"),
    ({"resources": {"shm": "9g"}}, 400, "resources.shm"),
    ({"resources": {"fgpu": 1}}, 400, "resources.fgpu"),
    ({"image": "busybox:latest"}, 403, "image"),
    ({"image": "../etc"}, 400, "image"),
    ({"env": {"JUPYTERHUB_API_TOKEN": "x"}}, 400, "env.JUPYTERHUB_API_TOKEN"),
    ({"env": {"LD_PRELOAD": "/x.so"}}, 400, "env.LD_PRELOAD"),
    ({"mounts": [{"folder": "../../etc"}]}, 400, "mounts.0.folder"),
    ({"mounts": [{"folder": "new", "create": True, "path": "/etc"}]}, 400, "mounts.0.path"),
    ({"mounts": [{"folder": "new", "create": True, "path": "a/../.."}]}, 400, "mounts.0.path"),
    ({"preopen_ports": [80]}, 400, "preopen_ports.0"),
    ({"owner": "boss"}, 403, "owner"),
    ({"project": "other"}, 403, "project"),
    ({"type": "batch"}, 400, "batch.command"),
    ({"batch": {"command": "ls"}}, 400, "batch"),
    ({"count": 3}, 400, "count"),
    ({"user_options": ["x"]}, 400, ""),
]


@pytest.fixture(scope="module")
def user(hub: Hub) -> str:
    hub.add_user("boss")
    return hub.add_user("student")


@pytest.fixture(scope="module")
def browser(hub: Hub, user: str) -> requests.Session:
    """A signed-in session of the user, as a browser has one."""
    session = requests.Session()
    page = session.get(f"{hub.url}/hub/login")
    assert page.status_code == 200
    reply = session.post(
        f"{hub.url}/hub/login?next=%2Fhub%2Fhome",
        data={"username": user, "password": "secret", "_xsrf": session.cookies["_xsrf"]},
    )
    assert reply.status_code == 200
    assert session.get(f"{hub.url}/hub/home").url.endswith("/hub/home")
    return session


def nothing_came_of_it(hub: Hub) -> None:
    assert hub.sessions() == []
    assert hub.held() == []
    assert hub.containers() == []
    assert hub.volumes() == []


@pytest.mark.parametrize(("options", "status", "field"), BAD, ids=lambda value: str(value)[:40])
def test_rest_refuses(hub: Hub, user: str, options: Any, status: int, field: str) -> None:
    reply = hub.launch(user, options)
    assert reply.status_code == status, reply.text
    assert field in reply.json()["message"]
    assert "SessionSpawnError" not in reply.text
    nothing_came_of_it(hub)


def test_all_errors_at_once(hub: Hub, user: str) -> None:
    message = hub.launch(user, {"name": "x", "bogus": 1, "preopen_ports": [1]}).json()["message"]
    assert all(field in message for field in ("name:", "bogus:", "preopen_ports.0:"))


def test_the_form_keeps_what_was_typed(hub: Hub, user: str, browser: requests.Session) -> None:
    for path in ("spawn", f"spawn/{user}/named-one"):
        page = post_form(
            hub, browser, path, {"name": "my<b>name", "environment": "python", "ports": "80"}
        )
        assert page.status_code == 400
        assert "my&lt;b&gt;name" in page.text
        assert "my<b>name" not in page.text
        assert "A name has only letters, digits" in page.text
        assert "Port 80 cannot be opened" in page.text
        assert f'action="/hub/{path}' in page.text.replace("&amp;", "&")
    nothing_came_of_it(hub)


def test_a_draft_is_of_one_server_and_no_link_replaces_it(
    hub: Hub, user: str, browser: requests.Session
) -> None:
    mine = f"spawn/{user}/drafted"
    page = browser.get(f"{hub.url}/hub/{mine}").text
    ticket = page.partition('name="ticket" value="')[2].partition('"')[0]
    assert ticket.endswith(user)
    page = post_form(
        hub, browser, mine, {"ticket": ticket, "name": "typed-here", "ports": "80"}
    ).text
    assert "typed-here" in page
    for path, typed in ((mine, True), (f"spawn/{user}/other-one", False), ("spawn", False)):
        page = browser.get(f"{hub.url}/hub/{path}").text
        assert ("typed-here" in page, "Port 80 cannot be opened" in page) == (typed, typed)
    page = browser.get(f"{hub.url}/hub/{mine}?opt-name=from-a-link").text
    assert "from-a-link" in page
    assert "Back to what you had typed" in page
    assert "typed-here" in browser.get(f"{hub.url}/hub/{mine}").text
    nothing_came_of_it(hub)


def test_what_is_too_large_is_refused_at_once(
    hub: Hub, user: str, browser: requests.Session
) -> None:
    """And where the Hub has stored it all the same, the form says so and is there."""
    huge = {"env": [{"name": "A", "value": "1"}] * 300_000, "preset": "x" * 1_000_000}
    reply = hub.call("POST", f"users/{user}/servers/huge", json=huge)
    assert reply.status_code == 400
    assert "too long" in reply.json()["message"]
    page = browser.get(f"{hub.url}/hub/spawn/{user}/huge", timeout=10)
    assert page.status_code == 200
    assert "cannot be read any more, so this form is empty" in page.text
    assert len(page.text) < 300_000
    nothing_came_of_it(hub)


def test_a_link_fills_the_form_and_starts_nothing(
    hub: Hub, user: str, browser: requests.Session
) -> None:
    page = browser.get(f"{hub.url}/hub/spawn?opt-name=from-a-link&opt-cpu=0.5")
    assert page.status_code == 200
    assert "from-a-link" in page.text
    for field in ("env_name", "image", "new_folder", "type", "quick"):
        page = browser.get(f"{hub.url}/hub/spawn?opt-{field}=x")
        assert page.status_code == 400
        assert "A link cannot set" in page.text
    nothing_came_of_it(hub)


def post_form(
    hub: Hub, browser: requests.Session, path: str, fields: dict[str, Any]
) -> requests.Response:
    data = {**fields, "_xsrf": browser.cookies.get("_xsrf", path="/hub/")}
    return browser.post(f"{hub.url}/hub/{path}", data=data, timeout=60)


# Text that HTTP and JSON can carry, lone surrogates included where JSON can.
texts = st.text(max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
KEYS = [
    "name",
    "type",
    "environment",
    "version",
    "image",
    "env",
    "resource_group",
    "agent",
    "preset",
    "resources",
    "count",
    "cluster",
    "threads",
    "mounts",
    "preopen_ports",
    "batch",
    "owner",
    "project",
]  # fmt: skip  (`user_options` and `display_name` are the Hub's own: its older body has neither)
# `bogus` makes every one of them wrong, so that nothing starts whatever else is in it.
bad_specs = st.dictionaries(st.sampled_from(KEYS) | texts, json_values, max_size=5).map(
    lambda spec: {**spec, "bogus": 1}
)
FIELDS = [
    "name", "type", "environment", "version.python", "image", "env_name", "env_value", "preset",
    "cpu", "mem", "shm", "fgpu", "agent", "omp", "openblas", "mount", "mount_path.x", "new_folder",
    "ports", "quick_", "resource_group", "project",
]  # fmt: skip
forms = st.dictionaries(
    st.sampled_from(FIELDS), st.lists(texts, min_size=1, max_size=3), max_size=6
)


@FUZZ
@given(options=bad_specs)
def test_fuzz_rest(hub: Hub, user: str, options: dict[str, Any]) -> None:
    body = json.dumps(options)
    reply = hub.call("POST", f"users/{user}/server", data=body)
    assert 400 <= reply.status_code < 500, (reply.status_code, reply.text)
    nothing_came_of_it(hub)


@FUZZ
@given(fields=forms)
def test_fuzz_form(
    hub: Hub, user: str, browser: requests.Session, fields: dict[str, list[str]]
) -> None:
    page = post_form(hub, browser, "spawn", {**fields, "ports": "1"})
    assert 400 <= page.status_code < 500, page.status_code
    assert "Port 1 cannot be opened" in page.text
    nothing_came_of_it(hub)


@FUZZ
@given(fields=forms)
def test_fuzz_link(
    hub: Hub, user: str, browser: requests.Session, fields: dict[str, list[str]]
) -> None:
    pairs = [("opt-" + k, v) for k, values in fields.items() for v in values]
    query = urlencode([(k, v) for k, v in pairs])
    page = browser.get(f"{hub.url}/hub/spawn?{query}", timeout=60)
    assert page.status_code < 500, page.status_code
    nothing_came_of_it(hub)


def test_stored_options_are_checked_again(hub: Hub, user: str) -> None:
    """PUT and PATCH store without a check; the start checks."""
    for method, bodies in itertools.product(("PUT",), ({"user_options": {"bogus": 1}},)):
        hub.call(method, f"users/{user}/servers/stored", json=bodies)
    reply = hub.call("POST", f"users/{user}/servers/stored")
    assert reply.status_code == 400
    assert "bogus" in reply.json()["message"]
    nothing_came_of_it(hub)


def test_none_of_this_left_a_traceback(hub: Hub, user: str, browser: requests.Session) -> None:
    """Last in this file: what users do wrong, through whichever door, is one line in the log."""
    browser.get(f"{hub.url}/hub/spawn?opt-cpu=1", timeout=60)
    post_form(hub, browser, "spawn", {"ports": "1"})
    log = hub.log_text()
    assert "query arguments\n" not in log  # the Hub's own line on a link is no warning
    told = [line for line in log.splitlines() if "Failed to spawn" in line and "Port 1" in line]
    assert told
    assert told[-1].startswith("[W ")
    assert "Traceback" not in log
