"""Whoever follows the change feed misses nothing, while many write at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from sqlalchemy import select, update
from store_samples import (
    NOW,
    after,
    run_pass,
    submit,
)

from jupyterhub_backendai.model.status import (
    IllegalTransition,
    Phase,
    Result,
    Status,
)
from jupyterhub_backendai.store import (
    Store,
)
from jupyterhub_backendai.store.tables import SESSIONS

WRITERS, TURNS = 6, 5


def test_a_reader_misses_nothing_while_many_write(store: Store) -> None:
    done = Event()

    def write(number: int) -> None:
        for turn in range(TURNS):
            session = submit(store, f"s{number}-{turn}", now=after(turn))
            store.rename(session.id, f"t{number}-{turn}")
            run_pass(store, 10)
            store.move(session.id, Status.ERROR, phase=Phase.RECONCILE, now=NOW)

    def follow() -> dict[str, Status]:
        known: dict[str, Status] = {}
        position = 0
        while True:
            last = done.is_set()  # asked before the look: what came before it is in it
            changes = store.changes(position, limit=7)
            numbers = [change.seq for change in changes]
            assert numbers == sorted(set(numbers))
            assert all(number > position for number in numbers)
            known |= {change.session.id: change.session.status for change in changes}
            position = numbers[-1] if numbers else position
            if last and not changes:
                return known

    with ThreadPoolExecutor(WRITERS + 2) as pool:
        readers = [pool.submit(follow) for _ in range(2)]
        list(pool.map(write, range(WRITERS)))
        done.set()
        followed = [reader.result(timeout=60) for reader in readers]
    found, total = store.list_sessions(limit=1000)
    assert total == WRITERS * TURNS
    for known in followed:
        assert known == {session.id: session.status for session in found}
        assert set(known.values()) == {Status.ERROR}


def seen(store: Store, after_seq: int, **more: Any) -> list[str]:
    return [change.session.name for change in store.changes(after_seq, **more)]


def test_each_change_has_the_next_number(store: Store) -> None:
    begun = store.seq()
    one, two = submit(store, "one"), submit(store, "two", owner="bob", now=after(1))
    assert store.seq() == begun + 2
    assert seen(store, 0) == ["one", "two"]
    store.rename(one.id, "uno")
    assert seen(store, 0) == ["two", "uno"], "each session once, by its latest change"
    assert seen(store, 0, owner="bob") == ["two"]
    assert seen(store, 0, limit=1) == ["two"]
    before = store.seq()
    store.rename(one.id, "uno")
    store.live()
    assert store.seq() == before, "nothing changed"
    for change in (
        lambda: store.set_kernel(two.id, container_id="c0ffee"),
        lambda: store.note(two.id, Phase.PULL, Result.STALE, now=NOW),
        lambda: store.mark_batch_started(two.id, NOW),
        lambda: store.move(two.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW),
    ):
        change()
        assert seen(store, before) == ["two"]
        before = store.seq()


def test_a_pass_is_in_the_feed_with_all_that_it_told(store: Store) -> None:
    for number in range(6):
        submit(store, f"s{number}", now=after(number))
    before = store.seq()
    run_pass(store, 10)
    changes = store.changes(before)
    assert [(c.seq, c.session.name) for c in changes] == [
        (before + number + 1, f"s{number}") for number in range(6)
    ]
    assert [c.session.position for c in changes] == [None] * 4 + [1, 2]
    run_pass(store, 15)
    assert store.seq() == before + 6, "a pass that changes nothing tells nothing"


def test_what_failed_leaves_no_number(store: Store) -> None:
    session = submit(store, "train")
    before = store.seq()
    with pytest.raises(IllegalTransition):
        store.move(session.id, Status.RUNNING, phase=Phase.START, now=NOW)
    assert store.seq() == before
    with store._db.read() as db:
        assert not db.execute(select(SESSIONS).where(SESSIONS.c.seq == 0)).all()


def test_the_newest_row_may_be_removed(store: Store) -> None:
    """A number is never given twice, even when the session that had it is forgotten."""
    session = submit(store, "train")
    before = store.seq()
    with store._db.write() as db:
        db.execute(SESSIONS.delete())
    assert store.seq() == before
    assert session.id not in {c.session.id for c in store.changes(0)}
    submit(store, "other")
    assert store.seq() == before + 1


def test_a_write_past_the_store_is_numbered_too(store: Store) -> None:
    """The column does it, so that no write can forget it."""
    session = submit(store, "train")
    before = store.seq()
    with store._write() as db:
        db.execute(update(SESSIONS).where(SESSIONS.c.id == session.id).values(priority=1))
    assert seen(store, before) == ["train"]
