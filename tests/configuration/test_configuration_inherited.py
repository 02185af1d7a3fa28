"""What an admin set for DockerSpawner and a session cannot have is refused or said, not lost."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from docker.tls import TLSConfig
from jupyterhub.app import JupyterHub
from traitlets.config import Config

from jupyterhub_backendai.hub_setup import setup
from jupyterhub_backendai.model.errors import ConfigurationError
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.spawner.docker import DockerSessionSpawner

PRESETS = [{"name": "small", "cpu": 1, "mem": "1g"}]
GROUPS = {"staff": {"groups": ["staff"], "spawner_override": {"mem_limit": "8G"}}}


class Mine(DockerSessionSpawner):
    """An admin's own."""

    async def stop_object(self) -> None:
        raise AssertionError("never called")


@pytest.fixture
def c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(JupyterHub, "_instance", None)
    config = Config()
    config.JupyterHub.hub_ip = "127.0.0.1"
    return config


HOME = {"source": "x", "target": "/home/./work", "type": "volume"}
# By trait: its section, a value, what the message says of it, and what its last line says to do.
REFUSED: dict[str, tuple[str, Any, str, str]] = {
    "internal_ssl": ("JupyterHub", True, "c.JupyterHub.internal_ssl = True", "Leave it out"),
    "volumes": ("DockerSpawner", {"/srv": "/home/work"}, ".volumes", "/home/work/data"),
    "read_only_volumes": ("DockerSpawner", {"x": {"bind": "/home/work/"}}, "volumes", "folder"),
    "mounts": ("Mine", [HOME], "c.Mine.mounts", "below"),
    "extra_host_config": ("DockerSpawner", {"mem_limit": "4g"}, "['mem_limit'] = '4g'", "presets"),
    "extra_create_kwargs": ("DockerSpawner", {"image": "x"}, "['image'] = 'x'", "environments"),
    "group_overrides": ("Spawner", GROUPS, "group_overrides['staff']", "group_policies"),
}


@pytest.mark.parametrize("trait", REFUSED)
def test_what_a_session_cannot_have_ends_the_start(trait: str, c: Config) -> None:
    section, value, told, remedy = REFUSED[trait]
    c.BackendAI.presets = PRESETS
    c.JupyterHub.spawner_class = Mine
    c[section][trait] = value
    with pytest.raises(SystemExit) as caught:
        setup(c)
    assert told in str(caught.value.code)
    assert remedy in str(caught.value.code).splitlines()[-1]


@pytest.mark.parametrize(
    "name", ["nano_cpus", "cpu_quota", "shm_size", "auto_remove", "memswap_limit", "cpuset_cpus"]
)
def test_what_was_granted_is_not_in_a_host_config(name: str, c: Config) -> None:
    c.BackendAI.pin_cores = True
    c.DockerSpawner.extra_host_config = {name: 1}
    with pytest.raises(SystemExit, match=name):
        setup(c)


def test_what_goes_on_working_is_let_through(c: Config, caplog: pytest.LogCaptureFixture) -> None:
    c.DockerSpawner.volumes = {"/srv/data": "/home/work/data", "/opt/x": {"bind": "/home"}}
    c.DockerSpawner.extra_host_config = {"cpu_period": 50_000, "network_mode": "x"}
    c.DockerSpawner.mem_limit = "4G"  # the default preset
    c.Spawner.group_overrides = GROUPS
    with caplog.at_level(logging.WARNING):
        setup(c)
    assert caplog.text == ""


def test_what_has_no_effect_is_said(c: Config, caplog: pytest.LogCaptureFixture) -> None:
    c.BackendAI.presets = PRESETS
    c.DockerSpawner.mem_limit = "4G"
    c.Mine.remove = False
    c.JupyterHub.spawner_class = Mine
    with caplog.at_level(logging.WARNING):
        setup(c)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert said[0].startswith("c.Mine.remove = False has no effect")
    assert said[1].startswith("c.DockerSpawner.mem_limit has no effect beside c.BackendAI.presets")
    assert said[2].startswith("Mine.stop_object is never called")


def test_a_spawner_that_starts_no_sessions(c: Config) -> None:
    c.JupyterHub.spawner_class = "simple"
    with pytest.raises(SystemExit, match="derive it from"):
        setup(c)


@pytest.mark.parametrize("given", [None, "backendai", Mine, "my.Spawner"])
def test_the_site_of_the_configured_spawner_is_opened(
    given: Any, c: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[type] = []
    monkeypatch.setitem(setup.__globals__, "open_site", lambda c, spawner: opened.append(spawner))
    if given is not None:
        c.JupyterHub.spawner_class = given
    setup(c)
    # One that cannot be found is the Hub's to complain about.
    assert opened == [Mine if given is Mine else DockerSessionSpawner]


# ---- two spawners --------------------------------------------------------------------------------


def test_one_site_for_one_database(c: Config) -> None:
    c.BackendAI.presets = PRESETS
    c.Mine.client_kwargs = {"base_url": "unix:///elsewhere.sock"}
    site = DockerSessionSpawner.site_of(c)
    try:
        assert DockerSessionSpawner.site_of(c) is site
        with pytest.raises(ConfigurationError, match="Two kinds of spawner") as caught:
            Mine.site_of(c)
        assert "c.BackendAI.database_url" in str(caught.value)
        del c["Mine"]
        assert Mine.site_of(c) is site
    finally:
        Site._sites.clear()
        site.store.close()


def test_copies_of_a_configuration_are_one_site(c: Config) -> None:
    c.DockerSpawner.client_kwargs = {"base_url": "tcp://x:1", "tls": TLSConfig(verify=False)}
    site = DockerSessionSpawner.site_of(c)
    try:
        assert DockerSessionSpawner.site_of(c.copy()) is site
    finally:
        Site._sites.clear()
        site.store.close()
