"""What on a Docker host is a session's: found by labels that its image cannot have given it.

A container inherits the labels of its image, and anybody can write any label into an image; so
could a container that somebody else made from it look like ours. Volumes inherit nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import docker
from docker.errors import APIError, NotFound
from traitlets.log import get_logger

from .base import LABEL_HUB, LABEL_SESSION, EngineError

GOING_AWAY = 30  # seconds for a removal that somebody else began
PAUSED = "paused"  # the state of a container that stands still


def is_up(row: Mapping[str, Any]) -> bool:
    """Whether the container of a listing's row runs, or stands still and will go on: then it has
    its processes, its cores and its GPUs all the same."""
    return row.get("State") in {"running", PAUSED}


class Belongings:
    """The containers and volumes of one hub's sessions on one host. All calls are synchronous."""

    def __init__(self, hub_id: str) -> None:
        self.hub_id = hub_id
        self._in_images: dict[str, str] = {}  # label of a session, by the id of an image

    def labelled_by_us(
        self, client: docker.APIClient, image_id: str, labels: Mapping[str, str] | None
    ) -> bool:
        """Whether a container of that image was given its session's label when it was made."""
        session = (labels or {}).get(LABEL_SESSION, "")
        if not session:
            return False
        if image_id not in self._in_images:
            self._in_images[image_id] = _session_of_image(client, image_id)
        return self._in_images[image_id] != session

    def all_containers(self, client: docker.APIClient) -> list[dict[str, Any]]:
        """Rows of all sessions' containers there are, of other hubs too."""
        return self._containers(client, LABEL_HUB)

    def containers(
        self, client: docker.APIClient, session_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Rows of our hub's containers, or of one session's only."""
        return self._containers(client, *self._filters(session_id))

    def volumes(
        self, client: docker.APIClient, session_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Rows of our hub's volumes, or of one session's only."""
        found = client.volumes(filters={"label": self._filters(session_id)})
        return list(found["Volumes"] or ())

    def has_home(self, client: docker.APIClient, session_id: str) -> bool:
        """Whether a session's home is here."""
        return bool(self.volumes(client, session_id))

    def sessions(self, client: docker.APIClient) -> set[str]:
        """Ids of the sessions that have something here, as the labels say."""
        rows = [*self.containers(client), *self.volumes(client)]
        return {(row["Labels"] or {}).get(LABEL_SESSION, "") for row in rows} - {""}

    def session_of(self, client: docker.APIClient, name: str) -> str | None:
        """Whose the container of that name is: the id of a session of this hub, "" for anybody
        else, None where there is none (any more)."""
        try:
            found = client.inspect_container(name)
        except NotFound:
            return None
        labels = found["Config"].get("Labels") or {}
        if labels.get(LABEL_HUB) != self.hub_id:
            return ""
        ours = self.labelled_by_us(client, found["Image"], labels)
        return str(labels[LABEL_SESSION]) if ours else ""

    def stop(self, client: docker.APIClient, session_id: str, grace: int) -> None:
        """Ends a session's containers, by force after `grace` seconds. One that stands still is
        killed at once: Docker would let it go on for as long as it may end by itself."""
        for row in self.containers(client, session_id):
            seconds = 0 if row.get("State") == PAUSED else grace
            try:
                if seconds <= 0:
                    _kill(client, row["Id"])
                client.stop(row["Id"], timeout=seconds)
            except NotFound:
                continue

    def remove(self, client: docker.APIClient, session_id: str, keep_home: bool = False) -> int:
        """Removes a session's containers and then its volumes, unless they are kept; returns how
        many containers."""
        rows = self.containers(client, session_id)
        for row in rows:
            _remove_container(client, row["Id"])
        for row in () if keep_home else self.volumes(client, session_id):
            _remove_volume(client, row["Name"])
        return len(rows)

    def _containers(self, client: docker.APIClient, *labels: str) -> list[dict[str, Any]]:
        rows = client.containers(all=True, filters={"label": list(labels)})
        return [r for r in rows if self.labelled_by_us(client, r["ImageID"], r["Labels"])]

    def _filters(self, session_id: str | None) -> list[str]:
        session = [] if session_id is None else [f"{LABEL_SESSION}={session_id}"]
        return [f"{LABEL_HUB}={self.hub_id}", *session]


def _session_of_image(client: docker.APIClient, image_id: str) -> str:
    try:
        found = client.inspect_image(image_id)
    except NotFound:
        return ""  # removed by force below its container, whose labels are all there is to go by
    return str(((found.get("Config") or {}).get("Labels") or {}).get(LABEL_SESSION, ""))


def _kill(client: docker.APIClient, container: str) -> None:
    try:
        client.kill(container)
    except APIError as error:
        if error.status_code != 409:  # 409: it does not run
            raise


def _remove_container(client: docker.APIClient, container: str) -> None:
    try:
        client.remove_container(container, force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:  # 409: its removal is in progress already
            raise
        _await_gone(client, container)


def _await_gone(client: docker.APIClient, container: str) -> None:
    """Until somebody else's removal of the container is through."""
    deadline = time.monotonic() + GOING_AWAY
    while time.monotonic() < deadline:
        try:
            client.inspect_container(container)
        except NotFound:
            return
        time.sleep(0.05)
    raise EngineError(
        f"Container {container} does not go away within {GOING_AWAY} seconds; it is tried again. "
        "If it stays, look at it with `docker inspect`, and restart Docker."
    )


def _remove_volume(client: docker.APIClient, volume: str) -> None:
    try:
        client.remove_volume(volume, force=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:  # 409: somebody else's container has it too
            raise
        get_logger().warning("Volume %s is in use; it is removed when it is free", volume)
