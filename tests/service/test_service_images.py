"""Images of sessions through the API: what is refused, and in which words, before any work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyterhub_backendai.engine.base import AgentUnreachable, ContainerGone, EngineError
from jupyterhub_backendai.engine.images import CommitRefused, Room
from jupyterhub_backendai.model.images import CommitStatus, ImageStatus
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import AgentReport

from .image_shelf import Shelf, begin, made, running_session, shelf_of
from .running import Reply, Running, launch, until_open

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def shelf(service: Running) -> Shelf:
    """An empty one, and nothing of an earlier test."""
    await until_open(service)
    service.report_agent(cpu=64, gib=256)
    for commit in service.store.commits_under_way():
        service.store.move_commit(commit.id, CommitStatus.CANCELLED, utcnow())
    for session in service.store.live():
        reply = await service.call("DELETE", f"api/sessions/{session.id}?force=1", "admin")
        assert reply.status == 202, reply.json
    for image in service.store.all_images():
        service.store.drop_image(image.id)
    return shelf_of(service)


async def ask(service: Running, session: dict[str, Any], name: object, who: str = "alice") -> Reply:
    path = f"api/sessions/{session['id']}/commit"
    return await service.call("POST", path, who, json={"name": name})


def errors(reply: Reply) -> list[tuple[str, str]]:
    return [(one["field"], one["code"]) for one in reply.json["errors"]]


async def test_one_is_asked_for_and_followed(service: Running) -> None:
    await shelf(service)
    session = await running_session(service)
    path = f"api/sessions/{session['id']}/commit"
    assert (await service.call("GET", path, "alice")).status == 404
    assert (await service.call("DELETE", path, "alice")).status == 404
    service.service.images.news.clear()
    reply = await ask(service, session, "with-tools")
    assert reply.status == 202, reply.json
    assert reply.json["status"] == "WAITING"
    assert reply.json["reference"].startswith("backendai/base:customized_")
    assert reply.json["size"] == 100 * 2**20
    assert service.service.images.news.is_set()
    again = await ask(service, session, "other-tools")
    assert (again.status, errors(again)) == (409, [("", "under_way")])
    assert (await service.call("GET", path, "alice")).json == reply.json
    over = await service.call("DELETE", path, "alice")
    assert (over.status, over.json["status"], over.json["can_cancel"]) == (202, "CANCELLED", False)
    assert (await service.call("DELETE", path, "alice")).json == over.json


@pytest.mark.parametrize(
    "name", ["abc", "a" * 33, "a.bc", "abcd ", "ab/cd", "", "häuser", "abc\n", "--\0-", 5, None, {}]
)
async def test_names_out_of_the_rule(service: Running, name: object) -> None:
    there = await shelf(service)
    session = await running_session(service)
    reply = await ask(service, session, name)
    assert reply.status == 400
    assert reply.json["errors"][0]["field"] == "name"
    assert there.calls == []


async def test_sessions_of_which_there_is_none(service: Running) -> None:
    there = await shelf(service)
    waits = await launch(service, "alice", {})
    assert errors(await ask(service, waits, "mine")) == [("", "not_running")]
    job = await running_session(service, type="batch", batch={"command": "true"})
    assert errors(await ask(service, job, "mine")) == [("", "batch")]
    mine = await running_session(service)
    for who in ("bob", "mate"):
        assert (await ask(service, mine, "mine", who)).status == 404
    assert (await ask(service, mine, "mine", "reader")).status == 403
    assert there.calls == []


async def test_the_limit_is_told_before_any_work(service: Running) -> None:
    there = await shelf(service)
    session = await running_session(service)
    for name in ("one1", "two2", "three"):
        made(service, session, name)
    reply = await ask(service, session, "four")
    assert there.calls == [], "not even its size is looked at"
    assert (reply.status, errors(reply)) == (403, [("name", "too_many")])
    assert "You have 3 images" in reply.json["errors"][0]["message"]
    assert (await ask(service, session, "two2")).status == 202, "one's own may be replaced"


async def test_who_may_have_none_makes_none_anew_either(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shelf(service)
    session = await running_session(service)
    id = made(service, session)
    site = service.service.parts.site
    none = site.policies.default.model_copy(update={"max_images": 0})
    monkeypatch.setattr(site, "policies", site.policies.model_copy(update={"default": none}))
    reply = await ask(service, session, "mine")
    assert (reply.status, errors(reply)) == (403, [("name", "too_many")])
    assert reply.json["errors"][0]["message"] == "You cannot make images. Ask your admin."
    body = {"name": "user1", "environment": "python", "version": "Customizedmine"}
    user = await launch(service, "alice", body)
    await service.call("DELETE", f"api/sessions/{user['id']}", "alice")
    assert (await service.call("DELETE", f"api/images/{id}", "alice")).status == 202


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ContainerGone("gone"), "not_running"),
        (CommitRefused("not_possible", "Not on this machine."), "not_possible"),
        (AgentUnreachable("https://secret.example"), "agent_away"),
        (EngineError("secret words"), "engine"),
    ],
)
async def test_what_the_agent_says_at_once(service: Running, error: Exception, code: str) -> None:
    there = await shelf(service)
    session = await running_session(service)
    there.errors["look"] = [error]
    reply = await ask(service, session, "mine")
    assert (reply.status, errors(reply)) == (409, [("", code)])
    assert "secret" not in str(reply.json)
    assert service.store.commit_of(session["id"]) is None


@pytest.mark.parametrize("wanted", ["commit", "hibernation"])
async def test_an_agent_that_is_away_is_not_waited_for(service: Running, wanted: str) -> None:
    there = await shelf(service)
    session = await running_session(service)
    report = AgentReport("local", "default", Slots(64000, 256 * GIB), False, "It is silent.")
    service.store.report_agents([report], now=utcnow())
    path = f"api/sessions/{session['id']}/{wanted}"
    reply = await service.call("POST", path, "alice", json={"name": "mine"})
    assert (reply.status, errors(reply)) == (409, [("", "agent_away")])
    assert there.calls == []


async def test_a_disk_without_room(service: Running, caplog: pytest.LogCaptureFixture) -> None:
    there = await shelf(service)
    # A twentieth of the disk stays free: of 100 GB are 7 left, so 2 for images.
    there.written, there.rooms = 3 * GIB, Room(7 * GIB, 100 * GIB)
    session = await running_session(service)
    reply = await ask(service, session, "mine")
    assert (reply.status, errors(reply)) == (409, [("", "no_room")])
    message = reply.json["errors"][0]["message"]
    assert "written 3 GB" in message
    assert "room for an image of 2 GB" in message
    assert service.store.commit_of(session["id"]) is None
    assert there.trusted == ["jupyter/base:1"], "what the site offers"
    rest = f"api/sessions/{session['id']}/hibernation"
    assert errors(await service.call("POST", rest, "alice")) == [("", "no_room")]
    there.rooms = None
    assert (await ask(service, session, "mine")).status == 202
    assert "room there is for images on local is not known" in caplog.text


async def test_room_is_promised_once(service: Running) -> None:
    there = await shelf(service)
    there.written, there.rooms = 3 * GIB, Room(12 * GIB, 100 * GIB)  # 7 for images: two of these
    sessions = [await running_session(service) for _ in range(4)]
    replies = await asyncio.gather(
        *(ask(service, one, f"mine{n}", "admin") for n, one in enumerate(sessions))
    )
    assert sorted(reply.status for reply in replies) == [202, 202, 409, 409]
    assert {tuple(errors(r)) for r in replies if r.status == 409} == {(("", "no_room"),)}
    [first, second] = service.store.commits_under_way()
    assert first.size == second.size == 3 * GIB
    # What is made is on the disk; only the registry has to take it yet.
    service.store.move_commit(first.id, CommitStatus.COMMITTING, utcnow())
    refused = next(n for n, reply in enumerate(replies) if reply.status == 409)
    assert (await ask(service, sessions[refused], "mine", "admin")).status == 409
    service.store.move_commit(first.id, CommitStatus.PUSHING, utcnow())
    assert (await ask(service, sessions[refused], "mine", "admin")).status == 202


async def test_an_image_that_is_larger_than_the_policy_allows(service: Running) -> None:
    there = await shelf(service)
    # As `truncate -s 50G` makes it, which takes nothing of the disk before.
    there.written, there.rooms = 50 * GIB, Room(900 * GIB, 1000 * GIB)
    session = await running_session(service)
    reply = await ask(service, session, "mine")
    assert (reply.status, errors(reply)) == (403, [("", "too_large")])
    message = reply.json["errors"][0]["message"]
    assert "written 50 GB" in message
    assert "your limit for an image is 20 GB" in message
    assert service.store.commit_of(session["id"]) is None
    rest = f"api/sessions/{session['id']}/hibernation"
    assert (await service.call("POST", rest, "alice")).status == 202, "which nobody is to lose"


async def test_the_list_is_ones_own(service: Running) -> None:
    await shelf(service)
    session = await running_session(service, name="work")
    id = made(service, session)
    theirs = made(service, await running_session(service, "bob"), "their")
    mine = await service.call("GET", "api/images", "alice")
    [row] = mine.json["items"]
    assert (row["id"], row["version_name"], row["used_by"]) == (id, "Customizedmine", [])
    assert (row["withdrawn"], row["environment"], row["version"]) == (False, "python", "3.11")
    assert (await service.call("GET", f"api/images/{id}", "alice")).json == row
    every = await service.call("GET", "api/images", "admin", params={"owner": "*"})
    assert [row["id"] for row in every.json["items"]] == [id, theirs]
    for who in ("bob", "mate"):
        for owner in ("alice", "*"):
            reply = await service.call("GET", "api/images", who, params={"owner": owner})
            assert reply.status == 403
        for method in ("GET", "DELETE"):
            assert (await service.call(method, f"api/images/{id}", who)).status == 404
    for odd in ("x", "0" * 32, "%00", id[:-1]):
        assert (await service.call("GET", f"api/images/{odd}", "alice")).status == 404


async def test_a_session_from_an_image_and_its_deletion(service: Running) -> None:
    await shelf(service)
    id = made(service, await running_session(service))
    body = {"name": "user1", "environment": "python", "version": "Customizedmine"}
    session = await launch(service, "alice", body)
    assert session["image"].endswith(id)
    refused = await service.call("POST", "api/sessions", "bob", json=body)
    assert refused.status == 400
    path = f"api/images/{id}"
    assert (await service.call("GET", path, "alice")).json["used_by"] == ["user1"]
    kept = await service.call("DELETE", path, "alice")
    assert (kept.status, errors(kept)) == (409, [("", "in_use")])
    await service.call("DELETE", f"api/sessions/{session['id']}", "alice")
    service.service.images.news.clear()
    gone = await service.call("DELETE", path, "alice")
    assert (gone.status, gone.json["status"]) == (202, ImageStatus.DELETING)
    assert service.service.images.news.is_set()
    assert (await service.call("POST", "api/sessions", "alice", json=body)).status == 400


async def test_what_a_withdrawn_base_says(service: Running) -> None:
    await shelf(service)
    id = made(service, await running_session(service))
    site = service.service.parts.site
    catalog = site.catalog
    try:
        for environments, said in (((), "python is not offered"), (None, "")):
            left = catalog.environments if environments is None else environments
            site.catalog = catalog.model_copy(update={"environments": left})
            row = (await service.call("GET", f"api/images/{id}", "alice")).json
            assert row["withdrawn"] is bool(said)
            assert row["withdrawn_text"].startswith(said)
        version = catalog.environments[0].versions[0].model_copy(update={"name": "3.12"})
        newer = catalog.environments[0].model_copy(update={"versions": (version,)})
        site.catalog = catalog.model_copy(update={"environments": (newer,)})
        row = (await service.call("GET", f"api/images/{id}", "alice")).json
        assert "python 3.11, is not offered any more. It can still" in row["withdrawn_text"]
    finally:
        site.catalog = catalog


async def test_a_session_ends_after_its_image_or_by_force(service: Running) -> None:
    await shelf(service)
    session = await running_session(service)
    commit = begin(service, session)
    service.store.move_commit(commit.id, CommitStatus.COMMITTING, utcnow())
    path = f"api/sessions/{session['id']}"
    refused = await service.call("DELETE", path, "alice")
    assert (refused.status, errors(refused)) == (409, [("", "commit_under_way")])
    assert "force" in refused.json["errors"][0]["message"]
    assert service.store.get(session["id"]).status is Status.RUNNING
    over = await service.call("DELETE", f"{path}?force=1", "alice")
    assert (over.status, over.json["status"]) == (202, "TERMINATED")
    assert service.store.commit(commit.id).cancel_asked


async def test_the_stream_of_events_tells_of_it(service: Running) -> None:
    await shelf(service)
    session = await running_session(service)
    headers = {"Authorization": f"token {service.tokens['alice']}"}
    async with service.client.get(f"{service.url}api/events", headers=headers) as stream:
        async for line in stream.content:
            if line.startswith(b"event: ready") or line.startswith(b":"):
                break
        begin(service, session)
        async for line in stream.content:
            if line.startswith(b"data: ") and session["id"].encode() in line:
                break
