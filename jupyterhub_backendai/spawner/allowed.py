"""What a site without a catalog offers: the images and limits that DockerSpawner's traits name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from ..model.catalog import Environment, Preset, Version
from ..model.slots import GIB


def of_images(own: str, allowed: Any) -> Environment:
    """One environment of all allowed images, `own` first. `allowed` is as DockerSpawner has it."""
    images = allowed if isinstance(allowed, Mapping) and allowed else {"default": own}
    named = [(str(alias), str(image)) for alias, image in images.items()]
    if all(image != own for _, image in named):
        named.insert(0, ("default", own))
    versions = _versions(sorted(named, key=lambda pair: pair[1] != own))
    return Environment(name="default", title="Jupyter", icon="book", versions=versions)


def of_limits(cpu: float | None, mem: int | None) -> Preset:
    """The limits (cores, bytes) as the one preset."""
    return Preset(name="default", cpu=int((cpu or 1) * 1000) / 1000, mem=mem or GIB)


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
