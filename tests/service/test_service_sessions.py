"""Launching, looking, renaming and ending; what bad input gets."""

from __future__ import annotations

import asyncio
import json

import pytest

from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.service.ending import end
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Changed

from .running import Running, launch, until_open

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def one(service: Running, session: str, who: str = "alice", method: str = "GET", **more):  # type: ignore[no-untyped-def]
    return await service.call(method, f"api/sessions/{session}", who, **more)


async def test_launch_list_and_look(service: Running) -> None:
    await until_open(service)
    service.report_agent()
    body = {"name": "train", "count": 3, "env": {"MODE": "fast", "API_TOKEN": "hush"}}
    made = await service.call("POST", "api/sessions", "alice", json=body)
    assert made.status == 201, made.json
    rows = made.json["sessions"]
    assert [row["name"] for row in rows] == ["train-1", "train-2", "train-3"]
    assert {row["status"] for row in rows} == {"PENDING"}
    assert all(len(row["server_name"]) <= 30 for row in rows)

    params = {"name": "TRAIN", "sort": "name", "limit": "2", "offset": "1", "state": "live"}
    listed = await service.call("GET", "api/sessions", "alice", params=params)
    assert [row["name"] for row in listed.json["items"]] == ["train-2", "train-3"]
    assert listed.json["total"] == 3
    two = [("status", "PENDING"), ("status", "ERROR"), ("name", "train")]
    assert (await service.call("GET", "api/sessions", "alice", params=two)).json["total"] == 3
    assert (await service.call("GET", "api/sessions", "bob")).json["total"] == 0
    everybody = await service.call("GET", "api/sessions", "admin", params={"owner": "*"})
    assert everybody.json["total"] >= 3

    seen = await one(service, rows[0]["id"])
    assert seen.json["spec"]["env"] == {"MODE": "fast", "API_TOKEN": ""}
    assert "hush" not in json.dumps(seen.json)
    history = await one(service, rows[0]["id"] + "/history")
    assert [row["phase"] for row in history.json["items"]] == ["submit"]
    nothing = await one(service, rows[0]["id"] + "/history", params={"result": "FAILURE"})
    assert nothing.json["total"] == 0

    again = await service.call("POST", "api/sessions", "alice", json=body)
    assert (again.status, again.json["errors"][0]["code"]) == (409, "in_use")


async def test_two_who_change_one_thing(service: Running) -> None:
    await until_open(service)
    session = await launch(service, "alice", {"name": "first"})
    seen = await one(service, session["id"])
    tag = {"If-Match": seen.headers["ETag"]}
    changed = await one(
        service, session["id"], method="PATCH", json={"name": "second"}, headers=tag
    )
    assert (changed.status, changed.json["name"]) == (200, "second")
    for method, more in (("PATCH", {"json": {"name": "third"}}), ("DELETE", {})):
        late = await one(service, session["id"], method=method, headers=tag, **more)
        assert (late.status, late.json["errors"][0]["code"]) == (412, "changed")
    tag = {"If-Match": changed.headers["ETag"]}
    assert (await one(service, session["id"], method="DELETE", headers=tag)).status == 202


async def test_what_was_changed_in_that_very_moment_is_not_ended(service: Running) -> None:
    await until_open(service)
    session = await launch(service, "alice", {"name": "before"})
    site, hub = service.service.parts.site, service.service.hub
    read = site.store.get(session["id"])
    renamed = await one(service, read.id, method="PATCH", json={"name": "after"})
    assert renamed.status == 200
    for force in (False, True):
        with pytest.raises(Changed):
            await end(site, hub, read, "alice", read.version, force)
    assert site.store.get(read.id).status is Status.PENDING
    assert (await one(service, read.id, method="DELETE")).status == 202


async def test_ending(service: Running) -> None:
    """What waits is cancelled, what runs is the Hub's to stop, twice is fine."""
    await until_open(service)
    service.report_agent(cpu=100, gib=100)
    session = await launch(service, "alice", {})
    for _ in range(2):
        ended = await one(service, session["id"], method="DELETE")
        assert (ended.status, ended.json["status"]) == (202, "CANCELLED")
        assert ended.json["reason"] == "alice ended it."

    for force in ("0", "1"):
        session = await running_session(service)
        service.hub.servers["alice", session["server_name"]] = {}
        ended = await one(service, session["id"], "admin", method="DELETE", params={"force": force})
        assert ended.status == 202
        assert ended.json["status"] == ("TERMINATING" if force == "0" else "TERMINATED")
        for _ in range(100):
            if ("alice", session["server_name"]) not in service.hub.servers:
                break
            await asyncio.sleep(0.02)
        assert ("alice", session["server_name"]) not in service.hub.servers


async def test_an_end_that_the_hub_refuses_is_no_end(service: Running) -> None:
    await until_open(service)
    service.report_agent(cpu=100, gib=100)
    session = await running_session(service)
    service.hub.failing[:] = [(400, "Not like this.")]
    assert (await one(service, session["id"], method="DELETE")).status >= 400
    site = service.service.parts.site
    assert site.store.get(session["id"]).status is Status.RUNNING
    history = await site.db(site.store.history, session["id"])
    assert "alice ended it." not in [entry.message for entry in history]


async def running_session(service: Running) -> dict[str, str]:
    """A session that the database says is running."""
    session = await launch(service, "alice", {})
    site = service.service.parts.site
    await site.db(site.store.run_pass, site.policies, site.catalog, utcnow())
    for status, phase in (
        (Status.PREPARING, Phase.PREPARE),
        (Status.CREATING, Phase.CREATE),
        (Status.RUNNING, Phase.START),
    ):
        await site.move(session["id"], status, phase)
    return session


async def test_for_whom(service: Running) -> None:
    await until_open(service)
    made = await launch(service, "admin", {"owner": "bob"})
    assert made["owner"] == "bob"
    for who, body, status, field in (
        ("alice", {"owner": "bob"}, 403, "owner"),
        ("admin", {"owner": "nobody-at-all"}, 400, "owner"),
        ("admin", {"owner": 7}, 400, "owner"),
    ):
        reply = await service.call("POST", "api/sessions", who, json=body)
        assert (reply.status, reply.json["errors"][0]["field"]) == (status, field), reply.json


async def test_bad_input_is_told_at_once(service: Running) -> None:
    await until_open(service)
    deep = "[" * 100_000
    for what, body, status, code in (
        ("too large", b" " * 10_000_000, 413, "too_large"),
        ("too deep", deep.encode(), 400, "too_deep"),
        ("no JSON", b"{", 400, "not_json"),
        ("no text", b"\xff\xfe", 400, "not_json"),
        ("no number", b'{"count": NaN}', 400, "not_json"),
        ("a list", b"[]", 400, "not_an_object"),
        ("nothing", b"", 400, "not_json"),
        ("unknown", b'{"gpus": 1}', 400, "extra_forbidden"),
        ("nested", b'{"env": ' + b'{"a":' * 50 + b"1" + b"}" * 50 + b"}", 400, "too_deep"),
    ):
        for path in ("api/sessions", "api/estimate"):
            reply = await service.call("POST", path, "alice", data=body)
            assert (reply.status, reply.json["errors"][0]["code"]) == (status, code), what

    async def pieces():  # type: ignore[no-untyped-def]
        for _ in range(20):
            yield b" " * 100_000

    reply = await service.call("POST", "api/sessions", "alice", data=pieces())
    assert reply.status == 413
    for params, field in (
        ({"limit": "0"}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"sort": "cpu"}, "sort"),
        ({"status": "HAPPY"}, "status.0"),
        ({"colour": "red"}, "colour"),
    ):
        reply = await service.call("GET", "api/sessions", "alice", params=params)
        assert (reply.status, reply.json["errors"][0]["field"]) == (400, field)


async def test_addresses_that_are_none(service: Running) -> None:
    await until_open(service)
    for method, path, status in (
        ("GET", "api/nothing", 404),
        ("GET", "api/sessions/" + "0" * 32, 404),
        ("GET", "api/sessions/%00", 404),
        ("PUT", "api/sessions", 405),
        ("POST", "health", 405),
        ("DELETE", "api/history/x", 404),
    ):
        reply = await service.call(method, path, "alice")
        assert (reply.status, list(reply.json)) == (status, ["errors"]), path
    assert reply.headers["Content-Type"] == "application/json"


async def test_recent_launches(service: Running) -> None:
    await until_open(service)
    for number in range(7):
        await launch(service, "mate", {"name": f"work-{number}"})
    rows = (await service.call("GET", "api/history", "mate")).json["items"]
    assert [row["name"] for row in rows] == [f"work-{n}" for n in (6, 5, 4, 3, 2)]
    kept = f"api/history/{rows[-1]['id']}"
    change = {"name": "the good one", "pinned": True}
    assert (await service.call("PATCH", kept, "mate", json=change)).json["pinned"] is True
    await launch(service, "mate", {"name": "work-7"})
    rows = (await service.call("GET", "api/history", "mate")).json["items"]
    assert len(rows) == 6
    assert rows[-1]["name"] == "the good one"
    assert (await service.call("DELETE", kept, "mate")).status == 204
    assert (await service.call("DELETE", kept, "mate")).status == 404
    assert (await service.call("PATCH", kept, "mate", json={})).status == 400


async def test_launches_are_of_who_launched_and_say_what_is_missing(service: Running) -> None:
    await until_open(service)
    body = {"owner": "bob", "name": "for-bob", "env": {"API_TOKEN": "hush", "MODE": "fast"}}
    made = await launch(service, "admin", body)
    assert (await service.call("GET", "api/history", "bob")).json["items"] == []
    row = (await service.call("GET", "api/history", "admin")).json["items"][0]
    assert (row["name"], row["spec"]["owner"]) == ("for-bob", "bob")
    assert (row["spec"]["env"], row["blanked"]) == (
        {"API_TOKEN": "", "MODE": "fast"},
        ["API_TOKEN"],
    )
    seen = (await one(service, made["id"], "bob")).json
    assert (seen["spec"], seen["blanked"]) == (row["spec"], ["API_TOKEN"])


async def test_who_may_not_read_is_told_no_more_than_what_became_of_it(service: Running) -> None:
    await until_open(service)
    body = {"type": "batch", "batch": {"command": "make"}, "env": {"MODE": "fast"}}
    session = await launch(service, "alice", body)
    assert (await one(service, session["id"], "ender")).status == 403
    ended = await one(service, session["id"], "ender", "DELETE")
    assert (ended.status, ended.json["status"]) == (202, "CANCELLED")
    assert (ended.json["spec"], ended.json["batch"]) == (None, None)
    assert (await one(service, session["id"])).json["batch"]["command"] == "make"


async def test_those_of_a_group(service: Running) -> None:
    """`tutor` reads what is of the group lab, in which alice is and bob is not."""
    await until_open(service)
    hers, his = [(await launch(service, who, {}))["id"] for who in ("alice", "bob")]
    assert (await one(service, hers, "tutor")).status == 200
    assert (await one(service, his, "tutor")).status == 404
    for owner, status in (("alice", 200), ("bob", 403), ("nobody-at-all", 403), ("*", 403)):
        params = {"owner": owner}
        assert (await service.call("GET", "api/sessions", "tutor", params=params)).status == status
        assert await service.status_of_stream("api/events", "tutor", params) == status
    assert (await service.call("GET", "api/sessions", "tutor")).status == 200, "he is in it too"


async def test_a_class_that_starts_at_once(service: Running) -> None:
    """A hundred in one moment: nobody is refused."""
    await until_open(service)
    for number in range(100):
        service.tokens[f"pupil{number}"] = service.hub.add(f"pupil{number}")
    launches = (launch(service, f"pupil{number}", {}) for number in range(100))
    made = await asyncio.gather(*launches)
    assert len({session["id"] for session in made}) == 100


async def test_options_and_estimates(service: Running) -> None:
    await until_open(service)
    service.report_agent(cpu=4)
    options = (await service.call("GET", "api/options", "alice")).json
    assert [e["name"] for e in options["environments"]] == ["python"]
    assert options["user"]["name"] == "alice"
    for_her = await service.call("GET", "api/options", "admin", params={"owner": "alice"})
    assert for_her.json["user"] == options["user"]
    reply = await service.call("POST", "api/estimate", "bob", json={"resources": {"cpu": 9}})
    assert (reply.status, reply.json["errors"][0]["field"]) == (400, "resources.cpu")
    for _ in range(2):  # one that starts, one that waits
        await launch(service, "bob", {"resources": {"cpu": 4}})
    asked = await service.call("POST", "api/estimate", "bob", json={"resources": {"cpu": 1}})
    assert (asked.status, asked.json["code"]) == (200, "waits")
    assert asked.json["ahead"] >= 1
    waits = await launch(service, "bob", {"resources": {"cpu": 4}})
    seen = await one(service, waits["id"], "bob", params={"estimate": "1"})
    assert seen.json["may_start_at"] is None  # nobody knows how long the others will run
