"""Statements that are compiled once, and a transaction that runs them past SQLAlchemy on SQLite.

SQLite answers most statements sooner than SQLAlchemy finds the compiled form of them, makes its
result and reads it. So what runs often is `fixed`: on SQLite its text, the order of its values and
how these are converted are known after the first time. Everything else, and everything on
PostgreSQL, where the way to the server is what takes time, goes through SQLAlchemy as usual.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy import Dialect, Engine, Executable, PoolProxiedConnection
from sqlalchemy.exc import DBAPIError, MultipleResultsFound, NoResultFound

S = TypeVar("S", bound=Executable)
Convert = Callable[[Any], Any]
Values = Mapping[str, Any]
MOST_VALUES = 50  # in a list of a fixed statement; one with more goes the usual way


def fixed(statement: S, *lists: str) -> S:
    """This statement, to be compiled once: for those that are made once, by their modules.
    `lists` are its values that are lists (`expanding`)."""
    _FIXED[statement] = _Fixed(statement, lists)
    return statement


class AsSqlalchemys:
    """Raises errors of SQLite's driver as SQLAlchemy does."""

    __slots__ = ("text",)

    def __init__(self, text: str = "") -> None:
        self.text = text

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, sqlite3.Error):
            # Without the values: a session's variables may hold secrets.
            raise DBAPIError.instance(
                self.text, None, error, sqlite3.Error, hide_parameters=True
            ) from error


class Rows(list[Any]):
    """What a statement found, all of it; as much of SQLAlchemy's results as is used here."""

    rowcount = -1

    def all(self) -> list[Any]:
        """The rows."""
        return self

    def first(self) -> Any:
        """The first row, or None."""
        return self[0] if self else None

    def one_or_none(self) -> Any:
        """The only row, or None."""
        if len(self) > 1:
            raise MultipleResultsFound("there are more rows than one")
        return self[0] if self else None

    def one(self) -> Any:
        """The only row."""
        if not self:
            raise NoResultFound("there is no row")
        return self.one_or_none()


class _Fixed:
    """A statement and how it is run, by the names of its values and the lengths of its lists."""

    def __init__(self, statement: Any, lists: Sequence[str]) -> None:
        self.statement, self.lists = statement, lists
        self._plans: dict[tuple[Any, ...], _Plan] = {}

    def plan(self, values: Values, dialect: Dialect) -> _Plan | None:
        """None where it is run in the usual way."""
        key: tuple[Any, ...] = tuple(values)
        if self.lists:
            lengths = [len(values[name]) for name in self.lists]
            if not all(0 < length <= MOST_VALUES for length in lengths):
                return None
            key = (*key, *lengths)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _Plan(self.statement, dialect, values, self.lists)
        return plan


_FIXED: dict[Executable, _Fixed] = {}


class _Plan:
    """The text of a statement, and what its values and rows are converted by."""

    def __init__(
        self, statement: Any, dialect: Dialect, values: Values, lists: Sequence[str]
    ) -> None:
        if statement.is_select:  # whose lists are as long as these
            statement = statement.params(**values)
        compiled = statement.compile(
            dialect=dialect, column_keys=list(values),
            compile_kwargs={"render_postcompile": statement.is_select},
        )  # fmt: skip
        self.text, self._lists = str(compiled), lists
        kinds = {name: bind.type for name, bind in compiled.binds.items()}
        own = {
            name: bind.value
            for name, bind in compiled.binds.items()
            if name not in values and not bind.required
        }
        if compiled.isinsert or compiled.isupdate:
            for column in compiled.insert_prefetch or compiled.update_prefetch:
                default = column.default if compiled.isinsert else column.onupdate
                own[column.key] = default.arg
        for name in [name for name in own if compiled.binds[name].expanding]:
            own |= _one_by_one(name, own.pop(name) or ())
        self._own, self._values = own, []
        for name in compiled.positiontup:
            kind = kinds[name] if name in kinds else kinds[name.rpartition("_")[0]]
            self._values.append((name, kind.dialect_impl(dialect).bind_processor(dialect)))
        found = list(statement.exported_columns)
        self._row: Any = namedtuple("_row", [c.key for c in found], rename=True)  # type: ignore[misc]
        self._converts = [
            (index, convert)
            for index, column in enumerate(found)
            if (convert := column.type.dialect_impl(dialect).result_processor(dialect, None))
        ]

    def arguments(self, values: Values) -> list[Any]:
        """The values in their order, as the driver takes them."""
        all_ = {**self._own, **values}
        for name in self._lists:
            all_ |= _one_by_one(name, values[name])
        return [
            all_[name] if convert is None else convert(all_[name]) for name, convert in self._values
        ]

    def read(self, rows: list[Any]) -> Rows:
        """Rows of the driver, with their names and as Python's values."""
        converts, make, found = self._converts, self._row._make, Rows()
        for row in rows:
            if converts:
                row = list(row)
                for index, convert in converts:
                    if row[index] is not None:
                        row[index] = convert(row[index])
            found.append(make(row))
        return found


def _one_by_one(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """The values of a list, by the names that they have in the text."""
    return {f"{name}_{number}": value for number, value in enumerate(values, 1)}


class Transaction:
    """One of SQLite; who makes it begins and ends it."""

    def __init__(self, engine: Engine, pooled: PoolProxiedConnection) -> None:
        self._engine, self._pooled = engine, pooled
        self._raw: sqlite3.Connection = pooled.dbapi_connection  # type: ignore[assignment]
        self._usual: sqlalchemy.Connection | None = None

    def execute(self, statement: Any, values: Any = None) -> Any:
        """As `sqlalchemy.Connection` does it."""
        known = _FIXED.get(statement)
        many = isinstance(values, list)
        plan = None
        if known is not None:
            plan = known.plan((values[0] if many else values) or {}, self._engine.dialect)
        if plan is None:
            if self._usual is None:
                self._usual = sqlalchemy.Connection(self._engine, self._pooled)
            return self._usual.execute(statement, values)
        with AsSqlalchemys(plan.text):
            if many:
                self._raw.executemany(plan.text, [plan.arguments(each) for each in values])
                return Rows()
            cursor = self._raw.execute(plan.text, plan.arguments(values or {}))
            found = plan.read(cursor.fetchall())
        found.rowcount = cursor.rowcount
        return found

    def scalar(self, statement: Any, values: Any = None) -> Any:
        """The first value of the first row; None where there is none."""
        row = self.execute(statement, values).first()
        return None if row is None else row[0]

    def scalars(self, statement: Any, values: Any = None) -> Any:
        """The first value of each row."""
        return Rows(row[0] for row in self.execute(statement, values))


Connection = sqlalchemy.Connection | Transaction
