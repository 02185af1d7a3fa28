"""Signing in by token, and the list of sessions."""

from __future__ import annotations

import pytest

from .running import Running, until_open

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_who_gets_in(service: Running) -> None:
    await until_open(service)
    assert (await service.call("GET", "health")).json == {"status": "ok"}
    reply = await service.call("GET", "api/sessions", "alice")
    assert (reply.status, reply.json) == (200, {"items": [], "total": 0, "limit": 50, "offset": 0})
    for who, status, code in (
        (None, 401, "not_signed_in"),
        ("nonsense", 401, "not_signed_in"),
        ("narrow", 403, "missing_scope"),
    ):
        reply = await service.call("GET", "api/sessions", who)
        assert (reply.status, reply.json["errors"][0]["code"]) == (status, code), who
