"""The clock of a site."""

from __future__ import annotations

from datetime import datetime, timezone


def utcnow() -> datetime:
    """Now, with its zone."""
    return datetime.now(timezone.utc)
