"""Several processes on one database, and processes that are killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from store_samples import CATALOG, NOW, POLICIES, after, run_pass, submit, violations

from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import Store
from tests.holdings import holdings

WORKER = Path(__file__).with_name("store_worker.py")


@contextmanager
def worker(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Another process that does what `store_worker.py` has under that name."""
    process = subprocess.Popen(
        [sys.executable, WORKER, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """The next lines that it says; fewer only if it has ended."""
    assert process.stdout
    said = [process.stdout.readline() for _ in range(count)]
    assert all(said), f"it ended after {[line for line in said if line][-1:]}"
    return said


def until_quiet(store: Store) -> None:
    """Until nothing of a killed process goes on any more: a PostgreSQL server carries out what it
    was sent before."""
    busy = text(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and backend_type = 'client backend' and state <> 'idle' and pid <> pg_backend_pid()"
    )
    until = time.monotonic() + 30
    while not store._db.is_sqlite:
        with store._db.read() as db:
            if not db.scalar(busy):
                return
        assert time.monotonic() < until, "something goes on"


@pytest.mark.slow
def test_two_processes_hold_no_more_than_there_is(store: Store, url: str) -> None:
    steps = 100
    with worker("churn", url, "one", steps) as one, worker("churn", url, "two", steps) as two:
        for process in (one, two):
            said, _ = process.communicate()
            assert process.returncode == 0
            assert said.splitlines()[-1] == "violations: []"
    assert not violations(store)
    assert store.list_sessions()[1] > 20, "they did something"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_killed_process_leaves_whole_rows(store: Store, url: str, seed: int) -> None:
    """Killed at some moment of some write; the next one goes on at once."""
    with worker("churn_in_threads", url, seed) as process:
        lines(process, 40 + 17 * seed)
        process.kill()
    until_quiet(store)
    assert not violations(store)
    if store._db.is_sqlite:
        with store._db.read() as db:
            assert db.scalar(text("PRAGMA integrity_check")) == "ok"
    for session in store.live():
        store.move(session.id, Status.ERROR, phase=Phase.RECONCILE, now=NOW)
    submit(store, "after")
    assert run_pass(store) == ["after"]
    assert not violations(store)


def test_a_process_killed_before_its_commit_has_done_nothing(store: Store, url: str) -> None:
    session = submit(store, "train")
    with worker("half_a_move", url, session.id) as process:
        assert lines(process, 1) == ["inside\n"]
        assert store.get(session.id) == session, "reads do not wait for it and see nothing of it"
        process.kill()
        process.wait()
        assert run_pass(store) == ["train"], "its locks went with it"
    assert not violations(store)


def test_a_new_process_sees_all_that_was_done(store: Store, url: str) -> None:
    for number in range(6):
        submit(store, f"s{number}", now=after(number))
    run_pass(store, 10)
    store.set_kernel(store.live()[0].id, container_id="c0ffee")
    before = [store.live(), holdings(store), store.agents(), store.hub_id]
    history = {s.id: (store.history(s.id), store.kernels(s.id)) for s in store.live()}
    snapshot = store.snapshot(POLICIES, CATALOG, after(11))
    store.close()

    again = Store(url)
    again.upgrade()
    assert [again.live(), holdings(again), again.agents(), again.hub_id] == before
    assert {s.id: (again.history(s.id), again.kernels(s.id)) for s in again.live()} == history
    assert again.snapshot(POLICIES, CATALOG, after(11)) == snapshot
    again.close()
