"""Schedules of kill -9 on stand-ins that keep what survives: real store, passes, workers, ends.

`FAULT_SCHEDULES=500` runs so many of them; `FAULT_SEED=7` only that one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyterhub_backendai.model.status import Status

from .schedule import Schedule
from .world import Box, World

ROOT = Path(__file__).resolve().parents[2]
SCHEDULES = int(os.environ.get("FAULT_SCHEDULES", "12"))
ONLY = os.environ.get("FAULT_SEED")
SIDE_BY_SIDE = os.cpu_count() or 1


def begin(seeds: list[int], *options: str) -> subprocess.Popen[str]:
    """Schedules in a process of their own: they take the clocks of the whole process, and what a
    seed repeats depends on the order of sets."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.run", *map(str, seeds), *options],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.timeout(3600)
def test_whatever_is_killed_nothing_is_lost_left_or_done_twice() -> None:
    seeds = [int(ONLY)] if ONLY else list(range(1, SCHEDULES + 1))
    begun = [begin(some) for n in range(SIDE_BY_SIDE) if (some := seeds[n::SIDE_BY_SIDE])]
    done = []
    for process in begun:
        out, _ = process.communicate()
        assert process.returncode == 0
        done += [json.loads(line) for line in out.splitlines()]
    assert sorted(one["seed"] for one in done) == seeds
    for one in done:
        if one["wrong"]:
            print(*one["story"], *one["wrong"], sep="\n")
    wrong = {one["seed"]: one["wrong"] for one in done if one["wrong"]}
    commands = [f"FAULT_SEED={seed} python -m pytest {__file__}" for seed in wrong]
    assert not wrong, "\n".join(commands)


def test_a_seed_repeats_its_schedule_with_and_without_shortcuts() -> None:
    def done(*options: str) -> list[dict[str, Any]]:
        process = begin([1, 2, 3], "--whole", *options)
        out, _ = process.communicate()
        assert process.returncode == 0
        every = [json.loads(line) for line in out.splitlines()]
        assert [(one["seed"], one["wrong"]) for one in every] == [(1, []), (2, []), (3, [])]
        return [{key: one[key] for key in one.keys() - {"seconds"}} for one in every]

    first = done()
    for one in first:
        assert any("kill -9 of hub" in line for line in one["story"])
        assert sum('INTO "sessions"' in line for line in one["rows"]) == 30
    assert done() == first
    assert done("--plain") == first


@pytest.mark.parametrize("status", [Status.RUNNING, Status.CREATING, Status.TERMINATING])
def test_a_container_that_is_ended_while_its_session_runs_is_wrong(status: Status) -> None:
    schedule, world = object.__new__(Schedule), World(seed=1)
    row = SimpleNamespace(name="work", status=status, agent="one")
    schedule.world, schedule.store = world, SimpleNamespace(get=lambda _: row)  # type: ignore[assignment]
    world.ending = schedule._look_whether_it_ends
    box = world.boxes["box"] = Box("box", "session", "one", None, started=True)
    world.remove(box)
    assert bool(world.broken) is (status is Status.RUNNING)
