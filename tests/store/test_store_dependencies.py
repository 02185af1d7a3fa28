"""Sessions that wait for others, and those that wait too long."""

from __future__ import annotations

import pytest
from store_samples import (
    CATALOG,
    POLICIES,
    after,
    batch,
    end,
    request,
    run_pass,
    start,
    submit,
    violations,
)

from jupyterhub_backendai.model.catalog import Catalog, ResourceGroup
from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.status import (
    Phase,
    Result,
    Status,
)
from jupyterhub_backendai.store import (
    HistoryFilter,
    SessionResult,
    Store,
)


def test_a_session_starts_when_all_it_depends_on_has_ended_in_success(store: Store) -> None:
    one = submit(store, "one", request=batch())
    two = submit(store, "two", request=batch(), now=after(0.5))
    last = submit(store, "last", request=batch(one.id, two.id))
    assert [s.name for s in store.dependencies(last.id)] == ["one", "two"]
    assert [s.name for s in store.dependents(one.id)] == ["last"]
    assert run_pass(store, 0.5) == ["one", "two"]
    waiting = store.get(last.id)
    assert (waiting.reason_code, waiting.reason) == (
        "dependency",
        "Starts when one and two have ended in success.",
    )
    for session in (one, two):
        start(store, session.id, 1)
        assert run_pass(store, 2) == []
        end(store, session.id, 3, SessionResult.SUCCESS)
    (pending,) = store.snapshot(POLICIES, CATALOG, after(4)).pending
    assert (pending.dependencies, pending.ready_at) == ((), after(3).timestamp())
    assert run_pass(store, 4) == ["last"]


@pytest.mark.parametrize("how", ["failure", "cancelled"])
def test_what_depends_on_a_failure_is_cancelled_with_all_that_follows(
    store: Store, how: str
) -> None:
    first = submit(store, "first", request=batch())
    second = submit(store, "second", request=batch(first.id))
    third = submit(store, "third", request=batch(second.id))
    if how == "failure":
        run_pass(store)
        start(store, first.id, 1)
        end(store, first.id, 2, SessionResult.FAILURE)
    else:
        store.move(first.id, Status.CANCELLED, phase=Phase.CANCEL, now=after(1))
    assert run_pass(store, 3) == []
    for session in (second, third):
        found = store.get(session.id)
        assert (found.status, found.reason_code) == (Status.CANCELLED, "dependency_failed")
    assert "first has not ended in success" in store.get(second.id).reason
    (told,) = store.history_page(third.id, HistoryFilter(to_status=Status.CANCELLED))[0]
    assert (told.result, told.error_code) == (Result.GIVE_UP, "dependency_failed")
    assert not violations(store)


def test_a_session_to_wait_for_that_is_gone(store: Store) -> None:
    with pytest.raises(RequestError) as caught:
        submit(store, "train", request=batch("0" * 32))
    assert [(e.field, e.code) for e in caught.value.errors] == [("depends_on.0", "unknown")]


def test_sessions_by_name_or_id(store: Store) -> None:
    old = submit(store, "train", request=batch())
    run_pass(store)
    start(store, old.id, 1)
    end(store, old.id, 2, SessionResult.SUCCESS)
    new = submit(store, "train", now=after(3))
    submit(store, "secret", owner="bob")
    found = store.find_sessions("ana", ["train", old.id, "secret", "nobody"])
    assert set(found) == {"train", old.id}
    assert (found["train"].id, found["train"].ended) == (new.id, False)
    assert (found[old.id].type, found[old.id].succeeded) == ("batch", True)
    assert store.find_sessions("ana", ()) == {}


def test_what_waits_too_long_is_taken_out_of_line(store: Store) -> None:
    catalog = Catalog(resource_groups=(ResourceGroup(name="default", pending_timeout=60),))
    submit(store, "all", request=request(cpu=4))
    late = submit(store, "late", request=request(cpu=4), now=after(1))
    store.run_pass(POLICIES, catalog, after(1))
    assert store.run_pass(POLICIES, catalog, after(60)) == []
    assert store.get(late.id).status is Status.PENDING
    store.run_pass(POLICIES, catalog, after(61))
    found = store.get(late.id)
    assert (found.status, found.reason_code) == (Status.CANCELLED, "pending_timeout")
    assert found.reason.startswith("It did not start within 1 minute, the longest")
    assert store.history(late.id)[0].result is Result.EXPIRED
    again = submit(store, "again", request=request(cpu=4), now=after(62))
    store.move(store.live()[0].id, Status.PENDING, phase=Phase.PREPARE, now=after(65))
    store.run_pass(POLICIES, catalog, after(66))
    assert {s.name: s.status for s in store.live()} == {
        "all": Status.SCHEDULED,
        again.name: Status.PENDING,
    }, "what comes back in line is not thrown out for the time that it was started"
    assert not violations(store)
