"""The images that DockerSpawner's own traits name, as the one environment of a site without any."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from ..model.catalog import Environment, Version


def own_environment(own: str, images: Any) -> Environment:
    """The one environment of a site that names images in DockerSpawner's way."""
    if not isinstance(images, Mapping) or not images:
        images = {"default": own}
    named = [(str(alias), str(image)) for alias, image in images.items()]
    if all(image != own for _, image in named):
        named.insert(0, ("default", own))
    versions = _versions(sorted(named, key=lambda pair: pair[1] != own))
    return Environment(name="default", title="Jupyter", icon="book", versions=versions)


def _versions(images: Sequence[tuple[str, str]]) -> tuple[Version, ...]:
    """Allowed images by their aliases. An alias may be anything, and in a list it is the image's
    whole name; what the name of a version cannot have becomes a space."""
    found: dict[str, Version] = {}
    for alias, image in images:
        short = re.sub(r"[^A-Za-z0-9_.+-]+", " ", alias.rpartition("/")[2])
        short = short.strip(" _.+-")[:56] or "image"
        names = (f"{short} {number}" if number > 1 else short for number in count(1))
        name = next(name for name in names if name not in found)
        found[name] = Version(name=name, image=image)
    return tuple(found.values())
