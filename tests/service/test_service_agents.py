"""Agents for admins: what is there, and one that is drained."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jupyterhub_backendai.model.slots import GIB
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import AgentReport

from .running import Running, launch, until_open

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def one(service: Running) -> dict[str, Any]:
    reply = await service.call("GET", "api/agents", "admin")
    assert reply.status == 200, reply.json
    (agent,) = reply.json["items"]
    return dict(agent)


async def set_to(service: Running, schedulable: object, who: str = "admin") -> Any:
    body = {"schedulable": schedulable}
    return await service.call("PATCH", "api/agents/local", who, json=body)


def run_pass(service: Running) -> None:
    site = service.service.parts.site
    site.store.run_pass(site.policies, site.catalog, utcnow())


async def test_an_agent_is_drained_and_takes_sessions_again(service: Running) -> None:
    await until_open(service)
    service.report_agent(cpu=4, gib=8)
    before = await launch(service, "alice", {"preset": "small"})
    run_pass(service)
    agent = await one(service)
    assert agent.pop("seen_at")
    assert agent == {
        "name": "local", "resource_group": "default", "available": True, "reason": "",
        "schedulable": True, "drained_at": None, "drained_by": None, "sessions": 1,
        "capacity": {"cpu": 4000, "mem": 8 * GIB, "fgpu": 0, "gpu": 0, "mig": 0},
        "used": {"cpu": 1000, "mem": GIB, "fgpu": 0, "gpu": 0, "mig": 0},
        "devices": [],
    }  # fmt: skip

    site = service.service.parts.site
    site.queue._kicked.clear()
    reply = await set_to(service, False)
    assert (reply.status, reply.json) == (200, await one(service))
    assert (reply.json["schedulable"], reply.json["drained_by"]) == (False, "admin")
    assert reply.json["sessions"] == 1, "what is there goes on"
    assert await site.queue.kicked(0.1), "who waits is told why at once"
    again = await set_to(service, False)
    assert again.json == reply.json, "twice is fine"

    waits = await launch(service, "bob", {"preset": "small"})
    run_pass(service)
    found = await service.call("GET", f"api/sessions/{waits['id']}", "bob", params={"estimate": 1})
    assert (found.json["status"], found.json["reason_code"]) == ("PENDING", "drained")
    assert "the admin is draining its machine" in found.json["reason"]
    assert found.json["may_start_at"] is None
    told = await service.call("POST", "api/estimate", "bob", json={"preset": "small"})
    assert (told.json["code"], told.json["starts_in"]) == ("waits", None)
    options = await service.call("GET", "api/options", "bob")
    (choice,) = options.json["resource_groups"][0]["agents"]
    assert (choice["available"], choice["schedulable"]) == (True, False)
    assert choice["free"] == {"cpu": 0, "mem": 0, "fgpu": 0, "gpu": 0, "mig": 0}

    service.report_agent(cpu=4, gib=8)
    assert (await one(service))["drained_by"] == "admin", "no report changes it"
    reply = await set_to(service, True)
    assert (reply.json["schedulable"], reply.json["drained_by"]) == (True, None)
    run_pass(service)
    found = await service.call("GET", f"api/sessions/{waits['id']}", "bob")
    assert found.json["agent"] == "local"
    for session in (before, waits):
        service.store.move(session["id"], Status.ERROR, phase=Phase.RECONCILE, now=utcnow())
    assert (await one(service))["sessions"] == 0


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({}, "schedulable", "missing"),
        ({"schedulable": "false"}, "schedulable", "bool_type"),
        ({"schedulable": 0}, "schedulable", "bool_type"),
        ({"schedulable": None}, "schedulable", "bool_type"),
        ({"schedulable": False, "name": "x"}, "name", "extra_forbidden"),
        ([False], "", "not_an_object"),
    ],
)
async def test_what_cannot_be_said(service: Running, body: Any, field: str, code: str) -> None:
    service.report_agent()
    reply = await service.call("PATCH", "api/agents/local", "admin", json=body)
    (error,) = reply.json["errors"]
    assert (reply.status, error["field"], error["code"]) == (400, field, code)
    assert (await one(service))["schedulable"]


async def test_who_may_not(service: Running) -> None:
    service.report_agent()
    for who in ("alice", "watcher", "ender"):
        reply = await set_to(service, False, who)
        (error,) = reply.json["errors"]
        assert (reply.status, error["code"]) == (403, "not_yours")
        assert "start:servers" in error["message"]
    assert (await service.call("GET", "api/agents", "alice")).status == 403
    assert (await one(service))["schedulable"]
    for name in ("nowhere", "%2e%2e", "a%00b", "x" * 300):
        body = {"schedulable": False}
        reply = await service.call("PATCH", f"api/agents/{name}", "admin", json=body)
        assert reply.status == 404, name
        assert reply.json["errors"][0]["field"] in {"name", ""}


@asynccontextmanager
async def stream(
    service: Running, who: str, owner: str = "", after: int | None = None
) -> AsyncIterator[AsyncIterator[tuple[str, str, Any]]]:
    """Kind, id and data of one event after the other."""
    headers = {"Authorization": f"token {service.tokens[who]}"}
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    url = service.url + "api/events" + (f"?owner={owner}" if owner else "")
    async with service.client.get(url, headers=headers) as reply:
        assert reply.status == 200

        async def read() -> AsyncIterator[tuple[str, str, Any]]:
            fields: dict[str, str] = {}
            async for raw in reply.content:
                name, _, value = raw.decode().rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                elif fields:
                    if "event" in fields:
                        data = json.loads(fields["data"])
                        yield fields["event"], fields.get("id", ""), data
                    fields = {}

        yield read()


async def test_it_is_told_at_once_to_those_who_see_everybody(service: Running) -> None:
    service.report_agent()
    async with (
        stream(service, "admin", "*") as all_of_them,
        stream(service, "alice") as own,
    ):
        for events in (all_of_them, own):
            assert (await anext(events))[0] == "begin"
        begun = service.store.seq()
        await set_to(service, False)
        kind, number, data = await asyncio.wait_for(anext(all_of_them), 20)
        assert (kind, number) == ("agent", "")
        assert data["name"] == "local"
        assert (data["schedulable"], data["drained_by"]) == (False, "admin")
        session = await launch(service, "alice", {"preset": "small"})
        for events in (all_of_them, own):
            kind, _, data = await asyncio.wait_for(anext(events), 20)
            assert (kind, data["id"]) == ("session", session["id"])
        away = AgentReport("local", "default", service.store.agents()[0].capacity, False, "off")
        service.store.report_agents([away], now=utcnow())
        kind, _, data = await asyncio.wait_for(anext(all_of_them), 20)
        assert (kind, data["available"]) == ("agent", False)

    # Whoever comes back is told what they missed, whatever came between.
    async with stream(service, "admin", "*", after=begun) as events:
        kind, _, data = await asyncio.wait_for(anext(events), 20)
        assert (kind, data["available"], data["schedulable"]) == ("agent", False, False)
        kind, _, data = await asyncio.wait_for(anext(events), 20)
        assert (kind, data["id"]) == ("session", session["id"])
    async with stream(service, "alice", after=begun) as events:
        assert (await asyncio.wait_for(anext(events), 20))[0] == "session"
    service.report_agent()
    await set_to(service, True)
