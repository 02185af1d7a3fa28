"""Starts what a compose.yaml says, through the Engine API: the keys that our example has.

A test machine has no Compose. What is not understood here fails, rather than being left out.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
import yaml

_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
_ABOUT_COMPOSE = {"build", "restart"}  # how it is built and kept up, not what is started


class Project:
    """One service, its networks and its volumes."""

    def __init__(self, path: Path, environment: Mapping[str, str], name: str) -> None:
        self.folder = path.parent
        self.docker = docker.from_env()
        text = _VARIABLE.sub(lambda match: _value(match, environment), path.read_text())
        model = yaml.safe_load(text)
        assert model.pop("name")
        self.name = name
        self.services, self.networks = model.pop("services"), model.pop("networks")
        self.volumes = {name: f"{self.name}_{name}" for name in model.pop("volumes")}
        assert not model, model
        ((self.service, _),) = self.services.items()

    def up(self) -> Any:
        """The service's container, running."""
        known = {network.name for network in self.docker.networks.list()}
        for network in self.networks.values():
            if network["name"] not in known:
                self.docker.networks.create(network["name"], driver="bridge")
        settings = dict(self.services[self.service])
        for key in _ABOUT_COMPOSE:
            settings.pop(key)
        address, outside, inside = settings.pop("ports")[0].split(":")
        (network,) = (self.networks[name]["name"] for name in settings.pop("networks"))
        container = self.docker.containers.create(
            settings.pop("image"),
            name=f"{self.name}-{self.service}-1",
            init=settings.pop("init"),
            environment=settings.pop("environment"),
            ports={f"{inside}/tcp": (address, int(outside))},
            volumes=[self._volume(line) for line in settings.pop("volumes")],
            tmpfs=dict.fromkeys(settings.pop("tmpfs"), ""),
            network=network,
            networking_config={network: self._endpoint()},
        )
        assert not settings, settings
        container.start()
        return container

    def down(self) -> None:
        """All of it is gone, the volumes too."""
        with contextlib.suppress(docker.errors.NotFound):
            self.docker.containers.get(f"{self.name}-{self.service}-1").remove(force=True, v=True)
        for network in self.networks.values():
            for found in self.docker.networks.list(names=[network["name"]]):
                found.remove()
        for name in self.volumes.values():
            with contextlib.suppress(docker.errors.NotFound):
                self.docker.volumes.get(name).remove(force=True)

    def _volume(self, line: str) -> str:
        source, _, rest = line.partition(":")
        if source in self.volumes:
            source = self.volumes[source]
        elif source.startswith("."):
            source = str((self.folder / source).resolve())
        return f"{source}:{rest}"

    def _endpoint(self) -> Any:
        return self.docker.api.create_endpoint_config(aliases=[self.service])


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    name, kind, rest = match.groups()
    if environment.get(name):
        return environment[name]
    assert kind != "?", f"{name}: {rest}"
    return rest or ""
