"""What the service brought: several at once, launches, versions, tries of a start."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_samples import (
    CATALOG,
    NOW,
    POLICIES,
    after,
    batch,
    request,
    run_pass,
    slots,
    start,
    submit,
    violations,
)

from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.status import (
    MAX_TRIES,
    RETRYABLE,
    IllegalTransition,
    Phase,
    Result,
    Status,
)
from jupyterhub_backendai.scheduling.queue import turn
from jupyterhub_backendai.store import (
    AgentReport,
    Changed,
    NotFound,
    Session,
    Store,
    launches,
)
from tests.holdings import holdings


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
    with pytest.raises(RequestError, match="These are 2 sessions, and at most 1 of yours may wait"):
        many(store, 3, owner="bob", max_pending=1, now=after(1))
    assert len(store.live()) == 3
    many(store, 5, owner="bob", max_pending=4, now=after(1))
    run_pass(store, 1)
    with pytest.raises(RequestError) as caught:
        many(store, 2, owner="bob", max_pending=4, names={"x": "train-1", "server-2": "new"})
    assert [e.code for e in caught.value.errors] == ["in_use", "server_in_use", "too_many_pending"]
    assert "4 sessions wait already" in caught.value.errors[2].message
    assert "Start these 2 when fewer wait" in caught.value.errors[2].message
    assert len(store.live()) == 8
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
    store.change_launch("ana", first.id, pinned=True)
    renamed = store.change_launch("ana", first.id, name="my usual one")
    assert (renamed.name, renamed.pinned) == ("my usual one", True)
    for number in range(3, 9):
        submit(store, f"train{number}", asked={"name": f"train{number}"}, now=after(number))
    names = [launch.name for launch in store.launches("ana")]
    assert names == ["train8", "train7", "train6", "train5", "train4", "my usual one"]
    store.change_launch("ana", first.id, pinned=False)
    assert [launch.name for launch in store.launches("ana")] == names[:5]
    store.remove_launch("ana", store.launches("ana")[0].id)
    assert store.launches("ana")[0].name == "train7"
    somebody_elses = store.launches("ana")[0].id
    for call in (partial(store.change_launch, pinned=True), store.remove_launch):
        with pytest.raises(NotFound, match="no launch"):
            call("bob", somebody_elses)
    assert store.launches("bob") == []


def test_a_launch_is_of_who_launched_it(store: Store) -> None:
    many(store, 1, launched_by="chief", asked={"owner": "ana"})
    assert store.launches("ana") == []
    assert [launch.asked for launch in store.launches("chief")] == [{"owner": "ana"}]


def test_so_many_launches_may_be_pinned(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "MOST_PINNED", 2)
    for number in range(3):
        submit(store, f"train{number}", asked={}, now=after(number))
    third, *first = (launch.id for launch in store.launches("ana"))
    for launch in (*first, first[0]):
        store.change_launch("ana", launch, pinned=True)
    with pytest.raises(RequestError, match="2 pinned launches, the most there may be"):
        store.change_launch("ana", third, name="not even this", pinned=True)
    assert store.launches("ana")[0].name == "train2"
    store.change_launch("ana", first[0], pinned=False)
    assert store.change_launch("ana", third, pinned=True).pinned


def test_secrets_of_a_session_that_is_over_are_gone(store: Store) -> None:
    env = {"HF_TOKEN": "hf_1", "LANG": "C"}
    ended, waits = (submit(store, name, request=request(env=env)) for name in ("ended", "waits"))
    store.move(ended.id, Status.CANCELLED, phase=Phase.CANCEL, now=after(1))
    assert store.get(ended.id).request.env == {"HF_TOKEN": "", "LANG": "C"}
    assert store.get(waits.id).request.env == env


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


# ---- tries --------------------------------------------------------------------------------


def fail(store: Store, session_id: str, code: str, phase: Phase = Phase.PREPARE) -> Session:
    return store.retry_or_give_up(
        session_id, phase=phase, error_code=code, reason="a1 does not answer.", now=after(1)
    )


def test_five_tries_then_it_is_given_up(store: Store) -> None:
    session = submit(store, "train")
    for tries in range(MAX_TRIES - 1):
        assert run_pass(store) == ["train"]
        start(store, session.id, 1, Status.PREPARING)
        assert store.was_retried(session.id) is bool(tries)
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
    assert len(holdings(store)) == 1, "until its containers are gone"
    with pytest.raises(IllegalTransition):
        fail(store, session.id, "agent_unreachable")
    store.move(session.id, Status.ERROR, phase=Phase.TERMINATE, now=NOW)
    assert not violations(store)


def test_what_another_try_would_only_repeat_is_given_up_at_once(store: Store) -> None:
    session = submit(store, "train")
    run_pass(store)
    over = fail(store, session.id, "image_missing", Phase.PULL)
    assert not store.was_retried(session.id)
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
