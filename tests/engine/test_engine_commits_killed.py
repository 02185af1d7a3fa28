"""Images of sessions while Docker is killed: a daemon of its own, whose containers outlive it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from committing import AGENT, Committed
from tiny import BEAT, build_tiny

from jupyterhub_backendai.engine import docker_commits
from jupyterhub_backendai.engine.base import AgentUnreachable, EngineError
from jupyterhub_backendai.engine.docker import DockerHost
from jupyterhub_backendai.engine.docker_commits import Commit
from jupyterhub_backendai.engine.freezer import stands_still
from jupyterhub_backendai.engine.images import LABEL_IMAGE_ORDER, CommitRefused, MadeImage
from tests.hub.second_engine import SecondEngine, missing

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]
BASE = "backendai-test-tiny:1"
STEPS = {
    "own": ["begin", "noted", "committed", "kept", "named"],
    "containerd": ["noted", "committed", "created", "committed again", "kept", "named"],
}  # fmt: skip
CUTS = [(way, step) for way, steps in STEPS.items() for step in steps]
RESTING = [*CUTS, *((way, "paused") for way in STEPS)]  # where the session is to stand still
BIG = 400 * 1024**2  # bytes that a commit reads long enough to be killed meanwhile


# It has frozen the container, and for as long as it does not end Docker cannot note that.
HELD = """#!/bin/sh
case " $* " in
*" pause "*) runc "$@" || exit; while [ -e "$0.hold" ]; do sleep 0.01; done ;;
*) exec runc "$@" ;;
esac
"""


def held_runc(folder: Path) -> Path:
    """A runc that does not come back from a pause while there is a file of its name and `.hold`."""
    program = folder / "held-runc"
    program.write_text(HELD)
    program.chmod(0o755)
    return program


def hold_of(daemon: SecondEngine) -> Path:
    """That file."""
    return daemon.run / "held-runc.hold"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondEngine]:
    run = tmp_path_factory.mktemp("engine")
    held = {"runtimes": {"held": {"path": str(held_runc(run))}}, "default-runtime": "held"}
    daemon = SecondEngine(run, place=1, **held)
    try:
        daemon.start()
        build_tiny(daemon.client().api, BASE, tmp_path_factory.mktemp("tiny"))
        yield daemon
    finally:
        daemon.stop()
        # What Docker was killed at it never removes itself.
        shutil.rmtree(daemon.kept)


@pytest_asyncio.fixture
async def made(daemon: SecondEngine) -> AsyncIterator[Committed]:
    made = Committed(BASE, {"base_url": daemon.socket})
    try:
        await asyncio.to_thread(made.start, "/wait")
        yield made
    finally:
        hold_of(daemon).unlink(missing_ok=True)  # of a test that failed
        await made.end()


def inside(made: Committed) -> Path:
    """The root directory of the session."""
    pid = made.docker.inspect_container(made.container)["State"]["Pid"]
    return Path(f"/proc/{pid}/root")


def write(made: Committed, text: bytes) -> None:
    """Writes a file of that text in the session's own layer."""
    (inside(made) / "opt/file").write_bytes(text)


def read(made: Committed, reference: str) -> bytes:
    """The start of that file in an image."""
    container = made.docker.create_container(reference)["Id"]
    try:
        data, _ = made.docker.get_archive(container, "/opt/file")
        return b"".join(data)[512:522]
    finally:
        made.docker.remove_container(container, v=True)


async def until(met: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not await asyncio.to_thread(met):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def goes_on(made: Committed) -> None:
    """The session counts."""
    beat = inside(made) / BEAT
    before = beat.read_bytes()
    await until(lambda: beat.read_bytes() != before)


async def put_right(made: Committed, order: str) -> None:
    """What a service does that finds an order which was cut off."""
    assert await made.images.leftovers(AGENT) <= {order}
    await made.images.clean(AGENT, order)
    # What Docker had in its hands when it was killed may come to its end after that.
    assert await made.images.leftovers(AGENT) == set()
    assert not made.temporary()
    assert not made.nameless()
    assert not made.paused()
    await goes_on(made)


def made_in(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has images made in this way."""
    monkeypatch.setattr(docker_commits, "needs_layers", lambda info: way == "containerd")


@contextmanager
def killed_at(daemon: SecondEngine, step: str) -> Iterator[None]:
    """Has the daemon killed when a commit comes to this step."""
    plain = Commit.at

    def at(self: Commit, now: str) -> None:
        plain(self, now)
        if now == step:
            daemon.kill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Commit, "at", at)
        yield


async def ended(work: Awaitable[MadeImage]) -> None:
    with pytest.raises((AgentUnreachable, EngineError)):
        await work


@pytest.mark.parametrize(
    ("way", "step", "stay"),
    [*((*cut, False) for cut in CUTS), *((*cut, True) for cut in RESTING)],
)
async def test_killed_between_two_steps(
    made: Committed,
    daemon: SecondEngine,
    way: str,
    step: str,
    stay: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made_in(way, monkeypatch)
    write(made, b"first file")
    earlier = await made.images.make(AGENT, made.order())
    write(made, b"other file")
    order = made.order(stay=stay)
    with killed_at(daemon, step):
        await ended(made.images.make(AGENT, order))
    await asyncio.to_thread(daemon.start)
    await put_right(made, order.id)
    found = await made.images.find(AGENT, order.reference)
    assert found
    whole = step == "named"
    assert (found.labels[LABEL_IMAGE_ORDER] == order.id) is whole
    assert whole or found == earlier
    assert read(made, order.reference) == (b"other file" if whole else b"first file")
    await made.images.make(AGENT, order)
    assert read(made, order.reference) == b"other file"
    assert made.paused() is stay


@pytest.mark.parametrize(("way", "step"), RESTING)
async def test_what_is_to_rest_is_gone_on_with_and_stands_still(
    made: Committed, daemon: SecondEngine, way: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_in(way, monkeypatch)
    write(made, b"first file")
    order = made.order(stay=True)
    with killed_at(daemon, step):
        await ended(made.images.make(AGENT, order))
    await asyncio.to_thread(daemon.start)
    # As a service does it that has waited for its agent, with nothing put right before.
    await made.images.make(AGENT, order)
    counted = (inside(made) / BEAT).read_bytes()
    assert made.paused()
    assert read(made, order.reference) == b"first file"
    assert (inside(made) / BEAT).read_bytes() == counted
    await put_right(made, order.id)


def unfinished(daemon: SecondEngine) -> set[Path]:
    """What it has begun to note of layers that it reads, or was killed at."""
    return set((daemon.kept / "data").glob("image/*/layerdb/tmp/*/*"))


def frozen(made: Committed) -> Callable[[], bool]:
    """Asks whether the kernel keeps it from running."""
    pid = int(made.docker.inspect_container(made.container)["State"]["Pid"])
    return lambda: bool(stands_still(made.container, pid))


def noted(daemon: SecondEngine, made: Committed) -> bool:
    """Whether Docker has written down that it stands still."""
    file = daemon.kept / "data/containers" / made.container / "config.v2.json"
    return bool(json.loads(file.read_text())["State"]["Paused"])


@pytest.mark.parametrize("stay", [False, True])
@pytest.mark.parametrize("moment", ["not noted", "frozen", "paused", "a little later"])
async def test_killed_while_it_reads_the_files(
    made: Committed, daemon: SecondEngine, moment: str, stay: bool
) -> None:
    write(made, b"first file" + bytes(BIG))
    order, earlier = made.order(stay=stay), unfinished(daemon)
    hold, still = hold_of(daemon), frozen(made)
    if moment == "not noted":
        hold.touch()
    task = asyncio.create_task(ended(made.images.make(AGENT, order)))
    if moment in {"not noted", "frozen"}:
        # By the kernel; Docker, which is killed at once, has rarely noted it by then.
        await until(lambda: still() or task.done())
    else:
        await until(lambda: made.paused() or task.done())
    if moment == "a little later":
        beat = (inside(made) / BEAT).read_bytes()
        await until(lambda: unfinished(daemon) - earlier)
        assert (inside(made) / BEAT).read_bytes() == beat, "it stands still"
    assert not task.done()
    daemon.kill()
    assert not task.done()
    await task
    assert moment != "not noted" or (still() and not noted(daemon, made))
    hold.unlink(missing_ok=True)
    await asyncio.to_thread(daemon.start)
    assert await made.images.leftovers(AGENT) == {order.id}
    await put_right(made, order.id)
    assert await made.images.find(AGENT, order.reference) is None
    await made.images.make(AGENT, order)
    assert read(made, order.reference) == b"first file"
    assert made.paused() is stay
    await made.images.clean(AGENT, order.id)
    await goes_on(made)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("stay", [False, True])
async def test_a_daemon_that_is_killed_at_any_time_leaves_all_or_nothing(
    made: Committed, daemon: SecondEngine, stay: bool
) -> None:
    write(made, b"first file" + bytes(20 * 1024**2))
    started = time.monotonic()
    await made.images.make(AGENT, made.order("whole"))
    whole = time.monotonic() - started
    for part in range(1, 8):
        order = made.order(uuid.uuid4().hex[:8], stay=stay)
        task = asyncio.create_task(made.images.make(AGENT, order))
        await asyncio.wait({task}, timeout=whole * part / 7)
        daemon.kill()
        await asyncio.wait({task})
        await asyncio.to_thread(daemon.start)
        await put_right(made, order.id)
        found = await made.images.find(AGENT, order.reference)
        assert found is None or read(made, order.reference) == b"first file"
        assert found is not None or task.exception() is not None


# ---- a disk that is full -------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondEngine]:
    """A daemon whose disk has 48 MB."""
    daemon = SecondEngine(tmp_path_factory.mktemp("small"), place=3)
    daemon._end_earlier()  # of a run that was cut off, with its disk
    while daemon.kept.is_mount():
        subprocess.run(["umount", "-l", str(daemon.kept)], check=True)
    disk = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(daemon.kept)]
    if subprocess.run(disk, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        daemon.start()
        build_tiny(daemon.client().api, BASE, tmp_path_factory.mktemp("tiny"))
        yield daemon
    finally:
        daemon.stop()
        subprocess.run(["umount", "-l", str(daemon.kept)], check=True)
        daemon.kept.rmdir()


@pytest.mark.parametrize("way", ["own", "containerd"])
async def test_a_disk_that_is_full_is_told_and_the_session_goes_on(
    small: SecondEngine, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_in(way, monkeypatch)
    made = Committed(BASE, {"base_url": small.socket})
    try:
        await asyncio.to_thread(made.start, "/wait")
        write(made, os.urandom(26 * 1024**2))
        room = await made.images.room(AGENT, [])
        assert room is not None
        assert room.whole == 48 * 2**20
        assert await made.images.look(AGENT, made.container) > room.free
        order = made.order()
        with pytest.raises(CommitRefused) as told:
            await made.images.make(AGENT, order)
        assert told.value.code == "no_room"
        await put_right(made, order.id)
        write(made, b"first file")
        await made.images.make(AGENT, order)
        assert read(made, order.reference) == b"first file"
    finally:
        await made.end()


async def test_a_disk_that_has_no_room_for_the_question_has_none_for_an_image(
    small: SecondEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an agent on another machine, of whose disk nothing is seen."""
    monkeypatch.setattr(DockerHost, "local", False)
    made = Committed(BASE, {"base_url": small.socket})
    try:
        await asyncio.to_thread(made.start, "/wait")
        assert await made.images.room(AGENT, [BASE]) is None, "it has no df"
        with pytest.raises(OSError, match="No space left"):
            write(made, os.urandom(60 * 1024**2))
        with pytest.raises(CommitRefused) as told:
            await made.images.room(AGENT, [BASE])
        assert told.value.code == "no_room"
    finally:
        await made.end()
