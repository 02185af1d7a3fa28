"""Names that nobody typed: of sessions, and of the Hub's servers behind them."""

from __future__ import annotations

import re
import secrets

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without those that look alike
_MOST = 30  # characters of a server's name, by the Hub


def random_letters(count: int) -> str:
    """Letters and digits that nobody else has, to be read aloud."""
    return "".join(secrets.choice(_LETTERS) for _ in range(count))


def random_name() -> str:
    """A session's name where its owner gave none."""
    return f"session-{random_letters(8)}"


def server_name(name: str) -> str:
    """A new server's name, as the Hub wants it: a slug, told from all others by its end."""
    end = random_letters(8)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    slug = slug if slug[:1].isalpha() else f"s-{slug}"
    return f"{slug[: _MOST - len(end) - 1].strip('-')}-{end}"
