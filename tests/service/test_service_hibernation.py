"""Sessions that rest, as people end and resume them: what was told to them is what is done."""

from __future__ import annotations

import pytest

from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.service.ending import end
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Session

from .image_shelf import CONTAINER, shelf_of
from .images_made import rest
from .running import PREFIX, Reply, Running, launch, until_open
from .ways import end as end_now

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def resting(service: Running, who: str = "alice") -> Session:
    """A session that is hibernated."""
    await until_open(service)
    session = await launch(service, who, {})
    goes_on(service, service.store.get(session["id"]))
    return rest(service, service.store.get(session["id"]))


async def resumed(service: Running, who: str = "alice") -> Session:
    """One that waits to be resumed."""
    session = await resting(service, who)
    reply = await service.call("POST", f"api/sessions/{session.id}/resume", who)
    assert reply.status == 202, reply.json
    found: Session = service.store.get(session.id)
    return found


def goes_on(service: Running, session: Session, to: Status = Status.RUNNING) -> Session:
    """One that waits is on its way, up to this status."""
    service.report_agent(cpu=1000, gib=1000)
    site, store = service.service.parts.site, service.store
    store.run_pass(site.policies, site.catalog, utcnow())
    way = (Status.PREPARING, Status.CREATING, Status.RUNNING)
    for status in way[: way.index(to) + 1]:
        row: Session = store.move(session.id, status, phase=Phase.START, now=utcnow())
    return row


def codes(reply: Reply) -> list[str]:
    return [error["code"] for error in reply.json["errors"]]


# ---- ended ---------------------------------------------------------------------------------------


async def test_a_page_that_says_it_rests_again_does_not_end_what_runs_by_now(
    service: Running,
) -> None:
    session = await resumed(service)
    path, hidden = f"sessions/{session.id}/end", '<input type="hidden" name="rests" value="again">'
    page = (await service.call("GET", path, "alice")).json
    assert "It rests again, and nothing of it is lost." in page
    assert hidden in page
    goes_on(service, session)
    reply = await service.call("POST", path, "alice", data={"rests": "again"})
    assert reply.status == 409
    assert "It runs by now, so it does not rest again by that." in reply.json
    assert "Files outside folders are deleted." in reply.json
    assert hidden not in reply.json
    assert service.store.get(session.id).status is Status.RUNNING
    assert service.store.is_kept(session.id)
    # What it says by then is done.
    assert (await service.call("POST", path, "alice")).status == 302
    assert service.store.get(session.id).status is Status.TERMINATING
    assert not service.store.is_kept(session.id)


async def test_a_call_that_says_so_does_not_either(service: Running) -> None:
    session = await resumed(service)
    path = f"api/sessions/{session.id}"
    reply = await service.call("DELETE", f"{path}?rests=again&force=1", "alice")
    assert (reply.status, codes(reply)) == (400, ["rests"])
    goes_on(service, session)
    reply = await service.call("DELETE", f"{path}?rests=again", "alice")
    assert (reply.status, codes(reply)) == (409, ["runs_by_now"])
    assert service.store.is_kept(session.id)
    assert (await service.call("DELETE", path, "alice")).status == 202
    assert not service.store.is_kept(session.id)


async def test_one_that_comes_to_run_in_that_very_moment_is_not_ended(service: Running) -> None:
    read = await resumed(service)
    goes_on(service, read)
    with pytest.raises(RequestError) as refused:
        await end(service.service.parts.site, service.service.hub, read, "alice", None, False)
    assert [error.code for error in refused.value.errors] == ["runs_by_now"]
    assert service.store.get(read.id).status is Status.RUNNING
    assert service.store.is_kept(read.id)


@pytest.mark.parametrize("by", ["promise", "look"])
async def test_cancelled_twice_it_rests_again(service: Running, by: str) -> None:
    session = await resumed(service)
    store, path = service.store, f"api/sessions/{session.id}"
    if by == "look":  # on its way, and given up by its start meanwhile
        read = goes_on(service, session, Status.CREATING)
        for status in (Status.TERMINATING, Status.TERMINATED):
            store.move(session.id, status, phase=Phase.TERMINATE, now=utcnow())
        site = service.service.parts.site
        await end(site, service.service.hub, read, "alice", None, False)
    else:
        for _ in range(2):
            assert (await service.call("DELETE", f"{path}?rests=again", "alice")).status == 202
    assert store.get(session.id).status is Status.HIBERNATED
    assert store.is_kept(session.id)


# ---- resumed -------------------------------------------------------------------------------------


async def test_resumed_it_is_of_the_groups_that_the_hub_says(service: Running) -> None:
    session = await resting(service)
    assert session.owner_groups == ("lab",)
    alice = service.hub.users["alice"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(alice, "groups", ["course", "b"])
        # By whoever: it is the owner who counts.
        reply = await service.call("POST", f"api/sessions/{session.id}/resume", "admin")
        assert reply.status == 202
    assert service.store.get(session.id).owner_groups == ("b", "course")


async def test_pressed_twice_resume_leads_to_the_session(service: Running) -> None:
    session = await resting(service)
    to, page = f"{PREFIX}sessions/{session.id}", f"sessions/{session.id}/resume"
    for _ in range(2):
        reply = await service.call("POST", page, "alice")
        assert (reply.status, reply.headers["Location"]) == (303, to)
    again = await service.call("POST", f"api/{page}", "alice")
    assert (again.status, codes(again)) == (409, ["not_hibernated"]), "a program is told"
    goes_on(service, session)
    assert (await service.call("POST", page, "alice")).status == 303
    await service.call("DELETE", f"api/sessions/{session.id}?force=1", "alice")
    reply = await service.call("POST", page, "alice")
    assert reply.status == 409
    assert "so there is nothing to resume" in reply.json


async def test_no_more_wait_to_be_resumed_than_may(service: Running) -> None:
    session = await resting(service, "bob")
    site = service.service.parts.site
    with pytest.MonkeyPatch.context() as patch:
        few = {"bob": site.policies.default.model_copy(update={"max_pending": 0})}
        patch.setattr(site, "policies", site.policies.model_copy(update={"users": few}))
        service.store.set_schedulable("local", False, by="admin", now=utcnow())
        reply = await service.call("POST", f"api/sessions/{session.id}/resume", "bob")
    assert (reply.status, codes(reply)) == (403, ["too_many_pending"])
    service.store.set_schedulable("local", True, by="admin", now=utcnow())
    assert service.store.get(session.id).status is Status.HIBERNATED


async def test_it_is_not_resumed_for_somebody_whom_the_hub_does_not_know(service: Running) -> None:
    session = await resting(service, "mate")
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(service.hub.users, "mate")
        reply = await service.call("POST", f"api/sessions/{session.id}/resume", "admin")
    assert (reply.status, codes(reply)) == (409, ["owner_gone"])
    assert "The Hub has no user mate any more" in reply.json["errors"][0]["message"]
    assert service.store.is_kept(session.id)
    # An admin says whose it is by resuming it; nobody else does.
    for who, vouched in (("mate", False), ("admin", True)):
        reply = await service.call("POST", f"api/sessions/{session.id}/resume", who)
        assert reply.status == 202
        assert (service.store.hibernation(session.id).vouched_at is not None) == vouched
        await service.call("DELETE", f"api/sessions/{session.id}?rests=again", who)


# ---- by whom -------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["starter", "ender"])
async def test_who_may_not_start_and_end_it_does_not_hibernate_it(
    service: Running, who: str
) -> None:
    shelf_of(service)
    await until_open(service)
    session = await launch(service, "alice", {})
    goes_on(service, service.store.get(session["id"]))
    service.store.set_kernel(session["id"], container_id=CONTAINER)
    path = f"sessions/{session['id']}"
    for method, page in (("POST", f"api/{path}/hibernation"), ("POST", f"{path}/hibernate")):
        assert (await service.call(method, page, who)).status == 403
    assert (await service.call("GET", f"{path}/hibernate", who)).status == 403
    assert service.store.commit_of(session["id"]) is None
    # Nor is it offered to who may only read and start.
    own = ["read:servers!user=alice", "start:servers!user=alice"]
    both = service.hub.token("alice", [*own, "access:services!service=backendai"])
    assert f"{path}/hibernate" not in (await service.call("GET", path, both)).json
    assert f"{path}/hibernate" in (await service.call("GET", path, "alice")).json
    end_now(service, session)
