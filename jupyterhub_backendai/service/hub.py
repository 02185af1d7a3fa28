"""The Hub's REST API, as much of it as the service needs: users, and their servers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

import aiohttp

from ..model.errors import Problem, shown
from ..model.rules import check_text
from ..site.handing_over import SESSION_HEADER

TIMEOUT = 30  # seconds of one request; the Hub answers a start or a stop after ten
PAGES = "application/jupyterhub-pagination+json"  # lists that say whether there is more
TRIES = 4
MOST_NAME = 255  # characters of a user's or a server's name, as the Hub's database has them
BACK_OFF = 0.5  # seconds before the second try, twice as many before each further one
NOT_NOW = frozenset({429, 502, 503, 504})


class HubError(Exception):
    """The Hub did not do what was asked."""


class HubUnavailable(HubError):
    """The Hub did not answer, or not now. The same request may succeed later."""


class HubRefused(HubError):
    """The Hub said no: `status`, and `message` as it is written for whoever asked."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the Hub answered {status}: {message}")
        self.status = status
        self.message = message


class NoSuchUser(HubRefused):
    """The Hub has no user of that name."""


@dataclass(frozen=True, slots=True)
class HubUser:
    """A user as the Hub knows it."""

    name: str
    admin: bool
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class HubServer:
    """A server of a user. `pending` is "spawn", "stop" or None."""

    name: str
    ready: bool
    pending: str | None
    stopped: bool


class HubClient:
    """Calls of the Hub's API with the service's own token. Use it as a context, or `close` it."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._session: aiohttp.ClientSession | None = None
        self._busy: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def __aenter__(self) -> HubClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # ---- users --------------------------------------------------------------------------------

    async def user(self, name: str) -> HubUser:
        """The user of this name. Raises `NoSuchUser`, `HubRefused`, `HubUnavailable`."""
        model = await self._get(_user_path(name), name)
        return HubUser(
            str(model["name"]), bool(model.get("admin", False)), frozenset(model.get("groups", ()))
        )

    async def servers(self, name: str) -> dict[str, HubServer]:
        """The active servers of a user, by name. Raises as `user` does."""
        model = await self._get(_user_path(name), name)
        return {key: _server(key, value) for key, value in model.get("servers", {}).items()}

    async def active_servers(self) -> dict[tuple[str, str], bool]:
        """All servers that run, start or stop, by owner and name, and whether each is ready.
        Raises as `user` does."""
        found: dict[tuple[str, str], bool] = {}
        offset: int | None = 0
        while offset is not None:
            path = f"users?state=active&offset={offset}"
            status, page = await self._request("GET", path, None, {"Accept": PAGES})
            if status != 200 or not isinstance(page, dict):
                raise _refused(status, page, "")
            for model in page["items"]:
                for name, server in model.get("servers", {}).items():
                    one = _server(name, server)
                    found[model["name"], name] = one.ready and one.pending is None
            following = page["_pagination"]["next"]
            offset = following and int(following["offset"])
        return found

    # ---- servers ------------------------------------------------------------------------------

    def alone_with(self, user: str, server: str) -> asyncio.Lock:
        """Held while a server is started that may just be removed, or the other way round: a Hub
        that has stopped a server forgets it a moment later, also where that starts anew."""
        return self._busy.setdefault((user, server), asyncio.Lock())

    async def start(
        self,
        user: str,
        server: str,
        options: Mapping[str, Any],
        display_name: str = "",
        session_id: str = "",
    ) -> bool:
        """Starts a server; whether it is running already, else it is on its way.

        `session_id`: only for that session of the queue, and for no new one.

        One that runs or starts already is fine. Raises `HubRefused` (its `message` is the
        spawner's), `HubUnavailable`.
        """
        body = {"user_options": dict(options), "display_name": display_name or server}
        headers = {SESSION_HEADER: session_id} if session_id else {}
        status, answer = await self._request("POST", _server_path(user, server), body, headers)
        if status in (201, 202):
            return status == 201
        if status == 400 and "already" in _message(answer):
            return "running" in _message(answer)
        raise _refused(status, answer, user)

    async def stop(self, user: str, server: str, *, remove: bool = False) -> bool:
        """Stops a server; whether it is over already. `remove` forgets a named one with it.

        One that is not there, or stopped, is fine. Raises `HubRefused`, `HubUnavailable`.
        """
        body = {"remove": True} if remove and server else None
        status, answer = await self._request("DELETE", _server_path(user, server), body)
        if status in (202, 204):
            return status == 204
        if status == 404:
            return True
        raise _refused(status, answer, user)

    async def note_activity(self, user: str, servers: Iterable[str], at: datetime) -> None:
        """Says that these servers of a user were in use at that time. Raises as `user` does."""
        when = at.isoformat()
        body = {"servers": {name: {"last_activity": when} for name in servers}}
        status, answer = await self._request("POST", f"{_user_path(user)}/activity", body)
        if status != 200:
            raise _refused(status, answer, user)

    # ---- requests -----------------------------------------------------------------------------

    async def _get(self, path: str, user: str) -> Mapping[str, Any]:
        status, answer = await self._request("GET", path, None)
        if status != 200 or not isinstance(answer, dict):
            raise _refused(status, answer, user)
        return answer

    async def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Status and answer. Tries again, with a wait, what may work later."""
        reason = ""
        for number in range(TRIES):
            if number:
                # Not all at once: a Hub that comes back is asked by everybody.
                wait = BACK_OFF * 2 ** (number - 1)
                await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311
            try:
                async with self._connected().request(
                    method, f"{self.url}/{path}", json=body, headers=headers
                ) as reply:
                    answer = await _read(reply)
                    if reply.status not in NOT_NOW or _is_final(reply.status, answer):
                        return reply.status, answer
                    reason = f"it answered {reply.status}"
            except (aiohttp.ClientError, asyncio.TimeoutError) as error:
                reason = str(error) or type(error).__name__
        raise HubUnavailable(f"the Hub does not answer: {reason}")

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers={"Authorization": f"token {self._token}"},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT),
            )
        return self._session


async def _read(reply: aiohttp.ClientResponse) -> Any:
    if "json" not in reply.content_type:
        return await reply.text(errors="replace")
    try:
        return await reply.json()
    except ValueError:
        return ""


def _is_final(status: int, answer: Any) -> bool:
    """A 503 with a message is the spawner's no; one without is of a Hub that is not there yet."""
    return status == 503 and bool(_message(answer))


def _message(answer: Any) -> str:
    return str(answer.get("message", "")) if isinstance(answer, dict) else ""


def _refused(status: int, answer: Any, user: str) -> HubRefused:
    message = _message(answer) or "It gave no reason."
    if status == 404:
        return _no_user(user)
    return HubRefused(status, message)


def _no_user(name: str) -> NoSuchUser:
    return NoSuchUser(404, f"There is no user {shown(name)}.")


def _server(name: str, model: Mapping[str, Any]) -> HubServer:
    return HubServer(
        name=name,
        ready=bool(model.get("ready", False)),
        pending=model.get("pending") or None,
        stopped=bool(model.get("stopped", False)),
    )


def _server_path(user: str, server: str) -> str:
    if not server:
        return f"{_user_path(user)}/server"
    try:
        return f"{_user_path(user)}/servers/{_part(server)}"
    except Problem as problem:
        raise HubRefused(404, f"There is no server {shown(server)}. {problem.message}") from None


def _user_path(name: str) -> str:
    """Raises `NoSuchUser` for what can be nobody's name, before the Hub is asked."""
    try:
        return f"users/{_part(name)}"
    except Problem:
        raise _no_user(name) from None


def _part(name: str) -> str:
    """A name as one step of a path, and no other path. Raises `Problem`."""
    if name in {".", ".."} or len(name) > MOST_NAME:
        raise Problem("bad_name", f"A name is not a dot or two, and has up to {MOST_NAME} letters.")
    return quote(check_text(name), safe="@~")
