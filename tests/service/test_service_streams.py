"""Events that nobody misses, and logs that nobody has to hold in memory."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from jupyterhub_backendai.engine.base import AgentUnreachable, ContainerGone, EngineBusy
from jupyterhub_backendai.engine.logs import LogPart
from jupyterhub_backendai.service import feed
from jupyterhub_backendai.service.calls import logs as logs_call
from jupyterhub_backendai.service.logs import READERS

from .running import Running, keep_log, launch, until_open

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Events:
    """The events of one stream, as they come."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    async def next(self, kind: str = "") -> tuple[str, str, dict[str, Any]]:
        """The next event (of this kind): its kind, its id, its data."""
        found: dict[str, str] = {}
        while True:
            line = (await asyncio.wait_for(self.reply.content.readline(), 10)).decode().strip()
            if not line and found.get("event") and kind in ("", found["event"]):
                return found["event"], found["id"], json.loads(found["data"])
            if not line:
                found = {}
            name, _, value = line.partition(": ")
            found[name] = value


@asynccontextmanager
async def events(
    service: Running, who: str, after: str = "", **params: str
) -> AsyncIterator[Events]:
    headers = {"Authorization": f"token {service.tokens[who]}"}
    if after:
        headers["Last-Event-ID"] = after
    url = service.url + "api/events"
    async with service.client.get(url, headers=headers, params=params) as reply:
        assert reply.status == 200
        assert reply.headers["Content-Type"] == "text/event-stream"
        yield Events(reply)


async def test_events_are_told_to_those_who_may_see_them(service: Running) -> None:
    await until_open(service)
    async with (
        events(service, "alice") as hers,
        events(service, "bob") as his,
        events(service, "admin", owner="*") as all_,
    ):
        for stream in (hers, his, all_):
            assert (await stream.next())[0] == "begin"
        first = await launch(service, "alice", {"name": "hers"})
        second = await launch(service, "bob", {"name": "his0"})
        assert (await hers.next())[2]["id"] == first["id"]
        assert (await his.next())[2]["id"] == second["id"]  # and not alice's before it
        seen = [await all_.next(), await all_.next()]
        assert [data["owner"] for _, _, data in seen] == ["alice", "bob"]
        last = seen[-1][1]

    third = await launch(service, "alice", {"name": "while-away"})
    async with events(service, "admin", after=last, owner="*") as again:
        _, number, data = await again.next()
        assert data["id"] == third["id"]
        assert int(number) > int(last)
    for odd in ("junk", "9" * 18, "-1"):
        async with events(service, "alice", after=odd) as reset:
            assert (await reset.next())[0] == "reset"
    assert (await service.call("GET", "api/events", "bob", params={"owner": "*"})).status == 403


async def test_a_stream_beats_while_nothing_happens_and_its_end_is_noticed(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await until_open(service)
    monkeypatch.setattr(feed, "HEARTBEAT", 0.05)
    async with events(service, "alice") as stream:
        await stream.next("begin")
        assert (await stream.reply.content.readline()) == feed.BEAT.splitlines(True)[0]
        assert len(service.service.feed) == 1
        stream.reply.close()
        for _ in range(200):
            if not len(service.service.feed):
                break
            await asyncio.sleep(0.02)
    assert len(service.service.feed) == 0
    assert service.service.streams["alice"] == 0


async def test_one_user_has_so_many_streams_and_a_slow_one_ends(service: Running) -> None:
    stream = feed.Stream("alice")
    for number in range(feed.BEHIND + 1):
        stream.put(number, b"")
    assert stream.over


async def test_500_quiet_streams_cost_next_to_nothing(service: Running) -> None:
    """Streams of the feed itself: what sockets cost is in the benchmark."""
    await until_open(service)
    site, made = service.service.parts.site, [feed.Stream("alice") for _ in range(500)]
    reader = feed.Feed()
    for stream in made:
        reader.add(stream)
    readers = [asyncio.ensure_future(anext(aiter(stream))) for stream in made]
    work = asyncio.ensure_future(reader.run(site))
    await asyncio.sleep(0)
    before = time.process_time()
    await asyncio.sleep(1)  # what is measured
    assert time.process_time() - before < 0.1
    await launch(service, "alice", {})
    assert len({number for number, _ in await asyncio.gather(*readers)}) == 1
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_logs(service: Running) -> None:
    await until_open(service)
    session = await launch(service, "alice", {"name": "noisy"})
    path = f"api/sessions/{session['id']}/logs"
    reply = await service.call("GET", path, "alice")
    assert (reply.status, reply.json["errors"][0]["code"]) == (404, "no_log")
    keep_log(service, session["id"], b"first\n\x1b[31mred\xff\nthird has a needle\nlast\n")
    reply = await service.call("GET", path, "alice")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert reply.json == "first\n\\x1b[31mred\\xff\nthird has a needle\nlast\n"
    for params, text in (
        ({"tail": "1"}, "last\n"),
        ({"offset": "2", "limit": "3"}, "rst"),
        ({"tail": "0"}, ""),
    ):
        reply = await service.call("GET", path, "alice", params=params)
        assert (reply.status, reply.json) == (200, text)
    found = await service.call("GET", path, "alice", params={"search": "NEEDLE"})
    assert json.loads(found.json) == {"line": 3, "offset": 16, "text": "third has a needle"}
    saved = await service.call("GET", path, "alice", params={"download": "1"})
    assert 'filename="noisy-logs-main1.txt"' in saved.headers["Content-Disposition"]
    for params in ({"kernel": "../x"}, {"tail": "-1"}, {"since": "yesterday"}, {"limit": "0"}):
        assert (await service.call("GET", path, "alice", params=params)).status == 400
    reply = await service.call("GET", path, "alice", params={"kind": "command"})
    assert reply.status == 404
    assert (await service.call("GET", path, "bob")).status == 404


async def test_a_log_that_is_larger_than_memory_should_be(service: Running) -> None:
    await until_open(service)
    session = await launch(service, "alice", {})
    line = b"x" * 99 + b"\n"
    keep_log(service, session["id"], *([line * 10_000] * 20))
    url = f"{service.url}api/sessions/{session['id']}/logs"
    headers = {"Authorization": f"token {service.tokens['alice']}"}
    async with service.client.get(url, headers=headers) as reply:
        size = 0
        async for chunk in reply.content.iter_any():
            size += len(chunk)
            assert len(chunk) <= 1024 * 1024
    assert size == 20_000_000
    async with service.client.get(url, headers=headers) as reply:
        await reply.content.readany()  # and goes away
    for _ in range(200):
        if not READERS._busy:
            break
        await asyncio.sleep(0.02)
    assert READERS._busy == 0  # its thread is free again


async def test_a_live_log_that_waits_breaks_off_or_cannot_be_had(
    service: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine's side is a stand-in here: what a real one does is tested beside it."""
    await until_open(service)
    site = service.service.parts.site
    session = await launch(service, "alice", {})
    service.store.set_kernel(session["id"], role="main", agent="local", container_id="c0ffee")
    path = f"api/sessions/{session['id']}/logs"
    ended = asyncio.Event()
    script: list[bytes | Exception | None] = []

    async def open_log(agent: str, container: str, part: LogPart) -> AsyncIterator[bytes]:
        assert (agent, container) == ("local", "c0ffee")
        try:
            for step in script:
                if step is None:
                    await asyncio.Event().wait()
                elif isinstance(step, Exception):
                    raise step
                else:
                    yield step
        finally:
            ended.set()

    monkeypatch.setattr(site.engine, "open_log", open_log)
    for error, status, code in (
        (AgentUnreachable("no answer"), 503, "agent_unreachable"),
        (EngineBusy("too many"), 429, "busy"),
        (ContainerGone("gone"), 404, "no_log"),
    ):
        script[:] = [error]
        reply = await service.call("GET", path, "alice")
        assert (reply.status, reply.json["errors"][0]["code"]) == (status, code)

    script[:] = [b"one\n", AgentUnreachable("no answer")]
    with pytest.raises(aiohttp.ClientPayloadError):  # not an end that looks like one
        await service.call("GET", path, "alice")

    monkeypatch.setattr(logs_call, "QUIET", 0.01)
    for begin in ([], [b"one\n"]):
        ended.clear()
        script[:] = [*begin, None]
        headers = {"Authorization": f"token {service.tokens['alice']}"}
        url, query = service.url + path, {"follow": "1"}
        async with service.client.get(url, headers=headers, params=query) as reply:
            assert reply.status == 200  # told before there is a first line
            if begin:
                assert await reply.content.readline() == b"one\n"
            reply.close()
        await asyncio.wait_for(ended.wait(), 10)  # nobody reads on for a client that left
    assert "Uncaught" not in caplog.text
