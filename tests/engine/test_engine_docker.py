"""A batch session in a real container: its outcome and its log, while it runs and afterwards."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from golden_cases import session

from jupyterhub_backendai._within import within
from jupyterhub_backendai.engine.base import ContainerGone, ImageFacts
from jupyterhub_backendai.engine.batch import BatchJob, Ending
from jupyterhub_backendai.engine.create import apply_settings
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.docker_files import look, open_plain
from jupyterhub_backendai.engine.inside import batch_entries
from jupyterhub_backendai.engine.logs import LogPart, as_text, readable, search
from jupyterhub_backendai.engine.saved_logs import COMMAND, LogShelf
from jupyterhub_backendai.engine.settings import SiteSettings, container_settings
from jupyterhub_backendai.engine.support import support_files
from jupyterhub_backendai.engine.tar import archive

pytestmark = [pytest.mark.docker, pytest.mark.slow]
IMAGE = "backendai-demo:latest"
AGENT = "local"
MIB = 1024**2
LINES, LINE = 100_000, 1000  # of the long output: 100 MB
COMMAND_TEXT = f"""
echo first; printf 'rubbish \\377\\000\\033[31mred\\n'; echo oops >&2
while [ ! -e /tmp/on ]; do sleep 0.05; done
head -c {LINES * (LINE - 1)} /dev/zero | tr '\\0' x | fold -w {LINE - 1}; echo
echo 'the NEEDLE'; echo last; exit 3
"""


class Running:
    """A batch session's container, made as the spawner makes it."""

    def __init__(self, command: str, memory: int = 512 * MIB) -> None:
        self.command, self.memory = command, memory
        run = uuid.uuid4().hex
        self.session_id = run
        self.engine = DockerEngine([AgentConfig(AGENT)], f"test-{run[:8]}", run[:12])
        self.site = SiteSettings(self.engine.hub_id, log_max=400 * MIB)
        self.id = ""

    async def start(self) -> None:
        job = BatchJob(self.command)
        server = ("sh", "-c", "echo the server; echo its errors >&2; exec sleep 1000")
        facts = session({}, session_id=self.session_id, command=server, batch=job)
        facts = replace(facts, request=facts.request.model_copy(update={"image": IMAGE}))
        settings = container_settings(facts, ImageFacts(IMAGE, (), {}), self.site)
        settings = replace(settings, memory=self.memory, memory_swap=self.memory)
        kwargs = apply_settings({"image": IMAGE, "command": list(settings.command)}, settings)

        def run(client: Any) -> None:
            self.id = client.create_container(**kwargs)["Id"]
            files = support_files(self.site, more=batch_entries(job, self.site))
            client.put_archive(self.id, "/", files)
            client.start(self.id)

        await self.engine.host(AGENT).call(run)

    async def put(self, path: str) -> None:
        data = archive([(path, 1000, 100, 0o644, b"")])
        await self.engine.host(AGENT).call(lambda c: c.put_archive(self.id, "/", data))

    async def stop(self) -> None:
        await self.engine.host(AGENT).call(lambda client: client.stop(self.id, timeout=10))

    async def read(self, part: LogPart) -> bytes:
        return b"".join([c async for c in self.engine.open_log(AGENT, self.id, part)])


@asynccontextmanager
async def started(command: str, **more: Any) -> AsyncIterator[Running]:
    made = Running(command, **more)
    try:
        await made.start()
        yield made
    finally:
        await made.engine.remove_session(AGENT, made.session_id)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Running]:
    async with started(COMMAND_TEXT) as made:
        yield made


async def until(asking: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    deadline = time.monotonic() + 120
    while not (found := await asking()) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return found


async def test_it_waits_for_the_word_and_is_followed(running: Running) -> None:
    engine, container = running.engine, running.id
    assert await engine.outcome(AGENT, container) is None
    assert await engine.command_started(AGENT, container) is None
    following = engine.open_log(AGENT, container, LogPart(follow=True))
    text = as_text(following)
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    for _ in range(2):
        await engine.put_go(AGENT, container)
    seen = ""
    while "oops" not in seen:
        seen += await within(60, anext(text))
    assert "The command starts" in seen
    # What is no UTF-8 is another sign already when it comes from Docker's json-file.
    assert re.search(r"\nfirst\nrubbish (\\xff|\ufffd)\\x00\\x1b\[31mred\noops\n", seen), seen
    started = await engine.command_started(AGENT, container)
    assert started is not None
    assert started > before
    assert await engine.outcome(AGENT, container) is None
    await within(5, following.aclose())


async def test_the_outcome_is_the_same_whether_the_container_runs_or_not(running: Running) -> None:
    engine, container = running.engine, running.id
    await running.put("tmp/on")
    outcome = await until(lambda: engine.outcome(AGENT, container))
    assert (outcome.ending, outcome.exit_code, outcome.succeeded) == (Ending.FAILED, 3, False)
    assert outcome.started_at == await engine.command_started(AGENT, container)
    (row,) = await engine.containers(AGENT)
    assert row.running, "the server stays until somebody ends the session"
    # While an image is made of it, it stands still.
    host = engine.host(AGENT)
    await host.call(lambda client: client.pause(container))
    try:
        (row,) = await engine.containers(AGENT)
        assert row.running, "nobody is to take it for one that has ended"
    finally:
        await host.call(lambda client: client.unpause(container))
    await running.stop()
    assert await engine.outcome(AGENT, container) == outcome
    state = (await host.call(lambda client: client.inspect_container(container)))["State"]
    assert (state["Running"], state["ExitCode"]) == (False, 3)


async def test_parts_of_the_log(running: Running) -> None:
    tail = await running.read(LogPart(tail=4))
    assert re.fullmatch(r"x+\nthe NEEDLE\nlast\n\[backendai\] .*exit code 3\.\n", readable(tail))
    head = await running.read(LogPart(limit=3000))
    assert len(head) == 3000
    assert await running.read(LogPart(offset=1000, limit=1500)) == head[1000:2500]
    assert await running.read(LogPart(since=datetime.now(timezone.utc))) == b""
    whole = await running.read(LogPart(limit=3000))
    assert b"the server\n" in whole
    assert b"its errors\n" in whole
    # The command's alone, and the last lines of it.
    output = await running.read(LogPart(limit=3000, output_only=True))
    assert output.startswith(b"[backendai] ")
    assert b"first\nrubbish" in output
    assert b"the server\n" not in output
    for follow in (False, True):
        part = LogPart(tail=4, output_only=True, follow=follow)
        assert await running.read(part) == tail
    everything = LogPart(tail=10**5 + 1000, output_only=True, limit=3000)
    assert await running.read(everything) == output
    # A log that nobody writes to any more ends, followed or not.
    assert await running.read(LogPart(tail=4, follow=True)) == tail
    log = running.engine.open_log(AGENT, running.id, LogPart(tail=9))
    (hit,) = [hit async for hit in search(log, "needle")]
    assert (hit.line, hit.text) == (7, "the NEEDLE")


MEASURE = """
import asyncio, json, re, sys
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.logs import LogPart, search
from jupyterhub_backendai.engine.saved_logs import LogShelf

def peak():
    # Not getrusage: its figure begins with that of the process that started this one.
    return int(re.search("VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024

async def measure(container, root):
    engine = DockerEngine([AgentConfig("local")], "measure", "measure")
    await engine.logs("local", container, 1)  # all that is imported late is here now
    before = peak()
    log = engine.open_log("local", container, LogPart())
    hits = [hit.offset async for hit in search(log, "needle")]
    await engine.save_log("local", container, LogShelf(root, 2 * 1024**2), "abc", "main1")
    print(json.dumps({"hits": hits, "before": before, "grown": peak() - before}))

asyncio.run(measure(*sys.argv[1:]))
"""


async def test_a_long_log_costs_no_memory(running: Running, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MEASURE, running.id, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    found = json.loads((await process.communicate())[0])
    print(found)
    (offset,) = found["hits"]
    assert offset > LINES * LINE
    assert found["grown"] < 16 * MIB, found
    # And what was saved of it is its end.
    saved = (tmp_path / "abc" / "main1.log").read_bytes()
    assert 2 * MIB < len(saved) < 2 * MIB + 100
    assert b"\nthe NEEDLE\nlast\n[backendai]" in saved[-200:]


async def test_logs_outlive_the_container(running: Running, tmp_path: Path) -> None:
    engine, container = running.engine, running.id
    shelf = LogShelf(tmp_path, 2 * MIB)
    await engine.save_log(AGENT, container, shelf, running.session_id, "main1")
    assert await engine.remove_session(AGENT, running.session_id) == 1
    # Again, by somebody who did not know: what is saved stays.
    await engine.save_log(AGENT, container, shelf, running.session_id, "main1")
    for kind in ("log", COMMAND):
        source = shelf.open(running.session_id, "main1", LogPart(tail=3), kind)
        assert source is not None
        assert readable(b"".join(source)).startswith("the NEEDLE\nlast\n[backendai]")
        source.close()
    for asking in (engine.outcome, engine.command_started, engine.put_go):
        with pytest.raises(ContainerGone):
            await asking(AGENT, container)
    with pytest.raises(ContainerGone):
        await anext(engine.open_log(AGENT, container, LogPart()))


async def test_memory_that_runs_out_and_a_container_that_is_killed() -> None:
    command = "python3 -c 'x = bytearray(2**30)'; exit 4"
    async with started(command, memory=64 * MIB) as hungry:
        await hungry.engine.put_go(AGENT, hungry.id)
        outcome = await until(lambda: hungry.engine.outcome(AGENT, hungry.id))
        assert (outcome.ending, outcome.exit_code) == (Ending.OUT_OF_MEMORY, 4)
    async with started("sleep 1000") as killed:
        engine = killed.engine
        await engine.put_go(AGENT, killed.id)
        began = await until(lambda: engine.command_started(AGENT, killed.id))
        await engine.host(AGENT).call(lambda client: client.kill(killed.id))
        outcome = await until(lambda: engine.outcome(AGENT, killed.id))
        assert (outcome.ending, outcome.exit_code) == (Ending.INTERRUPTED, None)
        assert outcome.started_at == began


async def test_a_huge_file_in_its_place_holds_nothing_up(tmp_path: Path) -> None:
    """Packing one takes Docker a quarter of an hour, in which nobody has the container."""
    batch = "/opt/backendai/batch"
    command = f"""
cd {batch}; echo before; mkdir output/older.log
truncate -s 300G output/0 output/newer.log state/result.json
while [ ! -e /tmp/on ]; do sleep 0.05; done; exit 4
"""
    async with started(command) as running:
        engine, host = running.engine, running.engine.host(AGENT)
        huge = partial(look, container=running.id, path=f"{batch}/state/result.json")
        await engine.put_go(AGENT, running.id)
        assert (await until(lambda: host.call(huge)))["size"] == 300 * 1024**3
        # What its runner did not write is no word of its end.
        assert await within(5, engine.outcome(AGENT, running.id)) is None
        await running.put("tmp/on")
        outcome = await until(lambda: engine.outcome(AGENT, running.id))
        assert (outcome.ending, outcome.exit_code) == (Ending.FAILED, 4)
        await running.stop()
        shelf = LogShelf(tmp_path, 2 * MIB)
        await within(10, engine.save_log(AGENT, running.id, shelf, running.session_id, "main1"))
        source = shelf.open(running.session_id, "main1", LogPart(), COMMAND)
        assert source is not None
        with closing(source):
            kept = readable(b"".join(source))
        assert kept.count("This part of the output is lost") == 2
        await within(5, host.call(lambda client: client.inspect_container(running.id)))
        assert await within(10, engine.remove_session(AGENT, running.session_id)) == 1


async def test_what_is_not_read_to_its_end_is_let_go() -> None:
    async with started("truncate -s 300G /tmp/huge; echo $? > /tmp/done; sleep 1000") as running:
        host = running.engine.host(AGENT)
        await running.engine.put_go(AGENT, running.id)
        await until(lambda: host.call(partial(look, container=running.id, path="/tmp/done")))

        def read(client: Any) -> bytes:
            with closing(open_plain(client, running.id, "/tmp/huge", 300 * 1024**3)) as file:
                return file.read(100)

        assert await host.call(read) == bytes(100)
        await within(5, host.call(lambda client: client.inspect_container(running.id)))
