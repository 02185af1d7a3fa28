"""Batch sessions on Docker: the word to go, and what their runner left in the container.

Through the archive API, which reads a container's own layer whether the container runs or not.
All calls are synchronous, for a thread of the host.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
import time
from contextlib import closing
from datetime import datetime

import docker
from docker.errors import NotFound

from .base import ContainerGone
from .batch import MAX_STATE, Outcome, is_result, outcome_of, started_at
from .docker_files import NotPlain, open_plain
from .settings import GO_FILE, STATE_DIR

STARTED_FILE = f"{STATE_DIR}/started.json"
RESULT_FILE = f"{STATE_DIR}/result.json"


def read_outcome(client: docker.APIClient, container: str) -> Outcome | None:
    """None while the command may still run or start. Raises `ContainerGone`."""
    result = _read(client, container, RESULT_FILE)
    out_of_memory = False
    if not is_result(result):
        # Not a word of the runner's: while it runs it may still put its own in that place.
        state = _state(client, container)
        if state["Running"] or state["Status"] == "created":
            return None
        out_of_memory = bool(state.get("OOMKilled"))
        result = _read(client, container, RESULT_FILE)  # it may have come while we looked
    return outcome_of(_read(client, container, STARTED_FILE), result, out_of_memory)


def read_started(client: docker.APIClient, container: str) -> datetime | None:
    """When the command began; None where it has not. Raises `ContainerGone`."""
    return started_at(_read(client, container, STARTED_FILE))


def put_go(client: docker.APIClient, container: str) -> None:
    """Lets the command start; once more changes nothing. Raises `ContainerGone`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo(posixpath.basename(GO_FILE))
        info.mode, info.mtime = 0o644, int(time.time())
        tar.addfile(info)
    try:
        client.put_archive(container, posixpath.dirname(GO_FILE), buffer.getvalue())
    except NotFound as error:
        raise ContainerGone(f"container {container} is not there") from error


def _read(client: docker.APIClient, container: str, path: str) -> bytes | None:
    """A file of the state; None where there is none, and empty for what its runner did not write:
    it is the user's to change."""
    try:
        file = open_plain(client, container, path, MAX_STATE)
    except NotPlain:
        return b""
    if file is None:
        return None
    with closing(file):
        return file.read(MAX_STATE)


def _state(client: docker.APIClient, container: str) -> dict[str, object]:
    try:
        return dict(client.inspect_container(container)["State"])
    except NotFound as error:
        raise ContainerGone(f"container {container} is not there") from error
