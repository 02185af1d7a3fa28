"""Whoever follows the change feed misses nothing, while many write at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from store_samples import NOW, after, run_pass, submit

from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import Store

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
