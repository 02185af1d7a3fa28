"""What `setup(c)` adds for the service, to whatever the admin has already."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from jupyterhub.app import JupyterHub
from traitlets.config import Config

from jupyterhub_backendai.configuration import read_configuration
from jupyterhub_backendai.hub_setup import setup
from jupyterhub_backendai.model.slots import GIB
from jupyterhub_backendai.registration import ACCESS
from jupyterhub_backendai.service.handover import LOOK, VARIABLE, unpack


@pytest.fixture
def c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    """A configuration with the service, whose Hub has an address already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(JupyterHub, "_instance", None)
    config = Config()
    config.JupyterHub.hub_ip = "127.0.0.1"
    config.BackendAI.environments = [{"name": "python", "image": "jupyter/base:1"}]
    config.BackendAI.database_url = "postgresql://hub:hush@db/backendai"
    return config


def test_the_service_and_the_least_that_it_needs(c: Config) -> None:
    c.DockerSpawner.client_kwargs = {"base_url": "unix:///run/other.sock"}
    setup(c)
    (service,) = c.JupyterHub.services
    assert service["command"][-3:] == [sys.executable, "-m", "jupyterhub_backendai.service"]
    assert "hush" not in str(service["command"])
    config = unpack(service["environment"][VARIABLE])
    assert config.BackendAI == c.BackendAI
    assert config.Client == {"base_url": "unix:///run/other.sock"}
    (role,) = c.JupyterHub.load_roles
    assert role["scopes"] == ["list:users", "read:users:groups", "servers", "users:activity"]
    assert c.JupyterHub.extra_user_scopes == {ACCESS}
    assert c.JupyterHub.cleanup_servers is False
    hub = JupyterHub(config=c)  # the Hub's own traits take it
    assert hub.extra_user_scopes == {ACCESS}
    once = c.copy()
    setup(c)
    assert c == once


@pytest.mark.parametrize("appended", [False, True], ids=["set", "appended"])
def test_what_the_admin_has_stays(appended: bool, c: Config) -> None:
    mine = {"name": "mine", "url": "http://127.0.0.1:9"}
    role = {"name": "user", "scopes": ["self"]}
    if appended:
        c.JupyterHub.services.append(mine)
        c.JupyterHub.load_roles.append(role)
        del c.BackendAI["environments"]
        c.BackendAI.environments.append({"name": "python", "image": "jupyter/base:1"})
    else:
        c.JupyterHub.services = [mine]
        c.JupyterHub.load_roles = [role]
        c.JupyterHub.extra_user_scopes = {"shares!user"}
    c.JupyterHub.cleanup_servers = True
    setup(c)
    hub = JupyterHub(config=c)
    assert [service["name"] for service in hub.services] == ["mine", "backendai"]
    # An admin's own user role is all that the Hub reads, so it is there that the scope has to be.
    assert hub.load_roles[0]["scopes"] == ["self", ACCESS]
    assert hub.cleanup_servers is True
    if appended:
        config = unpack(hub.services[-1]["environment"][VARIABLE])
        assert config.BackendAI.environments == [{"name": "python", "image": "jupyter/base:1"}]


def test_without_environments_it_offers_what_docker_spawner_says(c: Config) -> None:
    c.BackendAI.environments = []
    c.DockerSpawner.image = "jupyter/base:2"
    c.DockerSpawner.allowed_images = {"new": "jupyter/base:2", "old": "jupyter/base:1"}
    c.Spawner.update({"cpu_limit": 2, "mem_limit": "3G"})
    setup(c)
    config = unpack(c.JupyterHub.services[-1]["environment"][VARIABLE])
    catalog = read_configuration(config).catalog()
    (environment,) = catalog.environments
    assert [(v.name, v.image) for v in environment.versions] == [
        ("new", "jupyter/base:2"),
        ("old", "jupyter/base:1"),
    ]
    assert (catalog.presets[0].cpu, catalog.presets[0].mem) == (2000, 3 * GIB)


def test_a_service_of_that_name_is_the_admins(c: Config) -> None:
    c.JupyterHub.services = [{"name": "backendai", "url": "http://127.0.0.1:9"}]
    setup(c)
    assert len(c.JupyterHub.services) == 1


def test_without_it_nothing_is_added(c: Config) -> None:
    c.BackendAI.service = False
    setup(c)
    assert not {"services", "load_roles", "extra_user_scopes"} & set(c.JupyterHub)


@pytest.mark.parametrize("url", ["9001", "https://127.0.0.1:9", "http://127.0.0.1/x", "http://"])
def test_an_address_that_is_none(url: str, c: Config) -> None:
    c.BackendAI.service_url = url
    with pytest.raises(SystemExit, match="service_url"):
        setup(c)


SESSIONS = "/services/backendai/"


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({}, SESSIONS),
        ({"base_url": "/jh/"}, f"/jh{SESSIONS}"),
        ({"base_url": "jh"}, f"/jh{SESSIONS}"),
        ({"bind_url": "http://:8000/jh/"}, f"/jh{SESSIONS}"),
        ({"bind_url": "http://:8000"}, SESSIONS),
    ],
)
def test_people_come_to_their_sessions(given: dict[str, str], address: str, c: Config) -> None:
    c.JupyterHub.update(given)
    setup(c)
    hub = JupyterHub(config=c)
    assert hub.default_url == address == hub.template_vars["backendai_sessions"]
    assert address.startswith(hub.base_url)


def test_an_admin_decides_where_people_come_to(c: Config) -> None:
    c.JupyterHub.default_url = "/hub/home"
    setup(c)
    assert c.JupyterHub.default_url == "/hub/home"


def test_people_come_to_their_server(c: Config) -> None:
    c.BackendAI.sessions_first = False
    setup(c)
    assert "default_url" not in c.JupyterHub


@pytest.mark.parametrize(
    ("given", "hook", "address"),
    [
        ("https://hub.example.org", None, "https://backendai--service.hub.example.org"),
        ("hub.example.org", "legacy", "https://services.hub.example.org"),
        (
            "http://hub:8000",
            lambda name, domain, kind: f"{kind}.{domain}",
            "http://service.hub:8000",
        ),
    ],
)
def test_with_hosts_for_users_the_link_is_by_the_hub_s_own_rule(
    given: str, hook: Any, address: str, c: Config
) -> None:
    """People come to their server first, as the Hub sends them to its own host only."""
    c.JupyterHub.update(subdomain_host=given, base_url="/jh/")
    if hook is not None:
        c.JupyterHub.subdomain_hook = hook
    setup(c)
    assert "default_url" not in c.JupyterHub
    assert c.JupyterHub.template_vars["backendai_sessions"] == f"{address}/jh{SESSIONS}"
    hub = JupyterHub(config=c)
    host = urlsplit(hub.subdomain_host).hostname
    domain = hub.subdomain_hook("backendai", host, kind="service")
    assert domain == urlsplit(address).hostname


@pytest.mark.parametrize("lazily", [False, True])
def test_the_menu_is_handed_over(lazily: bool, c: Config) -> None:
    """Of the services that the Hub shows, with whom it shows them to; not our own."""
    mine = {"name": "mine", "url": "http://127.0.0.1:9"}
    scope = "access:services!service=mine"
    if lazily:
        c.JupyterHub.services.append(mine)
        c.JupyterHub.extra_user_scopes.update({scope})
    else:
        c.JupyterHub.services, c.JupyterHub.extra_user_scopes = [mine], {scope}
    c.JupyterHub.base_url = "/jh/"
    setup(c)
    ours = JupyterHub(config=c).services[-1]
    look = unpack(ours["environment"][VARIABLE])[LOOK]
    (entry,) = look["services"]
    assert (entry["name"], entry["href"], entry["everybody"]) == (
        "mine",
        "/jh/services/mine/",
        True,
    )


@pytest.mark.parametrize("lazily", [False, True])
def test_the_pages_get_the_hubs_variables(lazily: bool, c: Config) -> None:
    given = {"announcement": "Exams", "theme": {"color": "red"}, "now": lambda user: 1}
    if lazily:
        c.JupyterHub.template_vars.update(given)
        c.JupyterHub.template_paths.append("/theirs")
    else:
        c.JupyterHub.template_vars, c.JupyterHub.template_paths = dict(given), ["/theirs"]
    setup(c)
    (service,) = c.JupyterHub.services
    look = unpack(service["environment"][VARIABLE])[LOOK]
    assert look["template_vars"] == {"announcement": "Exams", "theme": {"color": "red"}}
    assert look["template_paths"][0] == "/theirs"
    hub = JupyterHub(config=c)
    assert hub.template_vars["backendai_sessions"] == SESSIONS
    assert hub.template_vars["announcement"] == "Exams"
