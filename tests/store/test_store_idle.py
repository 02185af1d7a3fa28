"""What idle checks keep: of sessions, of their clock, and what owners say."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from store_samples import NOW, run_pass, slots, start, submit

from jupyterhub_backendai.model.errors import FieldError, RequestError
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import AgentReport, ClockRecord, IdleRecord, NotFound, Store

CLOCK = ClockRecord(1.5e9 + 0.123456, 1.7e9, 1234.5, "boot")


def test_records_are_kept_of_what_is_not_over(store: Store) -> None:
    first, second = submit(store, "a"), submit(store, "b")
    record = IdleRecord(1.7e9 + 0.000123, used=1.7e9 + 60, heard=1.7e9 + 61, not_before=1.8e9)
    store.save_idle({first.id: record, second.id: IdleRecord(5.0), "f" * 32: record}, CLOCK, {})
    assert store.idle_records() == {first.id: record, second.id: IdleRecord(5.0)}
    changed = replace(record, asked=7.0, not_before=None)
    later = replace(CLOCK, time=CLOCK.time + 1)
    store.save_idle({first.id: changed}, later, {})
    assert store.idle_records()[first.id] == changed
    assert store.idle_clock() == later
    store.move(second.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW)
    assert store.idle_records() == {first.id: changed}


def test_many_records_at_once(store: Store) -> None:
    ids = [submit(store, f"s{number:04}").id for number in range(60)]
    records = {id: IdleRecord(float(number)) for number, id in enumerate(ids)}
    store.save_idle({**records, **{f"{n:032x}": IdleRecord(0.0) for n in range(1500)}}, CLOCK, {})
    assert store.idle_records() == records


def test_the_clock_is_nobodys_at_first(store: Store) -> None:
    assert store.idle_clock() is None
    store.save_idle({}, CLOCK, {})
    assert store.idle_clock() == CLOCK


def test_what_an_owner_keeps_is_noted_once_and_not_written_over(store: Store) -> None:
    session = submit(store, "a")
    with pytest.raises(RequestError):
        store.keep_session(session.id, IdleRecord(1.0), lambda noted: noted, "kept", NOW)
    assert Phase.KEEP not in [entry.phase for entry in store.history(session.id)]
    store.report_agents([AgentReport("a", "default", slots(8, 32))], now=NOW)
    run_pass(store)
    start(store, session.id, 1)

    def longer(noted: IdleRecord) -> IdleRecord:
        if noted.kept >= 300:
            raise RequestError([FieldError("seconds", "used_up", "It is all used up.")])
        return replace(noted, kept=noted.kept + 100, kept_until=1000.0 + noted.kept)

    def keep(_: int) -> str:
        try:
            store.keep_session(session.id, IdleRecord(1.0), longer, "kept", NOW)
        except RequestError as error:
            return error.errors[0].code
        return ""

    with ThreadPoolExecutor(6) as threads:
        told = sorted(threads.map(keep, range(6)))
    assert told == ["", "", "", "used_up", "used_up", "used_up"]
    noted = store.idle_records()[session.id]
    assert (noted.started, noted.kept, noted.kept_until) == (1.0, 300.0, 1200.0)
    assert [entry.phase for entry in store.history(session.id)].count(Phase.KEEP) == 3
    store.save_idle({session.id: IdleRecord(1.0, used=50.0)}, CLOCK, {})
    assert store.idle_records()[session.id] == replace(noted, used=50.0)
    with pytest.raises(NotFound):
        store.keep_session("f" * 32, IdleRecord(1.0), longer, "kept", NOW)
