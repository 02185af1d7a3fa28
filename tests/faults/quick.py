"""SQLAlchemy's statements on one connection to SQLite, with less around each.

A schedule is some 2,500 small statements, and half of its time was what SQLAlchemy does around one:
a connection from the pool, a context, a cursor's proxy. Here SQLAlchemy still compiles them, and
turns their values there and back; what is not plain goes its usual way. That nothing else comes of
it is a test: `test_stub_faults.py` runs a schedule both ways.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.exc import DBAPIError


class QuickConnection:
    """As much of a `Connection` as the store uses."""

    def __init__(self, engine: Engine, sqlite: sqlite3.Connection) -> None:
        self.connection = SimpleNamespace(dbapi_connection=sqlite)
        self._sqlite, self._engine, self.dialect = sqlite, engine, engine.dialect
        self._usual = engine.connect()
        self._plans: dict[Any, _Plan] = {}

    def execute(self, statement: Any, values: Any = None) -> Any:
        if isinstance(values, list):
            return self._usual.execute(statement, values)
        compiled, extracted, collected, _ = statement._compile_w_cache(
            dialect=self.dialect,
            compiled_cache=self._engine._compiled_cache,
            column_keys=sorted(values) if values else [],
            linting=self.dialect.compiler_linting,
        )
        plan = self._plans.get(compiled)
        if plan is None:
            plan = self._plans[compiled] = _Plan(compiled, self.dialect)
        if not plan.is_plain:
            return self._usual.execute(statement, values)
        given = compiled.construct_params(
            values,
            extracted_parameters=extracted,
            escape_names=False,
            _collected_params=collected,
        )
        sent = [given[name] if turn is None else turn(given[name]) for name, turn in plan.values]
        try:
            cursor = self._sqlite.execute(plan.sql, sent)
            if plan.columns is None:
                return cursor
            return IteratorResult(plan.columns, iter(cursor.fetchall()))
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                plan.sql, sent, error, sqlite3.Error, dialect=self.dialect
            ) from error

    def scalars(self, statement: Any, values: Any = None) -> Any:
        return self.execute(statement, values).scalars()

    def scalar(self, statement: Any, values: Any = None) -> Any:
        return self.execute(statement, values).scalar()


class _Plan:
    """What is the same each time that a statement is run."""

    def __init__(self, compiled: Any, dialect: Any) -> None:
        self.sql = compiled.string
        turns = compiled._bind_processors
        self.values = [(name, turns.get(name)) for name in compiled.positiontup or ()]
        self.columns: SimpleResultMetaData | None = None
        columns = compiled._result_columns
        self.is_plain = not (
            compiled.isplaintext
            or compiled.literal_execute_params
            or compiled.post_compile_params
            or compiled.insert_prefetch
            or compiled.update_prefetch
            or compiled.implicit_returning
        )
        if columns:
            self.columns = SimpleResultMetaData(
                [column.keyname for column in columns],
                _processors=[
                    column.type._cached_result_processor(dialect, None) for column in columns
                ],
            )


class QuickEngine:
    """In the place of the store's engines."""

    def __init__(self, engine: Engine, sqlite: sqlite3.Connection) -> None:
        self._sqlite, self._connection = sqlite, QuickConnection(engine, sqlite)

    @contextmanager
    def connect(self) -> Iterator[QuickConnection]:
        yield self._connection

    @contextmanager
    def begin(self) -> Iterator[QuickConnection]:
        try:
            yield self._connection
        except BaseException:
            self._sqlite.rollback()
            raise
        self._sqlite.commit()
