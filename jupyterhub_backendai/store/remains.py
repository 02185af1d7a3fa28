"""What is in a registry and is nobody's image any more: every statement on its table.

A row is there from the step that makes it so until the registry says that it is gone, whatever
becomes of the service meanwhile.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, insert, select, text

from ..model.images import ImageStatus
from .image_records import Remains
from .image_tables import COMMITS, IMAGES, REMAINS, UNDER_WAY

_ADD = insert(REMAINS)
_ALL = select(REMAINS).order_by(REMAINS.c.noted_at, REMAINS.c.id)
_MADE_NOW = select(COMMITS.c.reference).where(text(UNDER_WAY))
_NAMED = select(IMAGES.c.reference, IMAGES.c.digest).where(
    IMAGES.c.status == ImageStatus.READY.value
)
_IS_NOTED = select(REMAINS.c.id).where(
    REMAINS.c.reference == bindparam("which"), REMAINS.c.digest == bindparam("what")
)
_IS_IMAGE = select(IMAGES.c.id).where(
    IMAGES.c.reference == bindparam("which"), IMAGES.c.digest == bindparam("what")
)
_DROP = delete(REMAINS).where(REMAINS.c.id == bindparam("of"))


def add(db: Connection, reference: str, digest: str | None, now: datetime) -> None:
    """Notes something that is to go."""
    values = {"id": uuid.uuid4().hex, "reference": reference, "digest": digest, "noted_at": now}
    db.execute(_ADD, values)


def note(db: Connection, reference: str, digest: str, now: datetime) -> None:
    """The same, unless it is noted, or an image's."""
    of = {"which": reference, "what": digest}
    if db.execute(_IS_NOTED, of).first() is None and db.execute(_IS_IMAGE, of).first() is None:
        add(db, reference, digest, now)


def all_of(db: Connection) -> list[Remains]:
    """Oldest first. Where an image of that reference is being made nothing is touched."""
    made_now = set(db.scalars(_MADE_NOW))
    named = {row.reference: row.digest for row in db.execute(_NAMED)}
    return [
        Remains(row.id, row.reference, row.digest, named.get(row.reference))
        for row in db.execute(_ALL)
        if row.reference not in made_now
    ]


def drop(db: Connection, id: str) -> None:
    """Forgets what is gone."""
    db.execute(_DROP, {"of": id})
