"""What it costs to sample many containers: the share of a core that it takes.

    python benchmarks/idle_sampling.py [--containers 200] [--rounds 20] [--interval 15] [--json]

Real containers (of `backendai-demo:latest`, asleep) on this machine's Docker, one for each session
that runs. A round is the service's own, every 15 seconds as by default, so this takes minutes: it
looks in a database (SQLite) which sessions run and what they were granted, reads the counters of
their containers from the kernel's files, makes steps of them, has the idle checks take those into
their windows (each session has a utilization check of two metrics), and writes them. No session has
a GPU, so no driver is asked.

What counts is the CPU time of this process, all threads, for a round, over the time between two.
The first rounds, in which each container is looked up once, are told apart.

With --json the last line is {"containers": ..., "core_fraction": ..., "round_cpu_seconds": ...,
"slowest": ...}: the mean of rounds, and the slowest.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # `queue.py` beside this must not be taken for Python's own

import argparse
import asyncio
import json
import os
import platform
import tempfile
import time
import uuid
from datetime import datetime, timezone
from pathlib import Path

import docker
from traitlets.config import Config

from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.request import SessionRequest
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.service.hub import HubClient
from jupyterhub_backendai.service.images import ImageDoor
from jupyterhub_backendai.service.sampling import Sampling
from jupyterhub_backendai.service.usage import Usages
from jupyterhub_backendai.service.workers.idle import IdleWorker
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import AgentReport, Store

IMAGE = "backendai-demo:latest"
AGENT = "local"
FIRST = 2  # rounds at the start that are not counted: the second makes the first steps
IDLE = {"utilization": {"window": "2h", "thresholds": {"cpu": 5, "mem": 5}}}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--containers", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--interval", type=float, default=15.0, help="seconds between two rounds")
    parser.add_argument("--json", action="store_true", help="end with the figures as JSON")
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    mark = f"bench{uuid.uuid4().hex[:8]}"
    client = docker.from_env()
    try:
        ids = [
            client.containers.run(
                IMAGE,
                ["sleep", "100000"],
                entrypoint=[],
                detach=True,
                labels={"backendai.hub": mark},
            ).id
            for _ in range(options.containers)
        ]
        print(f"load average before: {os.getloadavg()[0]:.1f}")
        costs = asyncio.run(_sample(mark, ids, options.rounds, options.interval))
        print(f"load average after: {os.getloadavg()[0]:.1f}")
    finally:
        for one in client.containers.list(all=True, filters={"label": f"backendai.hub={mark}"}):
            one.remove(force=True, v=True)
    rest = costs[FIRST:]
    cost, share = sum(rest) / len(rest), sum(rest) / len(rest) / options.interval
    print(
        f"{len(ids)} containers: first round {costs[0]:.3f} s of CPU, then {cost * 1000:.1f} ms "
        f"each ({max(rest) * 1000:.1f} at most)"
    )
    print(f"{share:.2%} of a core at {options.interval:g} s")
    if options.json:
        found = {"containers": len(ids), "core_fraction": share, "round_cpu_seconds": cost,
                 "slowest": max(rest)}  # fmt: skip
        print(json.dumps(found))


async def _sample(mark: str, ids: list[str], rounds: int, interval: float) -> list[float]:
    """CPU seconds of each round."""
    with tempfile.TemporaryDirectory(prefix="backendai-benchmark-") as folder:
        settings = {
            "database_url": f"sqlite:///{folder}/b.sqlite",
            "log_directory": str(Path(folder, "logs")),
            "hub_id": mark,
            "agents": [{"name": AGENT}],
            "idle": IDLE,
        }
        site = Site.of(Config({"BackendAI": settings}), {})
        sessions = _fill(site.store, ids)
        sampling = Sampling(Usages())
        sampling.sampled_every(interval)
        async with HubClient("http://127.0.0.1:9/hub/api", "nobody-asks") as hub:
            idle = IdleWorker(site, hub, interval, ImageDoor())
            await idle.once()  # it knows who runs
            sampling.listeners.append(idle.add)
            costs = []
            for number in range(FIRST + rounds):
                began, at = time.process_time(), time.monotonic()
                steps = await sampling.once(site)
                costs.append(time.process_time() - began)
                assert number == 0 or {step.session_id for step in steps} == sessions
                await asyncio.sleep(max(0.0, interval - (time.monotonic() - at)))
            assert idle.watch is not None
            assert idle.watch.sessions.keys() == sessions
            await idle.asker.close()
        await sampling.close()
        stored = site.store.usage_steps(sessions, datetime.fromtimestamp(0, timezone.utc))
        assert stored.keys() == sessions, "what all used is in the database"
        site.store.close()
    return costs


def _fill(store: Store, ids: list[str]) -> set[str]:
    """A session that runs for each container; their ids."""
    now = datetime.now(timezone.utc)
    store.report_agents([AgentReport(AGENT, "default", Slots(10**9, 10**6 * GIB))], now=now)
    request = SessionRequest(
        name=None, type="interactive", environment="e", version="1", image=IMAGE, env={},
        preset=None, resource_group="default", agent=None, preset_changed=False, cpu=100, mem=GIB,
        shm=2**26, fgpu=0, omp_threads=1, openblas_threads=1, mounts=(), preopen_ports=(),
        project=None, priority=10,
    )  # fmt: skip
    names = {f"s{number}": f"s{number}" for number in range(len(ids))}
    made = store.submit_many(
        request, owner="ana", owner_groups=[], names=names, driver=None, max_pending=None, now=now
    )
    store.run_pass(Policies(), Catalog(), now)
    for container, session in zip(ids, made, strict=True):
        for status in (Status.PREPARING, Status.CREATING, Status.RUNNING):
            store.move(session.id, status, phase=Phase.START, now=now)
        store.set_kernel(session.id, container_id=container)
    return {session.id for session in made}


if __name__ == "__main__":
    main()
