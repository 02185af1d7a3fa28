"""Batch sessions on Docker: the word to go, and what their runner left in the container.

Through the archive API, which reads a container's own layer whether the container runs or not.
All calls are synchronous, for a thread of the host.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
import time
from datetime import datetime

import docker
from docker.errors import NotFound

from .base import ContainerGone, EngineError
from .batch import MAX_STATE, Outcome, outcome_of, started_at
from .settings import GO_FILE, STATE_DIR

STARTED_FILE = f"{STATE_DIR}/started.json"
RESULT_FILE = f"{STATE_DIR}/result.json"


def read_outcome(client: docker.APIClient, container: str) -> Outcome | None:
    """None while the command may still run or start. Raises `ContainerGone`."""
    result = read_small(client, container, RESULT_FILE)
    out_of_memory = False
    if result is None:
        state = _state(client, container)
        if state["Running"] or state["Status"] == "created":
            return None
        out_of_memory = bool(state.get("OOMKilled"))
        result = read_small(client, container, RESULT_FILE)  # it may have come while we looked
    return outcome_of(read_small(client, container, STARTED_FILE), result, out_of_memory)


def read_started(client: docker.APIClient, container: str) -> datetime | None:
    """When the command began; None where it has not. Raises `ContainerGone`."""
    return started_at(read_small(client, container, STARTED_FILE))


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


def read_small(client: docker.APIClient, container: str, path: str) -> bytes | None:
    """A small file of a container; None where there is none. Raises `ContainerGone`, and
    `EngineError` for what is no small file: it is the user's to write."""
    try:
        stream, found = client.get_archive(container, path)
    except NotFound:
        _state(client, container)
        return None
    try:
        if found["size"] > MAX_STATE:
            return b""
        data = b""
        for chunk in stream:
            data += chunk
            if len(data) > 2 * MAX_STATE:
                return b""
    finally:
        stream.close()
    return _only_file(data)


def _only_file(data: bytes) -> bytes:
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            member = tar.next()
            file = tar.extractfile(member) if member is not None and member.isreg() else None
            return b"" if file is None else file.read()
    except tarfile.TarError as error:
        raise EngineError(f"the engine's archive cannot be read: {error}") from error


def _state(client: docker.APIClient, container: str) -> dict[str, object]:
    try:
        return dict(client.inspect_container(container)["State"])
    except NotFound as error:
        raise ContainerGone(f"container {container} is not there") from error
