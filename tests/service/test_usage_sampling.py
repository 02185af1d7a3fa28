"""Sampling: from the engines' readings to stored steps, to those who listen, and to the API."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from jupyterhub_backendai.engine.base import AgentUnreachable
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.model.usage import METRICS, Reading, Step, span_of
from jupyterhub_backendai.service import sampling as module
from jupyterhub_backendai.service.charts import size_for
from jupyterhub_backendai.service.sampling import Sampling
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import AgentReport, Unavailable

from .running import BACKEND, Running, launch, running, until_open

AGENTS = [{"name": name, "base_url": "unix:///nobody/answers.sock"} for name in ("one", "two")]
ON_THE_WAY = (Status.PREPARING, Status.CREATING, Status.RUNNING)
MIB = 2**20
NOTHING = dict.fromkeys(METRICS)


class Engines:
    """What the agents of a site say; one that is `silent` has yet to answer."""

    def __init__(self, site: Site) -> None:
        self.says: dict[str, Reading] = {}
        self.base = int(time.monotonic()) - 200  # their `at` is counted from here
        self.silent: dict[str, asyncio.Event] = {}
        self.broken: set[str] = set()
        self.asked: list[str] = []
        site.engine.readings = self.readings  # type: ignore[method-assign]

    async def readings(self, agent: str, containers: Collection[str]) -> Mapping[str, Reading]:
        self.asked.append(agent)
        now = {
            name: replace(self.says[name], at=self.says[name].at + self.base)
            for name in containers
            if name in self.says
        }
        if agent in self.silent:
            await self.silent[agent].wait()
        if agent in self.broken:
            raise AgentUnreachable("it does not answer")
        return now


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Running]:
    """A service with two agents that nobody samples by itself."""
    async with running(tmp_path, **{**BACKEND, "agents": AGENTS}) as started:
        await until_open(started)
        capacity = Slots(2000, 2 * GIB)
        reports = [AgentReport(agent["name"], "default", capacity) for agent in AGENTS]
        started.store.report_agents(reports, now=utcnow())
        yield started


@pytest.fixture
def site(service: Running) -> Site:
    return service.service.parts.site


@pytest.fixture
def sampling(service: Running) -> Sampling:
    return service.service.sampling


@pytest.fixture
def engines(site: Site) -> Engines:
    return Engines(site)


async def runs(service: Running, agent: str, number: int = 0) -> str:
    """A session of 1 core and 1 GiB on an agent, whose container is named after it."""
    row = await launch(service, "alice", {"preset": "small"})
    id, site = str(row["id"]), service.service.parts.site
    other = next(one["name"] for one in AGENTS if one["name"] != agent)
    site.store.set_schedulable(other, False, by="test", now=utcnow())
    site.store.run_pass(site.policies, site.catalog, utcnow())
    site.store.set_schedulable(other, True, by="test", now=utcnow())
    for status in ON_THE_WAY:
        site.store.move(id, status, phase=Phase.START, now=utcnow())
    site.store.set_kernel(id, container_id=id * 2)
    assert site.store.get(id).agent == agent
    return id


def reading(at: float, cpu: float, **more: Any) -> Reading:
    return Reading(at, more.pop("life", "1"), cpu, more.pop("mem", 256 * MIB), **more)


async def test_from_readings_to_the_api(
    service: Running, site: Site, sampling: Sampling, engines: Engines
) -> None:
    id = await runs(service, "one")
    heard: list[Step] = []

    def fails(steps: object) -> None:
        raise ValueError("of somebody else")

    sampling.listeners += [fails, heard.extend]
    engines.says[id * 2] = reading(
        100.0, 50.0, net_in=1000, net_out=5, disk_read=0, disk_write=None
    )
    assert await sampling.once(site) == [], "one reading tells nothing"
    assert sampling.used(id) is None
    engines.says[id * 2] = reading(120.0, 55.0, net_in=3000, net_out=5, disk_read=0, disk_write=7)
    (step,) = await sampling.once(site)
    assert heard == [step]
    assert step == Step(
        id, step.at, 20.0, cpu=250.0, mem=256 * MIB, net_in=2000, net_out=0, disk_read=0,
        disk_write=None,
    )  # fmt: skip
    (stored,) = site.store.usage_steps([id], step.at - timedelta(seconds=1))[id]
    assert replace(stored, at=step.at) == step
    used = {"cpu": 25, "mem": 25, "gpu": None, "gpu_mem": None}
    listed = (await service.call("GET", "api/sessions", "alice")).json["items"]
    assert [row["usage"] for row in listed] == [used]
    one = (await service.call("GET", f"api/sessions/{id}", "alice")).json
    assert one["usage"] == used

    engines.says[id * 2] = reading(140.0, 75.0, net_in=3000, net_out=5, disk_read=0, disk_write=7)
    await sampling.once(site)
    reply = await service.call("GET", f"api/sessions/{id}/usage", "alice")
    assert reply.status == 200, reply.json
    told = reply.json
    assert told["has"] == {"cpu": 1000, "mem": GIB, "gpu": False, "gpu_mem": None}
    assert told["now"] == {
        **NOTHING, "cpu": 1000, "mem": 256 * MIB, "net_in": 0, "net_out": 0, "disk_read": 0,
        "disk_write": 0,
    }  # fmt: skip
    assert told["average"]["cpu"] == 625
    assert (told["peak"]["cpu"], told["peak"]["net_in"]) == (1000, 100)
    assert told["totals"] == {"disk_read": 0, "disk_write": 0, "net_in": 2000, "net_out": 0}


async def test_the_series_and_since_when(service: Running, site: Site) -> None:
    id = await runs(service, "one")
    now = site.store.get(id).running_at
    assert now is not None
    steps = [Step(id, now - timedelta(seconds=15 * n), 15, cpu=n, net_in=15 * n) for n in (3, 2, 1)]
    spans = [span_of(step) for step in steps]
    site.store.add_usage(spans, before=now, now=now)
    before = (now - timedelta(days=2)).isoformat()
    path = f"api/sessions/{id}/usage"
    series = (await service.call("GET", path, "alice", params={"since": before})).json["series"]
    assert series["times"] == [], "nothing is told of before its start"
    found = await series_of(service, site, id, now - timedelta(minutes=1))
    assert found["resolution"] == 15
    assert found["mean"]["cpu"] == [3, 2, 1]
    assert found["peak"]["net_in"] == [3, 2, 1]
    assert found["mean"]["gpu"] == [None] * 3
    bad = await service.call("GET", path, "alice", params={"since": "yesterday"})
    assert (bad.status, bad.json["errors"][0]["field"]) == (400, "since")


async def series_of(service: Running, site: Site, id: str, began: Any) -> Any:
    """The series of a session that began then."""
    with site.store._db.write() as db:
        stored = began.replace(tzinfo=None).isoformat(" ", "microseconds")
        db.execute(text("UPDATE sessions SET running_at = :at"), {"at": stored})
    return (await service.call("GET", f"api/sessions/{id}/usage", "alice")).json["series"]


async def test_what_no_coarse_step_was_made_of_yet_is_told_too(
    service: Running, site: Site
) -> None:
    id = await runs(service, "one")
    now = utcnow()
    begin = now - timedelta(hours=5)
    steps = [Step(id, begin + timedelta(seconds=15 * n), 15, cpu=100) for n in range(1, 1200)]
    for first in range(0, len(steps), 200):
        some = steps[first : first + 200]
        earlier = steps[first - 1].at if first else None
        site.store.add_usage([span_of(s) for s in some], before=earlier, now=some[-1].at)
    found = await series_of(service, site, id, begin)
    assert found["resolution"] == 300
    assert set(found["mean"]["cpu"]) == {100}
    assert found["times"] == sorted(set(found["times"]))
    assert found["times"][-1][:19] == steps[-1].at.isoformat()[:19]
    assert len(found["times"]) in {60, 61}, "five hours of five minutes each"


@pytest.mark.parametrize(
    ("ago", "size"),
    [({"minutes": 59}, 15), ({"minutes": 61}, 300), ({"hours": 47}, 300), ({"days": 3}, 3600)],
)
def test_the_resolution_is_the_finest_that_is_kept(ago: dict[str, int], size: int) -> None:
    now = utcnow()
    assert size_for(now - timedelta(**ago), now, now) == size
    # A session that ended long ago is told by what is left of it.
    assert size_for(now - timedelta(days=30, minutes=5), now - timedelta(days=30), now) == 3600


async def test_a_restart_of_the_container_is_a_gap(
    service: Running, site: Site, sampling: Sampling, engines: Engines
) -> None:
    id = await runs(service, "one")
    taken = []
    for one in (
        reading(10, 5.0, net_in=10), reading(20, 6.0, net_in=20),
        reading(30, 1.0, life="2", net_in=30), reading(40, 2.0, life="2", net_in=40),
        reading(50, 1.5, life="2", net_in=50), reading(60, 2.5, life="2", net_in=60),
    ):  # fmt: skip
        engines.says[id * 2] = one
        taken.append([step.cpu for step in await sampling.once(site)])
    assert taken == [[], [100], [], [100], [], [100]], "counters that go down are a restart too"
    site.store.set_kernel(id, container_id="e" * 64)
    engines.says["e" * 64] = reading(70, 9.0, life="2", net_in=70)
    assert await sampling.once(site) == [], "another container"
    site.store.move(id, Status.TERMINATING, phase=Phase.TERMINATE, now=utcnow())
    assert await sampling.once(site) == []
    assert (sampling.latest, sampling.used(id)) == ({}, None)


async def test_an_agent_that_does_not_answer_delays_nobody(
    service: Running, site: Site, sampling: Sampling, engines: Engines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    quick, slow = await runs(service, "one"), await runs(service, "two")
    for id in (quick, slow):
        engines.says[id * 2] = reading(10, 1.0)
    await sampling.once(site)
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    engines.silent["two"] = hang = asyncio.Event()
    found = []
    for at in (20, 30, 40):
        for id in (quick, slow):
            engines.says[id * 2] = reading(at, at / 10)
        while not (steps := await sampling.once(site)):  # one takes longer than its patience
            engines.says[quick * 2] = reading(at := at + 1, at / 10)
        found += steps
    assert {step.session_id for step in found} == {quick}
    assert engines.asked.count("two") == 2, "it is not asked again before it has answered"
    del engines.silent["two"]
    task = sampling._asked["two"]
    hang.set()
    await asyncio.wait({task})
    late = [step for step in await sampling.once(site) if step.session_id == slow]
    assert [step.seconds for step in late] == [10.0], "by the time at which it was read"
    # One that fails is asked again.
    engines.broken.add("two")
    before = engines.asked.count("two")
    for _ in range(3):
        if task := sampling._asked.get("two"):
            await asyncio.wait({task})
        await sampling.once(site)
    assert engines.asked.count("two") > before


async def test_what_cannot_be_stored_is_kept_and_stored_later(
    service: Running, site: Site, sampling: Sampling, engines: Engines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    id = await runs(service, "one")
    began = utcnow() - timedelta(minutes=10)

    def away(*args: object, **more: object) -> None:
        raise Unavailable("the database does not answer")

    heard: list[Step] = []
    sampling.listeners.append(heard.extend)
    engines.says[id * 2] = reading(0, 0.0)
    await sampling.once(site)
    with monkeypatch.context() as patch:
        for name in ("add_usage", "running_containers", "all_granted"):
            patch.setattr(site.store, name, away)
        for number in (1, 2, 3):
            engines.says[id * 2] = reading(number * 20, number * 2.0)
            await sampling.once(site)
    assert [step.cpu for step in heard] == [100, 100, 100], "who listens is told all the same"
    assert site.store.usage_steps([id], began) == {}
    engines.says[id * 2] = reading(80, 8.0)
    await sampling.once(site)
    stored = site.store.usage_totals(id)
    assert (stored.sums["cpu"], stored.seconds["cpu"]) == (8000, 80)
    await sampling.once(site)
    assert site.store.usage_totals(id) == stored, "each is counted once"


async def test_a_database_that_hangs_stops_no_sample(
    service: Running, site: Site, sampling: Sampling, engines: Engines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    id = await runs(service, "one")
    goes_on, begun = threading.Event(), 0
    add, running = site.store.add_usage, site.store.running_containers

    def hangs(*args: Any, **more: Any) -> None:
        nonlocal begun
        begun += 1
        goes_on.wait()
        add(*args, **more)

    def hangs_too() -> Any:
        goes_on.wait()
        return running()

    heard: list[Step] = []
    sampling.listeners.append(heard.extend)
    engines.says[id * 2] = reading(0, 0.0)
    await sampling.once(site)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(site.store, "add_usage", hangs)
            patch.setattr(site.store, "running_containers", hangs_too)
            patch.setattr(module, "DATABASE", 0.01)
            for number in (1, 2, 3):
                engines.says[id * 2] = reading(number * 20, number * 2.0)
                await sampling.once(site)
            assert [step.cpu for step in heard] == [100, 100, 100]
            assert begun <= 1, "one call at a time"
    finally:
        goes_on.set()
    await asyncio.gather(*sampling._working.values())
    engines.says[id * 2] = reading(80, 8.0)
    await sampling.once(site)
    stored = site.store.usage_totals(id)
    assert (stored.sums["cpu"], stored.seconds["cpu"]) == (8000, 80), "each once"


async def test_what_can_never_be_stored_costs_no_more_than_itself(
    service: Running, site: Site, sampling: Sampling, engines: Engines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    good, bad = await runs(service, "one"), await runs(service, "two")
    add, away = site.store.add_usage, True

    def refuses(spans: Any, **more: Any) -> None:
        if away:
            raise Unavailable("the database does not answer")
        if any(span.session_id == bad for span in spans):
            raise ValueError("of one step")
        add(spans, **more)

    monkeypatch.setattr(site.store, "add_usage", refuses)
    monkeypatch.setattr(module, "PORTION", 1)
    for number in range(4):
        away = number < 3  # there is something from before
        for id in (good, bad):
            engines.says[id * 2] = reading(20.0 * number, 2.0 * number)
        await sampling.once(site)
    stored = site.store.usage_totals(good)
    assert (stored.sums["cpu"], stored.seconds["cpu"]) == (6000, 60)
    monkeypatch.undo()
    await sampling.once(site)
    assert site.store.usage_totals(good) == stored
    assert not site.store.usage_totals(bad).seconds, "it is not tried for ever"


async def test_short_intervals_are_stored_as_one_step(
    service: Running, site: Site, sampling: Sampling, engines: Engines
) -> None:
    id = await runs(service, "one")
    began, cpu = utcnow() - timedelta(minutes=10), 0.0
    for number, load in enumerate((0, 1, 2, 3, 0, 0, 6)):
        cpu += load
        engines.says[id * 2] = reading(5.0 * number, cpu, mem=number)
        await sampling.once(site)
    spans = site.store.usage_spans(id, 15, began)
    assert [(span.seconds, span.mean["cpu"], span.peak["cpu"]) for span in spans] == [
        (15, pytest.approx(400), 600), (15, pytest.approx(400), 1200),
    ]  # fmt: skip
    assert [span.peak["mem"] for span in spans] == [3, 6]
