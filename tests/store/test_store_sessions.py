"""Sessions: submitted, moved, renamed, claimed, found."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_samples import (
    CATALOG,
    NOW,
    POLICIES,
    after,
    request,
    run_pass,
    slots,
    submit,
    violations,
)

from jupyterhub_backendai.model.errors import FieldError, Kind, RequestError
from jupyterhub_backendai.model.policy import Policies, Policy
from jupyterhub_backendai.model.status import (
    TRANSITIONS,
    IllegalTransition,
    Phase,
    Result,
    Status,
)
from jupyterhub_backendai.store import (
    Filter,
    NotFound,
    Session,
    SessionResult,
    Store,
    sessions,
)
from tests.holdings import holdings

NOBODY = "0" * 32


def refused(error: RequestError) -> list[tuple[str, str, Kind]]:
    return [(e.field, e.code, e.kind) for e in error.errors]


def test_a_new_session_waits(store: Store) -> None:
    asked = request(agent="a1", project="lab", not_before=after(60))
    session = submit(store, "train", request=asked)
    assert store.get(session.id) == session
    assert (session.status, session.agent, session.position) == (Status.PENDING, None, None)
    assert session.request == asked
    assert session.slots == slots(1, 1)
    assert session.owner_groups == ("lab",)
    assert session.result is SessionResult.UNDEFINED
    assert session.submitted_at == session.status_changed_at == NOW
    assert session.submitted_at.tzinfo is timezone.utc
    assert session.not_before == after(60)
    (first,) = store.history(session.id)
    assert (first.phase, first.from_status, first.to_status) == (Phase.SUBMIT, None, Status.PENDING)


def test_times_of_any_zone_are_kept_to_the_microsecond(store: Store) -> None:
    east = NOW.astimezone(timezone(timedelta(hours=9)))
    assert submit(store, "train", now=east).submitted_at == NOW
    with pytest.raises(Exception, match="without its zone"):
        submit(store, "other", now=datetime(2026, 12, 1))  # noqa: DTZ001, RUF100


def test_a_name_or_a_server_in_use(store: Store) -> None:
    submit(store, "train")
    with pytest.raises(RequestError) as caught:
        submit(store, "train")
    assert refused(caught.value) == [
        ("name", "in_use", Kind.CONFLICT),
        ("", "server_in_use", Kind.CONFLICT),
    ]
    assert caught.value.errors[0].message == (
        "You already have a session named train. Choose another name, or leave it empty."
    )
    assert submit(store, "train", owner="bob").name == "train"
    assert len(store.live()) == 2


def test_a_name_is_free_again_after_the_end(store: Store) -> None:
    first = submit(store, "train")
    store.move(first.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW)
    second = submit(store, "train", now=after(1))
    assert store.live_of("ana", "train") == second
    store.move(second.id, Status.ERROR, phase=Phase.SCHEDULE, now=NOW)
    assert store.live_of("ana", "train") is None
    latest = store.latest_of("ana", "train")
    assert latest is not None
    assert latest.id == second.id
    assert store.latest_of("ana", "other") is None


def test_too_many_that_wait(store: Store) -> None:
    for number in range(1, 6):  # there is room for four
        submit(store, f"s{number}", max_pending=1, now=after(number))
    with pytest.raises(RequestError) as caught:
        submit(store, "six", max_pending=1)
    assert refused(caught.value) == [("", "too_many_pending", Kind.FORBIDDEN)]
    assert run_pass(store, 9) == ["s1", "s2", "s3", "s4"]
    with pytest.raises(RequestError, match="1 session waits already, and your limit is 1"):
        submit(store, "six", max_pending=1)
    submit(store, "other", owner="bob", max_pending=1, now=after(9))
    store.move(store.live()[0].id, Status.CANCELLED, phase=Phase.CANCEL, now=after(9))
    assert run_pass(store, 9) == ["s5"]
    submit(store, "six", max_pending=1)
    assert not violations(store)


def test_who_may_not_wait_starts_what_has_room(store: Store) -> None:
    submit(store, "s0", max_pending=0)
    one = Policies(default=Policy(max_sessions=1))
    with pytest.raises(RequestError, match="no room"):
        submit(store, "quota", max_pending=0, policies=one)
    for number in range(1, 4):
        submit(store, f"s{number}", max_pending=0)
    with pytest.raises(RequestError) as caught:
        submit(store, "more", max_pending=0, asked={})
    assert caught.value.errors[0].message == (
        "There is no room for it now, and your sessions may not wait. Try again later."
    )
    assert (len(store.live()), store.launches("ana")) == (4, []), "nothing of it is left"


def test_too_many_that_wait_where_the_policy_says_nothing(store: Store) -> None:
    most = Policy().max_pending
    assert most == 20
    for number in range(4 + most):
        submit(store, f"s{number}", max_pending=most, now=after(number))
    for _ in range(2):
        with pytest.raises(RequestError) as caught:
            submit(store, "more", max_pending=most, now=after(60))
        assert caught.value.status == 403
        assert caught.value.errors[0].message == (
            "20 sessions wait already, and your limit is 20. Start this one when fewer wait."
        )
        run_pass(store, 60)
    submit(store, "more", max_pending=Policy(max_pending=None).max_pending)


def test_one_name_at_once_from_many_threads(store: Store) -> None:
    barrier = Barrier(8)

    def race(number: int) -> Session | tuple[FieldError, ...]:
        barrier.wait()
        try:
            return submit(store, "train", server_name=f"server-{number}")
        except RequestError as error:
            return error.errors

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(race, range(8)))
    assert sum(isinstance(result, Session) for result in results) == 1
    assert {r[0].code for r in results if not isinstance(r, Session)} == {"in_use"}
    assert not violations(store)


def test_a_bound_holds_when_many_come_at_once(store: Store) -> None:
    barrier = Barrier(8)

    def race(number: int) -> bool:
        barrier.wait()
        try:
            submit(store, f"train-{number}", max_pending=3)
        except RequestError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(race, range(8))) == 4 + 3, "four have room, three may wait"


def test_the_index_has_the_last_word(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What slips past the check before is refused by the database, in the same words."""
    submit(store, "train")
    real, calls = sessions.taken, []

    def blind_at_first(*args: object) -> list[FieldError]:
        calls.append(args)
        return real(*args) if len(calls) > 1 else []  # type: ignore[arg-type]

    monkeypatch.setattr(sessions, "taken", blind_at_first)
    with pytest.raises(RequestError) as caught:
        submit(store, "train", server_name="other")
    assert refused(caught.value) == [("name", "in_use", Kind.CONFLICT)]


def test_the_way_of_a_session(store: Store) -> None:
    submit(store, "train")
    (session,) = store.run_pass(POLICIES, CATALOG, after(1))
    assert (session.status, session.agent, session.placed_at) == (Status.SCHEDULED, "a1", after(1))
    assert [(h.session_id, h.slots) for h in holdings(store)] == [(session.id, slots(1, 1))]
    for seconds, status in enumerate((Status.PREPARING, Status.CREATING, Status.RUNNING), 2):
        session = store.move(session.id, status, phase=Phase.START, now=after(seconds))
    assert session.running_at == session.status_changed_at == after(4)
    session = store.move(
        session.id, Status.TERMINATING, phase=Phase.TERMINATE, now=after(5),
        reason_code="user_requested", reason="You ended it.",
    )  # fmt: skip
    assert (session.reason_code, session.reason) == ("user_requested", "You ended it.")
    assert len(holdings(store)) == 1, "resources are held until the containers are gone"
    session = store.move(
        session.id, Status.TERMINATED, phase=Phase.TERMINATE, now=after(6), exit_code=137
    )
    assert (session.ended_at, session.exit_code, session.agent) == (after(6), 137, "a1")
    assert (session.driver, session.position) == (None, None)
    assert session.result is SessionResult.UNDEFINED, "nobody asked for a result"
    assert holdings(store) == []
    assert not violations(store)


def test_the_result_is_that_of_the_work_and_not_of_the_container(store: Store) -> None:
    session = submit(store, "train", request=request(type="batch"))
    run_pass(store)
    ended = store.move(
        session.id, Status.TERMINATING, phase=Phase.TERMINATE, now=NOW, exit_code=3,
        result_of_work=SessionResult.FAILURE,
    )  # fmt: skip
    assert (ended.exit_code, ended.result) == (3, SessionResult.FAILURE)
    killed = submit(store, "killed", request=request(type="batch"))
    done = store.move(killed.id, Status.ERROR, phase=Phase.START, now=NOW, exit_code=137)
    assert (done.exit_code, done.result) == (137, SessionResult.UNDEFINED)


def test_a_failed_attempt_goes_back_in_line(store: Store) -> None:
    session = submit(store, "train")
    run_pass(store)
    store.move(session.id, Status.PREPARING, phase=Phase.PREPARE, now=NOW)
    again = store.move(
        session.id, Status.PENDING, phase=Phase.PREPARE, now=NOW, result=Result.NEED_RETRY
    )
    assert (again.agent, again.placed_at, again.driver) == (None, None, "hub-1")
    assert holdings(store) == []
    assert run_pass(store) == ["train"]
    assert not violations(store)


def test_only_a_pass_grants_a_place(store: Store) -> None:
    session = submit(store, "train")
    with pytest.raises(ValueError, match="only run_pass"):
        store.move(session.id, Status.SCHEDULED, phase=Phase.SCHEDULE, now=NOW)


def test_a_status_that_is_not_the_expected_one(store: Store) -> None:
    session = submit(store, "train")
    with pytest.raises(IllegalTransition):
        store.move(
            session.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW, expect=Status.SCHEDULED
        )
    assert store.get(session.id) == session


def test_only_one_of_many_moves_a_session(store: Store) -> None:
    session = submit(store, "train")
    barrier = Barrier(6)

    def race(_: int) -> bool:
        barrier.wait()
        try:
            store.move(session.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW)
        except IllegalTransition:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(race, range(6))) == 1
    assert len(store.history(session.id)) == 2


def test_a_session_that_is_not_there(store: Store) -> None:
    for call in (
        lambda: store.get(NOBODY),
        lambda: store.move(NOBODY, Status.ERROR, phase=Phase.START, now=NOW),
        lambda: store.note(NOBODY, Phase.START, Result.STALE, now=NOW),
        lambda: store.rename(NOBODY, "other"),
        lambda: store.claim(NOBODY, "hub-1"),
        lambda: store.set_kernel(NOBODY, status=Status.RUNNING),
    ):
        with pytest.raises(NotFound, match=NOBODY):
            call()
    assert store.history(NOBODY) == store.kernels(NOBODY) == []


@settings(
    max_examples=settings().max_examples // 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(wishes=st.lists(st.sampled_from(Status), max_size=15))
def test_a_status_changes_only_along_the_table(store: Store, wishes: list[Status]) -> None:
    for left in store.live():
        store.move(left.id, Status.ERROR, phase=Phase.RECONCILE, now=NOW)
    session = submit(store, "train")
    for wish in wishes:
        before = store.get(session.id)
        if wish is Status.SCHEDULED:
            run_pass(store)
            expected = wish if before.status is Status.PENDING else before.status
        elif wish in TRANSITIONS[before.status]:
            store.move(session.id, wish, phase=Phase.RECONCILE, now=NOW)
            expected = wish
        else:
            with pytest.raises(IllegalTransition):
                store.move(session.id, wish, phase=Phase.RECONCILE, now=NOW)
            assert store.get(session.id) == before
            expected = before.status
        assert store.get(session.id).status is expected
    assert not violations(store)


def test_another_name(store: Store) -> None:
    one, two = submit(store, "one"), submit(store, "two")
    renamed = store.rename(one.id, "uno")
    assert (renamed.name, renamed.server_name, renamed.version) == ("uno", "one", 2)
    assert store.rename(one.id, "uno") == renamed, "the same name again is no change"
    with pytest.raises(RequestError) as caught:
        store.rename(two.id, "uno")
    assert refused(caught.value) == [("name", "in_use", Kind.CONFLICT)]
    assert store.live_names("ana") == {"uno", "two"}
    store.move(two.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW)
    assert store.rename(two.id, "uno").name == "uno", "it is over: it is in nobody's way"


def test_one_name_for_two_at_once(store: Store) -> None:
    ids = [submit(store, name).id for name in ("one", "two", "three", "four")]
    barrier = Barrier(4)

    def race(session_id: str) -> bool:
        barrier.wait()
        try:
            store.rename(session_id, "same")
        except RequestError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(race, ids)) == 1
    assert not violations(store)


def test_one_driver_at_a_time(store: Store) -> None:
    session = submit(store, "train", driver=None)
    assert store.claim(session.id, "hub-1")
    assert store.claim(session.id, "hub-1"), "it has it already"
    assert not store.claim(session.id, "hub-2")
    assert not store.claim(session.id, "hub-2", held_by="hub-0")
    assert store.claim(session.id, "hub-2", held_by="hub-1")
    store.release(session.id, "hub-1")
    assert store.get(session.id).driver == "hub-2"
    assert [s.name for s in store.live(driver_not="hub-1")] == ["train"]
    assert store.live(driver_not="hub-2") == []
    store.release(session.id, "hub-2")
    assert store.get(session.id).driver is None
    assert [s.name for s in store.live(driver_not="hub-2")] == ["train"]
    store.move(session.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW)
    assert not store.claim(session.id, "hub-1"), "there is nothing left to do"


def test_live_sessions_oldest_first(store: Store) -> None:
    for number in (3, 1, 2):
        submit(store, f"s{number}", now=after(number))
    over = submit(store, "over")
    store.move(over.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW)
    run_pass(store)
    submit(store, "s4", now=after(4))
    assert [s.name for s in store.live()] == ["s1", "s2", "s3", "s4"]
    assert [s.name for s in store.live({Status.PENDING})] == ["s4"]
    assert store.live(set()) == []


def test_some_by_their_ids(store: Store) -> None:
    first, second, _ = (submit(store, name) for name in ("one", "two", "three"))
    found = store.get_many([second.id, NOBODY, first.id])
    assert found == {first.id: first, second.id: second}
    assert store.get_many([]) == {}


def test_lists(store: Store) -> None:
    for number in range(7):
        owner = "ana" if number % 2 else "bob"
        submit(store, f"s{number}", owner=owner, now=after(number))
    gone = store.list_sessions(Filter(owner="ana"), order="name", descending=False)[0][0]
    store.move(gone.id, Status.CANCELLED, phase=Phase.CANCEL, now=after(10))

    page, total = store.list_sessions(limit=3)
    assert ([s.name for s in page], total) == (["s6", "s5", "s4"], 7)
    page, total = store.list_sessions(limit=3, offset=6)
    assert ([s.name for s in page], total) == (["s0"], 7)
    page, total = store.list_sessions(Filter(owner="ana", statuses={Status.PENDING}))
    assert ([s.name for s in page], total) == (["s5", "s3"], 2)
    page, _ = store.list_sessions(order="ended_at", limit=1)
    assert [s.name for s in page] == ["s1"], "what has not ended comes last"
    for wanted in (
        Filter(statuses=()),
        Filter(type="batch"),
        Filter(project="lab"),
        Filter(resource_group="gpu"),
    ):
        assert store.list_sessions(wanted) == ([], 0)
    assert store.list_sessions(offset=100) == ([], 7)


def test_kernels(store: Store) -> None:
    session = submit(store, "train")
    store.set_kernel(session.id, "sub1", role="sub", agent="a1")
    store.set_kernel(session.id, container_id="c0ffee", status=Status.CREATING, started_at=NOW)
    store.set_kernel(session.id, status=Status.RUNNING)
    main, sub = store.kernels(session.id)
    assert (main.name, main.role, main.container_id) == ("main1", "main", "c0ffee")
    assert (main.status, main.started_at, main.exit_code) == (Status.RUNNING, NOW, None)
    assert (sub.name, sub.role, sub.agent) == ("sub1", "sub", "a1")
    with pytest.raises(TypeError, match="no colour"):
        store.set_kernel(session.id, colour="blue")  # type: ignore[call-arg]
