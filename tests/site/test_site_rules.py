"""The rules for what disagrees: each is met, each case that must not stay has one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from traitlets.config import Config

from jupyterhub_backendai.engine.base import AgentUnreachable, Container
from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.resolve import Context, resolve
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import IN_LINE, LIVE, PHASES, Phase, Status
from jupyterhub_backendai.site import reconcile
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.rules import RULES, Action, Driver, Sight, rule_for
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import AgentReport, Session

from ..holdings import holdings

S = Status
YES_NO = (False, True)


def sights() -> Iterator[Sight]:
    """All that can be seen."""
    statuses = [None, *sorted(LIVE)]
    for parts in product(
        statuses, Driver, YES_NO, YES_NO, YES_NO, YES_NO, YES_NO, *[(None, *YES_NO)] * 5
    ):
        yield Sight(*parts)


def test_each_rule_is_met_and_nothing_stays_that_nobody_works_on() -> None:
    met = set()
    for seen in sights():
        rule = rule_for(seen)
        if rule is not None:
            met.add(rule.then + rule.others)
        if seen.status is None or not seen.settled:
            continue
        action = rule.action if rule else None
        lost = seen.driver in {Driver.DEAD, Driver.FORGOTTEN}
        if seen.status in IN_LINE and seen.driver is Driver.NOBODY and seen.owner is False:
            assert action is Action.END, seen
        if seen.status in IN_LINE and lost:
            assert action is (Action.RELEASE if seen.queue else Action.END), seen
        reached = seen.answers or not seen.known
        if seen.status in PHASES and seen.status not in IN_LINE and lost and reached:
            assert action is (Action.RETRY if seen.queue else Action.END), seen
        if seen.status is S.TERMINATING and reached:
            assert action is Action.FINISH, seen
        if seen.status in LIVE - IN_LINE and seen.known and not seen.answers:
            assert action is Action.LEAVE, seen
        if seen.driver is Driver.START and seen.status in PHASES:
            assert action in (None, Action.LEAVE), seen
    assert len(met) == len(RULES)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site with the service, and an agent that has room and nothing to remove."""
    config = Config()
    config.BackendAI.database_url = f"sqlite:///{tmp_path / 'backendai.sqlite'}"
    config.BackendAI.log_directory = str(tmp_path / "logs")
    room = {"cpu": 9, "mem": "9g"}
    nobody = f"unix://{tmp_path}/none.sock"
    config.BackendAI.agents = [{"name": "here", "base_url": nobody, "capacity": room}]
    site = Site.of(config, {})
    site.store.report_agents([AgentReport("here", "default", Slots(9000, 9 * GIB))], now=utcnow())

    async def removed(*_: object, **__: object) -> int:
        return 0

    monkeypatch.setattr(site.engine, "remove_session", removed)
    monkeypatch.setattr(site.engine, "stop_session", removed)
    yield site
    site.store.close()


def session(site: Site, name: str, driver: str | None, *way: Status) -> Session:
    """A session that has come as far as `way`."""
    catalog = Catalog(environments=({"name": "python", "image": "python:3"},))  # type: ignore[arg-type]
    request = resolve({}, Context("alice", frozenset(), False, catalog, Policies()))
    row = site.store.submit(
        request, owner="alice", owner_groups=[], server_name=name, name=name,
        driver=driver, max_pending=None, now=utcnow(),
    )  # fmt: skip
    if way:
        site.store.run_pass(site.policies, site.catalog, utcnow())
    for status in way[1:]:
        row = site.store.move(row.id, status, phase=PHASES.get(status, Phase.START), now=utcnow())
    return site.store.get(row.id)


async def test_nothing_of_a_dead_hub_is_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    making = session(site, "making", "dead", S.SCHEDULED, S.PREPARING, S.CREATING)
    placed = session(site, "placed", "dead", S.SCHEDULED)
    queued = session(site, "queued", None)
    waits = session(site, "waits", "dead")
    ours = session(site, "ours", site.run_id)
    site.driven.add(ours.id)

    await site.reconciler.clear_the_line()
    assert [site.store.get(s.id).driver for s in (placed, waits, queued)] == [None] * 3
    assert site.store.get(placed.id).status is S.SCHEDULED
    assert site.store.history(waits.id)[0].phase is Phase.RECONCILE

    for number in range(1, 6):
        await site.reconciler._look_at(making, first=True)
        row = site.store.get(making.id)
        if number == 5:
            break
        assert (row.status, row.driver) == (S.PENDING, None)
        assert site.store.get(ours.id).driver == site.run_id
        site.store.run_pass(site.policies, site.catalog, utcnow())
        assert site.store.claim(making.id, "dead")
        for status in (S.PREPARING, S.CREATING):
            making = site.store.move(making.id, status, phase=PHASES[status], now=utcnow())
    assert (row.status, row.reason_code) == (S.ERROR, "hub_restarted")
    assert "tried 5 times" in row.reason
    assert all(a.session_id != making.id for a in holdings(site.store))

    # While its agent does not answer, nothing is known of it.
    silent = session(site, "silent", "dead", S.SCHEDULED, S.PREPARING)
    monkeypatch.setitem(site._answering, "here", False)
    await site.reconciler._look_at(silent, first=False)
    assert site.store.get(silent.id) == silent


async def test_a_running_one_without_its_container_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = session(site, "lost", "dead", S.SCHEDULED, S.PREPARING, S.CREATING, S.RUNNING)
    gone = replace(lost, agent="sold")

    async def none(agent: str) -> list[object]:
        return []

    monkeypatch.setattr(site.engine, "containers", none)
    rule = rule_for(site.reconciler._sight(gone))
    assert rule is not None
    assert "not part of this site" in rule.reason
    await site.reconciler._look_at(lost, first=False)
    assert site.store.get(lost.id).status is S.RUNNING
    await site.reconciler._look_at(lost, first=True)
    row = site.store.get(lost.id)
    assert (row.status, row.reason_code) == (S.TERMINATED, "container_gone")


async def test_an_end_that_was_cut_short_is_gone_on_with(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = session(site, "ends", "dead", S.SCHEDULED, S.PREPARING, S.CREATING, S.RUNNING)

    async def silent(*_: object, **__: object) -> int:
        raise AgentUnreachable("here does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(site.engine, "remove_session", silent)
        await site.end(ends.id, "user_requested", "You ended it.")
    row = site.store.get(ends.id)
    assert row.status is S.TERMINATING
    await site.reconciler._look_at(row, first=False)  # somebody may be at it
    assert site.store.get(ends.id).status is S.TERMINATING
    monkeypatch.setattr(reconcile, "INTERVAL", -1)
    await site.reconciler._look_at(row, first=False)
    row = site.store.get(ends.id)
    assert (row.status, row.reason) == (S.TERMINATED, "You ended it.")


@dataclass(frozen=True)
class Case:
    """A session as the reconciler meets it, and what it is after that. `number` is the rule's."""

    number: int
    way: tuple[S, ...]
    driver: str | None
    status: S
    reason_code: str = ""
    service: bool = True
    answers: bool = True
    known: bool = True
    container: bool = False
    lost: bool = False
    first: bool = True


MAKING = (S.SCHEDULED, S.PREPARING, S.CREATING)
RUNS = (*MAKING, S.RUNNING)
CASES = [
    Case(1, (), None, S.PENDING),
    Case(2, (), "dead", S.PENDING),
    Case(2, (S.SCHEDULED,), "dead", S.SCHEDULED),
    Case(3, (), "dead", S.CANCELLED, "hub_restarted", service=False),
    Case(3, (S.SCHEDULED,), None, S.CANCELLED, "hub_restarted", service=False),
    Case(4, MAKING, "dead", S.CREATING, answers=False),
    Case(5, MAKING, "dead", S.PENDING, "hub_restarted"),
    Case(6, MAKING, "dead", S.ERROR, "hub_restarted", service=False),
    Case(7, RUNS, "dead", S.TERMINATED, "container_gone", known=False),
    Case(8, RUNS, "dead", S.TERMINATED, "container_gone"),
    Case(10, RUNS, "dead", S.TERMINATED, "not_in_hub", container=True, lost=True, first=False),
    Case(11, (*RUNS, S.TERMINATING), "dead", S.TERMINATED),
    Case(12, (*RUNS, S.TERMINATING, S.HIBERNATED), None, S.TERMINATED),
]
STOPPED = "test_one_whose_server_was_stopped_meanwhile_keeps_its_home"
RESTS = "test_what_rests_for_good_is_dropped_where_its_owner_is_gone"
ELSEWHERE = {
    0: "tests.service.test_servers_worker:test_what_waits_for_an_owner_who_is_gone_is_cancelled",
    9: f"tests.service.test_commit_worker:{STOPPED}",
    13: f"tests.service.test_servers_worker:{RESTS}",
    14: "tests.site.test_site_sweep:test_a_sweep",
    15: "tests.service.test_servers_worker:test_what_the_hub_has_lost_and_what_it_has_too_much",
}


def test_each_rule_is_acted_out_somewhere() -> None:
    assert sorted({case.number for case in CASES} | ELSEWHERE.keys()) == list(range(len(RULES)))
    for place in ELSEWHERE.values():
        module, _, name = place.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("case", CASES, ids=lambda case: RULES[case.number].then)
async def test_a_rule_is_acted_out(site: Site, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    row = session(site, "one", case.driver, *case.way)
    followed: list[object] = []

    def rule_of(seen: Sight) -> object:
        followed.append(rule_for(seen))
        return followed[-1]

    async def containers(agent: str) -> list[object]:
        return [Container(agent, "c", "c", row.id, "main1", True, {})] if case.container else []

    monkeypatch.setattr(reconcile, "rule_for", rule_of)
    monkeypatch.setattr(site.engine, "containers", containers)
    monkeypatch.setattr(site.configuration, "service", case.service)
    monkeypatch.setitem(site._answering, "here", case.answers)
    if not case.known:
        monkeypatch.setattr(site.engine, "hosts", {})
    if case.lost:
        monkeypatch.setattr(reconcile, "INTERVAL", -1)
    lost = frozenset({row.id} if case.lost else ())
    await site.reconciler._look_at(row, case.first, lost)
    assert followed == [RULES[case.number]]
    after = site.store.get(row.id)
    assert (after.status, after.reason_code) == (case.status, case.reason_code)
    acted = RULES[case.number].action is not Action.LEAVE
    assert after.driver == (None if acted else case.driver)


@pytest.mark.parametrize("back", [timedelta(hours=2), timedelta(seconds=-45)])
async def test_a_clock_that_was_set_stops_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, back: timedelta
) -> None:
    """Nor does one that is a little behind make anything of what has only just happened."""
    ends = session(site, "ends", site.run_id, *RUNS, S.TERMINATING)
    monkeypatch.setattr(reconcile, "utcnow", lambda: utcnow() - timedelta(seconds=5))
    await site.reconciler._look_at(ends, first=False)
    assert site.store.get(ends.id).status is S.TERMINATING
    monkeypatch.setattr(reconcile, "utcnow", lambda: utcnow() - back)
    await site.reconciler._look_at(ends, first=False)
    assert site.store.get(ends.id).status is S.TERMINATED
