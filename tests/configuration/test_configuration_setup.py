"""`setup(c)`: fills in what is not set, appends, never overwrites; ends with a readable message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from traitlets.config import Config

import jupyterhub_backendai
from jupyterhub_backendai._data import data_paths
from jupyterhub_backendai.hub_setup import setup
from jupyterhub_backendai.site import reach


@pytest.fixture
def c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    """A configuration whose Hub has an address already, so that no Docker is asked for one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(JupyterHub, "_instance", None)
    config = Config()
    config.JupyterHub.hub_ip = "127.0.0.1"
    return config


def test_what_is_not_set_is_filled_in(c: Config, tmp_path: Path) -> None:
    setup(c)
    assert c.JupyterHub.spawner_class == "backendai"
    assert c.JupyterHub.allow_named_servers is True
    assert c.JupyterHub.concurrent_spawn_limit == 0
    assert c.JupyterHub.template_paths == list(data_paths())
    assert not list(tmp_path.iterdir())  # nothing is opened where no Hub starts


def test_what_is_set_stays(c: Config) -> None:
    mine: dict[str, Any] = {
        "spawner_class": "my.Spawner",
        "allow_named_servers": False,
        "concurrent_spawn_limit": 7,
        "hub_ip": "10.0.0.1",
    }
    c.JupyterHub.update(mine)
    c.JupyterHub.template_paths = ["/mine"]
    setup(c)
    assert {name: c.JupyterHub[name] for name in mine} == mine
    assert c.JupyterHub.template_paths == ["/mine", *data_paths()]  # the admin's own come first


def test_twice_is_once(c: Config) -> None:
    setup(c)
    once = c.copy()
    setup(c)
    assert c == once


@pytest.mark.parametrize("trait", reach.HUB_ADDRESS_TRAITS)
def test_an_address_that_is_set_is_not_looked_for(
    trait: str, c: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "hub_address", lambda c: pytest.fail("asked Docker"))
    del c.JupyterHub["hub_ip"]
    c.JupyterHub[trait] = "somewhere"
    setup(c)
    assert {t for t in reach.HUB_ADDRESS_TRAITS if t in c.JupyterHub} == {trait}


@pytest.mark.parametrize("found", [{"hub_ip": "172.17.0.1"}, None])
def test_an_address_that_is_not_set_is_found_or_left(
    found: dict[str, Any] | None, c: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "hub_address", lambda c: found)
    del c.JupyterHub["hub_ip"]
    setup(c)
    assert c.JupyterHub.get("hub_ip") == (found or {}).get("hub_ip")


def test_a_wrong_configuration_ends_the_start_with_its_message(c: Config) -> None:
    c.BackendAI.uid = 0
    before = c.JupyterHub.copy()
    with pytest.raises(SystemExit) as caught:
        setup(c)
    message = str(caught.value.code)
    assert message.startswith("jupyterhub_backendai cannot start with this configuration:\n")
    assert "c.BackendAI.uid = 0" in message
    assert c.JupyterHub == before


def test_a_start_that_fails_shows_no_traceback(tmp_path: Path) -> None:
    config = tmp_path / "jupyterhub_config.py"
    config.write_text(
        "c = get_config()  # noqa\n"
        "c.BackendAI.presets = [{'name': 's', 'cpu': 'two', 'mem': '1g'}]\n"
        "from jupyterhub_backendai import setup\n"
        "setup(c)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "jupyterhub", "-f", str(config)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "c.BackendAI.presets[0].cpu = 'two'" in done.stderr
    assert "Cores are a number such as 2 or 0.5." in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "backendai.sqlite").exists()


def test_template_paths_that_an_admin_appended_stay(c: Config) -> None:
    c.JupyterHub.template_paths.append("/srv/templates")
    setup(c)
    paths = c.JupyterHub.template_paths.to_dict()["extend"]
    assert paths == ["/srv/templates", *data_paths()]


def test_what_an_admin_imports() -> None:
    assert jupyterhub_backendai.setup is setup
    assert jupyterhub_backendai.__version__


def test_templates_and_static_files_are_there() -> None:
    templates, static = map(Path, data_paths())
    assert (templates / "backendai" / "options_form.html").is_file()
    assert (static / "backendai").is_dir()
