"""Events that nobody misses, and logs that nobody has to hold in memory."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from jupyterhub_backendai.engine.base import AgentUnreachable, ContainerGone, EngineBusy
from jupyterhub_backendai.engine.logs import LogPart
from jupyterhub_backendai.service import feed, logs
from jupyterhub_backendai.service.calls import logs as logs_call
from jupyterhub_backendai.service.logs import READERS
from jupyterhub_backendai.store import Unavailable

from .running import Running, keep_log, launch, until, until_open
from .stand_in import own_scopes

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
        await until(lambda: not len(service.service.feed))
    assert not service.service.streams.taken


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
    work = asyncio.ensure_future(reader.run(site))
    for stream in made:
        await reader.add(stream)
    readers = [asyncio.ensure_future(anext(aiter(stream))) for stream in made]
    await asyncio.sleep(0)
    before = time.process_time()
    await asyncio.sleep(1)  # what is measured
    assert time.process_time() - before < 0.1
    await launch(service, "alice", {})
    assert len({number for number, _ in await asyncio.gather(*readers)}) == 1
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_no_change_is_missed_however_a_reading_begins_or_breaks_off(service: Running) -> None:
    await until_open(service)
    site, reader, stream = service.service.parts.site, feed.Feed(), feed.Stream("alice")
    work = asyncio.ensure_future(reader.run(site))
    await reader.add(stream)
    seen = aiter(stream)
    for name in ("at-once", "after-a-break"):
        session = await launch(service, "alice", {"name": name})
        told = b""
        while session["id"].encode() not in told:
            _, told = await asyncio.wait_for(anext(seen), 10)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        meanwhile = await launch(service, "alice", {"name": f"while-broken-{name}"})
        work = asyncio.ensure_future(reader.run(site))
        while meanwhile["id"].encode() not in told:
            _, told = await asyncio.wait_for(anext(seen), 10)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_logs(service: Running) -> None:
    await until_open(service)
    session = await launch(service, "alice", {"name": "noisy"})
    path = f"api/sessions/{session['id']}/logs"
    reply = await service.call("GET", path, "alice")
    assert (reply.status, reply.json["errors"][0]["code"]) == (409, "not_started")
    assert "it is PENDING" in reply.json["errors"][0]["message"]
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
    for params in ({"search": "R", "offset": "5"}, {"search": "R", "limit": "30", "offset": "6"}):
        found = await service.call("GET", path, "alice", params=params)
        hits = [json.loads(line) for line in found.json.splitlines()]
        assert [(hit["line"], hit["offset"]) for hit in hits] == [(2, 6), (3, 16)]
    for params in ({"kernel": "../x"}, {"tail": "-1"}, {"since": "yesterday"}, {"limit": "0"}):
        assert (await service.call("GET", path, "alice", params=params)).status == 400
    for params, status, field in (
        ({"kind": "command", "follow": "1"}, 404, "kind"),
        ({"kernel": "sub1", "follow": "1"}, 404, ""),
        ({"since": "2040-01-01T00:00:00Z"}, 400, "since"),
    ):
        reply = await service.call("GET", path, "alice", params=params)
        assert (reply.status, reply.json["errors"][0]["field"]) == (status, field)
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
    await until(lambda: not READERS._busy)  # its thread is free again


class Live:
    """A stand-in for the engine's side of a live log: what a real one does is tested beside it.

    Each step of `script` is bytes that come, a line that comes after so many seconds, an error, or
    None: nothing more comes.
    """

    def __init__(self) -> None:
        self.script: list[bytes | float | Exception | None] = []
        self.ended = asyncio.Event()
        self.parts: list[LogPart] = []

    async def open_log(self, agent: str, container: str, part: LogPart) -> AsyncIterator[bytes]:
        assert (agent, container) == ("local", "c0ffee")
        self.parts.append(part)
        try:
            for step in self.script:
                if step is None:
                    await asyncio.Event().wait()
                elif isinstance(step, Exception):
                    raise step
                elif isinstance(step, float):
                    await asyncio.sleep(step)
                    yield b"still\n"
                else:
                    yield step
        finally:
            self.ended.set()


@pytest.fixture
def live(service: Running, monkeypatch: pytest.MonkeyPatch) -> Live:
    made = Live()
    monkeypatch.setattr(service.service.parts.site.engine, "open_log", made.open_log)
    return made


def make_container(service: Running, session: dict[str, Any]) -> str:
    """The path of the log of a container that runs."""
    service.store.set_kernel(session["id"], role="main", agent="local", container_id="c0ffee")
    return f"api/sessions/{session['id']}/logs"


@asynccontextmanager
async def reading(
    service: Running, who: str, path: str, **params: str
) -> AsyncIterator[aiohttp.ClientResponse]:
    headers = {"Authorization": f"token {service.tokens[who]}"}
    async with service.client.get(service.url + path, headers=headers, params=params) as reply:
        yield reply


async def test_a_live_log_that_waits_breaks_off_or_cannot_be_had(
    service: Running, live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = make_container(service, await launch(service, "alice", {}))
    for error, status, code in (
        (AgentUnreachable("no answer"), 503, "agent_unreachable"),
        (EngineBusy("too many"), 429, "busy"),
        (ContainerGone("gone"), 409, "not_started"),
        (Unavailable("the disk is full"), 503, "unavailable"),
    ):
        live.script[:] = [error]
        reply = await service.call("GET", path, "alice")
        assert (reply.status, reply.json["errors"][0]["code"]) == (status, code)

    for error in (AgentUnreachable("no answer"), Unavailable("the disk is full")):
        live.script[:] = [b"one\n", error]
        with pytest.raises(aiohttp.ClientPayloadError):  # not an end that looks like one
            await service.call("GET", path, "alice")

    monkeypatch.setattr(logs_call, "QUIET", 0.01)
    for begin in ([], [b"one\n"]):
        live.ended.clear()
        live.script[:] = [*begin, None]
        async with reading(service, "alice", path, follow="1") as reply:
            assert reply.status == 200  # told before there is a first line
            if begin:
                assert await reply.content.readline() == b"one\n"
            reply.close()
        await asyncio.wait_for(live.ended.wait(), 10)  # nobody reads on for a client that left
    assert "Uncaught" not in caplog.text


async def test_a_log_that_is_followed_waits_for_its_container(
    service: Running, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_call, "QUIET", 0.01)
    monkeypatch.setattr(logs, "LOOK_INTERVAL", 0.01)
    batch = {"type": "batch", "batch": {"command": "true"}}
    session = await launch(service, "alice", batch)
    path = f"api/sessions/{session['id']}/logs"
    live.script[:] = [b"hello\n"]
    async with reading(service, "alice", path, follow="1", kind="command", offset="2") as reply:
        assert reply.status == 200
        make_container(service, session)
        assert await reply.read() == b"hello\n"
    assert live.parts == [LogPart(offset=2, follow=True, output_only=True)]

    session = await launch(service, "alice", batch)
    path = f"api/sessions/{session['id']}"
    async with reading(service, "alice", f"{path}/logs", follow="1") as reply:
        assert reply.status == 200
        assert (await service.call("DELETE", path, "alice")).status == 202
        assert await reply.read() == b""
    assert (await service.call("GET", f"{path}/logs?follow=1", "alice")).status == 404


async def test_what_is_followed_goes_on_for_whoever_may_read_it(
    service: Running, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends as such only where the log does."""
    monkeypatch.setattr(logs_call, "LIFETIME", 0.1)
    path = make_container(service, await launch(service, "alice", {}))
    live.script[:] = [0.05] * 8 + [b"last\n"]
    asked = service.hub.asked.count(("GET", "user"))
    monkeypatch.setattr(service.service.hub_auth.cache, "max_age", 0.01)  # seconds
    reply = await service.call("GET", path, "alice", params={"follow": "1"})
    assert (reply.status, reply.json) == (200, "still\n" * 8 + "last\n")
    assert service.hub.asked.count(("GET", "user")) > asked + 2

    live.script[:] = [0.05] * 10_000
    live.ended.clear()
    token = service.hub.token("alice", own_scopes("alice"))
    monkeypatch.setitem(service.tokens, "briefly", token)
    async with reading(service, "briefly", path, follow="1") as stream:
        assert await stream.content.readline() == b"still\n"
        del service.hub.tokens[token]
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.read()
    await asyncio.wait_for(live.ended.wait(), 10)


async def test_a_log_that_is_quiet_for_long_breaks_off(
    service: Running, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads it may have gone, which nothing tells."""
    monkeypatch.setattr(logs_call, "LIFETIME", 0.2)
    monkeypatch.setattr(logs_call, "QUIET", 0.01)
    path = make_container(service, await launch(service, "alice", {}))
    live.script[:] = [b"one\n", None]
    waits = await launch(service, "alice", {})
    for quiet in (path, f"api/sessions/{waits['id']}/logs"):
        with pytest.raises(aiohttp.ClientPayloadError):
            await service.call("GET", quiet, "alice", params={"follow": "1"})
    assert live.ended.is_set()
    await until(lambda: not service.service.logs.taken)


async def test_one_user_reads_so_many_logs_at_a_time(
    service: Running, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    hers = make_container(service, await launch(service, "alice", {}))
    his = make_container(service, await launch(service, "bob", {}))
    live.script[:] = [b"one\n", None]
    async with AsyncExitStack() as stack:
        for _ in range(logs_call.MOST_OWN):
            reply = await stack.enter_async_context(reading(service, "alice", hers))
            assert reply.status == 200
        more = await service.call("GET", hers, "alice")
        assert (more.status, more.json["errors"][0]["code"]) == (429, "too_many_logs")
        assert await service.status_of_stream(his, "bob", {}) == 200
        reply.close()
        await until(lambda: service.service.logs.taken["alice"] < logs_call.MOST_OWN)
        assert await service.status_of_stream(hers, "alice", {}) == 200


async def test_whoever_takes_nothing_is_cut_off(
    service: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A socket that nobody reads from is full at some time."""
    monkeypatch.setattr(logs_call, "PATIENCE", 0.2)
    session = await launch(service, "alice", {})
    keep_log(service, session["id"], b"x" * 30_000_000)
    async with reading(service, "alice", f"api/sessions/{session['id']}/logs") as reply:
        assert reply.status == 200
        await until(lambda: not service.service.logs.taken and not READERS._busy)
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.read()
    assert "takes nothing" in caplog.text
    assert "Uncaught" not in caplog.text
