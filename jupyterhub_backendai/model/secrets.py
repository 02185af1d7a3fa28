"""Which variables look secret, and options without their values: for what is kept to be repeated.

The words are those of the product (semantics, launcher), and some more that are as common. Rather
too much is blanked than too little: a value that is missing can be typed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

SECRET_WORDS = (
    "AUTH", "ACCESS", "SECRET", "_KEY", "PASSWORD", "PASSWD", "PWD", "TOKEN", "PRIVATE",
    "CREDENTIAL", "JWT", "KEYPAIR", "CERTIFICATE", "SSH", "ENCRYPT", "SIGNATURE", "SALT", "PIN",
    "PASSPHRASE", "OAUTH",
    "APIKEY", "DB_URL", "DATABASE_URL", "DSN", "CONNECTION_STRING", "WEBHOOK", "COOKIE",
)  # fmt: skip


def looks_secret(name: str) -> bool:
    """Whether a variable of this name may hold what nobody else is to read."""
    upper = name.upper()
    return any(word in upper for word in SECRET_WORDS)


def redacted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they were sent, with the values of variables that look secret left empty.

    `env` may be an object, or rows of name and value; whatever else it is, is left out.
    """
    kept = dict(options)
    env = kept.pop("env", None)
    if isinstance(env, Mapping):
        kept["env"] = {str(n): "" if looks_secret(str(n)) else value for n, value in env.items()}
    elif isinstance(env, (list, tuple)):
        kept["env"] = [_row(row) for row in env if isinstance(row, Mapping)]
    return kept


def blanked(options: Mapping[str, Any]) -> list[str]:
    """Names of the variables whose values `redacted` has left empty, in their order."""
    env = options.get("env")
    rows = env.items() if isinstance(env, Mapping) else _pairs(env or ())
    return [name for name, value in rows if value == "" and looks_secret(name)]


def _pairs(rows: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((str(row.get("name", "")), row.get("value")) for row in rows)


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "value": ""} if looks_secret(str(row.get("name", ""))) else dict(row)
