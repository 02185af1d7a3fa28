"""What is over long enough goes, in portions, and nothing else does."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select
from store_samples import NOW, run_pass, submit, violations

from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import Store
from jupyterhub_backendai.store.tables import AllocationRow, HistoryRow, KernelRow

DAY = timedelta(days=1)


def ended(store: Store, name: str, days_ago: float) -> str:
    """A session that had a container and was over that long ago; it began a day before."""
    over = NOW - days_ago * DAY
    session = submit(store, name, now=over - DAY)
    run_pass(store)
    store.set_kernel(session.id, container_id="c1")
    for status in (Status.PREPARING, Status.TERMINATING, Status.TERMINATED):
        store.move(session.id, status, phase=Phase.TERMINATE, now=over)
    return session.id


def belongings(store: Store) -> dict[str, int]:
    """How many rows each table has, by the session that they belong to."""
    found: dict[str, int] = {}
    with store._db.read() as db:
        for row in (KernelRow, AllocationRow, HistoryRow):
            query = select(row.session_id, func.count()).group_by(row.session_id)
            for session_id, count in db.execute(query):
                found[session_id] = found.get(session_id, 0) + count
    return found


def test_what_is_over_long_enough_goes_oldest_first(store: Store) -> None:
    old = [ended(store, f"old-{days}", days) for days in (300, 200, 100)]
    cancelled = submit(store, "never ran", now=NOW - 95 * DAY).id
    store.move(cancelled, Status.CANCELLED, phase=Phase.CANCEL, now=NOW - 95 * DAY)
    kept = [ended(store, "new", 89.9), ended(store, "newer", 1)]
    kept.append(submit(store, "waits", now=NOW - 400 * DAY).id)
    before = belongings(store)
    assert set(before) == {*old, cancelled, *kept}

    limit = NOW - 90 * DAY
    assert store.forget(limit, 2) == 2
    assert set(store.get_many([*old, cancelled, *kept])) == {old[2], cancelled, *kept}
    assert store.forget(limit, 2) == 2
    assert store.forget(limit, 2) == 0
    assert set(store.get_many([*old, cancelled, *kept])) == set(kept)
    assert belongings(store) == {session_id: before[session_id] for session_id in kept}
    assert violations(store) == []
    # A name that is forgotten is as free as one that is only over.
    submit(store, "old-300")
