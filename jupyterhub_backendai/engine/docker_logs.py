"""A container's log as Docker keeps it, as a stream of chunks."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.types import CancellableStream
from traitlets.log import get_logger
from urllib3.exceptions import HTTPError

from .base import AgentUnreachable, ContainerGone, EngineError
from .docker_files import NotPlain, look, open_plain
from .logs import CHUNK, LogPart, cut
from .saved_logs import COMMAND, LogShelf
from .settings import LOG_MAX, OUTPUT_DIR

if TYPE_CHECKING:
    from .docker import DockerHost

CALL_TIMEOUT = 60  # seconds without a byte, of a log that is not followed
HEADER = 8  # bytes before each piece: which stream, three of nothing, the length in four
# What the runner keeps, the older first; each begins with a line of how many bytes came before it.
OUTPUT_FILES = (f"{OUTPUT_DIR}/older.log", f"{OUTPUT_DIR}/newer.log")
BEFORE = 21  # bytes of that line
_BEFORE = re.compile(rb"(\d{20})\n")


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
            runner = look(host.client, container, OUTPUT_DIR) is not None
        if runner:
            # At least the default: it may have begun when more of it was to be kept.
            output = command_output(host, container, max(LOG_MAX, shelf.log_max))
            with closing(output):
                shelf.save(output, session_id, kernel, COMMAND)
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
    """What a container wrote, its standard output and error as one. Raises `ContainerGone`."""

    def __init__(self, client: docker.APIClient, container: str, part: LogPart) -> None:
        self._part = part
        try:
            self._plain = bool(client.inspect_container(container)["Config"]["Tty"])
        except NotFound as error:
            raise ContainerGone(f"container {container} is not there") from error
        # Docker's own client reads a piece at a time, which is a line: ten times as slow.
        self._response = client.get(
            f"{client.base_url}/v{client.api_version}/containers/{quote(container, safe='')}/logs",
            params=_parameters(part),
            stream=True,
            timeout=(CALL_TIMEOUT, None if part.follow else CALL_TIMEOUT),
        )
        if not self._response.ok:
            said = self._response.text[:500]  # which reads all of it, and frees the connection
            if self._response.status_code == 404:
                raise ContainerGone(f"container {container} is not there")
            raise EngineError(f"Docker gives no log: {said}")

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


def _parameters(part: LogPart) -> dict[str, Any]:
    return {
        "stdout": 1,
        "stderr": 1,
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


def command_output(host: DockerHost, container: str, most: int) -> Generator[bytes]:
    """What the runner of a batch session kept of its command's output: the end of it, in files of
    at most `most` bytes. Raises `ContainerGone`, `EngineError`."""
    expected = 0
    for path in OUTPUT_FILES:
        try:
            with _asking(host):
                file = open_plain(host.client, container, path, BEFORE + most)
        except NotPlain as error:
            yield f"[backendai] This part of the output is lost: {error}\n".encode()
            continue
        if file is None:
            continue
        with closing(file):
            before = _BEFORE.fullmatch(file.read(BEFORE))
            if before is None:
                continue
            if (missing := int(before[1]) - expected) > 0:
                yield f"[backendai] {missing} bytes of output are not kept\n".encode()
            expected = int(before[1])
            while chunk := file.read(CHUNK):
                expected += len(chunk)
                yield chunk
