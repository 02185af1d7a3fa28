"""What can go wrong with the database at run time."""

from __future__ import annotations


class NotFound(LookupError):
    """There is no session with this id."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is no session {session_id}")
        self.session_id = session_id


class Unavailable(Exception):
    """The database cannot be reached or written to just now; nothing of the call was done.

    The same call may succeed later: the disk is full, the server is away, a lock was held too long.
    """
