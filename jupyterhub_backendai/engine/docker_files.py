"""Plain files of a container, by Docker's archive API, whether it runs or not.

Whoever works in the container may have put anything in their place, and Docker holds the container
for as long as it packs what was asked for: so a path is looked at first, only a plain file of a
bounded size is asked for, and what is not read to its end is hung up on.

All calls are synchronous, for a thread of the host.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from functools import partial
from typing import IO, Any
from urllib.parse import quote

import docker
import requests
from docker.errors import NotFound
from docker.utils import decode_json_header
from urllib3.exceptions import HTTPError

from .base import ContainerGone, EngineError
from .logs import CHUNK

CALL_TIMEOUT = 60  # seconds without a byte
_FOUND = "X-Docker-Container-Path-Stat"
# Go's os.ModeType: directory, link, device, pipe, socket, character device, irregular.
_NOT_PLAIN = 1 << 31 | 1 << 27 | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19


class NotPlain(EngineError):
    """What is there is no plain file, or larger than it can be."""


class PlainFile:
    """A file of a container, to be read once and closed, read or not. Raises `EngineError`."""

    def __init__(self, response: requests.Response, path: str, most: int) -> None:
        self._response, self._path = response, path
        try:
            # Not as a context: there is nothing to be closed but the response.
            tar = tarfile.open(fileobj=response.raw, mode="r|", bufsize=CHUNK)  # noqa: SIM115
            member = tar.next()
            # Once more: it may be another one than was looked at.
            if member is None or not member.isreg() or member.size > most:
                raise NotPlain(f"{path} is no plain file of at most {most} bytes any more")
            self._file: IO[bytes] | None = tar.extractfile(member)
        except (tarfile.TarError, HTTPError, OSError) as error:
            raise EngineError(f"{path} cannot be read: {error}") from error

    def read(self, size: int) -> bytes:
        """The next bytes; fewer at its end only."""
        try:
            return b"" if self._file is None else self._file.read(size)
        except (tarfile.TarError, HTTPError, OSError) as error:
            raise EngineError(f"{self._path} broke off: {error}") from error

    def close(self) -> None:
        """Docker stops packing at its next write, which the connection does not take any more."""
        self._response.close()


def open_plain(client: docker.APIClient, container: str, path: str, most: int) -> PlainFile | None:
    """A plain file of at most `most` bytes; None where there is none. Raises `ContainerGone`,
    `NotPlain`, `EngineError`."""
    found = look(client, container, path)
    if found is None:
        return None
    if found["mode"] & _NOT_PLAIN or found["size"] > most:
        raise NotPlain(f"{path} is no plain file of at most {most} bytes")
    response = _ask(client, partial(client.get, stream=True), container, path)
    if response is None:
        return None
    try:
        return PlainFile(response, path, most)
    except BaseException:
        response.close()
        raise


def look(client: docker.APIClient, container: str, path: str) -> dict[str, Any] | None:
    """What Docker says of a path (`name`, `size`, `mode` as Go has it, `linkTarget`); None where
    there is nothing. Reads no byte of it. Raises `ContainerGone`, `EngineError`."""
    response = _ask(client, client.head, container, path)
    return None if response is None else dict(decode_json_header(response.headers[_FOUND]))


def _ask(
    client: docker.APIClient, method: Callable[..., requests.Response], container: str, path: str
) -> requests.Response | None:
    # Not docker-py's get_archive: closing what that gives leaves the connection open.
    response = method(
        f"{client.base_url}/v{client.api_version}/containers/{quote(container, safe='')}/archive",
        params={"path": path},
        headers={"Accept-Encoding": "identity"},
        timeout=CALL_TIMEOUT,
    )
    if response.ok:
        return response
    said = response.text[:500] or response.reason  # which reads all of it: the connection is free
    if response.status_code != 404:
        raise EngineError(f"Docker gives no {path}: {said}")
    try:
        state = client.inspect_container(container)["State"]
    except NotFound as error:
        raise ContainerGone(f"container {container} is not there") from error
    # Its files go before it does: what is not found then may have been there.
    if state.get("Dead") or state.get("Status") in {"removing", "dead"}:
        raise ContainerGone(f"container {container} is being removed")
    return None
