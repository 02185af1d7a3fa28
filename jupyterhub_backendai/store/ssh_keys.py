"""The SSH keys of each user."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, insert, select

from ..model.keys import SshKeys
from .tables import SSH_KEYS

_OF = select(SSH_KEYS).where(SSH_KEYS.c.owner == bindparam("owner_"))
_ADD = insert(SSH_KEYS)
_DROP = delete(SSH_KEYS).where(SSH_KEYS.c.owner == bindparam("owner_"))


def of(db: Connection, owner: str) -> SshKeys | None:
    """A user's keys, if there are some."""
    row = db.execute(_OF, {"owner_": owner}).one_or_none()
    if row is None:
        return None
    return SshKeys(row.private, row.public, row.host_private, row.host_public)


def add(db: Connection, owner: str, keys: SshKeys, now: datetime) -> SshKeys:
    """Notes a user's keys; those that are there already stay, and are what is returned."""
    found = of(db, owner)
    if found is not None:
        return found
    values = {name: getattr(keys, name) for name in SshKeys.__slots__}
    db.execute(_ADD, {"owner": owner, "made_at": now, **values})
    return keys


def replace(db: Connection, owner: str, keys: SshKeys, now: datetime) -> SshKeys:
    """Notes a user's keys in place of those that were there."""
    db.execute(_DROP, {"owner_": owner})
    return add(db, owner, keys, now)
