"""A container's log as Docker keeps it, as a stream of chunks."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import quote

import docker
import requests
from docker.errors import APIError, DockerException, NotFound
from docker.types import CancellableStream
from traitlets.log import get_logger
from urllib3.exceptions import HTTPError

from .base import AgentUnreachable, ContainerGone, EngineError
from .docker_tail import last_lines
from .logs import CHUNK, LogPart, cut
from .saved_logs import COMMAND, LogShelf
from .settings import OUTPUT_DIR

if TYPE_CHECKING:
    from .docker import DockerHost

CALL_TIMEOUT = 60  # seconds without a byte, of a log that is not followed
MOST_OUTPUT = 1024**3  # bytes; what a runner keeps is a tenth of it where nothing else is said
HEADER = 8  # bytes before each piece: which stream, three of nothing, the length in four
_PART = re.compile(r"(?:.*/)?(\d{20})\.log")


def container_log(host: DockerHost, container: str, part: LogPart) -> DockerLog:
    """For a thread. Raises `ContainerGone` and `AgentUnreachable`."""
    with _asking(host):
        return DockerLog(host.client, container, part)


def save(host: DockerHost, container: str, shelf: LogShelf, session_id: str, kernel: str) -> None:
    """For a thread; see `Engine.save_log`."""
    try:
        log = container_log(host, container, LogPart())
        with closing(log):
            shelf.save(log, session_id, kernel)
        with _asking(host):
            output = CommandOutput(host.client, container)
        with closing(output):
            if output.there:
                # Whoever puts more than the runner does into that directory is not waited for.
                most = max(MOST_OUTPUT, 2 * shelf.log_max)
                shelf.save(cut(iter(output), 0, most), session_id, kernel, COMMAND)
    except ContainerGone as gone:
        get_logger().debug("No log is saved: %s", gone)


@contextmanager
def _asking(host: DockerHost) -> Iterator[None]:
    try:
        with host.answering():
            yield
    except APIError as error:
        raise EngineError(f"Docker on {host.name} refused: {error}") from error


class DockerLog:
    """What a container wrote, its standard output and error as one, or its output alone. Raises
    `ContainerGone`."""

    def __init__(self, client: docker.APIClient, container: str, part: LogPart) -> None:
        self._part = part
        try:
            self._plain = bool(client.inspect_container(container)["Config"]["Tty"])
        except NotFound as error:
            raise ContainerGone(f"container {container} is not there") from error
        ask = partial(_ask, client, container)
        parameters = _parameters(part)
        if part.output_only and part.tail and not self._plain:
            parameters |= last_lines(part.tail, parameters, lambda more: _pieces(ask(more)))
        self._response = ask(parameters)

    def __iter__(self) -> Iterator[bytes]:
        chunks = self._response.raw.stream(CHUNK)
        plain = chunks if self._plain else without_headers(chunks)
        try:
            yield from cut(plain, self._part.offset, self._part.limit)
        except (HTTPError, OSError) as error:
            raise AgentUnreachable(f"the log broke off: {error}") from error

    def close(self) -> None:
        self._response.close()

    def cancel(self) -> None:
        """Through SSH this has no effect before the next line of the log."""
        # AttributeError: its socket is gone, because it has just ended by itself.
        with suppress(AttributeError, OSError, DockerException):
            CancellableStream(None, self._response).close()


def _ask(
    client: docker.APIClient, container: str, parameters: Mapping[str, Any]
) -> requests.Response:
    # Docker's own client reads a piece at a time, which is a line: ten times as slow.
    response = client.get(
        f"{client.base_url}/v{client.api_version}/containers/{quote(container, safe='')}/logs",
        params=parameters,
        stream=True,
        timeout=(CALL_TIMEOUT, None if parameters["follow"] else CALL_TIMEOUT),
    )
    if not response.ok:
        said = response.text[:500]  # which reads all of it, and frees the connection
        if response.status_code == 404:
            raise ContainerGone(f"container {container} is not there")
        raise EngineError(f"Docker gives no log: {said}")
    return response


def _pieces(response: requests.Response) -> Iterator[bytes]:
    with closing(response):
        yield from without_headers(response.raw.stream(CHUNK))


def _parameters(part: LogPart) -> dict[str, Any]:
    return {
        "stdout": 1,
        "stderr": int(not part.output_only),
        "follow": int(part.follow),
        "tail": "all" if part.tail is None else part.tail,
        "since": 0 if part.since is None else f"{part.since.timestamp():.9f}",
    }


def without_headers(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What was written, out of Docker's stream of pieces with a header each; many at once."""
    data = b""
    left = 0  # bytes of a piece that have not come yet
    for chunk in chunks:
        data += chunk
        pieces, at = [], 0
        while at < len(data):
            if not left:
                if len(data) - at < HEADER:
                    break
                left = int.from_bytes(data[at + 4 : at + HEADER], "big")
                at += HEADER
                continue
            piece = data[at : at + left]
            pieces.append(piece)
            at += len(piece)
            left -= len(piece)
        data = data[at:]
        if pieces:
            yield b"".join(pieces)


class CommandOutput:
    """What the runner of a batch session kept of its command's output: the end of it.

    Raises `ContainerGone`. `there` is False in a container without a runner.
    """

    def __init__(self, client: docker.APIClient, container: str) -> None:
        try:
            self._stream, _ = client.get_archive(container, OUTPUT_DIR, chunk_size=CHUNK)
        except NotFound:
            self._stream = None
            try:
                client.inspect_container(container)
            except NotFound as error:
                raise ContainerGone(f"container {container} is not there") from error
        self.there = self._stream is not None

    def __iter__(self) -> Iterator[bytes]:
        if self._stream is None:
            return
        try:
            with tarfile.open(fileobj=cast(IO[bytes], _File(self._stream)), mode="r|") as tar:
                yield from _in_order(tar)
        except (tarfile.TarError, requests.RequestException, OSError) as error:
            raise EngineError(f"the command's output broke off: {error}") from error

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def cancel(self) -> None:
        """Nothing: it waits for nobody."""


def _in_order(tar: tarfile.TarFile) -> Iterator[bytes]:
    """The runner's files one after the other; the archive has them by their names."""
    expected = 0
    for member in tar:
        named = _PART.fullmatch(member.name)
        if named is None or not member.isreg():
            continue
        if (missing := int(named[1]) - expected) > 0:
            yield f"[backendai] {missing} bytes of output are not kept\n".encode()
        expected = int(named[1]) + member.size
        file = tar.extractfile(member)
        while file is not None and (chunk := file.read(CHUNK)):
            yield chunk


class _File:
    """As much of a file as `tarfile` needs of a stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._data = chunks, b""

    def read(self, size: int) -> bytes:
        while len(self._data) < size and (chunk := next(self._chunks, b"")):
            self._data += chunk
        data, self._data = self._data[:size], self._data[size:]
        return data
