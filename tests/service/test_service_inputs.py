"""What odd input gets: a sentence that says what is wrong, and never a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from jupyterhub_backendai.service.base import MOST_READ
from jupyterhub_backendai.service.etags import etag, matches
from jupyterhub_backendai.service.table import CALLS, JSON, Call, Who

from .running import Running, launch, until_open
from .stand_in import own_scopes

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def _open(service: Running) -> AsyncIterator[None]:
    await until_open(service)
    yield
    waiting = await service.call("GET", "api/sessions", "alice", params={"state": "live"})
    for row in waiting.json["items"]:
        await service.call("DELETE", f"api/sessions/{row['id']}", "alice")


@pytest.mark.parametrize("name", ["submitted_from", "submitted_until"])
@pytest.mark.parametrize("when", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+14:00"])
async def test_moments_that_utc_has_not(service: Running, name: str, when: str) -> None:
    reply = await service.call("GET", "api/sessions", "alice", params={name: when})
    assert (reply.status, reply.json["errors"][0]["field"]) == (400, name)
    assert reply.json["errors"][0]["code"] == "out_of_range"


async def test_logs_since_a_moment_that_utc_has_not(service: Running) -> None:
    session = await launch(service, "alice", {})
    path = f"api/sessions/{session['id']}/logs"
    reply = await service.call("GET", path, "alice", params={"since": "0001-01-01T00:00:00+14:00"})
    assert (reply.status, reply.json["errors"][0]["field"]) == (400, "since")


async def test_moments_of_another_zone(service: Running) -> None:
    when = {"submitted_from": "9999-12-31T00:00:00+10:00"}
    reply = await service.call("GET", "api/sessions", "alice", params=when)
    assert (reply.status, reply.json["total"]) == (200, 0)


@pytest.mark.parametrize("id", ["%00", "x", "0" * 31, "A" * 32, "%F0%9F%91%8B"])
async def test_ids_that_are_none(service: Running, id: str) -> None:
    for path in (f"api/sessions/{id}", f"api/sessions/{id}/history", f"sessions/{id}/end"):
        assert (await service.call("GET", path, "alice")).status == 404, path


@pytest.mark.parametrize("name", ["   ", "a\nb", "a\u0000b", "\u202eevil", "", "x" * 65])
async def test_names_of_launches_can_be_read(service: Running, name: str) -> None:
    await launch(service, "alice", {})
    rows = (await service.call("GET", "api/history", "alice")).json["items"]
    path = f"api/history/{rows[0]['id']}"
    reply = await service.call("PATCH", path, "alice", json={"name": name})
    assert (reply.status, reply.json["errors"][0]["field"]) == (400, "name")
    good = await service.call("PATCH", path, "alice", json={"name": "grüße 👋"})
    assert good.json["name"] == "grüße 👋"


@pytest.mark.parametrize("name", [".", "..", "\ud800", "a\u0000b", "x" * 100_000])
async def test_owners_that_nobody_is(service: Running, name: str) -> None:
    service.hub.asked.clear()
    reply = await service.call("POST", "api/sessions", "admin", json={"owner": name})
    assert (reply.status, reply.json["errors"][0]["field"]) == (400, "owner")
    assert [path for _, path in service.hub.asked if path != "user"] == []
    if len(name) < 3 and name.isascii():
        reply = await service.call("GET", "api/options", "admin", params={"owner": name})
        assert (reply.status, reply.json["errors"][0]["field"]) == (400, "owner")


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
async def test_settings_that_a_call_has_not(call: Call, service: Running) -> None:
    session = await launch(service, "alice", {})
    path = call.path.replace("{id}", session["id"])
    who = "admin" if call.who is Who.ADMIN else "alice"
    reply = await service.call(call.method, path, who, params={"colour": "red"})
    assert (reply.status, reply.json["errors"][0]["field"]) == (400, "colour")


async def test_head_is_get_without_its_body(service: Running) -> None:
    for call in (call for call in CALLS if call.method == "GET" and "{" not in call.path):
        who = {Who.ANYBODY: None, Who.ADMIN: "admin"}.get(call.who, "alice")
        seen = await service.call("HEAD", call.path, who)
        assert seen.status == (200 if call.media == JSON else 405), call.path
    refused = await service.call("DELETE", "health")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")


async def raw(service: Running, head: str, *, body: bytes = b"", pieces: int = 0) -> bytes:
    """The first line of the answer to a request that no client would send."""
    url = urlsplit(service.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    token = service.tokens["alice"]
    writer.write(
        f"POST {url.path}api/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: token {token}\r\n"
        f"{head}\r\n\r\n".encode()
        + body
    )
    try:
        with suppress(ConnectionError):
            for _ in range(pieces):
                writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                await writer.drain()
            return await asyncio.wait_for(reader.readline(), 10)
        return b""
    finally:
        writer.close()


async def test_lengths_that_are_none(service: Running) -> None:
    for head in ("Content-Length: 5\r\nContent-Length: 6", "Content-Length: x"):
        assert b" 400 " in await raw(service, head, body=b"{}"), head
    same = "Content-Length: 2\r\nContent-Length: 2"
    assert b" 201 " in await raw(service, same, body=b"{}")
    assert b" 413 " in await raw(service, f"Content-Length: {'9' * 30}")


async def test_a_body_of_unknown_length_that_does_not_end(service: Running) -> None:
    """It is cut off: who sends on may see the answer, or only that nobody listens."""
    said = await raw(service, "Transfer-Encoding: chunked", pieces=MOST_READ // 0x10000 + 1)
    assert said == b"" or b" 413 " in said
    assert (await service.call("GET", "api/sessions", "alice")).status == 200


async def test_entity_tags() -> None:
    assert etag(12) == '"12"'
    for given in ('"12"', "12", 'W/"12"', ' "11" , "12"', '"a,b", 12', '"12","13"'):
        assert matches(given, 12), given
    for given in ('"1"', "1", '"12x"', '"1,2"', '""', '"1","2"'):
        assert not matches(given, 12), given
    for given in ("", "x", '"12', "12 13", "w/12", '"12",', ", 12", "*, 12"):
        with pytest.raises(ValueError, match="no entity tag"):
            matches(given, 12)


async def test_a_tag_is_what_was_read(service: Running) -> None:
    session = await launch(service, "alice", {"name": "first"})
    path = f"api/sessions/{session['id']}"
    (listed,) = (
        row for row in (await service.call("GET", "api/sessions", "alice")).json["items"]
        if row["id"] == session["id"]
    )  # fmt: skip
    seen = await service.call("GET", path, "alice")
    assert listed["etag"] == seen.json["etag"] == seen.headers["ETag"]
    for number, form in enumerate(("{}", "W/{}", '"99", {}', "*")):
        changed = await service.call(
            "PATCH", path, "alice", json={"name": f"named-{number}"},
            headers={"If-Match": form.format(seen.json["etag"])},
        )  # fmt: skip
        assert changed.status == 200, (form, changed.json)
        seen = changed
    odd = await service.call("DELETE", path, "alice", headers={"If-Match": "nonsense"})
    assert (odd.status, odd.json["errors"][0]["field"]) == (400, "If-Match")


PAGES = ("", "notices", "launch", "admin", "sessions/{id}", "sessions/{id}/history")


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_tells_no_more_than_the_token_may_read(service: Running, path: str) -> None:
    await until_open(service)
    session = await launch(service, "alice", {"name": "hidden-name"})
    access = ["access:services!service=backendai"]
    token = service.hub.token("alice", access)
    reply = await service.call("GET", path.replace("{id}", session["id"]), token)
    assert reply.status == 403
    assert "hidden-name" not in reply.json
    await service.call("DELETE", f"api/sessions/{session['id']}", "alice")


async def test_pages_are_for_people(service: Running) -> None:
    await until_open(service)
    session = await launch(service, "alice", {"name": "hidden-name"})
    token = service.hub.token("alice", own_scopes("alice"))
    service.hub.tokens[token]["kind"] = "service"  # one that has a user's name
    reply = await service.call("GET", "", token)
    assert reply.status == 403
    assert "hidden-name" not in reply.json
    await service.call("DELETE", f"api/sessions/{session['id']}", "alice")
