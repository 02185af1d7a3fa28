"""What the service brought: several at once, launches, retries, dependencies, estimates, feed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update
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

from jupyterhub_backendai.model.catalog import Catalog, ResourceGroup
from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.request import SessionRequest, Work
from jupyterhub_backendai.model.status import (
    MAX_TRIES,
    RETRYABLE,
    IllegalTransition,
    Phase,
    Result,
    Status,
)
from jupyterhub_backendai.scheduling.estimate import estimate
from jupyterhub_backendai.scheduling.queue import turn
from jupyterhub_backendai.store import (
    AgentReport,
    Changed,
    Filter,
    HistoryFilter,
    NotFound,
    Session,
    SessionResult,
    Store,
)
from jupyterhub_backendai.store.tables import SessionRow, table

ON_THE_WAY = (Status.PREPARING, Status.CREATING, Status.RUNNING)


def batch(*earlier: str, timeout: int | None = None, **more: Any) -> SessionRequest:
    work = Work(command="make", timeout=timeout)
    return request(type="batch", batch=work, depends_on=earlier, **more)


def start(store: Store, session_id: str, seconds: float, upto: Status = Status.RUNNING) -> None:
    """From its place on to `upto`."""
    for status in ON_THE_WAY[: ON_THE_WAY.index(upto) + 1]:
        store.move(session_id, status, phase=Phase.START, now=after(seconds))


def end(store: Store, session_id: str, seconds: float, result: SessionResult) -> None:
    """A running one ends with this result."""
    for status in (Status.TERMINATING, Status.TERMINATED):
        store.move(
            session_id, status, phase=Phase.TERMINATE, now=after(seconds), result_of_work=result
        )


def many(store: Store, count: int, **changes: Any) -> list[Session]:
    names = {f"server-{n}": f"train-{n}" for n in range(count)}
    facts: dict[str, Any] = {
        "owner": "ana", "owner_groups": ["lab"], "names": names, "driver": None,
        "max_pending": None, "now": NOW, "asked": {"count": count},
    }  # fmt: skip
    return store.submit_many(request(), **{**facts, **changes})


def test_several_are_queued_together_or_not_at_all(store: Store) -> None:
    made = many(store, 3, max_pending=3)
    assert [p.id for p in sorted(store.snapshot(POLICIES, CATALOG, NOW).pending, key=turn)] == [
        s.id for s in made
    ], "they stand in line in their order"
    assert [s.name for s in made] == ["train-0", "train-1", "train-2"]
    assert [s.server_name for s in made] == ["server-0", "server-1", "server-2"]
    assert len(store.launches("ana")) == 1, "they are one launch"
    assert [h.phase for h in store.history(made[2].id)] == [Phase.SUBMIT]
    with pytest.raises(RequestError) as caught:
        many(store, 2, max_pending=4, names={"x": "train-1", "server-2": "new"})
    assert [e.code for e in caught.value.errors] == ["in_use", "server_in_use", "too_many_pending"]
    assert "Start these 2 when fewer wait" in caught.value.errors[2].message
    with pytest.raises(RequestError, match="at most 4 of yours may wait"):
        many(store, 5, owner="bob", max_pending=4)
    assert len(store.live()) == 3
    assert not violations(store)


def test_options_are_kept_as_they_were_sent_less_secrets(store: Store) -> None:
    asked = {"preset": "small", "env": {"HF_TOKEN": "hf_1", "LANG": "C"}}
    session = submit(store, "train", asked=asked)
    kept = {"preset": "small", "env": {"HF_TOKEN": "", "LANG": "C"}}
    assert session.asked == store.get(session.id).asked == kept
    assert store.launches("ana")[0].asked == kept
    assert submit(store, "other").asked is None
    assert len(store.launches("ana")) == 1, "what nobody asked for is no launch"


def test_recent_launches(store: Store) -> None:
    for number in range(3):
        submit(store, f"train{number}", asked={"name": f"train{number}"}, now=after(number))
    first = store.launches("ana")[-1]
    assert (first.name, first.pinned, first.created_at) == ("train0", False, NOW)
    store.pin_launch("ana", first.id)
    renamed = store.rename_launch("ana", first.id, "my usual one")
    assert (renamed.name, renamed.pinned) == ("my usual one", True)
    for number in range(3, 9):
        submit(store, f"train{number}", asked={"name": f"train{number}"}, now=after(number))
    names = [launch.name for launch in store.launches("ana")]
    assert names == ["train8", "train7", "train6", "train5", "train4", "my usual one"]
    store.pin_launch("ana", first.id, False)
    assert [launch.name for launch in store.launches("ana")] == names[:5]
    store.remove_launch("ana", store.launches("ana")[0].id)
    assert store.launches("ana")[0].name == "train7"
    somebody_elses = store.launches("ana")[0].id
    for call in (store.pin_launch, store.remove_launch):
        with pytest.raises(NotFound, match="no launch"):
            call("bob", somebody_elses)
    assert store.launches("bob") == []


def test_two_people_change_one_thing(store: Store) -> None:
    session = submit(store, "train")
    renamed = store.rename(session.id, "uno", version=session.version)
    with pytest.raises(Changed) as caught:
        store.rename(session.id, "due", version=session.version)
    assert caught.value.version == renamed.version == 2
    with pytest.raises(Changed):
        store.move(session.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW, version=1)
    assert store.get(session.id).name == "uno"
    run_pass(store)
    with pytest.raises(Changed):
        store.retry_or_give_up(
            session.id, phase=Phase.PREPARE, error_code="engine_error", reason="x", now=NOW,
            version=2,
        )  # fmt: skip
    store.move(session.id, Status.PREPARING, phase=Phase.PREPARE, now=NOW, version=3)


def test_when_the_command_of_a_batch_session_began(store: Store) -> None:
    session = submit(store, "train", request=batch())
    assert session.batch_started_at is None
    assert store.mark_batch_started(session.id, after(5)).batch_started_at == after(5)
    assert store.mark_batch_started(session.id, after(9)).batch_started_at == after(5)
    run_pass(store)
    store.move(session.id, Status.PENDING, phase=Phase.START, now=after(10))
    assert store.get(session.id).batch_started_at is None, "the next try begins it anew"
    with pytest.raises(NotFound):
        store.mark_batch_started("0" * 32, NOW)


# ---- tries --------------------------------------------------------------------------------------


def fail(store: Store, session_id: str, code: str, phase: Phase = Phase.PREPARE) -> Session:
    return store.retry_or_give_up(
        session_id, phase=phase, error_code=code, reason="a1 does not answer.", now=after(1)
    )


def test_five_tries_then_it_is_given_up(store: Store) -> None:
    session = submit(store, "train")
    for _ in range(MAX_TRIES - 1):
        assert run_pass(store) == ["train"]
        start(store, session.id, 1, Status.PREPARING)
        back = fail(store, session.id, "agent_unreachable")
        assert (back.status, back.reason) == (Status.PENDING, "a1 does not answer.")
    run_pass(store)
    start(store, session.id, 1, Status.PREPARING)
    over = fail(store, session.id, "agent_unreachable")
    assert (over.status, over.reason_code) == (Status.TERMINATING, "agent_unreachable")
    assert over.reason == (
        "a1 does not answer. It was tried 5 times. Start it again later, or tell your admin."
    )
    told = [h.result for h in store.history(session.id) if h.phase is Phase.PREPARE]
    assert told[0] is Result.GIVE_UP
    assert told.count(Result.NEED_RETRY) == MAX_TRIES - 1
    assert len(store.allocations()) == 1, "until its containers are gone"
    with pytest.raises(IllegalTransition):
        fail(store, session.id, "agent_unreachable")
    store.move(session.id, Status.ERROR, phase=Phase.TERMINATE, now=NOW)
    assert not violations(store)


def test_what_another_try_would_only_repeat_is_given_up_at_once(store: Store) -> None:
    session = submit(store, "train")
    run_pass(store)
    over = fail(store, session.id, "image_missing", Phase.PULL)
    assert (over.status, over.reason) == (Status.TERMINATING, "a1 does not answer.")


def test_an_agent_that_failed_is_not_the_next_one(store: Store) -> None:
    agents = [AgentReport(name, "default", slots(4, 8)) for name in ("a1", "a2")]
    store.report_agents(agents, now=NOW)
    session = submit(store, "train")
    run_pass(store)
    first = store.get(session.id).agent
    fail(store, session.id, "engine_error", Phase.CREATE)
    run_pass(store, 2)
    assert {first, store.get(session.id).agent} == {"a1", "a2"}


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*sorted(RETRYABLE), "image_missing"]),
            st.sampled_from([Phase.PREPARE, Phase.CREATE, Phase.START]),
        ),
        min_size=25,
        max_size=25,
    )
)
def test_tries_are_bounded_whatever_fails(store: Store, failures: list[tuple[str, Phase]]) -> None:
    for left in store.live():
        store.move(left.id, Status.ERROR, phase=Phase.RECONCILE, now=NOW)
    session, tries = submit(store, "train"), dict.fromkeys(Phase, 0)
    for code, phase in failures:
        run_pass(store)
        tries[phase] += 1
        if fail(store, session.id, code, phase).status is Status.TERMINATING:
            assert code == "image_missing" or tries[phase] == MAX_TRIES
            break
        assert tries[phase] < MAX_TRIES
    else:
        raise AssertionError("it was tried for ever")
    assert not violations(store)


# ---- dependencies -------------------------------------------------------------------------------


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


# ---- lists, history, estimates ------------------------------------------------------------------


def test_filters_of_the_list(store: Store) -> None:
    for number, name in enumerate(("Train-1", "train_2", "eval%1", "other")):
        submit(store, name, server_name=f"s{number}", now=after(number * 60))

    def names(**wanted: Any) -> list[str]:
        page, total = store.list_sessions(Filter(**wanted), order="submitted_at", descending=False)
        assert len(page) == total
        return [session.name for session in page]

    assert names(name="train") == ["Train-1", "train_2"]
    assert names(name="_") == ["train_2"]
    assert names(name="%") == ["eval%1"]
    assert names(submitted_from=after(60), submitted_until=after(180)) == ["train_2", "eval%1"]
    assert names(name="train", owner="bob") == []


def test_a_page_of_a_history(store: Store) -> None:
    session = submit(store, "train")
    for number in range(5):
        for phase in (Phase.PULL, Phase.CREATE):
            store.note(
                session.id, phase, Result.NEED_RETRY, now=after(number), error_code="slow_100%",
                message=f"Try {number}",
            )  # fmt: skip
    page, total = store.history_page(session.id, limit=3)
    assert total == 11
    assert [(h.phase, h.message) for h in page[:2]] == [
        (Phase.CREATE, "Try 4"),
        (Phase.PULL, "Try 4"),
    ]
    wanted = HistoryFilter(phase=Phase.PULL, result=Result.NEED_RETRY, error_code="slow_100%")
    page, total = store.history_page(
        session.id, wanted, order="created_at", descending=False, limit=2, offset=1
    )
    assert (total, [h.message for h in page]) == (5, ["Try 1", "Try 2"])
    assert store.history_page(session.id, HistoryFilter(message="y 3"))[1] == 2
    assert store.history_page(session.id, HistoryFilter(message="%"))[1] == 0
    assert store.history_page(session.id, HistoryFilter(from_status=Status.RUNNING)) == ([], 0)


def test_estimates_go_by_limits_and_by_what_ran_before(store: Store) -> None:
    old = submit(store, "old", request=request(cpu=4), now=NOW - timedelta(days=1))
    store.run_pass(POLICIES, CATALOG, NOW - timedelta(days=1))
    start(store, old.id, -86400)
    end(store, old.id, -86400 + 600, SessionResult.UNDEFINED)
    ancient = submit(store, "ancient", owner="bob", now=NOW - timedelta(days=50))
    store.move(ancient.id, Status.ERROR, phase=Phase.START, now=NOW - timedelta(days=40))
    lengths = store.lengths(NOW)
    assert lengths.of("ana", "interactive", "python") == (600.0,)
    assert lengths.of("bob", "interactive", "python") == (600.0,), "as others did"
    assert lengths.of("ana", "batch", "python") == ()

    running = submit(store, "running", request=request(cpu=4))
    run_pass(store)
    start(store, running.id, 0)
    limited = submit(store, "limited", request=batch(timeout=300, cpu=4), now=after(1))
    last = submit(store, "last", request=request(cpu=1), now=after(2))
    outlook = store.outlook(POLICIES, CATALOG, after(60))
    assert outlook.ends == {running.id: after(600).timestamp()}
    assert outlook.lasts == {limited.id: 300, last.id: 600}
    assert estimate(outlook, limited.id) == after(600).timestamp()
    assert estimate(outlook, last.id) == after(900).timestamp()
    assert store.estimate(last.id, POLICIES, CATALOG, after(60)) == after(900)
    assert store.estimate(running.id, POLICIES, CATALOG, after(60)) is None, "it does not wait"
    late = store.outlook(POLICIES, CATALOG, after(700))
    assert late.ends == {}, "it has run longer than any before: who knows"
    assert estimate(late, last.id) is None


def test_what_would_happen_to_a_request(store: Store) -> None:
    policies = Policies.model_validate({"groups": {"lab": {"max_sessions": 1}}})

    def told(asked: SessionRequest, *groups: str) -> tuple[str, int, datetime | None]:
        found = store.forecast(
            asked, owner="bob", owner_groups=groups, policies=policies, catalog=CATALOG,
            now=after(60),
        )  # fmt: skip
        start = found.starts_at
        at = None if start is None else datetime.fromtimestamp(start, timezone.utc)
        return found.code, found.ahead, at

    assert told(request()) == ("now", 0, after(60))
    running = submit(store, "running", request=batch(timeout=300, cpu=3))
    store.run_pass(policies, CATALOG, NOW)
    start(store, running.id, 0)
    submit(store, "waits", request=batch(timeout=100, cpu=4), now=after(1))
    assert told(request(cpu=2)) == ("waits", 1, after(400))
    assert told(request(cpu=1)) == ("now", 0, after(60)), "it may pass the large one"
    assert told(request(cpu=50)) == ("never", 0, None)
    assert told(batch(running.id)) == ("waits", 0, after(400)), "the large one is before it"
    reserved = request().model_copy(update={"not_before": after(500)})
    assert told(reserved) == ("waits", 0, after(500))
    submit(store, "mine", owner="bob", request=batch(timeout=1000), now=after(2))
    store.run_pass(policies, CATALOG, after(3))
    code, _, at = told(request(), "lab")
    assert (code, at) == ("waits", after(1160)), "after its own, and the large one that is next"


def test_a_running_batch_session_s_limit_counts_from_its_command(store: Store) -> None:
    session = submit(store, "train", request=batch(timeout=300))
    run_pass(store)
    start(store, session.id, 1)
    store.mark_batch_started(session.id, after(20))
    outlook = store.outlook(POLICIES, CATALOG, after(30))
    assert outlook.ends == {session.id: after(320).timestamp()}


# ---- the change feed ----------------------------------------------------------------------------


def seen(store: Store, after_seq: int, **more: Any) -> list[str]:
    return [change.session.name for change in store.changes(after_seq, **more)]


def test_each_change_has_the_next_number(store: Store) -> None:
    assert store.seq() == 0
    one, two = submit(store, "one"), submit(store, "two", owner="bob", now=after(1))
    assert store.seq() == 2
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
        assert not db.query(SessionRow).filter(SessionRow.seq == 0).all()


def test_the_newest_row_may_be_removed(store: Store) -> None:
    """A number is never given twice, even when the session that had it is forgotten."""
    session = submit(store, "train")
    before = store.seq()
    with store._db.write() as db:
        db.execute(table(SessionRow).delete())
    assert store.seq() == before
    assert session.id not in {c.session.id for c in store.changes(0)}
    submit(store, "other")
    assert store.seq() == before + 1


def test_a_write_past_the_store_is_numbered_too(store: Store) -> None:
    """The column does it, so that no write can forget it."""
    session = submit(store, "train")
    before = store.seq()
    with store._write() as db:
        rows = table(SessionRow)
        db.execute(update(rows).where(rows.c.id == session.id).values(priority=1))
    assert seen(store, before) == ["train"]
