"""Schedule passes over the database: what they grant, and what they write of those that wait."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import event
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
from jupyterhub_backendai.model.policy import Policies, Policy
from jupyterhub_backendai.model.slots import Limits, Slots
from jupyterhub_backendai.model.status import Phase, Result, Status
from jupyterhub_backendai.scheduling.snapshot import (
    Decision,
    Ending,
    GroupRule,
    Placement,
    Snapshot,
)
from jupyterhub_backendai.store import AgentReport, Store, passes
from tests.holdings import holdings


@contextmanager
def writes(store: Store) -> Iterator[list[str]]:
    """The statements that have changed rows."""
    seen: list[str] = []

    def note(_c: object, cursor: Any, statement: str, *_: object) -> None:
        if statement.split()[0] in {"INSERT", "UPDATE", "DELETE"} and cursor.rowcount:
            seen.append(statement)

    event.listen(store._db._engine, "after_cursor_execute", note)
    yield seen
    event.remove(store._db._engine, "after_cursor_execute", note)


def end(store: Store, session_id: str, seconds: float = 0) -> None:
    """Ends a session that has a place."""
    for status in (Status.TERMINATING, Status.TERMINATED):
        store.move(session_id, status, phase=Phase.TERMINATE, now=after(seconds))


def test_limits_are_the_same_whether_or_not_groups_have_to_be_known(store: Store) -> None:
    """Those of everyone who waits or holds something, and of nobody else."""
    mine = Policies(users={"alice": Policy(max_sessions=3), "dora": Policy(max_sessions=1)})
    with_groups = mine.model_copy(update={"groups": {"nobody": Policy(max_sessions=9)}})
    for number, owner in enumerate(("alice", "bob", "carol", "dora", "emil", "alice")):
        submit(store, f"s{number}", owner=owner, now=after(number))
    run_pass(store, 10)
    ended = next(iter(store.live({Status.SCHEDULED})))
    end(store, ended.id, 11)
    limits = store.snapshot(mine, CATALOG, after(12)).owner_limits
    assert limits == store.snapshot(with_groups, CATALOG, after(12)).owner_limits
    assert set(limits) == {session.owner for session in store.live()}
    assert limits["alice"] != limits["bob"]


def test_places_and_waits(store: Store) -> None:
    ids = [submit(store, f"s{n}", now=after(n)).id for n in range(7)]
    assert run_pass(store, 10) == ["s0", "s1", "s2", "s3"]
    placed, waiting = store.get(ids[0]), store.get(ids[5])
    assert (placed.status, placed.agent, placed.placed_at) == (Status.SCHEDULED, "a1", after(10))
    assert (placed.reason, placed.position) == ("", None)
    newest = store.history(ids[0])[0]
    assert (newest.phase, newest.result) == (Phase.SCHEDULE, Result.SUCCESS)
    assert (newest.from_status, newest.to_status) == (Status.PENDING, Status.SCHEDULED)
    assert (waiting.status, waiting.position) == (Status.PENDING, 2)
    assert "1 CPU core" in waiting.reason
    tried = store.history(ids[5])[0]
    assert (tried.phase, tried.error_code) == (Phase.SCHEDULE, waiting.reason_code)
    assert (tried.to_status, tried.message) == (None, waiting.reason)
    assert tried.result in {Result.NEED_RETRY, Result.SKIPPED}
    assert {h.session_id for h in holdings(store)} == set(ids[:4])
    assert not violations(store)


def test_who_waits_starts_when_another_ends_in_order(store: Store) -> None:
    for number in range(12):
        submit(store, f"s{number:02}", now=after(number))
    started = run_pass(store, 20)
    while live := store.live({Status.SCHEDULED}):
        end(store, live[0].id)
        started += run_pass(store, 20)
        assert not violations(store)
    assert started == [f"s{number:02}" for number in range(12)]


def test_a_pass_without_news_writes_nothing(store: Store) -> None:
    for number in range(8):
        submit(store, f"s{number}", now=after(number))
    run_pass(store, 10)
    with writes(store) as seen:
        assert run_pass(store, 11) == []
    assert seen == []


def test_what_changes_is_told_and_is_no_new_version(store: Store) -> None:
    ids = [submit(store, f"s{n}", now=after(n)).id for n in range(6)]
    run_pass(store, 10)
    last = store.get(ids[5])
    end(store, ids[0])
    run_pass(store, 11)
    moved_up = store.get(ids[5])
    assert (last.position, moved_up.position) == (2, 1)
    assert last.reason != moved_up.reason
    assert last.version == moved_up.version, "nobody changed it"
    assert store.get(ids[0]).version > 1


def test_a_wait_is_one_more_attempt_once_a_minute(store: Store) -> None:
    submit(store, "s0", request=request(cpu=4))
    session = submit(store, "s1", request=request(cpu=4), now=after(1))
    for seconds in (2, 3, 30, 61.9):
        run_pass(store, seconds)
    assert [h.attempts for h in store.history(session.id)] == [1, 1]
    for seconds in (62, 63, 121, 122):
        run_pass(store, seconds)
    newest = store.history(session.id)[0]
    assert (newest.attempts, newest.updated_at) == (3, after(122))
    assert newest.created_at == after(2)


def test_another_reason_is_another_row_at_once(store: Store) -> None:
    submit(store, "s0", request=request(cpu=4))
    session = submit(store, "s1", request=request(cpu=4), now=after(1))
    run_pass(store, 2)
    store.report_agents([AgentReport("a1", "default", slots(4, 8), False, "away")], now=after(3))
    run_pass(store, 3)
    codes = [h.error_code for h in store.history(session.id)]
    assert len(codes) == 3
    assert len(set(codes)) == 3
    assert store.get(session.id).reason_code == codes[0]


def test_a_start_time_is_not_undercut(store: Store) -> None:
    submit(store, "later", not_before=after(100))
    assert run_pass(store, 99.999999) == []
    waiting = store.live()[0]
    assert (waiting.reason_code, store.history(waiting.id)[0].result) == (
        "not_before",
        Result.SKIPPED,
    )
    assert run_pass(store, 100) == ["later"]


def test_an_agent_that_failed_a_session_is_avoided_for_it(store: Store) -> None:
    agents = [AgentReport(name, "default", slots(4, 8)) for name in ("a1", "a2")]
    store.report_agents(agents, now=NOW)
    session = submit(store, "train")

    def fails(code: str, seconds: float) -> str | None:
        """Whom it failed on."""
        agent = store.get(session.id).agent
        store.retry_or_give_up(
            session.id, phase=Phase.PREPARE, error_code=code, reason="", now=after(seconds)
        )
        return agent

    def avoided(seconds: float) -> frozenset[str]:
        (pending,) = store.snapshot(POLICIES, CATALOG, after(seconds)).pending
        return pending.avoid

    run_pass(store, 0)
    first = fails("engine_error", 5)
    assert avoided(6) == {first}
    run_pass(store, 6)
    second = fails("agent_unreachable", 7)
    assert {first, second} == {"a1", "a2"}
    assert avoided(3606) == {second}, "an hour later it is forgotten"
    # Neither the Hub's no nor its restart says anything of the agent.
    for seconds, code in ((3610, "hub_refused"), (3620, "hub_restarted")):
        run_pass(store, seconds)
        fails(code, seconds + 1)
        assert avoided(seconds + 2) == frozenset()


def test_quotas_go_by_the_groups_of_the_newest_session(store: Store) -> None:
    policies = Policies.model_validate(
        {
            "groups": {"lab": {"total": {"cpu": 1}}, "staff": {"max_sessions": 2}},
            "projects": {"lab": {"total": {"cpu": 3}}},
        }
    )
    submit(store, "one", owner_groups=["lab"])
    snapshot = store.snapshot(policies, CATALOG, after(1))
    assert snapshot.owner_limits == {"ana": Limits(cpu=1000)}
    assert snapshot.project_limits == {"lab": Limits(cpu=3000)}
    submit(store, "two", owner_groups=["staff"], now=after(2))
    submit(store, "three", owner_groups=["staff"], now=after(3))
    submit(store, "bob", owner="bob", now=after(4), owner_groups=[])
    limits = store.snapshot(policies, CATALOG, after(5)).owner_limits
    assert limits == {"ana": Limits(sessions=2), "bob": Limits()}
    placed = store.run_pass(policies, CATALOG, after(5))
    assert [s.name for s in placed] == ["one", "two", "bob"]
    assert store.live({Status.PENDING})[0].reason_code == "owner_sessions"


def test_a_snapshot_changes_nothing_and_sees_all(store: Store) -> None:
    group = ResourceGroup(name="gpu", queue="strict", max_bypass=5, selection="dispersed")
    catalog = Catalog(resource_groups=(ResourceGroup(name="default"), group))
    held = submit(store, "held", request=request(cpu=2, gib=2, project="lab"))
    run_pass(store)
    wanted = request(agent="a9", priority=50, resource_group="gpu")
    waiting = submit(store, "waits", request=wanted, not_before=after(7), now=after(2))
    with writes(store) as seen:
        snapshot = store.snapshot(POLICIES, catalog, after(3))
    assert seen == []
    (pending,), (holding,), (agent,) = snapshot.pending, snapshot.holdings, snapshot.agents
    assert (pending.id, pending.agent, pending.group) == (waiting.id, "a9", "gpu")
    assert (pending.priority, pending.submitted_at) == (50, after(2).timestamp())
    assert (pending.not_before, pending.slots) == (after(7).timestamp(), slots(1, 1))
    assert (holding.session_id, holding.project, holding.slots) == (held.id, "lab", slots(2, 2))
    assert (agent.name, agent.group, agent.capacity) == ("a1", "default", slots(4, 8))
    assert snapshot.rules["gpu"] == GroupRule("gpu", "strict", 5, "dispersed")
    assert snapshot.now == after(3).timestamp()


def test_agents_are_what_was_reported_last(store: Store) -> None:
    reports = [
        AgentReport("a1", "default", slots(2, 4, 1)),
        AgentReport("a2", "gpu", slots(8, 16, 2), False, "It does not answer."),
    ]
    store.report_agents(reports, now=after(1))
    store.report_agents([AgentReport("n1", "k8s", slots())], now=after(1), reporter="other")
    found = {a.name: a for a in store.agents()}
    assert list(found) == ["a1", "a2", "n1"]
    assert (found["a1"].capacity, found["a1"].seen_at) == (slots(2, 4, 1), after(1))
    assert (found["a2"].available, found["a2"].reason) == (False, "It does not answer.")


def test_what_a_silent_agent_had_is_still_known(store: Store) -> None:
    submit(store, "large", request=request(cpu=4))
    store.report_agents([AgentReport("a1", "default", Slots(), False, "It is away.")], now=after(1))
    (agent,) = store.agents()
    assert (agent.capacity, agent.available) == (slots(cpu=4, gib=8), False)
    assert run_pass(store) == []
    (waiting,) = store.live()
    assert waiting.reason == "default has no machine that answers. The admin has been told."


def test_an_agent_that_is_named_no_more(store: Store) -> None:
    submit(store, "train")
    (session,) = store.run_pass(POLICIES, CATALOG, NOW)
    store.report_agents([], now=NOW)
    (agent,) = store.agents()
    assert (agent.available, agent.reason) == (False, "no longer configured")
    assert len(holdings(store)) == 1
    end(store, session.id)
    store.report_agents([], now=NOW)
    assert store.agents() == []


def test_capacity_that_shrinks_below_what_is_held(store: Store) -> None:
    for number in range(4):
        submit(store, f"s{number}")
    run_pass(store)
    store.report_agents([AgentReport("a1", "default", slots(2, 4))], now=NOW)
    submit(store, "more")
    assert run_pass(store) == []
    assert len(holdings(store)) == 4, "nobody loses a place"


def test_a_session_cancelled_during_a_pass_gets_no_place(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL other writes go on during a pass; on SQLite it is as if they came before."""
    session = submit(store, "train")
    other = submit(store, "other", now=after(1))
    store.move(session.id, Status.CANCELLED, phase=Phase.CANCEL, now=after(1))
    real = passes.schedule

    def decided_before(snapshot: Snapshot) -> Decision:
        decision = real(snapshot)
        ending = Ending(session.id, "pending_timeout", "Too late.")
        return replace(
            decision,
            placements=(Placement(session.id, "a1"), *decision.placements),
            endings=(ending,),
        )

    monkeypatch.setattr(passes, "schedule", decided_before)
    assert run_pass(store, 2) == ["other"]
    assert [h.session_id for h in holdings(store)] == [other.id]


def test_passes_at_once_in_threads(store: Store) -> None:
    """Eight threads launch, place and end; nobody ever sees more held than there is."""
    barrier = Barrier(8)

    def work(number: int) -> list[str]:
        barrier.wait()
        placed = []
        for turn in range(4):
            submit(store, f"s{number}-{turn}", now=after(turn))
            for session in store.run_pass(POLICIES, CATALOG, after(10)):
                placed.append(session.id)
                assert not violations(store)
                end(store, session.id, 10)
        return placed

    with ThreadPoolExecutor(8) as pool:
        placed = [session_id for ids in pool.map(work, range(8)) for session_id in ids]
    while more := store.run_pass(POLICIES, CATALOG, after(20)):
        for session in more:
            placed.append(session.id)
            end(store, session.id, 20)
    assert len(placed) == len(set(placed)) == 32, "each was placed by one pass, once"
    assert holdings(store) == []
    assert not violations(store)
