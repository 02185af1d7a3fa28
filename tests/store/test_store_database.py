"""Connections, transactions, and what a wrong URL is answered with."""

from __future__ import annotations

import sqlite3
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text

from jupyterhub_backendai.model.errors import ConfigurationError
from jupyterhub_backendai.store import Store, Unavailable
from jupyterhub_backendai.store import database as database_module
from jupyterhub_backendai.store.database import Database
from jupyterhub_backendai.store.tables import META


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "not a database URL"),
        ("nonsense", "not a database URL"),
        ("mysql://hub:secret@db/hub", "no support for mysql"),
        ("postgresql+asyncpg://hub:secret@db/hub", "no support for postgresql+asyncpg"),
        ("postgresql://hub:secret@db:port/hub", "not a database URL"),
        ("sqlite://", "plain file"),
        ("sqlite:///:memory:", "plain file"),
        ("sqlite:///file:x?mode=memory&uri=true", "plain file"),
        ("sqlite:////tmp/x.sqlite?mode=ro", "plain file"),
    ],
)
def test_a_url_that_cannot_be_used(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match="BackendAI.database_url") as caught:
        Store(url)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_postgresql_without_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match="pip install"):
        Store("postgresql://hub@localhost/hub")


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    store = Store(f"postgresql://hub:secret@/hub?host={tmp_path}")
    with pytest.raises(ConfigurationError, match="cannot be used") as caught:
        store.upgrade()
    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value.__cause__)
    with pytest.raises(Unavailable):
        store.agents()


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent cannot be opened: No such"):
        Store(f"sqlite:///{tmp_path}/absent/store.sqlite").upgrade()


def test_a_directory_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used: unable to open"):
        Store(f"sqlite:///{tmp_path}").upgrade()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_text("This is not a database, whatever its name says." * 100)
    with pytest.raises(ConfigurationError, match="file is not a database"):
        Store(f"sqlite:///{path}").upgrade()


def test_a_new_file_is_for_us_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(f"sqlite:///{path}")
    store.upgrade()
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    store.close()


def test_the_rights_of_a_file_that_is_there_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.touch(0o640)
    path.chmod(0o640)
    Store(f"sqlite:///{path}").upgrade()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_settings_of_sqlite(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/store.sqlite")
    store.upgrade()
    with store._db.write() as first, store._db.read() as second:
        for db in (first, second):
            answers = [
                db.scalar(text(f"PRAGMA {name}"))
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            ]
            assert answers == ["wal", 2, 1, 30_000]


def test_a_write_takes_its_turn_before_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEGIN IMMEDIATE: or two that read first and write then could not both go on."""
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT", 0)
    store = Store(f"sqlite:///{tmp_path}/store.sqlite")
    store.upgrade()
    other = sqlite3.connect(tmp_path / "store.sqlite", timeout=0, isolation_level=None)
    with store._db.write():
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.execute("SELECT count(*) FROM meta").fetchall()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"), store._db.write():
        pytest.fail("two wrote at once")
    other.execute("ROLLBACK")
    with store._db.write():
        pass
    other.close()


def value_of(db: Connection, key: str) -> str | None:
    return db.scalar(select(META.c.value).where(META.c.key == key))


def test_an_exception_undoes_a_write(database: Database, store: Store) -> None:
    def write_and_fail() -> None:
        with database.write() as db:
            db.execute(insert(META).values(key="k", value="v"))
            raise KeyError

    with pytest.raises(KeyError):
        write_and_fail()
    with database.read() as db:
        assert value_of(db, "k") is None


def test_a_read_sees_one_moment(database: Database, store: Store) -> None:
    with database.read() as before:
        assert value_of(before, "k") is None
        with database.write() as db:
            db.execute(insert(META).values(key="k", value="v"))
        assert value_of(before, "k") is None
    with database.read() as db:
        assert value_of(db, "k") == "v"


def test_alone_is_alone(database: Database, store: Store) -> None:
    """A counter that is read and written back loses nothing, whatever the isolation."""
    with database.write() as db:
        db.execute(insert(META).values(key="counter", value="0"))
    other = Database(database.url.render_as_string(hide_password=False))

    def count(_: int) -> None:
        for which in (database, other):
            with which.write(alone=True) as db:
                value = db.scalar(text("SELECT value FROM meta WHERE key = 'counter'"))
                db.execute(
                    text("UPDATE meta SET value = :value WHERE key = 'counter'"),
                    {"value": str(int(str(value)) + 1)},
                )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(20)))
    other.close()
    with database.read() as db:
        assert value_of(db, "counter") == "40"
