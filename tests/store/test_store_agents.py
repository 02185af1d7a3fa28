"""Agents: what is reported of them, and what their admin says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from store_samples import (
    CATALOG,
    NOW,
    POLICIES,
    after,
    request,
    run_pass,
    slots,
    start,
    submit,
    violations,
)

from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import AgentReport, AgentState, NotFound, Store, schema
from jupyterhub_backendai.store.database import Database
from tests.holdings import holdings

A1 = AgentReport("a1", "default", slots(cpu=4, gib=8))
A2 = AgentReport("a2", "default", slots(cpu=4, gib=8))


def agent(store: Store, name: str = "a1") -> AgentState:
    return next(agent for agent in store.agents() if agent.name == name)


def drain(store: Store, name: str = "a1", seconds: float = 1, by: str = "ada") -> AgentState:
    return store.set_schedulable(name, False, by=by, now=after(seconds))


def test_what_an_admin_says_stays(store: Store, url: str) -> None:
    assert agent(store).schedulable
    told = drain(store)
    assert (told.schedulable, told.drained_by, told.drained_at) == (False, "ada", after(1))
    for report in (A1, AgentReport("a1", "default", slots(), False, "away"), A1):
        store.report_agents([report], now=after(2))
        assert agent(store).drained_by == "ada"
    again = Store(url)
    again.upgrade()
    assert agent(again) == agent(store), "a restart changes nothing"
    again.close()
    assert drain(store, seconds=3, by="bob").drained_by == "ada", "it was so already"
    told = store.set_schedulable("a1", True, by="bob", now=after(4))
    assert (told.schedulable, told.drained_by, told.drained_at) == (True, None, None)
    assert agent(store) == told
    with pytest.raises(NotFound, match="no agent a9"):
        drain(store, "a9")


def test_one_that_is_configured_anew_takes_sessions(store: Store) -> None:
    """But not one on which something is held meanwhile: that was never forgotten."""
    store.report_agents([A1, A2], now=NOW)
    submit(store, "s0", request=request(agent="a1"))
    run_pass(store)
    for name in ("a1", "a2"):
        drain(store, name)
    store.report_agents([], now=after(2))
    assert [(a.name, a.available) for a in store.agents()] == [("a1", False)]
    store.report_agents([A1, A2], now=after(3))
    assert [(a.name, a.available, a.schedulable) for a in store.agents()] == [
        ("a1", True, False), ("a2", True, True),
    ]  # fmt: skip


def test_a_drained_agent_gets_nothing_and_keeps_what_it_has(store: Store) -> None:
    store.report_agents([A1, A2], now=NOW)
    chosen = request(agent="a1")
    running = submit(store, "runs", request=chosen)
    placed = submit(store, "placed", request=chosen, now=after(0.5))
    assert run_pass(store) == ["runs", "placed"]
    start(store, running.id, 1)
    drain(store)
    waits = submit(store, "waits", request=chosen, now=after(2))
    elsewhere = submit(store, "elsewhere", now=after(2))
    assert run_pass(store, 3) == ["elsewhere"]
    assert store.get(elsewhere.id).agent == "a2"
    told = store.get(waits.id)
    assert (told.reason_code, told.status) == ("drained", Status.PENDING)
    assert told.reason.startswith("a1, which you chose, takes no sessions now: the admin is drain")
    assert store.history(waits.id)[0].error_code == "drained"
    # What has its place goes on there.
    start(store, placed.id, 4)
    assert {store.get(s.id).status for s in (running, placed)} == {Status.RUNNING}
    assert sum(h.agent == "a1" for h in holdings(store)) == 2
    for status in (Status.TERMINATING, Status.TERMINATED):
        store.move(running.id, status, phase=Phase.TERMINATE, now=after(5))
    assert run_pass(store, 6) == [], "what ends there makes no room"
    store.set_schedulable("a1", True, by="ada", now=after(7))
    assert run_pass(store, 8) == ["waits"]
    assert not violations(store)


def test_a_start_that_failed_goes_elsewhere(store: Store) -> None:
    store.report_agents([A1, A2], now=NOW)
    session = submit(store, "s0")
    run_pass(store)
    assert store.get(session.id).agent == "a1"
    drain(store)
    start(store, session.id, 1, Status.CREATING)
    store.retry_or_give_up(
        session.id, phase=Phase.CREATE, error_code="hub_restarted", reason="Again.", now=after(2)
    )
    assert run_pass(store, 3) == ["s0"]
    assert store.get(session.id).agent == "a2"


def test_nothing_is_estimated_or_promised_on_it(store: Store) -> None:
    drain(store)
    session = submit(store, "s0", now=after(2))
    run_pass(store, 3)
    ahead = store.ahead(POLICIES, CATALOG, after(4))
    assert ahead.start_of(session.id) is None
    (seen,) = store.snapshot(POLICIES, CATALOG, after(4)).agents
    assert (seen.available, seen.schedulable, seen.takes_sessions) == (True, False, False)


def test_none_is_placed_once_it_is_said(store: Store) -> None:
    """However many passes run at that moment."""
    for number in range(40):
        submit(store, f"s{number:02}", request=request(cpu=0.1), now=after(number))

    def passes() -> list[str]:
        return [name for seconds in range(100, 105) for name in run_pass(store, seconds)]

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(passes) for _ in range(2)]
        drain(store)
        held = {h.session_id for h in holdings(store)}
        for one in running:
            one.result(timeout=60)
    assert {h.session_id for h in holdings(store)} == held


def told(store: Store, seq: int) -> list[tuple[str, bool, bool]]:
    return [(a.name, a.available, a.schedulable) for a in store.agent_changes(seq)]


def test_changes_are_numbered_with_those_of_sessions(store: Store) -> None:
    store.report_agents([A1, A2], now=NOW)
    assert (store.seq(), told(store, 0)) == (2, [("a1", True, True), ("a2", True, True)])
    submit(store, "s0")
    drain(store)
    assert (store.seq(), told(store, 3)) == (4, [("a1", True, False)])
    drain(store)
    store.report_agents([A1, A2], now=after(2))
    assert store.seq() == 4, "nothing that is told has changed"
    away = AgentReport("a2", "default", slots(), False, "it does not answer")
    store.report_agents([A1, away], now=after(3))
    assert (store.seq(), told(store, 4)) == (5, [("a2", False, True)])
    store.set_schedulable("a1", True, by="ada", now=after(4))
    assert told(store, 0) == [("a2", False, True), ("a1", True, True)], "by the latest of each"
    assert [c.seq for c in store.changes(0)] == [3]
    assert told(store, store.seq()) == []


def test_what_an_agent_has_is_told_and_that_one_is_gone(store: Store) -> None:
    store.report_agents([A1, A2], now=NOW)
    before = store.seq()
    larger = replace(A1, capacity=A1.capacity + A1.capacity)
    store.report_agents([larger, A2], now=after(1))
    assert told(store, before) == [("a1", True, True)]
    before = store.seq()
    store.report_agents([larger, replace(A2, group="other")], now=after(2))
    assert told(store, before) == [("a2", True, True)]
    before = store.seq()
    store.report_agents([larger], now=after(3))
    assert [agent.name for agent in store.agents()] == ["a1"]
    assert told(store, before) == [("a1", True, True)], "so that all of them are looked at again"
    before = store.seq()
    store.report_agents([larger], now=after(4))
    assert store.seq() == before


def test_agents_of_an_older_schema_take_sessions(store: Store, database: Database) -> None:
    drain(store)
    before = store.agents()
    with database.migration() as connection:
        schema.downgrade(connection, "0003")
    store.upgrade()
    (now,) = store.agents()
    assert now.schedulable
    assert (now.capacity, now.seen_at) == (before[0].capacity, before[0].seen_at)
    submit(store, "s0")
    assert run_pass(store) == ["s0"]
