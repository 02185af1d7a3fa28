"""What the Hub says of its servers, for the reconciler."""

from __future__ import annotations

from dataclasses import dataclass

from ..store import Session


@dataclass(frozen=True, slots=True)
class HubServers:
    """The servers that the Hub has: those that run, and those on their way in or out.

    `servers`: owner and name of each. `sessions`: the ids that they noted, for who was renamed
    since has the server, and not the session. `users`: the names of everybody there is.
    """

    servers: frozenset[tuple[str, str]]
    sessions: frozenset[str]
    users: frozenset[str]

    def lack(self, session: Session) -> bool:
        """Whether the Hub knows the owner of a session, and no server for it."""
        return (
            session.owner in self.users
            and (session.owner, session.server_name) not in self.servers
            and session.id not in self.sessions
        )
