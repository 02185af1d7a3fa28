"""How much room there is on the disk where a Docker host keeps images. All of it is synchronous.

Docker itself does not say. On this machine the directory can be looked at. Elsewhere, and from a
container, `df` says it in a short container: its root is on that disk. What `df` says is believed
of images only that the admin offers: anybody else's may say what it likes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound, NotFound
from traitlets.log import get_logger

from .docker_commits import needs_layers, refused
from .images import Room

CONTAINERD = "/var/lib/containerd"  # where it keeps images that Docker does not keep itself
ANSWER = 30  # seconds for `df`
TRIES = 3  # images whose `df` is asked
_DF = re.compile(r"\s(\d+)\s+\d+\s+(\d+)\s+\d+%\s+/\s*$")  # blocks of 1024 bytes: in all, free


def room(
    client: docker.APIClient, local: bool, images: Sequence[str], labels: Mapping[str, str]
) -> Room | None:
    """The room there is; None where it cannot be known. `local`: the daemon is on this machine.
    `labels`: of the container that is made of one of `images`."""
    info = client.info()
    # containerd's store has an image as it is sent, and unpacked.
    copies = 2 if needs_layers(info) else 1
    found = _seen(info) if local else None
    if found is None:
        found = _told(client, images, labels)
    return None if found is None else Room(*found, copies)


def _seen(info: Mapping[str, Any]) -> tuple[int, int] | None:
    """Bytes free and in all, as this machine has it; None where its directories are not ours."""
    places = [str(info.get("DockerRootDir") or "")]
    if needs_layers(info):
        places.append(CONTAINERD)
    found = []
    for place in places:
        try:
            room = os.statvfs(place)
        except OSError:
            continue
        found.append((room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize))
    return min(found, default=None)


def _told(
    client: docker.APIClient, images: Sequence[str], labels: Mapping[str, str]
) -> tuple[int, int] | None:
    tried = 0
    for image in images:
        try:
            said = _df(client, image, labels)
        except (ImageNotFound, NotFound):
            continue  # it is not there, and is not downloaded for this
        except APIError as error:
            said = str(error.explanation or error)
            if (no := refused(said)) is not None and no.code == "no_room":
                raise no from error
        if found := _DF.search(said):
            return int(found[2]) * 1024, int(found[1]) * 1024
        get_logger().debug("The room on a disk is not told by %s: %s", image, said[:300])
        tried += 1
        if tried == TRIES:
            break
    return None


def _df(client: docker.APIClient, image: str, labels: Mapping[str, str]) -> str:
    """What `df` says in a container of that image, all of which but its files is replaced."""
    made = client.create_container(
        image,
        command=["-P", "-k", "/"],
        entrypoint=["df"],
        user="0",
        environment={"LC_ALL": "C", "NVIDIA_VISIBLE_DEVICES": "void"},
        healthcheck={"Test": ["NONE"]},
        host_config={"NetworkMode": "none", "CapDrop": ["ALL"], "ReadonlyRootfs": True},
        labels=dict(labels),
    )
    try:
        try:
            client.start(made["Id"])
        except NotFound as error:
            return str(error.explanation or error)  # the image has no such program
        client.wait(made["Id"], timeout=ANSWER)
        return client.logs(made["Id"]).decode("utf-8", "replace")
    finally:
        # With the volumes that its image asks for.
        client.remove_container(made["Id"], force=True, v=True)
