"""What it costs to sample many containers: the share of a core that it takes.

    python benchmarks/idle_sampling.py [--containers 200] [--rounds 20] [--json]

Real containers (of `backendai-demo:latest`, asleep) on this machine's Docker, whose counters are
read from the kernel's files as the service does, made into steps and written to a database. What
counts is the CPU time of this process, all threads, for a round, over the 15 seconds between two.
The first rounds, in which each container is looked up once, are told apart.

With --json the last line is {"containers": ..., "core_fraction": ..., "round_cpu_seconds": ...}.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # `queue.py` beside this must not be taken for Python's own

import argparse
import asyncio
import json
import platform
import tempfile
import time
import uuid
from datetime import datetime, timedelta, timezone

import docker

from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.model.request import SessionRequest
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.usage import Reading, span_of, step_between
from jupyterhub_backendai.store import AgentReport, Store

INTERVAL = 15.0  # seconds between two rounds, by default
IMAGE = "backendai-demo:latest"
AGENT = "local"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--containers", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="end with the figures as JSON")
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}")
    mark = f"bench-{uuid.uuid4().hex[:8]}"
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
        first, cost = asyncio.run(_sample(mark, ids, options.rounds))
    finally:
        for one in client.containers.list(all=True, filters={"label": f"backendai.hub={mark}"}):
            one.remove(force=True, v=True)
    share = cost / INTERVAL
    print(
        f"{len(ids)} containers: first round {first:.3f} s of CPU, then {cost * 1000:.1f} ms each"
    )
    print(f"{share:.2%} of a core at {INTERVAL:g} s")
    if options.json:
        found = {"containers": len(ids), "core_fraction": share, "round_cpu_seconds": cost}
        print(json.dumps(found))


async def _sample(mark: str, ids: list[str], rounds: int) -> tuple[float, float]:
    """CPU seconds of the first round, and the mean of the others."""
    engine = DockerEngine([AgentConfig(AGENT)], mark, "run")
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"sqlite:///{folder}/b.sqlite")
        store.upgrade()
        sessions = _sessions(store, ids)
        at, written = datetime.now(timezone.utc), None
        last: dict[str, Reading] = {}
        costs = []
        for _ in range(rounds + 2):
            began = time.process_time()
            readings = await engine.readings(AGENT, ids)
            assert len(readings) == len(ids)
            at += timedelta(seconds=INTERVAL)
            steps = [
                step_between(sessions[id], last[id], reading, at, {})
                for id, reading in readings.items()
                if id in last
            ]
            spans = [span_of(step) for step in steps if step is not None]
            await asyncio.to_thread(store.running_containers)
            await asyncio.to_thread(store.add_usage, spans, before=written, now=at)
            written, last = at, dict(readings)
            costs.append(time.process_time() - began)
        store.close()
    rest = costs[2:]
    return costs[0], sum(rest) / len(rest)


def _sessions(store: Store, ids: list[str]) -> dict[str, str]:
    """A session for each container, by its id."""
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
    return {id: session.id for id, session in zip(ids, made, strict=True)}


if __name__ == "__main__":
    main()
