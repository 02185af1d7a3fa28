"""A driver that does not come back holds nobody else up."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyterhub_backendai.gpu import Absent, Nvml
from jupyterhub_backendai.gpu.thread import Hangs, OwnThread

from .conftest import Fake, Proc
from .machines import H100, L40S

SHORT = 0.1  # seconds that are waited for a call that does not return
LONG = 60.0


@pytest.fixture
async def thread() -> AsyncIterator[OwnThread]:
    thread = OwnThread("test")
    yield thread
    thread.end()


async def test_results_and_errors_come_back_from_one_other_thread(thread: OwnThread) -> None:
    first = await thread.run(threading.get_ident, LONG)
    assert first == await thread.run(threading.get_ident, LONG) != threading.get_ident()

    def fail() -> None:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        await thread.run(fail, LONG)
    assert await thread.run(threading.get_ident, LONG) == first


async def test_calls_run_one_after_the_other(thread: OwnThread) -> None:
    inside = 0

    def call() -> int:
        nonlocal inside
        inside += 1
        seen = inside
        os.sched_yield()
        inside -= 1
        return seen

    assert set(await asyncio.gather(*(thread.run(call, LONG) for _ in range(50)))) == {1}


async def test_a_call_that_hangs_is_left_alone_and_the_next_are_refused(thread: OwnThread) -> None:
    release, begun = threading.Event(), threading.Event()

    def hang() -> str:
        begun.set()
        release.wait()
        return "late"

    ran: list[str] = []
    hanging = asyncio.create_task(thread.run(hang, SHORT))
    waiting = asyncio.create_task(thread.run(lambda: ran.append("behind it"), SHORT))
    for task in (hanging, waiting):
        with pytest.raises(Hangs):
            await task
    assert begun.is_set()
    start = time.monotonic()
    with pytest.raises(Hangs):
        await thread.run(lambda: ran.append("refused"), LONG)
    assert time.monotonic() - start < LONG / 2
    release.set()
    assert await until_it_runs(thread) == "again"
    assert ran == []


async def until_it_runs(thread: OwnThread) -> str:
    while True:
        try:
            return await thread.run(lambda: "again", LONG)
        except Hangs:
            await asyncio.sleep(0)


async def test_a_cancelled_caller_leaves_the_thread_to_others(thread: OwnThread) -> None:
    release, begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def call() -> None:
        loop.call_soon_threadsafe(begun.set)
        release.wait()

    task = asyncio.create_task(thread.run(call, LONG))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert await thread.run(lambda: "again", LONG) == "again"


async def test_after_its_end_it_starts_again(thread: OwnThread) -> None:
    assert await thread.run(lambda: 1, LONG) == 1
    ended = next(one for one in threading.enumerate() if one.name == "test")
    thread.end()
    await asyncio.to_thread(ended.join)
    assert await thread.run(lambda: 2, LONG) == 2


async def test_a_driver_that_hangs_is_told_in_time_and_comes_back(
    fake: Fake, proc: Proc, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nvml = Nvml(timeout=2, renew_after=0, proc=proc.root)
    await nvml.inventory()
    hanging = tmp_path / "hanging"
    hanging.touch()
    fake.rules(f"hang nvmlDeviceGetMemoryInfo_v2 {hanging}")
    turns = 0
    reading = asyncio.create_task(nvml.inventory())
    while not reading.done():  # the loop goes on meanwhile
        turns += 1
        await asyncio.sleep(0.01)
    inventory = await reading
    assert turns > 10
    assert inventory.absence is not None
    assert inventory.absence.kind is Absent.HANGS
    assert inventory.absence.kind.trouble
    assert "2 seconds" in inventory.absence.reason
    assert {device.uuid for device in inventory.lost} == {L40S, H100}
    usage = await nvml.usage()
    assert usage.absence == inventory.absence
    assert usage.of("a" * 64, [L40S]).memory_bytes is None
    await nvml.close()
    assert "hangs" in caplog.text
    hanging.unlink()
    while (inventory := await nvml.inventory()).absence:
        assert inventory.absence.kind is Absent.HANGS
        await asyncio.sleep(0)
    assert len(inventory.devices) == 2
    await nvml.close()


def test_a_process_ends_while_its_driver_hangs(fake: Fake, library: Path, tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    hanging.touch()
    fake.rules(f"hang nvmlInitWithFlags {hanging}")
    code = (
        "import asyncio; from jupyterhub_backendai.gpu import Nvml;"
        f"print(asyncio.run(Nvml(timeout={SHORT}).inventory()).absence.kind.value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)},
        check=True,
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert done.stdout == "hangs\n"
