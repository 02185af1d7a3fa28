"""Sessions that are hibernated: what is kept of them, and every way from there."""

from __future__ import annotations

from datetime import timedelta

import pytest
from store_samples import (
    CATALOG,
    NOW,
    POLICIES,
    after,
    batch,
    run_pass,
    slots,
    start,
    submit,
    violations,
)
from test_store_images import MADE, begin, codes, running

from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.images import CommitStatus, reference_of
from jupyterhub_backendai.model.policy import Policies, Policy
from jupyterhub_backendai.model.status import IllegalTransition, Phase, Status
from jupyterhub_backendai.store import (
    AgentReport,
    Changed,
    ClockRecord,
    Commit,
    IdleRecord,
    Return,
    Session,
    Store,
    Wish,
)

S = Status
DAY = 86400
BACK = Return("ana", (), None)
CLOCK = ClockRecord(1.5, 1.7e9, 1.5, "boot")


def begin_rest(store: Store, session: Session, most: int = 3, seconds: float = 0) -> Commit:
    wish = Wish("hibernated", "ana", "c" * 64, hibernates=True)
    return store.begin_hibernation(session.id, wish, most, reference_of, after(seconds))


def finish(store: Store, commit: Commit, days: float | None = 14, seconds: float = 2) -> Session:
    store.move_commit(commit.id, CommitStatus.COMMITTING, after(seconds))
    until = None if days is None else after(seconds) + timedelta(days=days)
    return store.finish_hibernation(commit.id, MADE, until, after(seconds))


def over(store: Store, session: Session, to: Status = S.TERMINATED, seconds: float = 3) -> Session:
    """The end of what it was doing."""
    return store.move(session.id, to, phase=Phase.TERMINATE, now=after(seconds))


def resting(store: Store, name: str = "rests", days: float | None = 14) -> Session:
    session = running(store, name)
    return over(store, finish(store, begin_rest(store, session), days))


def test_it_holds_nothing_and_keeps_its_place_in_the_list(store: Store) -> None:
    session = running(store, "rests")
    ends = finish(store, begin_rest(store, session))
    assert (ends.status, ends.reason) == (S.TERMINATING, "ana hibernated it.")
    assert store.is_kept(session.id)
    rests = over(store, ends)
    assert (rests.status, rests.driver, rests.agent) == (S.HIBERNATED, None, "a")
    assert rests.ended_at is None
    assert store.holdings() == []
    assert violations(store) == []
    assert [one.id for one in store.live()] == [session.id]
    assert store.images_of("ana") == []
    assert store.commits_of("ana", NOW - timedelta(days=1)) == [], "it is no image to tell of"
    kept = store.hibernation(session.id)
    assert kept is not None
    assert (kept.agent, kept.current, kept.drop_at) == ("a", True, after(2) + timedelta(days=14))
    # Its name and its server are taken still.
    with pytest.raises(RequestError) as error:
        submit(store, "rests", now=after(9))
    assert ("name", "in_use") in codes(error)


def test_resumed_it_stands_behind_all_who_wait(store: Store) -> None:
    rests = resting(store)
    store.save_idle({rests.id: IdleRecord(5.0, 6.0)}, CLOCK, {})
    waits = store.resume(rests.id, BACK, after(50))
    assert (waits.status, waits.agent) == (S.PENDING, None)
    (one,) = [p for p in store.snapshot(POLICIES, CATALOG, after(55)).pending if p.id == rests.id]
    assert (one.agent, one.submitted_at) == ("a", after(50).timestamp())
    assert store.idle_records() == {}, "its idle checks begin anew"
    assert store.is_kept(rests.id), "until it runs"
    run_pass(store, 60)
    start(store, rests.id, 61)
    assert store.is_kept(rests.id), "until it is sure that it runs"
    running_at = store.get(rests.id).running_at
    assert running_at is not None
    assert store.hibernations_back(running_at - timedelta(seconds=1)) == []
    assert store.hibernations_back(running_at) == [rests.id]
    store.back_for_good(rests.id)
    assert store.hibernations_back(running_at) == []
    assert store.hibernation(rests.id) is None
    assert store.hibernations_over() == [], "it runs from its image"
    ended = over(store, store.move(rests.id, S.TERMINATING, phase=Phase.TERMINATE, now=after(70)))
    assert ended.status is S.TERMINATED
    assert [one.session_id for one in store.hibernations_over()] == [rests.id]
    assert violations(store) == []


def test_resumed_it_is_of_the_groups_that_its_owner_is_in_by_then(store: Store) -> None:
    policies = Policies(
        default=Policy(max_sessions=2),
        groups={"lab": Policy(max_sessions=20), "course": Policy(max_sessions=1)},
    )

    def most(seconds: float) -> int | None:
        return store.snapshot(policies, CATALOG, after(seconds)).owner_limits["ana"].sessions

    rests = resting(store)
    assert rests.owner_groups == ("lab",)
    submit(store, "newer", owner_groups=["course"], now=after(10))
    assert most(11) == 1
    back = store.resume(rests.id, Return("ana", ["z", "a"], None), after(50))
    assert back == store.get(rests.id)
    assert (back.owner_groups, back.submitted_at) == (("a", "z"), after(50))
    assert most(51) == 2, "for all of hers: she is out of the lab, and of the course"


@pytest.mark.parametrize(("most", "has_room"), [(0, True), (0, False), (1, True), (1, False)])
def test_no_more_wait_to_be_resumed_than_may(store: Store, most: int, has_room: bool) -> None:
    rests = resting(store)
    if not has_room:
        store.report_agents([AgentReport("a", "default", slots(1, 1))], now=after(4))
        submit(store, "waits", now=after(5))
        run_pass(store, 6)
        submit(store, "waits-too", now=after(7))
        run_pass(store, 8)
    if has_room:
        assert store.resume(rests.id, Return("ana", (), most), after(9)).status is S.PENDING
        return
    with pytest.raises(RequestError) as error:
        store.resume(rests.id, Return("ana", (), most), after(9))
    assert codes(error) == [("", "too_many_pending")]
    assert store.get(rests.id).status is S.HIBERNATED
    assert store.resume(rests.id, Return("ana", (), 2), after(9)).status is S.PENDING


def test_what_was_seen_of_an_earlier_life_is_not_noted(store: Store) -> None:
    session = running(store, "rests")
    seen = {session.id: IdleRecord(5.0, 6.0, kept_until=9.0, kept=3.0)}
    before = {session.id: session.running_at}
    store.save_idle(seen, CLOCK, before)
    assert store.idle_records() == seen
    rests = over(store, finish(store, begin_rest(store, session)))
    store.resume(rests.id, BACK, after(50))
    store.save_idle(seen, CLOCK, before)
    assert store.idle_records() == {}, "it waits to run again"
    run_pass(store, 60)
    start(store, rests.id, 61)
    store.save_idle(seen, CLOCK, before)
    assert store.idle_records() == {}, "and runs again"
    again = {rests.id: IdleRecord(70.0)}
    store.save_idle(again, CLOCK, {rests.id: store.get(rests.id).running_at})
    assert store.idle_records() == again


def test_one_that_breaks_down_just_when_it_is_back_rests_again(store: Store) -> None:
    rests = resting(store)
    store.resume(rests.id, BACK, after(50))
    run_pass(store, 60)
    start(store, rests.id, 61)
    # It may rest once more; until it is sure to run no other one has its place.
    store.check_hibernation(rests.id, 1)
    other = running(store, "other")
    with pytest.raises(RequestError) as error:
        begin_rest(store, other, most=1)
    assert codes(error) == [("", "too_many_hibernated")]
    commit = begin_rest(store, other, most=2)
    with pytest.raises(RequestError) as error:
        store.check_hibernation(running(store, "third").id, 2)
    assert "You have 2 hibernated sessions, and your limit is 2." in str(error.value)
    assert store.resting() == {"ana": {rests.id, other.id}}
    store.cancel_commit(commit.id, after(62))
    assert store.resting() == {"ana": {rests.id}}
    ends = store.move(rests.id, S.TERMINATING, phase=Phase.TERMINATE, now=after(70))
    store.back_for_good(rests.id)
    assert store.is_kept(rests.id), "it does not run any more"
    again = over(store, ends, S.ERROR, 71)
    assert (again.status, again.agent, again.ended_at) == (S.HIBERNATED, "a", None)
    assert store.resume(rests.id, BACK, after(90)).status is S.PENDING
    assert violations(store) == []


@pytest.mark.parametrize("way", [
    (S.CANCELLED,), (S.SCHEDULED, S.CANCELLED), (S.SCHEDULED, S.PREPARING, S.TERMINATING, S.ERROR),
    (S.SCHEDULED, S.PREPARING, S.CREATING, S.TERMINATING, S.TERMINATED),
    (S.SCHEDULED, S.PREPARING, S.PENDING, S.ERROR),
])  # fmt: skip
def test_a_resuming_that_comes_to_nothing_leads_back(store: Store, way: tuple[Status, ...]) -> None:
    rests = resting(store)
    store.resume(rests.id, BACK, after(10))
    for number, status in enumerate(way):
        if status is S.SCHEDULED:
            run_pass(store, 11)
            continue
        row = store.move(rests.id, status, phase=Phase.START, now=after(20 + number))
    assert (row.status, row.agent, row.driver) == (S.HIBERNATED, "a", None)
    assert store.is_kept(rests.id)
    assert store.holdings() == []
    assert violations(store) == []
    assert store.resume(rests.id, BACK, after(90)).status is S.PENDING


def test_what_is_let_go_ends(store: Store) -> None:
    rests = resting(store)
    with pytest.raises(IllegalTransition):
        over(store, rests)  # nobody ends what is kept
    with pytest.raises(Changed):
        store.let_go(rests.id, "user_requested", "ana ended it.", rests.version - 1)
    gone = store.let_go(rests.id, "user_requested", "ana ended it.", rests.version)
    assert (gone.status, gone.reason) == (S.HIBERNATED, "ana ended it.")
    assert store.let_go(rests.id, "retention", "Its time was over.").reason == "ana ended it."
    with pytest.raises(RequestError) as error:
        store.resume(rests.id, BACK, after(9))
    assert codes(error) == [("", "not_hibernated")]
    assert over(store, rests).status is S.TERMINATED
    (left,) = store.hibernations_over()
    store.forget_hibernation(left.id)
    assert store.hibernations() == []


def test_one_is_due_when_its_time_is_over(store: Store) -> None:
    soon, never = resting(store, "soon", 1), resting(store, "never", None)
    back = resting(store, "back", 1)
    store.resume(back.id, BACK, after(9))
    assert store.hibernations_dropping(None, after(2 + DAY - 1)) == []
    due = [rest.session_id for rest, _ in store.hibernations_dropping(None, after(2 + DAY))]
    assert due == [soon.id], "not one that is on its way back"
    told = [(rest.session_id, name) for rest, name in store.hibernations_dropping("ana")]
    assert told == [(soon.id, "soon")]
    assert store.hibernations_dropping("bob") == []
    assert store.kept_sessions() == {soon.id, never.id, back.id}


def test_one_that_was_resumed_since_is_not_dropped(store: Store) -> None:
    rests, back = resting(store, "rests", 1), resting(store, "back", 1)
    due = after(2 + DAY)
    store.resume(back.id, BACK, due)
    assert not store.drop_if_due(back.id, "retention", "Its time was over.", due)
    assert not store.drop_if_due(rests.id, "retention", "Its time was over.", after(1 + DAY))
    assert store.drop_if_due(rests.id, "retention", "Its time was over.", due)
    assert not store.drop_if_due(rests.id, "retention", "Its time was over.", due), "once"
    assert (store.is_kept(rests.id), store.is_kept(back.id)) == (False, True)


@pytest.mark.parametrize(("days", "more"), [(14, DAY), (0.5, DAY / 2), (None, None)])
def test_what_could_not_be_resumed_is_not_dropped_at_once(
    store: Store, days: float | None, more: float | None
) -> None:
    rests = resting(store, days=days)
    late = 2 + (days or 14) * DAY - 60
    store.resume(rests.id, BACK, after(late))
    store.move(rests.id, S.CANCELLED, phase=Phase.CANCEL, now=after(late + 3600))
    kept = store.hibernation(rests.id)
    assert kept is not None
    assert kept.drop_at == (None if more is None else after(late + 3600 + more))
    # Once: who goes on so does not have it kept for ever.
    for number in range(1, 4):
        store.resume(rests.id, Return("ana", (), None), after(late + number * 9000))
        store.move(
            rests.id, S.CANCELLED, phase=Phase.CANCEL, now=after(late + number * 9000 + 3600)
        )
    assert store.hibernation(rests.id).drop_at == kept.drop_at  # type: ignore[union-attr]
    # Where there is more time than that it stays as it is.
    other = resting(store, "other", 14)
    store.resume(other.id, BACK, after(10))
    store.move(other.id, S.CANCELLED, phase=Phase.CANCEL, now=after(11))
    assert store.hibernation(other.id).drop_at == after(2 + 14 * DAY)  # type: ignore[union-attr]


def test_tries_are_counted_anew_when_it_is_resumed(store: Store) -> None:
    rests = resting(store)
    for life in range(3):
        store.resume(rests.id, BACK, after(100 * life + 10))
        for _ in range(3):
            run_pass(store, 100 * life + 11)
            start(store, rests.id, 100 * life + 12, S.PREPARING)
            row = store.retry_or_give_up(
                rests.id, phase=Phase.PREPARE, error_code="agent_unreachable", reason="Away.",
                now=after(100 * life + 13),
            )  # fmt: skip
            assert row.status is S.PENDING
        store.move(rests.id, S.CANCELLED, phase=Phase.CANCEL, now=after(100 * life + 20))


def test_what_replaces_it_lets_the_earlier_image_go(store: Store) -> None:
    rests = resting(store)
    store.resume(rests.id, BACK, after(10))
    run_pass(store, 11)
    start(store, rests.id, 12)
    earlier = store.hibernations()
    over(store, finish(store, begin_rest(store, store.get(rests.id), seconds=20), seconds=21))
    assert [one.id for one in store.hibernations_over()] == [earlier[0].id]
    kept = store.hibernation(rests.id)
    assert kept is not None
    assert kept.id != earlier[0].id


def test_what_is_refused(store: Store) -> None:
    one = running(store, "one")
    commit = begin(store, one)
    with pytest.raises(RequestError) as error:
        begin_rest(store, one)
    assert codes(error) == [("", "under_way")]
    store.cancel_commit(commit.id, after(3))
    begin_rest(store, one, most=1)
    with pytest.raises(RequestError) as error:
        begin(store, one)
    assert codes(error) == [("", "under_way")]
    two = running(store, "two")
    with pytest.raises(RequestError) as error:
        begin_rest(store, two, most=1)
    assert codes(error) == [("", "too_many_hibernated")]
    assert begin(store, two, most=1).is_new, "it is none of the images that are counted"
    job = running(store, "job", request=batch())
    with pytest.raises(RequestError) as error:
        begin_rest(store, job)
    assert codes(error) == [("", "batch")]
    with pytest.raises(RequestError) as error:
        store.check_hibernation(submit(store, "waits", now=after(5)).id, 3)
    assert codes(error) == [("", "not_running")]


def test_one_that_ended_meanwhile_is_not_kept(store: Store) -> None:
    session = running(store, "ends")
    commit = begin_rest(store, session)
    store.move(session.id, S.TERMINATING, phase=Phase.TERMINATE, now=after(1))
    with pytest.raises(IllegalTransition):
        finish(store, commit)
    assert store.commit(commit.id).status is CommitStatus.COMMITTING, "nothing of it was noted"
    assert not store.is_kept(session.id)
    assert over(store, session).status is S.TERMINATED


def test_its_work_is_over_when_nothing_of_it_runs(store: Store) -> None:
    commit = begin_rest(store, running(store, "rests"))
    ids = frozenset({commit.id})
    assert store.commits_over(ids) == frozenset()
    ends = finish(store, commit)
    assert store.commits_over(ids) == frozenset()
    over(store, ends)
    assert store.commits_over(ids) == ids
