"""Runs schedules of faults: `python -m tests.faults.run SEED …`, one line of JSON for each.

To be run with PYTHONHASHSEED=0, because the order of a set is part of what a seed repeats.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import sqlite3
import sys
import tempfile
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from traitlets.log import get_logger

from jupyterhub_backendai.service.workers import batch, queue, runner
from jupyterhub_backendai.site import clock, naming, runtime
from jupyterhub_backendai.store import Store, database
from jupyterhub_backendai.store import sessions as store_sessions
from jupyterhub_backendai.store.tables import META

from .schedule import Schedule
from .straight import MemoryDatabase, StraightDatabase
from .virtual import VirtualLoop, pause
from .world import BEFORE, StubEngine


def run(seed: int, store: Store, whole: bool) -> dict[str, Any]:
    """One schedule from its seed, on an empty store; what was wrong, and then its story."""
    began = time.perf_counter()
    loop = VirtualLoop()
    schedule = prepared(seed, store, loop)
    try:
        wrong = loop.run_until_complete(schedule.run())
    except Exception:
        wrong = [traceback.format_exc()]
    finally:
        _end(loop)
    took, steps = time.perf_counter() - began, schedule.world.steps
    story = schedule.world.story if wrong or whole else []
    return {"seed": seed, "wrong": wrong, "seconds": took, "steps": steps, "now": loop.now,
            "story": story}  # fmt: skip


def prepared(seed: int, store: Store, loop: VirtualLoop) -> Schedule:
    """The schedule, with the product's clocks and its chance taken from loop and seed."""
    clock.datetime = loop.clock()  # type: ignore[misc,assignment]
    told = SimpleNamespace(monotonic=loop.time)
    queue.time = runner.time = told  # type: ignore[assignment]
    asyncio.sleep = pause  # type: ignore[assignment]
    schedule = Schedule(seed, store, loop)
    world, dice = schedule.world, schedule.random

    async def db(self: Any, function: Any, *args: Any, **more: Any) -> Any:
        await world.step(BEFORE)
        found = function(*args, **more)
        await world.step()
        return found

    ids = SimpleNamespace(uuid4=lambda: uuid.UUID(int=dice.getrandbits(128), version=4))
    store_sessions.uuid = runtime.uuid = ids  # type: ignore[assignment]
    naming.secrets = SimpleNamespace(choice=dice.choice)  # type: ignore[assignment]
    runtime.Site.db = db  # type: ignore[method-assign]
    runtime.DockerEngine = lambda *_: StubEngine(world)  # type: ignore[assignment,misc]
    return schedule


def _end(loop: VirtualLoop) -> None:
    """Whatever still runs, and may reach nothing any more."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.close()


def empty_store(plain: bool) -> tuple[Store, Callable[[], sqlite3.Connection]]:
    """A store in memory, and what empties it. All schedules have the same one, because each store
    would compile every statement anew; whoever is killed leaves nothing in it but its rows."""
    memory = sqlite3.connect(":memory:", check_same_thread=False, **database._SQLITE)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "backendai.sqlite"
        store = Store(f"sqlite:///{path}")
        store.upgrade()
        store.close()
        with closing(sqlite3.connect(path)) as made:
            made.backup(memory)
    # The one thing in it that is made by chance, and not by the seed's.
    memory.execute("UPDATE meta SET value = '00000000' WHERE key = 'hub_id'")
    first = memory.execute("SELECT key, value FROM meta").fetchall()
    memory.commit()
    # Its one connection, which no kill ends: nothing here has to survive the machine.
    database._prepare_sqlite(memory, None)
    kind = MemoryDatabase if plain else StraightDatabase
    store._db = kind(f"sqlite:///{path}", memory)

    def emptied() -> sqlite3.Connection:
        # With another schema, or the same once more, SQLite would parse every statement again.
        for table in reversed(META.metadata.sorted_tables):
            memory.execute(f"DELETE FROM {table.name}")
        memory.executemany("INSERT INTO meta VALUES (?, ?)", first)
        return memory

    return store, emptied


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", type=int)
    parser.add_argument("--plain", action="store_true", help="all by SQLAlchemy")
    parser.add_argument("--whole", action="store_true", help="its story and rows in any case")
    asked = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    get_logger().disabled = True
    batch.LOOK_INTERVAL = queue.LOOK_INTERVAL = 3.0
    store, emptied = empty_store(asked.plain)
    runtime.Store = lambda url: store  # type: ignore[assignment,misc]
    Store.upgrade = lambda self: None  # type: ignore[method-assign]
    # What a schedule leaves is little; to look for it as often as usual takes a tenth longer.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    for seed in asked.seeds:
        memory = emptied()
        done = run(seed, store, asked.whole)
        if asked.whole:
            done["rows"] = list(memory.iterdump())
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
