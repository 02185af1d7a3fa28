"""Estimates, one at a time: they keep nobody else waiting."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from jupyterhub_backendai.service import estimates

from .running import Running, launch, until_open

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_many_who_ask_at_once(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look at the queue at a time, few who wait for it, and the rest goes on."""
    await until_open(service)
    service.report_agent()
    store = service.store
    look, may_look, looking = store.ahead, threading.Event(), Counter[str]()

    def slow(*args: Any) -> Any:
        looking["now"] += 1
        looking["most"] = max(looking["most"], looking["now"])
        may_look.wait(20)
        looking["now"] -= 1
        return look(*args)

    monkeypatch.setattr(store, "ahead", slow)
    monkeypatch.setattr(estimates, "SAME", 0.0)
    session = await launch(service, "alice", {})
    path = f"api/sessions/{session['id']}"
    asked = [
        asyncio.ensure_future(service.call("POST", "api/estimate", who, json={}))
        for who in ("alice", "bob")
        for _ in range(estimates.MOST)
    ]
    places = service.service.estimates.waiting
    for _ in range(500):
        if places.taken == {"alice": estimates.MOST, "bob": estimates.MOST}:
            break
        await asyncio.sleep(0.02)
    for method, more in (("POST", {"json": {}}), ("GET", {"params": {"estimate": "1"}})):
        where = "api/estimate" if method == "POST" else path
        refused = await service.call(method, where, "alice", **more)
        assert (refused.status, refused.json["errors"][0]["code"]) == (429, "too_many_estimates")
    assert (await service.call("GET", path, "alice")).status == 200, "while all of them wait"
    may_look.set()
    assert {reply.status for reply in await asyncio.gather(*asked)} == {200}
    assert looking["most"] == 1
    assert not places.taken
    assert (await service.call("POST", "api/estimate", "alice", json={})).status == 200


async def test_one_look_serves_all_for_a_moment(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await until_open(service)
    store, looks = service.store, []
    look = store.ahead

    def counted(*args: Any) -> Any:
        looks.append(args)
        return look(*args)

    monkeypatch.setattr(store, "ahead", counted)
    monkeypatch.setattr(estimates, "SAME", 3600.0)
    for who in ("alice", "bob"):
        assert (await service.call("POST", "api/estimate", who, json={})).status == 200
    before = len(looks)
    assert before <= 1
    session = await launch(service, "alice", {})
    path = f"api/sessions/{session['id']}?estimate=1"
    for _ in range(2):
        assert (await service.call("GET", path, "alice")).status == 200
    assert len(looks) == before + 1, "one that came in since is looked for"
