"""What can go wrong with the database at run time."""

from __future__ import annotations


class NotFound(LookupError):
    """There is no session (or whatever `what` says) with this id."""

    def __init__(self, session_id: str, what: str = "session") -> None:
        super().__init__(f"there is no {what} {session_id}")
        self.session_id = session_id


class Changed(Exception):
    """Somebody else changed the session since the caller read it: it has `version` now."""

    def __init__(self, session_id: str, version: int) -> None:
        super().__init__(f"session {session_id} has changed; its version is {version} now")
        self.session_id = session_id
        self.version = version


class Unavailable(Exception):
    """The database cannot be reached or written to just now; nothing of the call was done.

    The same call may succeed later: the disk is full, the server is away, a lock was held too long.
    """
