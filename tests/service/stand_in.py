"""A Hub that speaks as much of the real one's REST API as the service uses."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

ACCESS = "access:services!service=backendai"


def own_scopes(name: str) -> list[str]:
    """What the Hub gives a user's token that inherits all of the user's scopes."""
    kinds = ("read:servers", "start:servers", "delete:servers", "read:users:name")
    return [ACCESS, *(f"{kind}!user={name}" for kind in kinds)]


@dataclass
class StandIn:
    """Users, tokens and servers; what was asked of it is in `asked`."""

    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    servers: dict[tuple[str, str], Any] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    # Status and message of the next answers; without one it is no Hub that answers.
    failing: list[tuple[int, str]] = field(default_factory=list)
    url: str = ""

    def add(self, name: str, *, admin: bool = False, groups: tuple[str, ...] = ()) -> str:
        """A user and a token that may do all that the user may."""
        self.users[name] = {"kind": "user", "name": name, "admin": admin, "groups": list(groups)}
        scopes = own_scopes(name)
        if admin:
            scopes += ["read:servers", "start:servers", "delete:servers", "read:metrics"]
        return self.token(name, scopes)

    def token(self, name: str, scopes: list[str]) -> str:
        """A token of this user with these scopes."""
        token = f"token-{len(self.tokens)}-of-{name}"
        self.tokens[token] = {**self.users[name], "scopes": scopes}
        return token

    def start(self) -> HTTPServer:
        """Listens on a free port; to be called on the loop."""
        sockets, port = bind_unused_port()
        routes = [(r"/hub/api/(.*)", _Api, {"hub": self})]
        server = HTTPServer(Application(routes))
        server.add_socket(sockets)
        self.url = f"http://127.0.0.1:{port}/hub/api"
        return server


class _Api(RequestHandler):
    def initialize(self, hub: StandIn) -> None:
        self.hub = hub

    async def prepare(self) -> None:
        path = self.request.path.removeprefix("/hub/api/")
        self.hub.asked.append((self.request.method or "", path))
        await asyncio.sleep(0)
        if self.hub.failing and path != "user":
            status, said = self.hub.failing.pop(0)
            self.set_status(status)
            self.answer({"message": said}, 0) if said else self.finish("busy")

    def get(self, path: str) -> None:
        if path == "user":
            token = self.request.headers.get("Authorization", "").partition(" ")[2]
            self.answer(self.hub.tokens.get(token), 403)
        elif path.startswith("users/"):
            self.answer(self.hub.users.get(path.split("/")[1]), 404)
        else:
            self.answer(None, 404)

    def post(self, path: str) -> None:
        _, user, _, *server = path.split("/")
        if user not in self.hub.users:
            self.answer(None, 404)
            return
        self.hub.servers[user, "".join(server)] = json.loads(self.request.body or b"{}")
        self.set_status(201)

    def delete(self, path: str) -> None:
        _, user, _, *server = path.split("/")
        found = self.hub.servers.pop((user, "".join(server)), None)
        self.set_status(404 if found is None else 204)

    def answer(self, model: dict[str, Any] | None, otherwise: int) -> None:
        if model is None:
            self.set_status(otherwise)
            model = {"status": otherwise, "message": "No such thing."}
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(model))
