"""What a queue of many thousand sessions costs: schedule passes, and a page of the session list.

    python benchmarks/queue.py [--json] [--no-store]

A pass is the pure decision over 1,000 agents with 8 GPUs each and 1,000 to 30,000 sessions that
wait, of 200 users under quotas in 20 projects: cores, memory and shares of GPUs drawn at random
(the same in every run). It is timed on agents that are empty, that are held for a good half, and
that are full; the slowest counts, each as the median of five. Then the same through the store,
on a SQLite file: reading all of it, deciding, writing down 10,000 outcomes.

With --json the last line is {"pass_seconds": {"1000": ..., "3000": ..., "10000": ..., ...}}.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # this file must not be found where Python's own `queue` is meant

import argparse
import json
import math
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from random import Random

from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.gpus import GpuDevice
from jupyterhub_backendai.model.policy import Policies, Policy, Quota
from jupyterhub_backendai.model.request import SessionRequest
from jupyterhub_backendai.model.slots import GIB, Limits, Slots
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.scheduling.queue import schedule
from jupyterhub_backendai.scheduling.snapshot import Agent, GroupRule, Holding, Pending, Snapshot
from jupyterhub_backendai.store import AgentReport, Filter, Order, Store

SIZES = (1_000, 3_000, 10_000, 30_000)
AGENTS, GPUS = 1_000, 8
CAPACITY = Slots(64_000, 512 * GIB, GPUS * 1000)
OWNERS, PROJECTS = 200, 20
FILLINGS = {"empty": 0.0, "half": 0.6, "full": 1.0}
REPEATS = 5
NOW = 1_800_000_000.0
PAGES = 200
SUBMITTED_TOGETHER = 50


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="end with the figures as JSON")
    parser.add_argument("--no-store", action="store_true", help="the pure decision only")
    options = parser.parse_args()
    print(_machine())
    figures = {str(size): _pure(size) for size in SIZES}
    _growth(figures)
    _others(10_000)
    if not options.no_store:
        _through_the_store(10_000)
    if options.json:
        print(json.dumps({"pass_seconds": figures}))


def _pure(size: int) -> float:
    """Seconds of one decision over so many sessions, on the filling that takes longest."""
    slowest = 0.0
    for name, filling in FILLINGS.items():
        snapshot = _snapshot(size, filling)
        times = [_timed(partial(schedule, snapshot)) for _ in range(REPEATS)]
        decision = schedule(snapshot)
        median = statistics.median(times)
        print(
            f"{size:6} wait, agents {name:5}: {median:.3f} s (min {min(times):.3f}, "
            f"max {max(times):.3f}), {len(decision.placements)} placed"
        )
        slowest = max(slowest, median)
    return round(slowest, 4)


def _others(size: int) -> None:
    """The same line in groups of other kinds, on agents of which all GPUs are nearly full: nothing
    is passed that waited, equal shares, fewest fragments; and GPUs that stand alone as with MPS.
    """
    rules = {
        "all protected": GroupRule("default", max_bypass=0),
        "equal shares": GroupRule("default", gpu_spread="even"),
        "fragments": GroupRule("default", gpu_placement="fragments"),
    }
    snapshot = _snapshot(size, 0.9)
    alone = [
        replace(a, devices=tuple(d.model_copy(update={"provider": "mps"}) for d in a.devices))
        for a in snapshot.agents
    ]
    cases = {name: replace(snapshot, rules={"default": rule}) for name, rule in rules.items()}
    cases["GPUs alone"] = replace(snapshot, agents=alone)
    for name, case in cases.items():
        times = [_timed(partial(schedule, case)) for _ in range(REPEATS)]
        placed = len(schedule(case).placements)
        print(f"{size:6} wait, {name}: {statistics.median(times):.3f} s, {placed} placed")


def _growth(figures: dict[str, float]) -> None:
    """The exponent b of the best fit of seconds = a * n**b, and that of n log n itself."""
    sizes = [int(size) for size in figures]
    for name, values in (
        ("measured", list(figures.values())),
        ("n log n", [n * math.log(n) for n in sizes]),
    ):
        slope = statistics.linear_regression(
            [math.log(n) for n in sizes], [math.log(v) for v in values]
        ).slope
        print(f"growth: {name} is like n ** {slope:.2f}")


def _snapshot(size: int, filling: float) -> Snapshot:
    random = Random(7)
    agents = [
        Agent(f"agent-{n:04}", "default", CAPACITY, devices=_devices(n)) for n in range(AGENTS)
    ]
    holdings = []
    for agent in agents:
        held = round(filling * GPUS)
        if held:
            slots = Slots(held * 7_500, held * 60 * GIB, held * 1000)
            who, project = f"holder-{random.randrange(OWNERS)}", None
            gpus = tuple((gpu.uuid, gpu.capacity) for gpu in agent.devices[:held])
            holdings.append(
                Holding(f"h-{agent.name}", who, project, "default", agent.name, slots, gpus)
            )
    return Snapshot(
        now=NOW,
        pending=[_pending(random, number) for number in range(size)],
        agents=agents,
        holdings=holdings,
        owner_limits={f"user-{n}": Limits(fgpu=100_000, sessions=60) for n in range(OWNERS)},
        project_limits={f"project-{n}": Limits(cpu=4_000_000) for n in range(PROJECTS)},
        rules={},
    )


def _devices(agent: int) -> tuple[GpuDevice, ...]:
    return tuple(
        GpuDevice(uuid=f"GPU-{agent:04}-{n}", name="NVIDIA L40S", slot="fgpu", quantum=50)
        for n in range(GPUS)
    )


def _pending(random: Random, number: int) -> Pending:
    owner = random.randrange(OWNERS)
    return Pending(
        id=f"s{number:06}",
        owner=f"user-{owner}",
        project=f"project-{owner % PROJECTS}",
        group="default",
        slots=_slots(random),
        priority=random.choice((10, 10, 10, 20)),
        submitted_at=NOW - random.uniform(1, 3600),
    )


def _slots(random: Random) -> Slots:
    share = random.choice((0, 0, 100, 250, 500, 1000, 2000, 4000, 8000))
    cores = random.choice((1, 2, 4, 8, 16))
    return Slots(cores * 1000, cores * random.choice((2, 4, 8)) * GIB, share)


def _through_the_store(size: int) -> None:
    with tempfile.TemporaryDirectory(prefix="backendai-benchmark-") as folder:
        store = Store(f"sqlite:///{Path(folder)}/queue.sqlite")
        store.upgrade()
        now = datetime.fromtimestamp(NOW, timezone.utc)
        store.report_agents(
            [
                AgentReport(f"agent-{n:04}", "default", CAPACITY, devices=_devices(n))
                for n in range(AGENTS)
            ],
            now=now,
        )
        _fill(store, size, now)
        policies = Policies(
            default=Policy(total={"fgpu": 100}, max_sessions=60, max_pending=None),
            projects={f"project-{n}": Quota(total={"cpu": 4000}) for n in range(PROJECTS)},
        )  # fmt: skip
        _pages(store, f"{size} sessions wait")
        for what in ("first pass", "second pass", "third pass"):
            now += timedelta(seconds=5)
            seconds = _timed(partial(store.run_pass, policies, Catalog(), now))
            _, left = store.list_sessions(Filter(statuses={Status.PENDING}), limit=1)
            print(f"store: {what} {seconds:.3f} s, {left} wait")
        _pages(store, "after the passes")
        print(f"store: changes of one owner {_timed(lambda: store.changes(0, 'user-1')):.3f} s")
        store.close()


def _fill(store: Store, size: int, now: datetime) -> None:
    random = Random(7)
    made = 0
    while made < size:
        owner = f"user-{made // SUBMITTED_TOGETHER % OWNERS}"
        request = _request(_slots(random), f"project-{made // SUBMITTED_TOGETHER % PROJECTS}")
        names = {f"s{made + n}": f"session-{made + n}" for n in range(SUBMITTED_TOGETHER)}
        store.submit_many(
            request, owner=owner, owner_groups=(), names=names, driver=None, max_pending=None,
            now=now - timedelta(seconds=random.uniform(1, 600)), asked={"preset": "small"},
        )  # fmt: skip
        made += len(names)


def _request(slots: Slots, project: str) -> SessionRequest:
    return SessionRequest(
        name=None, type="interactive", environment="pytorch", version="2.9",
        image="registry.example.org/lab/pytorch:2.9", env={"LANG": "C.UTF-8"},
        resource_group="default", agent=None, preset="small", preset_changed=False,
        cpu=slots.cpu, mem=slots.mem, shm=2**26, fgpu=slots.fgpu, omp_threads=1,
        openblas_threads=1, mounts=(), preopen_ports=(8080,), project=project, priority=10,
    )  # fmt: skip


def _pages(store: Store, when: str) -> None:
    """A page of the list, as a browser asks for it: all, one owner's, by name, with a word."""
    random, times = Random(7), []
    for _ in range(PAGES):
        wanted = random.choice(
            (Filter(), Filter(owner=f"user-{random.randrange(20)}"), Filter(name="session-12"),
             Filter(statuses={Status.PENDING}))
        )  # fmt: skip
        orders: tuple[Order, ...] = ("submitted_at", "name", "status", "owner", "priority")
        order = random.choice(orders)
        offset = random.randrange(100) * 20
        page = partial(store.list_sessions, wanted, order=order, limit=20, offset=offset)
        times.append(_timed(page))
    times.sort()
    print(
        f"store: a page, {when}: median {times[PAGES // 2] * 1000:.1f} ms, "
        f"95th percentile {times[PAGES * 95 // 100] * 1000:.1f} ms"
    )


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _machine() -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, load average {load}"
    )


if __name__ == "__main__":
    main()
