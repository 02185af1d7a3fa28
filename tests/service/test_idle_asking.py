"""When sessions were last used, asked of servers that tell the truth, lie, or say nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from jupyterhub_backendai.service.idle.asking import (
    AT_ONCE,
    MOST_BYTES,
    Answer,
    Asker,
    Line,
    Target,
)
from jupyterhub_backendai.service.ways.tunnel import Place

from .running import until

KEY = "hush-hush"
SAID = {"used": 12.5, "asked": 0.5, "uptime": 100}
LONG = 3600.0  # seconds that no test waits for


def reply(body: bytes, status: int = 200, head: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body


@dataclass
class Sessions:
    """One server for many sessions: what it answers depends on the path. None: never."""

    answers: dict[str, bytes | None] = field(default_factory=dict)
    connections: int = 0
    waiting: int = 0
    most_waiting: int = 0
    asked: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    port: int = 0
    hang_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                self.heads.append(head)
                name = head.split("/user/ada/", 1)[1].split("/", 1)[0]
                self.asked.append(name)
                self.waiting += 1
                self.most_waiting = max(self.most_waiting, self.waiting)
                try:
                    answer = self.answers.get(name, reply(json.dumps(SAID).encode()))
                    if answer is None:
                        await self._keep_silent(reader)
                        return
                    await asyncio.sleep(0)
                    writer.write(answer)
                    await writer.drain()
                finally:
                    self.waiting -= 1
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _keep_silent(self, reader: asyncio.StreamReader) -> None:
        """Until the question is given up, or the connection is to be."""
        ends = [asyncio.ensure_future(end) for end in (reader.read(), self.hang_up.wait())]
        _, left = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in left:
            end.cancel()

    def target(self, name: str) -> Target:
        path = f"/user/ada/{name}/backendai/"
        return Target(name, Place(f"127.0.0.1:{self.port}", path, KEY))


@asynccontextmanager
async def sessions(**answers: bytes | None) -> AsyncIterator[Sessions]:
    made = Sessions(answers)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=2**18)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


@pytest.fixture
async def asker() -> AsyncIterator[Callable[..., Asker]]:
    made: list[Asker] = []

    def make(**bounds: float) -> Asker:
        made.append(Asker(**{"patience": LONG, **bounds}))
        return made[-1]

    yield make
    for one in made:
        await one.close()


@dataclass
class Round:
    """Sessions that are asked in a line, and what they say."""

    asker: Asker
    targets: dict[str, Target]
    found: dict[str, Answer | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.line = Line(self._ask)

    @property
    def answers(self) -> dict[str, Answer]:
        return {id: answer for id, answer in self.found.items() if answer is not None}

    async def _ask(self, id: str) -> None:
        self.found[id] = await self.asker.ask(self.targets[id])

    async def once(self) -> dict[str, Answer]:
        self.found.clear()
        self.line.add(self.targets)
        await self.line.wait(LONG)
        return self.answers


def asking(asker: Asker, *targets: Target) -> Round:
    return Round(asker, {target.session_id: target for target in targets})


HOSTILE: dict[str, bytes] = {
    "text": reply(b"hello"),
    "list": reply(b"[1, 2, 3]"),
    "empty": reply(b""),
    "lacks": reply(b'{"used": 1, "asked": 1}'),
    "null": reply(b'{"used": null, "asked": null, "uptime": 5}'),
    "nan": reply(b'{"used": NaN, "asked": 0, "uptime": 5}'),
    "endless": reply(b'{"used": Infinity, "asked": 0, "uptime": Infinity}'),
    "large": reply(b'{"used": 1e999, "asked": 0, "uptime": 1e999}'),
    "digits": reply(b'{"used": 1' + b"0" * 3000 + b', "asked": 0, "uptime": 5}'),
    "negative": reply(b'{"used": 1, "asked": -1, "uptime": 5}'),
    "order": reply(b'{"used": 1, "asked": 2, "uptime": 5}'),
    "before": reply(b'{"used": 10, "asked": 2, "uptime": 5}'),
    "words": reply(b'{"used": "1", "asked": "1", "uptime": "5"}'),
    "yes": reply(b'{"used": true, "asked": false, "uptime": true}'),
    "long": reply(json.dumps({**SAID, "more": "x" * MOST_BYTES}).encode()),
    "deep": reply(b"[" * 4000),
    "status": reply(json.dumps(SAID).encode(), 500),
    "elsewhere": reply(b"", 302, "Location: http://127.0.0.1:1/\r\n"),
    "packed": reply(gzip.compress(bytes(10**6)), 200, "Content-Encoding: gzip\r\n"),
    "noise": b"\x00\xff" * 100 + b"\r\n\r\n",
    "binary": reply(b"\xff\xfe\x00"),
}  # fmt: skip


async def test_only_what_makes_sense_is_an_answer(asker: Callable[..., Asker]) -> None:
    async with sessions(**HOSTILE) as there:
        names = [*HOSTILE, "good"]
        found = await asking(asker(), *(there.target(name) for name in names)).once()
        assert found == {"good": Answer(used=12.5, asked=0.5, uptime=100.0)}
        assert sorted(there.asked) == sorted(names), "each once, and nobody goes elsewhere"
        assert all(f"X-Backendai-Key: {KEY}\r\n" in head for head in there.heads)
    assert await asking(asker()).once() == {}
    nowhere = Target("x", Place("nowhere", "/user/ada/x/backendai/", KEY))
    assert await asking(asker(), nowhere, there.target("gone")).once() == {}


async def test_who_does_not_answer_keeps_no_others_waiting(asker: Callable[..., Asker]) -> None:
    silent: dict[str, bytes | None] = {f"s{number}": None for number in range(3)}
    others = [f"a{number}" for number in range(300)]
    async with sessions(**silent) as there:
        one = asking(asker(), *(there.target(name) for name in [*silent, *others]))
        task = asyncio.ensure_future(one.once())
        await until(lambda: set(one.answers) == set(others))  # while three keep silent
        assert not task.done()
        there.hang_up.set()
        assert set(await task) == set(others)
        assert there.most_waiting <= AT_ONCE


async def test_each_gets_its_turn_however_many_do_not_answer() -> None:
    asked, goes_on = [], asyncio.Semaphore(0)

    async def ask(id: str) -> None:
        asked.append(id)
        await goes_on.acquire()

    names = [str(number) for number in range(10)]
    line = Line(ask, at_once=3)
    for turns in range(1, 8):
        line.add(reversed(names) if turns == 1 else names)  # all are wanted in each round
        await line.wait(0)
        assert len(asked) <= 3 * turns
        goes_on.release()
        await until(lambda count=turns + 3: len(asked) == count)  # type: ignore[misc]
    assert asked == names[::-1], "nobody twice before all were asked once"
    await line.close()


async def test_what_asking_raises_is_told_and_the_rest_are_asked() -> None:
    asked = []

    async def ask(id: str) -> None:
        asked.append(id)
        if id == "b":
            raise ValueError(id)

    line = Line(ask, at_once=1)
    line.add("abc")
    with pytest.raises(ValueError, match="b"):
        await line.wait(LONG)
    line.add("a")
    await line.wait(LONG)
    assert asked == ["a", "b", "c", "a"]


async def test_who_is_silent_for_long_is_given_up(asker: Callable[..., Asker]) -> None:
    async with sessions(s=None) as there:
        assert await asker(patience=0.01).ask(there.target("s")) is None
        await until(lambda: not there.waiting)


async def test_connections_are_used_again(asker: Callable[..., Asker]) -> None:
    async with sessions() as there:
        one = asking(asker(), *(there.target(f"a{number}") for number in range(10)))
        for _ in range(5):
            assert len(await one.once()) == 10
        assert len(there.asked) == 50
        assert there.connections <= 10


async def test_no_more_connections_are_kept_than_may_be(asker: Callable[..., Asker]) -> None:
    async with sessions() as there:
        one = asker(most_kept=3)
        for _ in range(2):
            for number in range(10):
                assert await one.ask(there.target(f"a{number}")) is not None
        kept = [f"X-Backendai-Key: {KEY}" in head and "close" not in head for head in there.heads]
        assert kept == [number < 3 for number in range(10)] * 2


async def test_a_round_that_is_broken_off_leaves_nothing(asker: Callable[..., Asker]) -> None:
    async with sessions(s=None) as there:
        one = asking(asker(), there.target("s"))
        one.line.add(one.targets)
        await until(lambda: there.waiting == 1)
        await one.line.close()
        await until(lambda: not there.waiting)
