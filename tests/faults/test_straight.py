"""The shortcut to SQLite gives what SQLAlchemy gives, or fails where it does."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    insert,
    select,
    update,
)

from .straight import MemoryDatabase, StraightDatabase

THINGS = Table(
    "things", MetaData(),
    Column("id", Integer, primary_key=True), Column("a", String), Column("b", Integer, default=7),
    Column("j", JSON), Column("u", Integer, onupdate=9),
)  # fmt: skip
OF = THINGS.c.id == bindparam("of")
ADD = insert(THINGS)
CHANGE = update(THINGS).where(OF).values(a=bindparam("why"))
CHANGE_SOME = (
    update(THINGS)
    .where(THINGS.c.id.in_(bindparam("ids", expanding=True)))
    .values(a=bindparam("why"))
)
CHANGE_FIXED = update(THINGS).where(OF, THINGS.c.b.in_([1, 7])).values(a=bindparam("why"))
FAILED = "failed"


def results(kind: Any, path: Path, statement: Any, given: Any) -> tuple[list[Any], list[Any]]:
    """What three times gave, since a statement is prepared when it comes again; and the table."""
    memory = sqlite3.connect(":memory:", check_same_thread=False)
    memory.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, a, b, j, u)")
    memory.execute("INSERT INTO things VALUES (1, 'x', 1, NULL, 1), (2, 'y', 1, NULL, 1)")
    memory.commit()
    database = kind(f"sqlite:///{path / 'unused'}", memory)
    gave: list[Any] = []
    for _ in range(3):
        try:
            with database.write() as db:
                found = db.execute(statement, given)
                gave.append(found.all() if statement.is_select or statement._returning
                            else found.rowcount)  # fmt: skip
        except Exception:
            gave.append(FAILED)
    return gave, memory.execute("SELECT * FROM things ORDER BY id").fetchall()


@pytest.mark.parametrize(
    ("statement", "given", "fails"),
    [
        (ADD, [{"a": "1", "j": {"x": 1}}, {"a": "2", "j": [1]}], False),
        (ADD, [{"a": "1"}], False),
        (ADD, {"a": "1", "j": None}, False),
        (ADD, [{"id": 50, "a": "1"}, {"id": 50, "a": "2"}], True),
        (ADD.returning(THINGS.c.id), [{"a": "1"}, {"a": "2"}], False),
        (CHANGE, [{"of": 1, "why": "p"}, {"of": 2, "why": "q"}, {"of": 99, "why": "r"}], False),
        (CHANGE, [{"of": 1, "why": "p"}, {"of": 2, "why": "q", "b": 3}], False),
        (CHANGE, [{"of": 1, "why": "p"}, {"of": 2}], True),
        (CHANGE_SOME, {"ids": [1, 2], "why": "p"}, False),
        (CHANGE_SOME, [{"ids": [1], "why": "p"}, {"ids": [1, 2], "why": "q"}], True),
        (CHANGE_FIXED, {"of": 1, "why": "p"}, False),
        (CHANGE_FIXED, [{"of": 1, "why": "p"}, {"of": 2, "why": "q"}], True),
        (select(THINGS.c.a, THINGS.c.j).where(OF), {"of": 1}, False),
        (select(THINGS.c.a).where(OF), [{"of": 1}, {"of": 2}], True),
    ],
)
def test_it_is_what_sqlalchemy_does(
    statement: Any, given: Any, fails: bool, tmp_path: Path
) -> None:
    expected = results(MemoryDatabase, tmp_path, statement, given)
    assert results(StraightDatabase, tmp_path, statement, given) == expected
    assert (expected[0] == [FAILED] * 3) is fails
