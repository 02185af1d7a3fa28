"""Every call of the table × everybody who may ask; and the table itself against the docs."""

from __future__ import annotations

from typing import Any

import pytest

from jupyterhub_backendai.service.app import HANDLERS
from jupyterhub_backendai.service.auth import DELETE, READ, START
from jupyterhub_backendai.service.table import CALLS, Call, Who
from jupyterhub_backendai.site.clock import utcnow

from .image_shelf import CONTAINER, begin, made, shelf_of
from .images_made import rest
from .running import Running, keep_log, launch, until_open
from .session_server import SessionServer, item, session_server
from .ways import end, make_running

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Who asks about what is alice's; each has a session and a launch of their own too.
PEOPLE = (
    "nobody", "nonsense", "alice", "bob", "mate", "admin", "narrow", "reader", "ender",
    "starter", "tutor", "watcher",
)  # fmt: skip
BODIES: dict[str, Any] = {
    "launch": {"owner": "alice"},
    "estimate": {"owner": "alice"},
    "change": {"name": "renamed"},
    "changeLaunch": {"pinned": True},
    "changeAgent": {"schedulable": False},
    "openApp": {},
    "keep": {},
    "makeImage": {"name": "mine"},
}
RUNS = {"openApp", "idle", "keep", "makeImage", "hibernate"}  # asked of a session that runs
RESTS = {"hibernation", "resume"}  # asked of one that is hibernated
MADE = {"image", "deleteImage"}  # asked of an image


def expected(call: Call, who: str) -> set[int]:
    """The statuses that the table promises, where all else is right."""
    done = {call.status}
    if call.who is Who.ANYBODY:
        return done
    if who in {"nobody", "nonsense"}:
        return {401}
    if who == "narrow":  # a token of alice's without the scope to come in
        return {403}
    if who == "watcher":  # reads everybody's, and nothing else
        return done if call.scopes == (READ,) else {403}
    # Tokens of alice's that only read, only end, only start; one of mate's that reads what is
    # of his group.
    scope = {"reader": READ, "ender": DELETE, "starter": START, "tutor": READ}.get(who)
    if scope is not None and call.who is not Who.ADMIN:
        own = who == "tutor" and call.who is Who.OWN
        return done if call.scopes == (scope,) and not own else {403}
    if call.who is Who.ADMIN:
        return done if who == "admin" else {403}
    if who in {"alice", "reader", "admin"} and not (who == "admin" and call.path == LAUNCHES):
        return done
    if call.who is Who.OWNER or call.path == LAUNCHES:
        return {404}
    return done if call.who is Who.OWN else {403}


LAUNCHES = "api/history/{id}"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
async def test_who_may(call: Call, service: Running) -> None:
    async with session_server() as server:
        server.items = [item("jupyterlab", 8888)]
        await who_may(call, service, server)


async def who_may(call: Call, service: Running, server: SessionServer) -> None:
    await until_open(service)
    service.report_agent()
    shelf_of(service)
    for who in PEOPLE:
        session = await launch(service, "alice", {})
        launches = await service.call("GET", "api/history", "alice")
        ids = {"api/history/{id}": launches.json["items"][0]["id"]}
        path = call.path.replace("{id}", str(ids.get(call.path, session["id"])))
        path = path.replace("{name}", "local").replace("{app}", "jupyterlab")
        if call.name in MADE:
            await make_running(service, session, server.address)
            path = call.path.replace("{id}", made(service, session, f"of-{who}"))
            end(service, session)
        if call.path.endswith("/commit") and call.method != "POST":
            await make_running(service, session, server.address)
            begin(service, session, f"of-{who}")
        if call.name in RUNS:
            await make_running(service, session, server.address)
            service.store.set_kernel(session["id"], container_id=CONTAINER)
            assert service.service.idle is not None
            await service.service.idle.once()
        if call.name in RESTS:
            await make_running(service, session, server.address)
            rest(service, service.store.get(session["id"]))
        if call.name == "logs":
            keep_log(service, session["id"], b"hello\n")
        token = None if who == "nobody" else who
        options: dict[str, Any] = {}
        if call.body is not None:
            options["json"] = BODIES[call.name]
        elif call.query is not None and "owner" in call.query.model_fields:
            options["params"] = {"owner": "alice"}
        if call.media == ("text/event-stream",):
            status = await service.status_of_stream(path, token, options["params"])
        else:
            status = (await service.call(call.method, path, token, **options)).status
        assert status in expected(call, who), (who, status)
        if call.name in RUNS:
            end(service, session)
        await service.call("DELETE", f"api/sessions/{session['id']}?force=1", "admin")
        forget_images(service)


def forget_images(service: Running) -> None:
    """So that each who asks finds the same."""
    for commit in service.store.commits_under_way():
        service.store.cancel_commit(commit.id, utcnow())
    for image in service.store.all_images():
        service.store.drop_image(image.id)


async def test_each_call_has_its_handler_and_each_handler_its_calls() -> None:
    assert {call.path for call in CALLS} == set(HANDLERS)
    for path, handler in HANDLERS.items():
        has = {m for m in ("GET", "POST", "PUT", "PATCH", "DELETE") if m.lower() in vars(handler)}
        assert has == {call.method for call in CALLS if call.path == path}, path
