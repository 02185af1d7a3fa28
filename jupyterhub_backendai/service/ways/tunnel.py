"""What the service asks of a session's own server about its apps, and the tunnel to one of them.

All of it with the key that was put into the container, at the address under which the Hub reaches
it. Whatever comes from there was written by a user's programs: it is read within bounds.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import aiohttp
from jupyterhub.utils import url_escape_path, url_path_join
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..._within import within
from ...model.errors import FieldError, RequestError, shown
from ...store import Kernel, OpenWay, Session
from .streams import Broken, Stream, connect

CONNECT = 10.0  # seconds until a server that does not answer counts as away
ANSWER = 20.0  # seconds for what it knows at once
START = 60.0  # seconds for an app that is started
MOST_HEAD = 64 * 1024  # bytes
MOST_ANSWER = 1024 * 1024  # bytes
KEY = "X-Backendai-Key"
PROTOCOL = "backendai-tcp"
OLD = (
    "This session has nothing that opens apps: it was started before this was possible, or its "
    "image does not run Jupyter's server. Launch it again, or open the app in JupyterLab."
)


class Unreachable(Exception):
    """An app cannot be reached: `code` is a word for programs, `message` is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session's server is: its address as the Hub reaches it, the path of what opens apps
    there, and the key."""

    address: str
    path: str
    key: str = field(repr=False)

    @classmethod
    def of(cls, owner: str, server_name: str, address: str | None, key: str | None) -> Place:
        """The place of a server. Raises `Unreachable` where it is not known."""
        if not address or not key:
            raise Unreachable("not_known", OLD)
        name = [url_escape_path(server_name)] if server_name else []
        base = os.environ["JUPYTERHUB_BASE_URL"]
        path = url_path_join(base, "user", url_escape_path(owner), *name, "backendai", "/")
        return cls(address, path, key)

    @classmethod
    def of_session(cls, session: Session, kernels: list[Kernel]) -> Place:
        """The place of a session's server. Raises `Unreachable`."""
        address, key = (kernels[0].address, kernels[0].apps_key) if kernels else (None, None)
        return cls.of(session.owner, session.server_name, address, key)

    @classmethod
    def of_way(cls, way: OpenWay) -> Place:
        """The place that a way leads to. Raises `Unreachable`."""
        if not way.running:
            raise Unreachable("not_running", "The session does not run at the moment.")
        return cls.of(way.owner, way.server_name, way.address, way.apps_key)

    def url(self, *steps: str) -> str:
        """The address of one of its routes."""
        return f"http://{self.address}{self._path(*steps)}"

    def _path(self, *steps: str) -> str:
        return self.path + "/".join(quote(step, safe="") for step in steps)

    def head(self, app: str) -> bytes:
        """The request for a tunnel to an app."""
        lines = (
            f"GET {self._path('tunnel', app)} HTTP/1.1", f"Host: {self.address}",
            "Connection: Upgrade", f"Upgrade: {PROTOCOL}", f"{KEY}: {self.key}",
        )  # fmt: skip
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


MOST_ITEMS = 200
Text = Field(default="", max_length=2000)
Note = Annotated[str, Field(max_length=500)]


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Asked(_Said):
    """What an app asks before it starts."""

    name: str = Field(max_length=100)
    title: str = Text
    value: str = Text


class Item(_Said):
    """An app as the session's server tells of it."""

    name: str = Field(min_length=1, max_length=100)
    title: str = Text
    category: str = Text
    icon: str = Text
    protocol: str = Field(default="http", pattern="^(http|tcp)$")
    port: int | None = Field(default=None, ge=1, le=65535)
    path: str = Text
    available: bool = False
    why: str = Text
    notes: list[Note] = Field(default=[], max_length=50)
    shareable: bool = False
    asks: list[Asked] = Field(default=[], max_length=20)
    running: bool = False
    listening: bool = False


def _each_once(items: list[Item]) -> list[Item]:
    if len({item.name for item in items}) < len(items):
        raise ValueError("a name twice")
    return items


_ITEMS: TypeAdapter[list[Item]] = TypeAdapter(
    Annotated[list[Item], Field(max_length=MOST_ITEMS), AfterValidator(_each_once)]
)


async def open_tunnel(place: Place, app: str) -> Stream:
    """A connection to an app's port. Raises `Unreachable`."""
    host, port = _address(place)
    try:
        stream = await connect(host, port, CONNECT)
    except Broken as error:
        raise _away(error) from None
    try:
        await stream.send(place.head(app))
        head = await within(ANSWER, stream.read_until(b"\r\n\r\n", MOST_HEAD))
        status, headers = _read_head(head)
        if status == 101 and headers.get("upgrade", "").lower() == PROTOCOL:
            return stream
        length = headers.get("content-length", "")
        body = b""
        if length.isascii() and length.isdigit() and int(length[:9]) <= MOST_HEAD:
            body = await within(ANSWER, _body(stream, int(length[:9])))
        raise _refusal(status, _message(body), app)
    except (Broken, asyncio.TimeoutError) as error:
        stream.close()
        raise _away(error) from None
    except BaseException:
        stream.close()
        raise


async def apps(client: aiohttp.ClientSession, place: Place) -> list[Item]:
    """The apps of a session. Raises `Unreachable`."""
    status, answer = await ask(client, "GET", place, ("apps",), None, ANSWER)
    if status != 200 or not isinstance(answer, dict):
        raise _refusal(status, "", "")
    try:
        return _ITEMS.validate_python(answer.get("apps"))
    except ValidationError:
        raise Unreachable("unsupported", OLD) from None


async def start(
    client: aiohttp.ClientSession, place: Place, app: str, arguments: Mapping[str, str]
) -> tuple[bool, str]:
    """Starts an app where that is to be done: whether it answers, and if not, why. Raises
    `Unreachable`; `RequestError` for arguments that it does not take."""
    body = {"arguments": dict(arguments)}
    status, answer = await ask(client, "POST", place, ("open", app), body, START)
    if isinstance(answer, dict):
        if status == 400 and (errors := _errors(answer)):
            raise RequestError(errors)
        if status in (200, 201, 202):
            return bool(answer.get("ready")), shown(answer.get("why") or "", 500)
    raise _refusal(status, _message_of(answer), app)


async def ask(
    client: aiohttp.ClientSession,
    method: str,
    place: Place,
    steps: tuple[str, ...],
    body: Any,
    seconds: float,
    most: int = MOST_ANSWER,
) -> tuple[int, Any]:
    """The status of an answer, and its JSON, None where it is none or has more than `most` bytes.

    Raises `Unreachable`.
    """
    _address(place)
    timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT)
    headers = {KEY: place.key, "Accept": "application/json"}
    try:
        async with client.request(
            method, place.url(*steps), json=body, headers=headers, timeout=timeout,
            allow_redirects=False,
        ) as reply:  # fmt: skip
            said = bytearray()
            while len(said) <= most and (more := await reply.content.read(most)):
                said += more
            return reply.status, _json(bytes(said)) if len(said) <= most else None
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        raise _away(error) from None


def _json(said: bytes) -> Any:
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return None


def _errors(answer: Mapping[str, Any]) -> list[FieldError]:
    given = answer.get("errors")
    return [
        FieldError(
            shown(one.get("field", ""), 100), shown(one.get("code", "invalid")),
            shown(one.get("message", ""), 500),
        )
        for one in (given if isinstance(given, list) else [])[:20]
        if isinstance(one, dict)
    ]  # fmt: skip


def _address(place: Place) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{place.address}")
        if parts.hostname and parts.port and parts.netloc == place.address:
            return parts.hostname, parts.port
    except ValueError:
        pass
    raise Unreachable("not_known", OLD)


def _read_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    found = re.fullmatch(r"HTTP/1\.[01] ([0-9]{3})(?: .*)?", first)
    if found is None:
        raise Broken("it does not speak HTTP")
    pairs = (line.partition(":") for line in lines if line)
    return int(found[1]), {name.lower().strip(): value.strip() for name, _, value in pairs}


async def _body(stream: Stream, length: int) -> bytes:
    body = bytearray(length)
    view, had = memoryview(body), 0
    while had < length and (count := await stream.receive(view[had:])):
        had += count
    return bytes(body[:had])


def _message(body: bytes) -> str:
    return _message_of(_json(body))


def _message_of(answer: Any) -> str:
    if not isinstance(answer, dict):
        return ""
    errors = _errors(answer)
    return errors[0].message if errors else shown(answer.get("message") or "", 500)


def _refusal(status: int, message: str, app: str) -> Unreachable:
    if status == 502:
        said = message or f"Nothing answers for {shown(app)} in the session yet."
        return Unreachable("nothing_listens", said)
    if message and status != 403:
        return Unreachable("no_such_app" if status == 404 else "refused", message)
    return Unreachable("unsupported", OLD)


def _away(error: BaseException) -> Unreachable:
    return Unreachable(
        "unreachable",
        "The session's server does not answer. It may be busy, or just starting or ending: try "
        "again in a moment, or look at the session's log.",
    )
