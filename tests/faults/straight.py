"""The store's statements, given to SQLite's driver straight away.

A statement that is run time and again is compiled once. Its values and rows go through the very
processors that SQLAlchemy has for them, but not through its events, pools, contexts and results,
which take longer than SQLite does. What is met for the first time, or is anything special,
SQLAlchemy runs on the same connection; it is also asked to do again what fails, so that the error
is its own. A database in memory is never away, so that nothing here is `Unavailable`.
`test_straight` holds it against SQLAlchemy, and `test_stub_faults` runs schedules both ways and
compares all that comes of them.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from sqlalchemy import Connection, Engine, TextClause
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.compiler import SQLCompiler

from jupyterhub_backendai.store.database import Database


class MemoryDatabase(Database):
    """The store's database, plainly as it is, on the one connection that is given."""

    def __init__(self, url: str, driver: sqlite3.Connection) -> None:
        super().__init__(url)
        self._engine.pool = StaticPool(lambda: driver, dialect=self._engine.dialect)


class StraightDatabase(MemoryDatabase):
    """The same without detours, for one thread and one transaction at a time."""

    def __init__(self, url: str, driver: sqlite3.Connection) -> None:
        super().__init__(url, driver)
        connection = Straight(self._engine, driver)
        self._query = Transaction(connection, driver, "")
        self._read = Transaction(connection, driver, "BEGIN")
        self._write = Transaction(connection, driver, "BEGIN IMMEDIATE")

    def query(self) -> Any:
        return self._query

    def read(self) -> Any:
        return self._read

    def write(self, *, alone: bool = False) -> Any:
        return self._write


class Transaction:
    """A connection from its BEGIN, where it has one, to its end."""

    def __init__(self, connection: Straight, driver: sqlite3.Connection, begin: str) -> None:
        self._connection, self._driver, self._begin = connection, driver, begin

    def __enter__(self) -> Straight:
        assert not self._driver.in_transaction, "one is within another"
        if self._begin:
            self._driver.execute(self._begin)
        return self._connection

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self._driver.commit()
        else:
            self._driver.rollback()


class Straight:
    """What a transaction gives: as much of SQLAlchemy's connection as the store asks for."""

    def __init__(self, engine: Engine, driver: sqlite3.Connection) -> None:
        self.dialect = engine.dialect
        self.connection = SimpleNamespace(dbapi_connection=driver)
        self._driver = driver
        self._slow: Connection = engine.connect()
        self._known: dict[tuple[Any, tuple[str, ...]], Known | Prepared] = {}
        self._met: WeakSet[Any] = WeakSet()

    def execute(self, statement: Any, given: Any = None) -> Any:
        if type(given) is list and len(given) == 1:
            (given,) = given
        many = type(given) is list
        first = given[0] if many else given or {}
        prepared = self._find(statement, first)
        if prepared is None or (many and not prepared.takes_many):
            return self._slow.execute(statement, given)
        try:
            if many:
                cursor = self._driver.executemany(prepared.sql, map(prepared.values, given))
            else:
                cursor = self._driver.execute(prepared.sql, prepared.values(first))
        except sqlite3.Error as error:
            self._slow.execute(statement, given)
            raise AssertionError(f"only SQLAlchemy can run {prepared.sql}") from error
        return Rows(prepared.rows(cursor.fetchall()) if prepared.row else [], cursor.rowcount)

    def scalar(self, statement: Any, given: Any = None) -> Any:
        return self.execute(statement, given).scalar()

    def scalars(self, statement: Any, given: Any = None) -> Any:
        return self.execute(statement, given).scalars()

    def _find(self, statement: Any, given: Mapping[str, Any]) -> Prepared | None:
        key = statement, tuple(given)
        known = self._known.get(key)
        if type(known) is Prepared:
            return known
        if known is None:
            if statement not in self._met:  # most likely made for this one time
                self._met.add(statement)
                return None
            known = self._known[key] = Known(statement, key[1], self.dialect)
        found = known.of(given)
        if found and not known.lists:
            self._known[key] = found
        return found


class Rows:
    """What a statement gave, once: as much of SQLAlchemy's results as is asked for here."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows, self.rowcount = rows, rowcount

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all())

    def all(self) -> list[Any]:
        rows, self._rows = self._rows, []
        return rows

    def first(self) -> Any:
        return next(iter(self), None)

    def one_or_none(self) -> Any:
        return self.one() if self._rows else None

    def one(self) -> Any:
        (row,) = self
        return row

    def scalar(self) -> Any:
        row = self.first()
        return None if row is None else row[0]

    def scalar_one(self) -> Any:
        return self.one()[0]

    def scalars(self) -> Rows:
        return Rows([row[0] for row in self], self.rowcount)


class Special(Exception):
    """A statement that SQLAlchemy has to run."""


class Known:
    """A statement for values of certain names; `lists` are those that are lists."""

    def __init__(self, statement: Any, names: tuple[str, ...], dialect: Any) -> None:
        self._compiled = statement.compile(dialect=dialect, column_keys=list(names))
        binds = self._compiled.binds.values()
        self.lists = [bind.key for bind in binds if bind.expanding and bind.key in names]
        self._prepared: dict[tuple[int, ...], Prepared | None] = {}

    def of(self, given: Mapping[str, Any]) -> Prepared | None:
        """It for these values; None where SQLAlchemy has to run it."""
        lengths = tuple(len(given[name]) for name in self.lists)
        try:
            return self._prepared[lengths]
        except KeyError:
            found = self._prepared[lengths] = self._made(given)
            return found

    def _made(self, given: Mapping[str, Any]) -> Prepared | None:
        try:
            return Prepared(self._compiled, given)
        except Special:
            return None


class Prepared:
    """A statement for values of certain names, and lists among them of certain lengths."""

    def __init__(self, compiled: SQLCompiler, given: Mapping[str, Any]) -> None:
        binds = compiled.binds.items()
        renamed = any(bind.key in given and bind.key != name for name, bind in binds)
        late = compiled.literal_execute_params or any(bind.callable for _, bind in binds)
        if renamed or late or isinstance(compiled.statement, TextClause):
            raise Special
        self._of_values(compiled, given)
        self._of_rows(compiled)
        # Of many SQLAlchemy alone gives rows, and says no to lists.
        lists = any(bind.expanding for _, bind in binds)
        self.takes_many = not (lists or self.row)

    def _of_values(self, compiled: SQLCompiler, given: Mapping[str, Any]) -> None:
        state = compiled.construct_expanded_state(dict(given))
        self.sql = state.statement
        fixed = {**state.parameters, **_defaults(compiled)}
        processors = {**compiled._bind_processors, **state.processors}
        parts = {
            part: (of, number)
            for of, parts in state.parameter_expansion.items()
            for number, part in enumerate(parts)
        }
        self._fixed: list[Any] = []
        self._given: list[tuple[int, str, int | None, Any]] = []
        for place, name in enumerate(state.positiontup or ()):
            key, number = parts.get(name, (name, None))
            process = processors.get(name)
            if key in given:
                self._given.append((place, key, number, process))
                self._fixed.append(None)
            else:
                self._fixed.append(process(fixed[name]) if process else fixed[name])

    def _of_rows(self, compiled: SQLCompiler) -> None:
        columns = compiled._result_columns
        keys = [column.keyname for column in columns]
        if len(set(keys)) < len(keys):
            raise Special
        self.row: Any = namedtuple("row", keys, rename=True)._make if keys else None
        each = (column.type._cached_result_processor(compiled.dialect, None) for column in columns)
        self._read = [(place, process) for place, process in enumerate(each) if process]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """The values in their places."""
        values = self._fixed.copy()
        for place, key, number, process in self._given:
            value = given[key] if number is None else given[key][number]
            values[place] = process(value) if process else value
        return values

    def rows(self, found: list[tuple[Any, ...]]) -> list[Any]:
        """What the driver found, as the store reads it."""
        read, row = self._read, self.row
        if not read:
            return [row(each) for each in found]
        made = []
        for each in found:
            values = list(each)
            for place, process in read:
                values[place] = process(values[place])
            made.append(row(values))
        return made


def _defaults(compiled: SQLCompiler) -> dict[str, Any]:
    """What the tables say for columns that are given no value."""
    found = {}
    for column in (*compiled.insert_prefetch, *compiled.update_prefetch):
        default = column.default if compiled.isinsert else column.onupdate
        if default is None or not default.is_scalar:
            raise Special
        found[column.key] = default.arg
    return found
