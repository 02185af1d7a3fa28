"""Statements that SQLite runs past SQLAlchemy do what they do with it."""

from __future__ import annotations

import pytest
from sqlalchemy import bindparam, insert, select
from sqlalchemy.exc import IntegrityError
from store_samples import NOW, run_pass, submit

from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import Store, statements
from jupyterhub_backendai.store.tables import AGENTS, HISTORY, LAUNCHES, SESSIONS


@pytest.mark.parametrize("table", [SESSIONS, HISTORY, LAUNCHES, AGENTS], ids=str)
def test_rows_are_the_same(store: Store, table: object) -> None:
    for number in range(3):
        submit(store, f"s{number}", asked={"name": f"s{number}"})
    run_pass(store)
    usual, fixed = select(table), statements.fixed(select(table))
    with store._db.read() as db:
        expected = [row._asdict() for row in db.execute(usual)]
        assert [row._asdict() for row in db.execute(fixed)] == expected
    assert expected or table is AGENTS


@pytest.mark.parametrize("count", [0, 1, statements.MOST_VALUES, statements.MOST_VALUES + 1])
def test_lists_of_any_length(store: Store, count: int) -> None:
    ids = [submit(store, f"s{number}").id for number in range(min(count, 3))]
    others = [f"none-{number}" for number in range(count - len(ids))]
    assert set(store.get_many([*others, *ids])) == set(ids)


def test_values_of_the_statement_itself(store: Store) -> None:
    waits = submit(store, "waits")
    ended = submit(store, "ended")
    store.move(ended.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW)
    assert [s.id for s in store.live({Status.PENDING, Status.RUNNING})] == [waits.id]
    assert store.live({Status.RUNNING}) == store.live(set()) == []


def test_a_value_that_is_missing_is_an_error(store: Store) -> None:
    with pytest.raises(Exception, match="whose"), store._db.read() as db:
        db.execute(statements.fixed(select(LAUNCHES).where(LAUNCHES.c.owner == bindparam("whose"))))


def test_errors_are_those_of_sqlalchemy_and_tell_no_values(store: Store) -> None:
    add = statements.fixed(insert(LAUNCHES))
    launch = {"id": 1, "owner": "ana", "name": "secret", "asked": {}, "pinned": False}
    with pytest.raises(IntegrityError) as caught, store._db.write() as db:  # noqa: PT012
        db.execute(add, launch | {"created_at": NOW})
        db.execute(add, launch | {"created_at": NOW})
    assert "secret" not in str(caught.value)
    assert store.launches("ana") == [], "all or nothing"
