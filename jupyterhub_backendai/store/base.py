"""What all calls of the store share: the database, its schema, and how a write is made."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, exists, insert, select

from . import feed, schema
from .database import Database
from .tables import META


class StoreBase:
    """A database that is ours, and the transactions on it."""

    def __init__(self, url: str) -> None:
        self._db = Database(url)
        self._hub_id: str | None = None

    def upgrade(self) -> None:
        """Makes the tables, or brings them up to date. Call it first; it may run in several
        processes at once. Raises `ConfigurationError` where the database cannot be used."""
        with self._db.migration() as connection:
            schema.upgrade(self._db, connection)
            if not connection.scalar(select(exists().where(META.c.key == "hub_id"))):
                connection.execute(insert(META).values(key="hub_id", value=secrets.token_hex(4)))

    def close(self) -> None:
        """Closes the connections to the database."""
        self._db.close()

    @property
    def hub_id(self) -> str:
        """Eight hex digits, made at random with the database, that mark what this Hub owns."""
        if self._hub_id is None:
            with self._db.query() as db:
                query = select(META.c.value).where(META.c.key == "hub_id")
                self._hub_id = str(db.scalars(query).one())
        return self._hub_id

    @contextmanager
    def _write(self, *, alone: bool = False) -> Iterator[Connection]:
        """A write whose changes of sessions get their numbers in the change feed at its end."""
        with self._db.write(alone=alone) as db:
            before = self._db.written(db)
            yield db
            if before is None or self._db.written(db) != before:
                feed.number(db)

    @contextmanager
    def _changing(self, owner: str) -> Iterator[Connection]:
        """A write in which nothing else of this owner is submitted."""
        with self._write() as db:
            self._db.one_by_one(db, owner)
            yield db
