"""Apps of sessions: what the API takes and gives, and where each is for a browser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from urllib.parse import quote, urlsplit

from jupyterhub.services.auth import HubAuth
from pydantic import Field, StrictBool, StrictInt, StringConstraints

from ..store import OpenWay, Session, Way
from .addresses import server_url
from .schemas import Part
from .ways.public import public_path
from .ways.settings import Settings
from .ways.tunnel import Item

_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?-]*")


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where apps are: by the settings of ways, and the Hub as who asks knows it: `origin` as
    `https://hub.example.org`, `hub` the name of its host alone."""

    settings: Settings
    origin: str
    hub: str
    auth: HubAuth

    def of_way(self, way: Way) -> tuple[str | None, str | None]:
        """The URL of a way, None where it is no page; and the host of its port."""
        if way.number is not None:
            host = self.settings.host or self.hub
            shown = f"[{host}]" if ":" in host else host
            return (f"http://{shown}:{way.number}/" if way.protocol == "http" else None), host
        if self.settings.url:
            place = urlsplit(self.settings.url)
            return f"{place.scheme}://{place.netloc.replace('*', way.id, 1)}/", None
        return f"{self.origin}{public_path(way.id)}/", None

    def of_item(self, session: Session, item: Item | AppRow) -> str:
        """Where its owner finds an app with a page."""
        path = item.path
        # A user's program says it: it must not lead anywhere else.
        steps = re.split("[/?]", path)
        if not path or path.startswith("/") or not _PATH.fullmatch(path) or ".." in steps:
            path = f"backendai/open/{quote(item.name, safe='')}"
        return server_url(self.auth, session) + path


class AskRow(Part):
    """What an app asks before it starts."""

    name: str
    title: str
    value: str = Field(description="What it has where nothing else is said.")


class WayRow(Part):
    """An app that is open to others."""

    id: str
    session_id: str
    app: str
    kind: str = Field(description="`public`: an address of its own; `port`: a port.")
    url: str | None = Field(description="For browsers; null where it is no page.")
    host: str | None = Field(description="Of the port.")
    port: int | None
    wanted: int | None = Field(description="The port that was asked for.")
    opened_by: str
    opened_at: datetime

    @classmethod
    def of(cls, way: Way, addresses: Addresses) -> WayRow:
        """The row of a way."""
        return cls(**_row(way, addresses))


def _row(way: Way, addresses: Addresses) -> dict[str, object]:
    same = ("id", "session_id", "app", "kind", "wanted", "opened_by", "opened_at")
    url, host = addresses.of_way(way)
    return {**{name: getattr(way, name) for name in same},
            "url": url, "host": host, "port": way.number}  # fmt: skip


class OpenWayRow(WayRow):
    """An app that is open to others, in the list of all."""

    owner: str
    session_name: str

    @classmethod
    def of_all(cls, one: OpenWay, addresses: Addresses) -> OpenWayRow:
        """The row of an open way."""
        return cls(**_row(one.way, addresses), owner=one.owner, session_name=one.session_name)


class AppRow(Part):
    """An app of a session."""

    name: str
    title: str
    category: str
    icon: str
    protocol: str
    port: int | None = Field(description="In the session.")
    path: str = Field(description="Below the session's server; empty where it is no page.")
    available: bool
    why: str = Field(description="Why it is not available, and what to do.")
    notes: list[str] = Field(description="What works less well here.")
    shareable: bool = Field(description="Whether it may be opened to the public.")
    asks: list[AskRow]
    running: bool
    listening: bool
    ways: list[WayRow] = Field(description="How others come to it.")

    @classmethod
    def of(cls, item: Item, ways: Sequence[Way], addresses: Addresses) -> AppRow:
        """The row of an app with the session's ways."""
        rows = [WayRow.of(way, addresses) for way in ways if way.app == item.name]
        return cls(**{**item.model_dump(), "ways": rows})


class SessionApps(Part):
    """The apps of a session."""

    apps: list[AppRow]
    reason: str | None = Field(description="Why none can be told of now.")


Argument = Annotated[str, StringConstraints(max_length=2000)]
ArgumentName = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_-]{1,100}$")]


class Opening(Part):
    """How an app is to be opened."""

    public: StrictBool = Field(default=False, description="To everybody who knows the address.")
    preferred_port: Annotated[StrictInt, Field(ge=1, le=65535)] | None = Field(
        default=None, description="This port of the machine, or the next one that is free."
    )
    arguments: dict[ArgumentName, Argument] = Field(
        default={}, max_length=20, description="What it asks, by the names of its `asks`."
    )


class Opened(Part):
    """Where an app is."""

    url: str | None = Field(description="For browsers; null where it is no page.")
    host: str | None
    port: int | None
    way: WayRow | None = Field(description="How others come to it; null where they do not.")
    message: str = Field(description="What is to be known of it; may be empty.")


class WayList(Part):
    """All apps that are open to others, oldest first."""

    items: list[OpenWayRow]
