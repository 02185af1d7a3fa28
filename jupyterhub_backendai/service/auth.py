"""Who asks, and what the Hub's scopes let them do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

READ, START, DELETE = SCOPES = "read:servers", "start:servers", "delete:servers"
METRICS = "read:metrics"  # the Hub's scope for its own; it has no narrower form


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

    def may(self, scope: str, owner: str, groups: Iterable[str] = ()) -> bool:
        """Whether this scope is held for the servers of `owner`, who is in these groups."""
        held = (scope, f"{scope}!user={owner}", *(f"{scope}!group={name}" for name in groups))
        return not self.scopes.isdisjoint(held)

    def may_all(self, scope: str) -> bool:
        """Whether this scope is held for everybody's servers."""
        return scope in self.scopes

    def may_for_groups(self, scope: str) -> bool:
        """Whether this scope is held for the servers of any group."""
        return any(held.startswith(f"{scope}!group=") for held in self.scopes)

    def may_for_somebody(self, scope: str) -> bool:
        """Whether this scope is held for somebody's servers, whosever they are."""
        users = any(held.startswith(f"{scope}!user=") for held in self.scopes)
        return scope in self.scopes or users or self.may_for_groups(scope)
