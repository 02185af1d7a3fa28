"""What the Hub says of this session: `session.json`. What is wrong in it is left out and logged."""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

FILE = "/opt/backendai/session.json"
VARIABLE = "BACKENDAI_SESSION_FILE"  # another file, for tests

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_ICON = re.compile(r"[a-z0-9-]{1,40}\Z")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}\Z")


class App(NamedTuple):
    """An app as the catalog declares it."""

    name: str
    title: str = ""
    category: str = ""
    icon: str = ""
    protocol: str = "http"
    ports: tuple[int, ...] = ()
    command: tuple[str, ...] = ()  # () = the user starts it
    path: str = ""
    shareable: bool = False


class Declared(NamedTuple):
    """All of the file; a server without one has the defaults."""

    key_sha256: str = ""
    preopen_ports: tuple[int, ...] = ()
    apps: tuple[App, ...] = ()
    ssh_port: int = 2200

    def kept_from(self, name: str) -> set[int]:
        """The ports on which an app of that name is not to be started: they are others', or
        preopened, and then perhaps open to everybody."""
        others = {port for app in self.apps if app.name != name for port in app.ports}
        ssh = set() if name == "sshd" else {self.ssh_port}
        return others | ssh | set(self.preopen_ports)


def read(log: Any) -> Declared:
    """What `session.json` says; the defaults where there is none."""
    path = os.environ.get(VARIABLE) or FILE
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
    except FileNotFoundError:
        return Declared()
    except (OSError, ValueError) as error:
        log.warning("Backend.AI: %s cannot be read: %s", path, error)
        return Declared()
    if not isinstance(said, dict):
        log.warning("Backend.AI: %s is not an object", path)
        return Declared()
    return _Reader(path, log).declared(said)


class _Reader:
    def __init__(self, path: str, log: Any) -> None:
        self.path, self.log = path, log

    def leave_out(self, what: str, value: Any) -> None:
        self.log.warning("Backend.AI: %s in %s is left out: %.200r", what, self.path, value)

    def declared(self, said: dict) -> Declared:
        key = said.get("key_sha256", "")
        if key and not (isinstance(key, str) and _SHA256.match(key)):
            self.leave_out("key_sha256", "(not a SHA-256)")
            key = ""
        ssh_port = said.get("ssh_port", 2200)
        if not _is_port(ssh_port):
            self.leave_out("ssh_port", ssh_port)
            ssh_port = 2200
        ports = self.ports("preopen_ports", said.get("preopen_ports", []))
        return Declared(key or "", ports, self.apps(said.get("apps", [])), ssh_port)

    def ports(self, what: str, said: Any) -> tuple[int, ...]:
        found: list[int] = []
        for port in self.items(what, said):
            if _is_port(port):
                found.append(port)
            else:
                self.leave_out(what, port)
        return tuple(dict.fromkeys(found))

    def items(self, what: str, said: Any) -> list:
        if isinstance(said, list):
            return said
        self.leave_out(what, said)
        return []

    def apps(self, said: Any) -> tuple[App, ...]:
        found = {}
        for entry in self.items("apps", said):
            app = self.app(entry) if isinstance(entry, dict) else None
            if app is None or app.name in found:
                self.leave_out("an app", entry)
            else:
                found[app.name] = app
        return tuple(found.values())

    def app(self, said: dict):
        name, command = said.get("name"), said.get("command", [])
        ports = said.get("ports", [])
        if not (isinstance(name, str) and _NAME.match(name)):
            return None
        if not (isinstance(command, list) and all(_is_word(word) for word in command)):
            return None
        if said.get("protocol", "http") not in ("http", "tcp"):
            return None
        if not (isinstance(ports, list) and ports and all(map(_is_port, ports))):
            return None
        icon = _text(said, "icon")
        return App(
            name=name, title=_text(said, "title"), category=_text(said, "category"),
            icon=icon if _ICON.match(icon) else "", protocol=said.get("protocol", "http"),
            ports=tuple(ports), command=tuple(command), path=_text(said, "path").lstrip("/"),
            shareable=said.get("shareable") is True,
        )  # fmt: skip


def _is_port(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _text(said: dict, name: str) -> str:
    value = said.get(name, "")
    return value if isinstance(value, str) else ""
