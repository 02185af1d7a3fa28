"""What a round of the idle checks costs, beside one of jupyterhub-idle-culler.

    pip install --no-deps --target FOLDER jupyterhub-idle-culler==2.0.0
    python benchmarks/idle.py --culler FOLDER [--rounds 40] [--json]

2,500, 5,000 and 10,000 sessions that run, each of a user of its own, in a SQLite file. All have
three checks: a lifetime, a network check and a utilization check of two metrics. Seven of ten are
in use; of the rest, which were left at some time, some compute and some do nothing. A round is what
the service does every 15 seconds, of which here none is waited for: it takes a sample of each
session, reads what has changed, asks sessions' servers when they were used (all whose turn it is,
however long that takes), judges, and notes what it knows. A process of its own stands in for all
those servers, and counts how often they are asked; nothing else is a stand-in. The round of the
culler goes over the same sessions, which another process lists as a Hub does, in pages of 50.
Nothing is ended in either.

Both take turns. What counts is the CPU time, all threads, of the process that checks: not that of
what stands in for servers and Hub. The culler is left out where it is not there.

There are two cases: a network check of four hours, and one of an hour (without the culler), where
the first warning comes after half of that, so that more servers are asked. One is asked only when
its session has not been used for so long that the warning is near, and then each minute.

With --json the last line is {"ratio": ..., "round_cpu_seconds": ..., "mean": ..., "slowest": ...,
"asked": ..., "culler": ..., "sizes": {"2500": ..., ...}, "short": {"round_cpu_seconds": ...,
"mean": ..., "slowest": ..., "asked": ..., "sizes": ...}}: of the first case, and of the second at
`short`. `round_cpu_seconds` and `culler` are medians, and `ratio` is theirs; `asked` is how many
servers were asked in a round, on average. All are at 10,000 sessions but for `sizes`, medians.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # `queue.py` beside this must not be taken for Python's own

import argparse
import asyncio
import json
import logging
import math
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from aiohttp import web
from traitlets.config import Config

from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.request import SessionRequest
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.model.usage import Step
from jupyterhub_backendai.service.hub import HubClient
from jupyterhub_backendai.service.idle.clock import Sources
from jupyterhub_backendai.service.images import ImageDoor
from jupyterhub_backendai.service.workers.idle import IdleWorker
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import AgentReport, Store

SIZES = (2_500, 5_000, 10_000)
INTERVAL = 15.0  # seconds between two rounds
HOUR = 3600.0
PAST, PAST_STEP = 2 * HOUR, 120.0  # seconds: what windows have seen before, and in what steps
NOT_COUNTED = 8  # rounds at the start
LONG, SHORT = 4 * HOUR, HOUR  # seconds: the network check of each case
FORK = multiprocessing.get_context("fork")
SPARE = 0.4 * HOUR  # seconds at least from the first round to the first end; rounds take less


def _idle(timeout: float) -> dict[str, Any]:
    return {
        "lifetime": "7d",
        "network": {"timeout": timeout, "grace": "30m"},
        "utilization": {"window": "2h", "grace": "30m", "thresholds": {"cpu": 5, "mem": 5}},
    }


@dataclass(frozen=True)
class Life:
    """What a session does. `used`: seconds since it was used, if it is; else `left`: when that was
    last, before the first round. `cpu`, `mem`: percent."""

    used: float | None
    left: float  # of one that is used: before the service's first round, that asks all servers
    cpu: float
    mem: float
    age: float

    @classmethod
    def of(cls, number: int, timeout: float) -> Life:
        """That of a session, the same in every run; nothing ends it before all are over."""
        random, most = Random(number), timeout - SPARE
        age = random.uniform(5 * HOUR, 72 * HOUR)
        if number % 10 < 7:
            cpu, mem = random.uniform(10, 90), random.uniform(10, 60)
            return cls(random.uniform(0, 600), random.uniform(0, most), cpu, mem, age)
        if number % 2:
            return cls(None, random.uniform(0, most), 95.0, 50.0, age)
        return cls(None, random.uniform(0, min(most, 1.6 * HOUR)), 1.0, 2.0, age)

    def unused(self, now: float) -> float:
        """For how many seconds nobody had used it, so long after the first round."""
        if self.used is None:
            return max(5.0, self.left + now)
        # So their turns to be asked are not all at one time, as they are not at a real site.
        return self.left if now <= -PAST else self.used

    def step(self, session_id: str, now: float, at: datetime, seconds: float) -> Step:
        """What it uses of one core and a GiB in a step that ends then."""
        busy = self.used is not None or self.left + now < 0
        cpu, mem = (max(self.cpu, 20.0), max(self.mem, 20.0)) if busy else (self.cpu, self.mem)
        cpu *= 1 + math.sin(now / 97 + self.age) / 10
        return Step(session_id, at, seconds, cpu=10 * cpu, mem=mem / 100 * GIB)


@dataclass
class Time:
    """Time as the benchmark has it pass; `now` is seconds after the first round, shared with the
    stand-in of servers."""

    now: Any
    began: datetime
    boot: float = 10_000.0

    @property
    def wall(self) -> datetime:
        return self.began + timedelta(seconds=self.now.value)

    @property
    def sources(self) -> Sources:
        return Sources(lambda: self.wall, lambda: self.boot + PAST + self.now.value, lambda: "one")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--culler", default="", help="the folder that the culler is in")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--json", action="store_true", help="end with the figures as JSON")
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    os.environ["JUPYTERHUB_BASE_URL"] = "/"
    long = _case(LONG, options.sizes, options.rounds, options.culler)
    short = _case(SHORT, options.sizes, options.rounds, None)
    if options.json:
        ours, culler = long["round_cpu_seconds"], long["culler"]
        ratio = None if culler is None else ours / culler
        del short["culler"]
        print(json.dumps({"ratio": ratio, **long, "short": short}))


def _case(timeout: float, sizes: Sequence[int], rounds: int, culler: str | None) -> dict[str, Any]:
    """The figures of the case with that network check."""
    print(f"A network check of {timeout / HOUR:g} h:")
    found = {size: _measure(size, timeout, rounds, culler) for size in sizes}
    medians = {size: statistics.median(one.ours) for size, one in found.items()}
    if len(found) > 1:
        print(f"growth: ours is like n ** {_growth(medians):.2f}")
    largest = found[max(found)]
    return {
        "round_cpu_seconds": medians[max(found)],
        "mean": statistics.mean(largest.ours),
        "slowest": max(largest.ours),
        "asked": statistics.mean(largest.asked),
        "culler": statistics.median(largest.culler) if largest.culler else None,
        "sizes": {str(size): median for size, median in medians.items()},
    }


def _growth(seconds: dict[int, float]) -> float:
    """The exponent b of the best fit of seconds = a * n**b."""
    x, y = [math.log(n) for n in seconds], [math.log(s) for s in seconds.values()]
    return statistics.linear_regression(x, y).slope


@dataclass(frozen=True)
class Rounds:
    """CPU seconds of each round, ours and the culler's, and how many servers were asked in it."""

    ours: list[float]
    asked: list[int]
    culler: list[float]


def _measure(size: int, timeout: float, rounds: int, culler: str | None) -> Rounds:
    """All rounds. `culler`: its folder, "" where it is among the packages; None without it."""
    now, asked = FORK.Value("d", -PAST), FORK.Value("q", 0)
    time = Time(now, datetime.now(timezone.utc))
    # Forked before this process is large.
    with (
        _beside(_sessions, size, timeout, now, asked) as servers,
        _beside(_hub, size, time.began) as hub,
        _beside(_culler, culler, hub.recv()) as other,
        tempfile.TemporaryDirectory(prefix="backendai-benchmark-") as folder,
    ):
        port = servers.recv()
        found = asyncio.run(_rounds(size, timeout, rounds, time, port, asked, other, Path(folder)))
    ours, theirs = found.ours, found.culler
    middle, mean = statistics.median(ours), statistics.mean(ours)
    print(f"{size:6} sessions: median {middle:.3f} s, mean {mean:.3f} s (fastest {min(ours):.3f}, "
          f"slowest {max(ours):.3f}); {statistics.mean(found.asked):.1f} servers asked in a round"
    )  # fmt: skip
    if theirs:
        median = statistics.median(theirs)
        print(f"       culler: {median:.3f} s ({min(theirs):.3f} to {max(theirs):.3f}): "
              f"ratio {middle / median:.3f}")  # fmt: skip
    return found


async def _rounds(
    size: int, timeout: float, rounds: int, now: Time, port: int, asked: Any, culler: Connection,
    folder: Path,
) -> Rounds:  # fmt: skip
    settings = {"database_url": f"sqlite:///{folder}/b.sqlite", "idle": _idle(timeout),
                "log_directory": str(folder / "logs")}  # fmt: skip
    site = Site.of(Config({"BackendAI": settings}), {})
    ids = _fill(site.store, size, now, port)
    lives = {id: Life.of(number, timeout) for number, id in enumerate(ids)}
    found = Rounds([], [], [])
    async with HubClient("http://127.0.0.1:9/hub/api", "nobody-asks") as hub:
        worker = IdleWorker(site, hub, INTERVAL, ImageDoor(), now.sources)
        worker.patience = HOUR  # so that all that is asked in a round is counted in it
        began = time.process_time()
        await worker.once()
        print(f"{size:6} sessions: first round {time.process_time() - began:.1f} s")
        while now.now.value < 0:
            worker.add(_samples(lives, now, PAST_STEP))
        for number in range(rounds + NOT_COUNTED):
            steps, before = _samples(lives, now, INTERVAL), asked.value
            began = time.process_time()
            worker.add(steps)
            await worker.once()
            cost = time.process_time() - began
            culler.send("round")
            while not culler.poll():  # noqa: ASYNC110 - nothing else is to run meanwhile
                await asyncio.sleep(0.01)
            other = culler.recv()
            if number >= NOT_COUNTED:
                found.ours.append(cost)
                found.asked.append(asked.value - before)
                found.culler.extend([other] if other is not None else [])
        _check(worker, size, found)
        await worker.asker.close()
    site.store.close()
    return found


def _check(worker: IdleWorker, size: int, found: Rounds) -> None:
    """That this was what it says that it measures."""
    assert worker.watch is not None
    assert len(worker.watch.sessions) == size, "none was ended"
    assert not any(one.verdicts[1].ends_at is None for one in worker.watch.sessions.values())
    assert sum(found.asked), "no server was asked in all rounds: time stands still"


def _samples(lives: dict[str, Life], now: Time, seconds: float) -> list[Step]:
    """So much time passes; what all used in it."""
    now.now.value += seconds
    return [one.step(id, now.now.value, now.wall, seconds) for id, one in lives.items()]


def _fill(store: Store, size: int, now: Time, port: int) -> Iterator[str]:
    """Sessions that run; their ids."""
    capacity = Slots(10**9, 10**6 * GIB)
    store.report_agents([AgentReport("local", "default", capacity)], now=now.began)
    request = SessionRequest(
        name=None, type="interactive", environment="python", version="1", image="i:1", env={},
        preset=None, resource_group="default", agent=None, preset_changed=False, cpu=1000, mem=GIB,
        shm=2**26, fgpu=0, omp_threads=1, openblas_threads=1, mounts=(), preopen_ports=(),
        project=None, priority=10,
    )  # fmt: skip
    ids = []
    for number in range(size):
        at = now.began - timedelta(seconds=Life.of(number, LONG).age)
        [made] = store.submit_many(
            request, owner=f"user-{number:05}", owner_groups=[], names={"": "work"}, driver=None,
            max_pending=None, now=at,
        )  # fmt: skip
        ids.append(made.id)
    store.run_pass(Policies(), Catalog(), now.began)
    for number, id in enumerate(ids):
        at = now.began - timedelta(seconds=Life.of(number, LONG).age)
        for status in (Status.PREPARING, Status.CREATING, Status.RUNNING):
            store.move(id, status, phase=Phase.START, now=at)
        store.set_kernel(id, address=f"127.0.0.1:{port}", apps_key="hush-hush")
    return iter(ids)


# What runs beside.


@contextmanager
def _beside(what: Callable[..., None], *args: Any) -> Iterator[Connection]:
    """A process that does something until it is ended, and what it says."""
    here, there = FORK.Pipe()
    process = FORK.Process(target=what, args=(there, *args), daemon=True)
    process.start()
    try:
        yield here
    finally:
        process.terminate()
        process.join()


def _serve(there: Connection, answer: Callable[[web.Request], web.Response]) -> None:
    """Serves on some port, which it says."""

    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    async def run() -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        there.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


def _sessions(there: Connection, size: int, timeout: float, now: Any, asked: Any) -> None:
    """The servers of all sessions: they say when they were used, and count that in `asked`."""
    lives = [Life.of(number, timeout) for number in range(size)]

    def answer(request: web.Request) -> web.Response:
        asked.value += 1  # nobody else writes it
        used = lives[int(request.path.split("/")[2].removeprefix("user-"))].unused(now.value)
        return web.json_response({"used": used, "asked": min(used, 5.0), "uptime": 1e6})

    _serve(there, answer)


def _hub(there: Connection, size: int, began: datetime) -> None:
    """A Hub's list of users, with what a culler may read, as JupyterHub 6.1 gives it."""
    users = [_user(number, began) for number in range(size)]
    pages: dict[int, bytes] = {}

    def page(offset: int, host: str) -> bytes:
        following = offset + 50
        url = f"http://{host}/hub/api/users?limit=50&offset={following}&state=ready"
        after = {"offset": following, "limit": 50, "url": url} if following < size else None
        here = {"offset": offset, "limit": 50, "total": size, "next": after}
        return json.dumps({"items": users[offset:following], "_pagination": here}).encode()

    def answer(request: web.Request) -> web.Response:
        if not request.path.endswith("/users"):
            return web.json_response({"version": "6.1.1"})
        offset = int(request.query.get("offset", 0))
        if offset not in pages:
            pages[offset] = page(offset, request.host)
        return web.Response(body=pages[offset], content_type="application/json")

    _serve(there, answer)


def _user(number: int, began: datetime) -> dict[str, Any]:
    life, name = Life.of(number, LONG), f"user-{number:05}"
    used = _moment(began - timedelta(seconds=life.unused(0.0)))
    server = {
        "name": "", "display_name": "", "full_name": f"{name}/", "last_activity": used,
        "started": _moment(began - timedelta(seconds=life.age)), "pending": None, "ready": True,
        "stopped": False, "url": f"/user/{name}/",
        "user_options": {"environment": "python", "preset": "small"},
        "progress_url": f"/hub/api/users/{name}/server/progress", "full_url": None,
        "full_progress_url": None,
    }  # fmt: skip
    return {"user_info": None, "last_activity": used, "name": name, "admin": False, "kind": "user",
            "servers": {"": server}}  # fmt: skip


def _moment(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _cull_idle(folder: str) -> Any:
    """The culler's function, from that folder; "" is where all packages are, if it is there."""
    if folder:
        sys.path.append(folder)
    elif find_spec("jupyterhub_idle_culler") is None:
        return None
    return import_module("jupyterhub_idle_culler").cull_idle


def _culler(there: Connection, folder: str | None, port: int) -> None:
    """Rounds of the culler, when asked; each answer is the CPU seconds of one, None without it."""
    cull_idle = None if folder is None else _cull_idle(folder)
    log = logging.getLogger("culler")
    log.setLevel(logging.WARNING)
    loop = asyncio.new_event_loop()
    while there.recv():
        began, url = time.process_time(), f"http://127.0.0.1:{port}/hub/api"
        if cull_idle is not None:
            loop.run_until_complete(cull_idle(url, "token", int(4.5 * HOUR), log, max_age=604800))
        there.send(time.process_time() - began if cull_idle is not None else None)


if __name__ == "__main__":
    main()
