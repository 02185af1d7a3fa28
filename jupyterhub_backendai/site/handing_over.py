"""What a start of the Hub and the service's queue agree on, so that a session has one start.

A session without a driver waits in the queue and is nobody's. The service asks the Hub to start its
server and names the session in a header of that request: not in the options, because the Hub keeps
those, and whoever starts the server again later wants a new session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model.secrets import redacted
from ..model.status import IN_LINE
from ..store import Session

SESSION_HEADER = "X-BackendAI-Session"


def may_take(session: Session | None, options: Mapping[str, Any], asked_by_queue: str) -> bool:
    """Whether a start with these options is that of this session of its server, which waits
    already. `asked_by_queue`: the id that the service named, or ""."""
    if session is None or session.status not in IN_LINE:
        return False
    if asked_by_queue:
        return session.id == asked_by_queue
    return not options or redacted(options) == (session.asked or {})


def queued_sentence(position: int | None) -> str:
    """What a user is told whose session waits without a page that holds it."""
    place = f"It is in line, #{position}." if position else "It is in line."
    return f"{place} It starts by itself when its turn comes; you can close this page."
