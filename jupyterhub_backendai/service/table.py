"""Every call of the API: its path, what it takes and gives, and who may make it.

The handlers, the OpenAPI schema, the table in the docs and the matrix test are made from this.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pydantic import BaseModel

from . import schemas
from .auth import READ


class Who(Enum):
    """Whom a call serves. The value is what the docs say."""

    ANYBODY = "anybody"
    OWN = "yourself; with the scope for everybody, everybody's"
    OWNER = "the owner; with the scope for everybody, everybody's"


@dataclass(frozen=True)
class Call:
    """One method on one path. `scope` is the Hub's, for one's own servers or for everybody's."""

    name: str
    method: str
    path: str  # below the service's prefix, with {parts}
    says: str
    who: Who
    scope: str = ""
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    reply: type[BaseModel] | None = None
    status: int = 200
    errors: tuple[int, ...] = ()
    media: str = "application/json"


HEALTH = Call(
    "health", "GET", "health", "Whether the service works.", Who.ANYBODY,
    reply=schemas.Health, errors=(503,),
)  # fmt: skip
LIST_SESSIONS = Call(
    "listSessions", "GET", "api/sessions", "Sessions, filtered, sorted, a page at a time.",
    Who.OWN, READ, query=schemas.SessionQuery, reply=schemas.SessionPage,
)  # fmt: skip

CALLS: tuple[Call, ...] = (HEALTH, LIST_SESSIONS)


def calls_at(path: str) -> dict[str, Call]:
    """The calls of one path, by method."""
    return {call.method: call for call in CALLS if call.path == path}
