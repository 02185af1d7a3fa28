"""README: its configuration works, fits on a screen, and ends as it says; its picture is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jupyterhub.app import JupyterHub
from traitlets.config import Config

from jupyterhub_backendai.configuration import read_configuration
from jupyterhub_backendai.site import reach

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
(CODE,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_configuration_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(JupyterHub, "_instance", None)
    monkeypatch.setattr(reach, "hub_address", lambda c: None)
    c = Config()
    exec(compile(CODE, "README.md", "exec"), {"c": c})
    configuration = read_configuration(c)
    assert [e.name for e in configuration.catalog().environments] == ["scipy", "r"]
    assert configuration.policies().of("x", ["staff"]).max_sessions == 10
    assert c.JupyterHub.spawner_class == "backendai"


def test_the_configuration_fits_on_a_screen() -> None:
    lines = CODE.strip().splitlines()
    assert len(lines) < 40
    assert max(map(len, lines)) <= 100
    assert lines[-1] == "setup(c)"


def test_the_commands_are_there() -> None:
    targets = re.findall(r"^(\w[\w-]*):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"`?make (\w+)`?", README):
        assert target in targets


def test_the_pictures_are_there() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")
