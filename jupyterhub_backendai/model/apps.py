"""What an environment declares of its apps: what has a page or a port inside a session.

The short form is the product's label (semantics §7.1): `name:protocol:port`, several with commas,
or `name:protocol:[port,port]`. What may be known of an app beside that is said with keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from .errors import Problem, shown
from .rules import check_title, expand_ports

AppName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Line = Annotated[str, Field(max_length=100)]
MOST_APPS = 50  # of one environment
_ITEM = re.compile(
    r"(?P<name>[^:,\[\]\s]+)(?::(?P<protocol>\w+):(?P<ports>\d{1,6}|\[\d{1,6}(?:,\d{1,6})*\]))?"
)
_SHORT = "Write an app as its name, or as name:protocol:port such as mlflow:http:5000"


class App(BaseModel):
    """Something with a page or a port inside a session.

    Of protocol `http` it has a page; any other is reached as a plain connection. Without a
    `command` it is for its user to start, or one that sessions know by its name (`jupyterlab`,
    `tensorboard`); in a command `{port}` stands for the port. `path`: where in it a browser begins.
    `shareable`: whether it may be opened to the public, where a policy allows that at all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: AppName
    title: Line = ""
    category: Line = ""
    icon: Annotated[str, Field(pattern=r"^([a-z0-9-]{1,40})?$")] = ""
    protocol: Literal["http", "tcp", "vnc", "rdp"] = "http"
    ports: tuple[int, ...] = ()
    command: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = ()
    path: Annotated[str, Field(pattern=r"^([A-Za-z0-9_~][A-Za-z0-9_.~/?=&%-]*)?$")] = ""
    shareable: bool = True

    @model_validator(mode="before")
    @classmethod
    def _one_port(cls, data: Any) -> Any:
        """`port=` for a single one; `preopen` is a page that its user starts."""
        if isinstance(data, dict):
            data = dict(data)
            if data.get("port") is not None:
                if data.get("ports"):
                    raise ValueError("give port or ports, not both")
                data["ports"] = [data["port"]]
            data.pop("port", None)
            if data.get("protocol") == "preopen":
                data["protocol"] = "http"
        return data

    @field_validator("name")
    @classmethod
    def _no_number(cls, value: str) -> str:
        if value.isdigit():
            raise ValueError("a name that is a number stands for a port that a user opens")
        return value

    @field_validator("title", "category")
    @classmethod
    def _seen(cls, value: str) -> str:
        return _checked(check_title, value) if value else value

    @field_validator("ports")
    @classmethod
    def _ports(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        for port in value:
            _checked(expand_ports, port)
        if len(set(value)) < len(value):
            raise ValueError("it has a port twice")
        return value

    @field_validator("path")
    @classmethod
    def _inside(cls, value: str) -> str:
        if ".." in value.split("?")[0].split("/"):
            raise ValueError("a path has no .. in it")
        return value

    @model_validator(mode="after")
    def _command_has_a_port(self) -> App:
        if self.command and not self.ports:
            raise ValueError("with a command it needs the port that the command listens on")
        return self

    @property
    def label(self) -> str:
        """What a person reads."""
        return self.title or self.name


def _checked(check: Any, value: Any) -> Any:
    try:
        return check(value)
    except Problem as problem:
        raise ValueError(problem.message) from None


def read_apps(raw: Any) -> Any:
    """Apps as an admin writes them, as data of `App`: text in the short form, or a list of such
    texts and of objects. Raises ValueError."""
    if isinstance(raw, str):
        return list(_items(raw))
    if not isinstance(raw, (list, tuple)):
        return raw
    found: list[Any] = []
    for one in raw:
        found += _items(one) if isinstance(one, str) else [one]
    return found


def _items(text: str) -> Iterator[dict[str, Any]]:
    place = 0
    text = text.strip()
    while place < len(text):
        match = _ITEM.match(text, place)
        if match is None or text[match.end() : match.end() + 1] not in {"", ","}:
            raise ValueError(f"{_SHORT}, not {shown(text, 60)!r}.")
        place = match.end() + 1
        item: dict[str, Any] = {"name": match["name"]}
        if match["protocol"]:
            item["protocol"] = match["protocol"]
            item["ports"] = [int(port) for port in match["ports"].strip("[]").split(",")]
        yield item


def check_apps(apps: tuple[App, ...]) -> tuple[App, ...]:
    """The apps of one environment: no name and no port twice. Raises ValueError."""
    names: set[str] = set()
    ports: dict[int, App] = {}
    for app in apps:
        if app.name in names:
            raise ValueError(f"the app {app.name} is there twice")
        names.add(app.name)
        for port in app.ports:
            if port in ports:
                raise ValueError(f"port {port} is of {ports[port].name} and of {app.name}")
            ports[port] = app
    return apps
