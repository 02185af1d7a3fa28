"""The audit log: who changed what through the service, a line of JSON for each call.

No bodies, no tokens, no queries. It goes to the service's own log, and to `audit_log` too.
"""

from __future__ import annotations

import json
import logging
import os
from io import TextIOWrapper
from logging.handlers import QueueHandler, QueueListener, WatchedFileHandler
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ..site.clock import utcnow

if TYPE_CHECKING:
    from .base import Handler

LOG = logging.getLogger("backendai.audit")
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
MOST_PATH = 500  # characters of a path that are told
SESSIONS = ("api/sessions/", "sessions/")  # how the paths of what is about one session begin


def note(handler: Handler) -> None:
    """Writes a line of a call that is over, if it was to change something and by somebody known."""
    who, request = handler.known, handler.request
    if request.method not in CHANGING or who is None:
        return
    path = request.path.removeprefix(handler.hub_auth.base_url)
    line: dict[str, Any] = {
        "time": utcnow().isoformat(timespec="milliseconds"),
        "who": who.name,
        "kind": "user" if who.is_user else "service",
        "method": request.method,
        "path": path[:MOST_PATH],
        "status": handler.get_status(),
    }
    ids = list(handler.made_sessions)
    if path.startswith(SESSIONS) and (id := handler.path_kwargs.get("id")):
        ids.append(id[:MOST_PATH])
    if ids:
        line["sessions"] = ids
    LOG.info("%s", json.dumps(line))


class AuditFile:
    """The file of the audit log: written in a thread, made for its owner alone, and made anew when
    it is moved away."""

    def __init__(self, path: str) -> None:
        writer = _Writer(path, encoding="utf-8", delay=True)
        writer.setFormatter(logging.Formatter("%(message)s"))
        lines: SimpleQueue[logging.LogRecord] = SimpleQueue()
        self._handler = QueueHandler(lines)
        self._listener = QueueListener(lines, writer)
        self._writer = writer
        self._listener.start()
        LOG.addHandler(self._handler)

    def close(self) -> None:
        """Writes what is left, and closes it."""
        LOG.removeHandler(self._handler)
        self._listener.stop()
        self._writer.close()


class _Writer(WatchedFileHandler):
    def _open(self) -> TextIOWrapper:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        return open(self.baseFilename, self.mode, encoding="utf-8", opener=private)  # type: ignore[return-value]

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError as error:  # the line is in the service's log; the next may be written again
            logging.getLogger(__name__).error(
                "A line of audit_log was not written: %s. Let the user that runs the Hub write "
                "there.", error,
            )  # fmt: skip
