"""The keys that a user's sessions are entered with by SSH."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SshKeys:
    """A user's own key pair and that of the SSH servers in the user's sessions, as OpenSSH writes
    them. Both stay the same from session to session, so that what a client knows goes on working.
    """

    private: str = field(repr=False)
    public: str
    host_private: str = field(repr=False)
    host_public: str
