"""The schema: what the migrations make is what the code expects, whoever comes first."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text
from store_samples import NOW, after, end, request, run_pass, slots, start, submit, violations
from test_store_hibernation import begin_rest, resting
from test_store_images import running

from jupyterhub_backendai.model.errors import ConfigurationError
from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import AgentReport, Return, SessionResult, Store, schema
from jupyterhub_backendai.store.database import Database
from jupyterhub_backendai.store.tables import Base
from tests.holdings import holdings

SESSIONS_OF_OLD = "SELECT id, status, ended_at FROM sessions"
WORKER = Path(__file__).with_name("store_worker.py")


def upgrade(database: Database) -> None:
    with database.migration() as connection:
        schema.upgrade(database, connection)


def tables(database: Database) -> set[str]:
    with database.read() as db:
        return set(inspect(db).get_table_names())


def test_the_migrations_make_what_the_tables_say(database: Database) -> None:
    upgrade(database)
    with database.read() as db:
        context = MigrationContext.configure(
            db, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, Base.metadata) == []


def test_conditions_of_indexes(database: Database) -> None:
    """The comparison above does not look at them."""
    upgrade(database)
    with database.read() as db:
        inspector = inspect(db)
        found = {
            index["name"]: (index["unique"], index["dialect_options"])
            for name in tables(database)
            for index in inspector.get_indexes(name)
        }
    for index in ("uq_sessions_live_name", "uq_sessions_live_server", "uq_allocations_held"):
        unique, options = found[index]
        assert unique
        assert any(key.endswith("_where") for key in options), options


def test_down_and_up_again(database: Database) -> None:
    upgrade(database)
    everything = tables(database)
    revisions = ScriptDirectory.from_config(schema.configuration()).walk_revisions()
    for script in list(revisions):
        with database.migration() as connection:
            schema.downgrade(connection, script.down_revision or "base")
    assert tables(database) == {"alembic_version"}
    upgrade(database)
    assert tables(database) == everything == {*Base.metadata.tables, "alembic_version"}


def test_an_upgrade_of_what_is_up_to_date_changes_nothing(store: Store, url: str) -> None:
    session = submit(store, "train")
    run_pass(store)
    held, hub_id = holdings(store), store.hub_id
    again = Store(url)
    again.upgrade()
    assert again.get(session.id) == store.get(session.id)
    assert holdings(again) == held
    assert again.hub_id == hub_id
    assert len(hub_id) == 8
    again.close()


def test_a_database_of_a_newer_version(store: Store, database: Database) -> None:
    with database.write() as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(ConfigurationError, match="newer version .*9999"):
        store.upgrade()


def test_processes_that_start_at_once(url: str) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, WORKER, "upgrade", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        for _ in range(3)
    ]
    for worker in workers:
        assert worker.stdout
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin
        worker.stdin.write("go\n")
        worker.stdin.flush()
    said = {worker.communicate()[0] for worker in workers}
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert len(said) == 1


def test_threads_that_start_at_once(url: str) -> None:
    stores = [Store(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(Store.upgrade, stores))
    assert len({store.hub_id for store in stores}) == 1
    for store in stores:
        store.close()


def test_sessions_of_an_older_schema_are_numbered(store: Store, database: Database) -> None:
    made = [submit(store, f"s{number}", now=after(-number)).id for number in range(3)]
    with database.migration() as connection:
        schema.downgrade(connection, "0001")
    upgrade(database)
    assert [c.session.id for c in store.changes(0)] == made[::-1], "the oldest first"
    assert store.seq() == 3
    assert store.get(made[0]).asked is None
    submit(store, "next")
    assert store.seq() == 4


def test_secrets_that_an_older_version_kept_are_emptied(store: Store, database: Database) -> None:
    env = {"HF_TOKEN": "hf_1", "LANG": "C"}
    ended, waits = (
        submit(store, name, request=request(env=env), asked={"env": {"LANG": "C"}})
        for name in ("ended", "waits")
    )
    store.move(ended.id, Status.CANCELLED, phase=Phase.CANCEL, now=after(1))
    spec, seq = store.get(waits.id).request.model_dump(mode="json"), store.seq()
    with database.migration() as connection:
        schema.downgrade(connection, "0002")
    # As they were written before.
    with database.write() as db:
        for name in ("sessions", "launches"):
            db.execute(
                text(f"UPDATE {name} SET asked = :asked"), {"asked": json.dumps({"env": env})}
            )
        db.execute(text("UPDATE sessions SET spec = :spec"), {"spec": json.dumps(spec)})
    upgrade(database)
    emptied = {"HF_TOKEN": "", "LANG": "C"}
    assert store.get(ended.id).request.env == emptied
    assert store.get(waits.id).request.env == env, "it is yet to be started"
    assert store.get(waits.id).asked == {"env": emptied}
    assert [launch.asked for launch in store.launches("ana")] == [{"env": emptied}] * 2
    assert store.seq() == seq, "no news for anybody"


def test_foreign_keys_hold_after_a_migration(database: Database) -> None:
    upgrade(database)
    with pytest.raises(Exception, match="(?i)foreign key"), database.write() as db:
        db.execute(text("INSERT INTO kernels (session_id, name, role) VALUES ('x', 'y', 'z')"))


def test_sessions_of_a_version_without_gpus_go_on(store: Store, database: Database) -> None:
    """One that runs and one that waits, with the requests and allocations of that version."""
    store.report_agents([AgentReport("node-1", "default", slots(1, 1))], now=NOW)
    runs, waits = submit(store, "runs"), submit(store, "waits", now=after(1))
    assert run_pass(store) == ["runs"]
    spec = store.get(runs.id).request.model_dump(mode="json")
    older = {key: spec[key] for key in spec if key not in {"gpu", "mig", "mig_profile"}}
    with database.migration() as connection:
        schema.downgrade(connection, "0004")
    with database.write() as db:
        db.execute(text("UPDATE sessions SET spec = :spec"), {"spec": json.dumps(older)})
    upgrade(database)
    assert store.granted(runs.id) == ()
    assert store.get(runs.id).request == runs.request
    (agent,) = store.agents()
    assert (agent.devices, agent.capacity) == ((), slots(1, 1))
    assert [(h.session_id, h.devices, h.slots) for h in store.holdings()] == [
        (runs.id, (), slots(1, 1))
    ]
    assert run_pass(store, 2) == []
    start(store, runs.id, 3)
    end(store, runs.id, 4, SessionResult.SUCCESS)
    assert run_pass(store, 5) == ["waits"]
    assert store.get(waits.id).request.slots == slots(1, 1)


def test_what_a_version_that_hibernates_nothing_finds_of_it(
    store: Store, database: Database
) -> None:
    rests, back, begun = resting(store, "rests"), resting(store, "back"), running(store, "begun")
    store.resume(back.id, Return("ana", (), None), after(50))
    commit = begin_rest(store, begun, seconds=51)
    with database.migration() as connection:
        schema.downgrade(connection, "0011")
    with database.read() as db:
        rows = {id: (s, at) for id, s, at in db.execute(text(SESSIONS_OF_OLD))}
        history = db.execute(text("SELECT phase, from_status, to_status FROM history")).all()
    assert [rows[one.id][0] for one in (rests, back, begun)] == ["TERMINATED", "PENDING", "RUNNING"]
    assert [rows[one.id][1] is None for one in (rests, back, begun)] == [False, True, True]
    assert {"hibernate", "resume", "HIBERNATED"}.isdisjoint(word for row in history for word in row)
    assert history
    upgrade(database)
    assert store.get(rests.id).status.is_final
    assert {one.id for one in store.live()} == {back.id, begun.id}
    assert store.history(rests.id)
    assert store.hibernations() == []
    assert store.commits_under_way() == [], "it would be made as an image to choose"
    assert store.commit(commit.id).status is CommitStatus.CANCELLED
    assert violations(store) == []
    submit(store, "rests", now=after(60))  # its name is free
