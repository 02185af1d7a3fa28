"""What the trait of the registry of users' images refuses: the trait, the value and the remedy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from jupyterhub_backendai.configuration import BackendAI, read_configuration
from jupyterhub_backendai.engine.images import Login, RegistryRefused
from jupyterhub_backendai.model.errors import ConfigurationError
from jupyterhub_backendai.model.images import reference_of
from jupyterhub_backendai.model.rules import check_image
from jupyterhub_backendai.site.registry import Registry


def read(**registry: Any) -> BackendAI:
    return read_configuration(Config({"BackendAI": {"image_registry": registry}}))


def test_without_one_images_stay_where_they_are_made() -> None:
    registry = Registry(read().registry())
    assert registry.prefix == ""
    assert not registry.has("backendai/base:customized_1")
    assert asyncio.run(registry.login("backendai/base:customized_1")) is None


@pytest.mark.parametrize(
    "prefix",
    ["localhost:5000", "registry.example.org", "registry.example.org:5000/a/b-c/d_e", "10.0.0.1/x"],
)
def test_a_place_and_the_names_of_images_there(prefix: str) -> None:
    registry = Registry(read(prefix=prefix).registry())
    for base in ("quay.io/jupyter/base:1", f"{'long' * 60}:1", "base@sha256:" + "a" * 64):
        reference = reference_of(base, "f" * 32, registry.prefix)
        assert check_image(reference) == reference
        assert registry.has(reference)
        assert registry.login_for(reference) is None
    assert not registry.has(f"{prefix}.evil.example/base:1")


@pytest.mark.parametrize(
    ("given", "trait", "problem"),
    [
        ({"user": "hub"}, "image_registry.prefix", "missing"),
        ({"prefix": "lab"}, "image_registry.prefix", "address"),
        ({"prefix": "https://registry.example.org"}, "image_registry.prefix", "address"),
        ({"prefix": "registry.example.org/"}, "image_registry.prefix", "address"),
        ({"prefix": "registry.example.org/Lab"}, "image_registry.prefix", "address"),
        ({"prefix": "registry.example.org/lab:1"}, "image_registry.prefix", "address"),
        ({"prefix": "registry.example.org/" + "x" * 200}, "image_registry.prefix", "address"),
        ({"prefix": "r.example", "user": "hub"}, "image_registry", "neither"),
        ({"prefix": "r.example", "password_file": "/etc/x"}, "image_registry", "neither"),
        ({"prefix": "r.example", "password": "x"}, "image_registry.password", "no key"),
        (
            {"prefix": "r.example", "user": "hub", "password_file": "secret"},
            "image_registry.password_file", "absolute",
        ),
        (
            {"prefix": "r.example", "user": "hub", "password_file": "/nowhere/at/all"},
            "image_registry.password_file", "No such file",
        ),
        (
            {"prefix": "r.example", "user": "hub", "password_file": "/tmp"},
            "image_registry.password_file", "absolute|no file",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(given: dict[str, Any], trait: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as error:
        read(**given)
    assert error.value.trait == f"BackendAI.{trait}"
    assert error.value.remedy


def test_the_file_is_for_the_hub_alone_and_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    file.chmod(0o644)
    given = {"prefix": "r.example/lab", "user": "hub", "password_file": str(file)}
    with pytest.raises(ConfigurationError, match="Everybody") as error:
        read(**given)
    assert error.value.remedy == f"Run: chmod 600 {file}"
    file.chmod(0o640)
    registry = Registry(read(**given).registry())
    login = asyncio.run(registry.login("r.example/lab/base:1"))
    # What was put there before the site had another place, or in a registry that it had before.
    assert asyncio.run(registry.login("r.example/base:1")) == login
    for elsewhere in ("old.example/lab/base:1", "r.example:5000/lab/base:1", "r.example.evil/b:1"):
        assert asyncio.run(registry.login(elsewhere)) is None
    assert login == Login("hub", "first")
    assert "first" not in repr(login)
    file.write_text("second\r\n")
    assert registry.login_for("r.example/lab/base:1") == Login("hub", "second")
    assert registry.login_for("r.example/other/base:1") is None
    file.chmod(0o644)
    with pytest.raises(RegistryRefused, match="Everybody"):
        registry.login_for("r.example/lab/base:1")
