"""Time from the launch request to a server that answers through the proxy: ours and DockerSpawner.

    python benchmarks/spawn.py [--runs 10] [--image backendai-demo:latest] [--json]

Two Hubs of the same kind run side by side, one with each spawner, and start the same unchanged
image in turn (A B A B ...), each time in a new container for a new user with nothing started
before. What is timed begins with `POST /hub/api/users/x/server` and ends with the first good answer
of `/user/x/api/status` through the proxy to that user's own token, asked for every 10 ms.

DockerSpawner is configured as well as it can be for this machine; ours has what `setup(c)` gives.
On a machine that does other things beside it the figures say little: see the load averages.
With --json the last line is {"ratio": ..., "ours": [...], "dockerspawner": [...]}, in seconds.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # beside this lies a queue.py that is not Python's own

import argparse
import asyncio
import json
import os
import platform
import secrets
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import aiohttp
from hubs import Hub, Person, free_port
from traitlets.config import Config

from jupyterhub_backendai.site.reach import hub_address

MARK = "benchmark" + secrets.token_hex(3)  # in the name of everything that this run creates
STEPS = ("asked", "placed", "container", "server", "ready")
STEP_RUNS = 3

_OURS = """
c.DockerSpawner.image = {image!r}
c.BackendAI.hub_id = {mark!r}
c.BackendAI.database_url = "sqlite:///" + {database!r}
c.BackendAI.service_url = "http://127.0.0.1:{port}"
from jupyterhub_backendai import setup
setup(c)
"""

_DOCKERSPAWNER = """
c.JupyterHub.spawner_class = "docker"
c.JupyterHub.hub_ip = {gateway!r}
c.DockerSpawner.image = {image!r}
c.DockerSpawner.use_internal_ip = True
c.DockerSpawner.remove = True
c.DockerSpawner.prefix = {mark!r}
"""


def main() -> None:
    """The command."""
    arguments = _arguments()
    print(_machine(), flush=True)
    print(_load("before"), flush=True)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        try:
            ours, theirs, steps = asyncio.run(_measure(arguments, Path(folder)))
        finally:
            _remove_containers()
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(_load("after"))
    _report("ours", ours)
    _report("dockerspawner", theirs)
    print(f"ratio of the medians {ratio:.3f}")
    print(f"slowest of ours / median of DockerSpawner {max(ours) / statistics.median(theirs):.3f}")
    print("where the time goes (ours, seconds): " + ", ".join(f"{k} {v:.3f}" for k, v in steps))
    if arguments.json:
        print(json.dumps({"ratio": round(ratio, 4), "ours": ours, "dockerspawner": theirs}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="starts of each kind (%(default)s)")
    parser.add_argument("--image", default="backendai-demo:latest", help="what to start")
    parser.add_argument("--json", action="store_true", help="figures as JSON in the last line")
    return parser.parse_args()


async def _measure(
    arguments: argparse.Namespace, folder: Path
) -> tuple[list[float], list[float], list[tuple[str, float]]]:
    ours = Hub("ours", folder / "ours", _OURS.format(
        image=arguments.image, mark=MARK, port=free_port(),
        database=str(folder / "ours" / "sessions.sqlite"),
    ))  # fmt: skip
    theirs = Hub("dockerspawner", folder / "dockerspawner", _DOCKERSPAWNER.format(
        image=arguments.image, mark=MARK, gateway=_gateway()
    ))  # fmt: skip
    hubs = (ours, theirs)
    times: dict[str, list[float]] = {hub.name: [] for hub in hubs}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    try:
        for hub in hubs:
            await hub.start()
        async with aiohttp.ClientSession(timeout=timeout) as client:
            for hub in hubs:
                await _once(Person(hub, "warmup", client))
            for number in range(arguments.runs):
                for hub in hubs:
                    took = await _once(Person(hub, f"user{number}", client))
                    times[hub.name].append(round(took, 4))
                    print(f"{number + 1:3} {hub.name:14} {took:.3f}", flush=True)
            steps = [await _steps(Person(ours, f"step{n}", client)) for n in range(STEP_RUNS)]
    finally:
        for hub in hubs:
            hub.stop()
    medians = [(s, statistics.median(run[s] for run in steps)) for s in steps[0]]
    return times["ours"], times["dockerspawner"], medians


async def _once(person: Person) -> float:
    """One start and its end; the seconds of the start."""
    await person.create()
    took = await person.launch()
    await person.stop()
    return took


async def _steps(person: Person) -> dict[str, float]:
    """Seconds between the steps of one start, which is not one of those that count: following
    it costs the Hub time."""
    await person.create()
    started = asyncio.create_task(person.launch())
    await person.begun()
    at: dict[str, float] = {}
    async for event in person.progress():
        told = event.get("backendai")
        if told and told["step"] in STEPS:
            at.setdefault(told["step"], told["at"])
        if event.get("ready"):
            break
    whole = await started
    await person.stop()
    names = [step for step in STEPS if step in at]
    found = {f"{a} to {b}": at[b] - at[a] for a, b in zip(names, names[1:], strict=False)}
    found["the Hub before and after"] = whole - (at[names[-1]] - at[names[0]])
    return found


def _report(name: str, times: Sequence[float]) -> None:
    print(
        f"{name:14} median {statistics.median(times):.3f}  "
        f"min {min(times):.3f}  max {max(times):.3f}  ({len(times)} runs)"
    )


def _machine() -> str:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    packages = ("jupyterhub", "dockerspawner", "jupyterhub-backendai")
    engine = _docker("version", "--format", "{{.Server.Version}}")
    return (
        f"{os.cpu_count()} cores, {pages / 2**30:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, Docker {engine}, "
        + ", ".join(f"{name} {version(name)}" for name in packages)
    )


def _load(when: str) -> str:
    """How much else the machine has to do; these starts alone make it about 1."""
    return f"load average {when}: " + " ".join(f"{load:.1f}" for load in os.getloadavg())


def _gateway() -> str:
    """Where a container on Docker's default network reaches this machine."""
    found = hub_address(Config()) or {}
    if "hub_ip" not in found:
        sys.exit("Docker does not answer, or its default network has no gateway on this machine")
    return str(found["hub_ip"])


def _remove_containers() -> None:
    """What an interrupted run left: containers and volumes with this run's name."""
    found = _docker("ps", "-aq", "--filter", f"name={MARK}").split()
    if found:
        _docker("rm", "-f", "-v", *found)
    volumes = _docker("volume", "ls", "-q", "--filter", f"name={MARK}").split()
    if volumes:
        _docker("volume", "rm", "-f", *volumes)


def _docker(*arguments: str) -> str:
    return subprocess.run(
        ["docker", *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    main()
