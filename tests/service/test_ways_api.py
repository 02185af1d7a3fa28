"""Calls about apps: who may open what to whom, and what is said where that cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from jupyterhub_backendai.service.ways import asking
from jupyterhub_backendai.service.ways.asking import Busy
from jupyterhub_backendai.service.ways.tunnel import Place

from .running import launch, until
from .session_server import KEY, item
from .ways import ALLOWED, Open, end, make_running, opened

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ways(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Open]:
    policies = {"user_policies": {"bob": {}}}
    async with opened(tmp_path_factory.mktemp("api"), **policies) as made:
        yield made


async def test_the_apps_of_a_session(ways: Open) -> None:
    way = await ways.public()
    reply = await ways.service.call("GET", ways.path, "alice")
    assert (reply.status, reply.json["reason"]) == (200, None)
    apps = {app["name"]: app for app in reply.json["apps"]}
    assert list(apps) == ["echo", "jupyterlab", "db", "sshd", "gone", "missing"]
    assert apps["echo"]["ways"] == [way]
    assert apps["missing"]["why"] == "It is not in this image."
    assert KEY not in str(reply.json)
    assert ways.server.path.startswith("/user/alice/work-"), "the base of its own server"
    everybodys = await ways.service.call("GET", "api/apps", "admin")
    assert everybodys.json["items"] == [{**way, "owner": "alice", "session_name": "work"}]
    detail = await ways.service.call("GET", f"api/sessions/{ways.session['id']}", "alice")
    assert KEY not in str(detail.json)
    await ways.close()


async def test_an_app_for_its_owner_needs_no_way(ways: Open) -> None:
    reply = await ways.open("jupyterlab")
    server = ways.session["server_name"]
    assert reply.json == {
        "url": f"/user/alice/{server}/backendai/open/jupyterlab",
        "host": None, "port": None, "way": None, "message": "",
    }  # fmt: skip
    for path, leads_to in (
        ("lab", "lab"), ("../../hub/logout", ""), ("//evil", ""), ("x/..", ""), ("a b", ""),
        ("", ""),
    ):  # fmt: skip
        ways.server.items.append(item("odd", 1, path=path))
        reply = await ways.open("odd")
        assert reply.json["url"] == f"/user/alice/{server}/{leads_to or 'backendai/open/odd'}"
        ways.server.items.pop()


async def test_asking_twice_gives_the_same(ways: Open) -> None:
    first, second = await ways.open(public=True), await ways.open(public=True)
    assert first.json == second.json
    assert first.json["way"]["opened_by"] == "alice"
    assert (await ways.close()).status == (await ways.close()).status == 204
    assert (await ways.open(public=True)).json["way"]["id"] != first.json["way"]["id"]
    await ways.close()


@pytest.mark.parametrize(
    ("app", "body", "status", "field", "code"),
    [
        ("jupyterlab", {"public": True}, 403, "public", "not_shareable"),
        ("sshd", {"public": True}, 409, "public", "not_shareable"),
        ("missing", {}, 409, "", "not_available"),
        ("nothing", {}, 404, "app", "not_found"),
        ("db", {}, 409, "public", "needed"),
        ("db", {"public": True}, 409, "", "no_ports"),
        ("sshd", {}, 409, "", "no_ports"),
        ("echo", {"preferred_port": 30000}, 409, "preferred_port", "no_ports"),
        ("echo", {"preferred_port": 0}, 400, "preferred_port", "greater_than_equal"),
        ("echo", {"public": 1}, 400, "public", "bool_type"),
        (
            "echo",
            {"arguments": {"a b": "x"}},
            400,
            "arguments.a b.[key]",
            "string_pattern_mismatch",
        ),
        ("echo", {"nonsense": 1}, 400, "nonsense", "extra_forbidden"),
    ],
)
async def test_what_cannot_be(
    app: str, body: dict[str, object], status: int, field: str, code: str, ways: Open
) -> None:
    reply = await ways.open(app, **body)
    (error, *_) = reply.json["errors"]
    assert (reply.status, error["field"], error["code"]) == (status, field, code)
    assert error["message"]


async def test_the_owners_policy_counts_whoever_asks(tmp_path: Path) -> None:
    policies = {"default_policy": {}, "user_policies": {"admin": ALLOWED}}
    async with opened(tmp_path, **policies) as ways:
        for who in ("alice", "admin"):
            reply = await ways.open("echo", who, public=True, preferred_port=30000)
            assert reply.status == 403
            assert [(e["field"], e["code"]) for e in reply.json["errors"]] == [
                ("public", "not_allowed"), ("preferred_port", "not_allowed"),
            ]  # fmt: skip
        assert (await ways.open("echo", "admin")).status == 200


async def test_somebody_elses_session_is_not_there(ways: Open) -> None:
    for method, path in (("GET", ""), ("POST", "/echo"), ("DELETE", "/echo")):
        json = {"json": {}} if method == "POST" else {}
        reply = await ways.service.call(method, ways.path + path, "bob", **json)
        assert (reply.status, reply.json["errors"][0]["code"]) == (404, "not_found")
    assert (await ways.service.call("GET", "api/apps", "bob")).status == 403
    reply = await ways.service.call("POST", f"{ways.path}/echo", "reader", json={})
    assert reply.status == 403


async def test_apps_are_started_with_what_they_ask(ways: Open) -> None:
    ways.server.asked.clear()
    arguments = {"logdir": "/home/work/logs"}
    reply = await ways.open("echo", arguments=arguments)
    assert reply.json["message"] == ""
    (_, (method, path, body)) = ways.server.asked
    assert (method, path.rpartition("/backendai/")[2]) == ("POST", "open/echo")
    assert body == '{"arguments": {"logdir": "/home/work/logs"}}'
    error = {"field": "arguments.logdir", "code": "missing", "message": "There is no such folder."}
    ways.server.starts["echo"] = (400, {"errors": [error]})
    reply = await ways.open("echo", public=True, arguments=arguments)
    assert (reply.status, reply.json["errors"]) == (400, [error])
    assert not (await ways.service.call("GET", ways.path, "alice")).json["apps"][0]["ways"]
    ways.server.starts["echo"] = (200, {"ready": False, "why": "Start it on port 8080."})
    reply = await ways.open("echo", public=True)
    assert (reply.status, reply.json["message"]) == (200, "Start it on port 8080.")
    ways.server.starts.clear()
    await ways.close()


async def test_a_session_whose_server_says_nothing_useful(ways: Open) -> None:
    service, id = ways.service, ways.session["id"]
    told = {
        "127.0.0.1:1": "The session's server does not answer.",
        "no address": "This session has nothing that opens apps",
        "http://127.0.0.1:1/": "This session has nothing that opens apps",
    }
    for address, why in told.items():
        service.store.set_kernel(id, address=address)
        reply = await service.call("GET", ways.path, "alice")
        assert reply.json["apps"] == []
        assert reply.json["reason"].startswith(why)
        reply = await ways.open(public=True)
        assert reply.status == 503
        assert reply.json["errors"][0]["message"].startswith(why)
    service.store.set_kernel(id, address=ways.server.address, apps_key="another")
    reply = await service.call("GET", ways.path, "alice")
    assert reply.json["reason"].startswith("This session has nothing")
    service.store.set_kernel(id, apps_key=KEY)
    good = ways.server.items
    for items in (
        [{"name": ""}], [item(f"a{number}", 1) for number in range(201)],
        [item("a", 1, notes=["x" * 501])], [item("a", 1), item("a", 2)],
    ):  # fmt: skip
        ways.server.items = items
        reply = await service.call("GET", ways.path, "alice")
        assert reply.json["reason"].startswith("This session has nothing")
    ways.server.items = good


async def test_a_server_that_hangs_keeps_nobody_else_waiting(ways: Open) -> None:
    asked = 0

    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.read()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    bobs = await launch(ways.service, "bob", {"name": "bobs"})
    port = server.sockets[0].getsockname()[1]
    await make_running(ways.service, bobs, f"127.0.0.1:{port}")
    book = ways.service.service.book
    place = Place.of("bob", bobs["server_name"], f"127.0.0.1:{port}", KEY)
    waiting: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(book.asking.apps(place)) for _ in range(120)
    ]
    await until(lambda: asked > 0)
    reply = await asyncio.wait_for(ways.service.call("GET", ways.path, "alice"), 5)
    assert reply.json["reason"] is None
    assert asked == 1, "they share one look"
    for _ in range(4):
        waiting.append(asyncio.ensure_future(book.asking.start(place, "echo", {})))
    await until(lambda: asked == 5)
    with pytest.raises(Busy, match="starting several apps already"):
        await book.asking.start(place, "echo", {})
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    server.close()


async def test_too_many_starts_are_told(ways: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST", 0)
    reply = await ways.open(public=True)
    assert (reply.status, reply.json["errors"][0]["code"]) == (429, "busy")


async def test_before_the_book_is_read(ways: Open) -> None:
    """Nobody knows yet where apps are."""
    ways.service.service.book.is_open = False
    try:
        for call in (
            ways.open(), ways.open(public=True), ways.service.call("GET", ways.path, "alice"),
        ):  # fmt: skip
            reply = await call
            assert (reply.status, reply.json["errors"][0]["code"]) == (503, "starting")
    finally:
        ways.service.service.book.is_open = True


async def test_only_what_runs_has_apps(ways: Open) -> None:
    waits = await launch(ways.service, "alice", {"name": "waits"})
    path = f"api/sessions/{waits['id']}/apps"
    reply = await ways.service.call("GET", path, "alice")
    assert reply.json["apps"] == []
    assert "it is PENDING" in reply.json["reason"]
    reply = await ways.service.call("POST", f"{path}/echo", "alice", json={})
    assert (reply.status, reply.json["errors"][0]["code"]) == (409, "not_running")
    end(ways.service, ways.session)
    assert (await ways.open(public=True)).status == 409
