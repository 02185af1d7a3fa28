"""Connections and transactions: SQLite by default, PostgreSQL as the alternative.

Reads see one moment of the database. Writes on SQLite are one after the other (BEGIN IMMEDIATE);
on PostgreSQL they run side by side, and what must not takes `alone` or `one_by_one`.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ..model.errors import ConfigurationError
from .errors import Unavailable

TRAIT = "BackendAI.database_url"
BUSY_TIMEOUT = 30  # seconds that a transaction waits for its turn
CONNECT_TIMEOUT = 10  # seconds until a PostgreSQL server that does not answer counts as away

_EXAMPLES = (
    "Use sqlite:////var/lib/jupyterhub/backendai.sqlite or postgresql://user:password@host/database"
)
_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
# The store has more statements than sqlite3 keeps parsed by itself, and runs them in turns.
_SQLITE = {"cached_statements": 1000}
# Keys of PostgreSQL's advisory locks; any numbers that no other program uses on this database.
_ALONE, _ONE_BY_ONE = 0x6261_6901, 0x6261_6902


class Database:
    """An engine and its two kinds of transactions. Thread-safe; the constructor does no I/O.

    Raises `ConfigurationError` for a URL that cannot be used.
    """

    def __init__(self, url: str) -> None:
        self.url = _parse(url)
        self.shown = self.url.render_as_string(hide_password=True)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        # Waiting here instead of inside SQLite is fair, wakes at once and holds no connection.
        self._turn = threading.Lock()
        engine = self._engine = _make_engine(self.url, self.shown)
        self._reader: Engine
        self._writer: Engine
        self._single: Engine
        if self.is_sqlite:
            event.listen(engine, "connect", _prepare_sqlite)
            self._reader = self._writer = self._single = engine
        else:
            self._reader = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            self._writer = engine
            self._single = engine.execution_options(isolation_level="AUTOCOMMIT")

    def close(self) -> None:
        """Closes all connections that are not in use. The database can be used again after it."""
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one moment and changes nothing. Raises `Unavailable`."""
        with _unavailable(), self._reader.begin() as connection:
            self._begin(connection, "BEGIN")
            yield connection

    @contextmanager
    def query(self) -> Iterator[Connection]:
        """For a single statement that changes nothing: it needs no transaction to see one moment.
        Raises `Unavailable`."""
        with _unavailable(), self._single.connect() as connection:
            yield connection

    @contextmanager
    def write(self, *, alone: bool = False) -> Iterator[Connection]:
        """A transaction that is committed at the end, or undone by any exception.

        `alone`: at most one such transaction at a time, in all processes. Raises `Unavailable`.
        """
        turn = self._turns() if alone or self.is_sqlite else nullcontext()
        with turn, _unavailable(), self._writer.begin() as connection:
            self._begin(connection, "BEGIN IMMEDIATE")
            if alone and not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ALONE})
            yield connection

    def _begin(self, connection: Connection, how: str) -> None:
        """SQLite's own BEGIN, which its driver would leave out; neither an event of the engine nor
        a statement of SQLAlchemy's, which would make every transaction slower."""
        if self.is_sqlite:
            _raw(connection).execute(how)

    def written(self, connection: Connection) -> int | None:
        """How many rows the connection has changed so far; None where that cannot be known."""
        return _raw(connection).total_changes if self.is_sqlite else None

    def one_by_one(self, connection: Connection, key: str) -> None:
        """Until the end of this write, others that say the same key wait."""
        if not self.is_sqlite:
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:space, hashtext(:key))"),
                {"space": _ONE_BY_ONE, "key": key},
            )

    @contextmanager
    def migration(self) -> Iterator[Connection]:
        """The transaction of a schema change: alone, and without the foreign keys of SQLite, which
        would delete the rows that point to a table while it is rebuilt.

        It is the first contact with the database: creates a SQLite file where there is none.
        Raises `ConfigurationError` where the database cannot be reached or is none.
        """
        with self._turns(), self._first_contact(), self._writer.connect() as connection:
            self._foreign_keys(connection, "OFF")
            try:
                with connection.begin():
                    self._begin(connection, "BEGIN IMMEDIATE")
                    if not self.is_sqlite:
                        connection.execute(
                            text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ALONE}
                        )
                    yield connection
            finally:
                self._foreign_keys(connection, "ON")

    def _foreign_keys(self, connection: Connection, state: str) -> None:
        if self.is_sqlite and not connection.invalidated:
            # Past SQLAlchemy, because inside a transaction this pragma does nothing.
            _raw(connection).execute(f"PRAGMA foreign_keys = {state}")

    @contextmanager
    def _turns(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=BUSY_TIMEOUT):
            raise Unavailable("the database is busy: other changes took too long")
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _first_contact(self) -> Iterator[None]:
        try:
            if self.is_sqlite:
                self._create_file()
            yield
        except (DBAPIError, sqlite3.Error) as failure:
            raise self._wrong(f"The database cannot be used: {_first_line(failure)}.") from failure

    def _create_file(self) -> None:
        """Makes the file, for us alone to read, in WAL mode.

        Two processes must not switch the mode at once, and the file itself cannot be what they
        take turns on: closing it would drop SQLite's own locks. So its directory is.
        """
        path = Path(str(self.url.database))
        try:
            directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as failure:
            where = path.parent.absolute()
            raise self._wrong(f"{where} cannot be opened: {failure.strerror}.") from None
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            self._touch(path)
            with self._engine.connect() as connection:
                mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
            if mode != "wal":
                raise self._wrong(f"SQLite has no write-ahead log here (its mode is {mode}).")
        finally:
            os.close(directory)

    def _touch(self, path: Path) -> None:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return  # and its rights are somebody's choice
        except OSError as failure:
            raise self._wrong(f"The file cannot be made: {failure.strerror}.") from None

    def _wrong(self, problem: str) -> ConfigurationError:
        remedy = (
            "Name a file on a local disk, in a directory that the Hub may write to."
            if self.is_sqlite
            else "Check host, port, user, password and database, and that the server runs."
        )
        return ConfigurationError(TRAIT, self.shown, problem, remedy)


def _parse(raw: str) -> URL:
    shown = re.sub(r"(://[^:@/]*:)[^@]*@", r"\1***@", str(raw))
    try:
        url = make_url(raw)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            TRAIT, shown, "This is not a database URL.", f"{_EXAMPLES}."
        ) from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise ConfigurationError(
            TRAIT, shown, f"There is no support for {url.drivername}.", f"{_EXAMPLES}."
        )
    url = url.set(drivername=driver)
    if driver == "sqlite":
        name = url.database or ""
        if name in {"", ":memory:"} or name.startswith("file:") or url.query:
            raise ConfigurationError(
                TRAIT,
                shown,
                "The queue has to survive a restart, so SQLite needs a plain file.",
                "Name one: sqlite:////var/lib/jupyterhub/backendai.sqlite.",
            )
    return url


def _make_engine(url: URL, shown: str) -> Engine:
    is_sqlite = url.get_backend_name() == "sqlite"
    try:
        return create_engine(
            url,
            # Values stay out of logs and tracebacks: a session's variables may hold secrets.
            hide_parameters=True,
            pool_size=5,
            max_overflow=15,
            pool_timeout=BUSY_TIMEOUT,
            pool_pre_ping=not is_sqlite,
            connect_args=_SQLITE if is_sqlite else {"connect_timeout": CONNECT_TIMEOUT},
        )
    except ImportError:
        raise ConfigurationError(
            TRAIT,
            shown,
            "The driver for PostgreSQL is not installed.",
            "Install it beside the Hub: pip install 'jupyterhub-backendai[postgres]'.",
        ) from None


def _raw(connection: Connection) -> Any:
    """SQLite's own connection."""
    return connection.connection.dbapi_connection


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # no BEGIN but ours
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT * 1000}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError, sqlite3.OperationalError) as failure:
        raise Unavailable(f"the database does not answer: {_first_line(failure)}") from failure
    except PoolTimeout as failure:
        raise Unavailable("the database is busy: all connections are in use") from failure


def _first_line(failure: Exception) -> str:
    said = failure.orig if isinstance(failure, DBAPIError) else failure
    lines = str(said).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(said).__name__
