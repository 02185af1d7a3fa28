"""The launcher and `GET api/options` read the line once, while nothing changes in it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .running import Running, launch, until_open


async def test_many_who_look_together_read_the_line_once(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await until_open(service)
    read = []
    snapshot = service.store.snapshot

    def counted(*args: Any) -> Any:
        read.append(args)
        return snapshot(*args)

    monkeypatch.setattr(service.store, "snapshot", counted)

    async def waiting(who: str) -> int:
        reply = await service.call("GET", "api/options", who)
        assert reply.status == 200, reply.json
        return int(reply.json["resource_groups"][0]["waiting"])

    assert await asyncio.gather(*(waiting(who) for who in ["alice", "bob"] * 5)) == [0] * 10
    assert len(read) == 1
    # What changes is seen by the next who looks.
    for number in range(1, 4):
        await launch(service, "alice", {"name": f"waits-{number}"})
        assert await waiting("bob") == number
    assert len(read) == 4
