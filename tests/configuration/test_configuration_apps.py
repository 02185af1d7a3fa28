"""The traits about apps that are open to others."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets.config import Config

from jupyterhub_backendai.configuration import BackendAI, read_configuration
from jupyterhub_backendai.model.errors import ConfigurationError
from jupyterhub_backendai.model.policy import Policy


def read(**traits: Any) -> BackendAI:
    return read_configuration(Config({"BackendAI": traits}))


def test_nothing_is_open_by_itself() -> None:
    given = read()
    assert given.port_range() is None
    assert given.public_app_url == ""
    assert (Policy().public_apps, Policy().preferred_port) == (False, False)


@pytest.mark.parametrize(
    "traits",
    [
        {"app_ports": "30000-31000"},
        {"app_ports": " 8080 - 8080 "},
        {"app_ports_address": "::"},
        {"app_ports_host": "Apps.example.org"},
        {"app_ports_host": "10.0.0.5"},
        {"public_app_url": "https://*.apps.example.org"},
        {"public_app_url": "http://*.localhost:8011/", "public_app_listen": "[::1]:8011"},
        {"public_app_listen": "nothing", "public_app_url": ""},
    ],
)
def test_what_is_fine(traits: dict[str, Any]) -> None:
    read(**traits)


def test_a_range_of_ports() -> None:
    assert read(app_ports="30000-31000").port_range() == (30000, 31000)
    assert read(app_ports="8080-8080").port_range() == (8080, 8080)


@pytest.mark.parametrize(
    "traits",
    [
        {"app_ports": "30000"},
        {"app_ports": "31000-30000"},
        {"app_ports": "0-10"},
        {"app_ports": "1-65536"},
        {"app_ports": "a-b"},
        {"app_ports_address": "everywhere"},
        {"app_ports_host": "http://apps.example.org"},
        {"app_ports_host": "apps.example.org:80"},
        {"app_port_cool_down": -1},
        {"public_app_url": "https://apps.example.org"},
        {"public_app_url": "*.apps.example.org"},
        {"public_app_url": "https://x.*.example.org"},
        {"public_app_url": "https://*.apps.example.org/path"},
        {"public_app_url": "https://*.apps.example.org:99999"},
        {"public_app_url": "https://*.apps example.org"},
        {"public_app_url": "https://*.a.example", "public_app_listen": "8011"},
        {"public_app_url": "https://*.a.example", "public_app_listen": "127.0.0.1"},
        {"public_app_url": "https://*.a.example", "public_app_listen": "http://127.0.0.1:1"},
        {"public_app_url": "https://*.a.example", "public_app_listen": "127.0.0.1:99999"},
    ],
    ids=str,
)
def test_what_cannot_work(traits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(**traits)
    assert caught.value.trait.removeprefix("BackendAI.") in traits
    assert caught.value.remedy
