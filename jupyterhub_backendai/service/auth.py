"""Who asks, and what the Hub's scopes let them do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

READ, START, DELETE = "read:servers", "start:servers", "delete:servers"


@dataclass(frozen=True, slots=True)
class Caller:
    """A user or a service, as the Hub knows the token or cookie of a request.

    All rights are the Hub's scopes, so that a token never does more here than it would there.
    """

    name: str
    is_user: bool
    admin: bool
    groups: frozenset[str]
    scopes: frozenset[str]

    @classmethod
    def of(cls, model: Mapping[str, Any]) -> Caller:
        """The caller of a model that the Hub's `GET user` gave."""
        return cls(
            name=str(model["name"]),
            is_user=model.get("kind", "user") == "user",
            admin=bool(model.get("admin", False)),
            groups=frozenset(model.get("groups", ())),
            scopes=frozenset(model.get("scopes", ())),
        )

    def may(self, scope: str, owner: str) -> bool:
        """Whether this scope is held for the servers of `owner`."""
        return scope in self.scopes or f"{scope}!user={owner}" in self.scopes

    def may_all(self, scope: str) -> bool:
        """Whether this scope is held for everybody's servers."""
        return scope in self.scopes

    def may_own(self, scope: str) -> bool:
        """Whether this scope is held for one's own servers."""
        return self.may(scope, self.name)
