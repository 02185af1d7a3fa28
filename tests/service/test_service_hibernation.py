"""Sessions that rest, as people end and resume them: what was told to them is what is done."""

from __future__ import annotations

import pytest

from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.service.ending import end
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Session

from .images_made import rest
from .running import Reply, Running, launch, until_open
from .ways import make_running

pytestmark = pytest.mark.asyncio(loop_scope="module")
ADDRESS = "127.0.0.1:1"


async def resting(service: Running, who: str = "alice") -> Session:
    """A session that is hibernated."""
    await until_open(service)
    service.report_agent(cpu=100, gib=100)
    session = await launch(service, who, {})
    await make_running(service, session, ADDRESS)
    return rest(service, service.store.get(session["id"]))


async def resumed(service: Running, who: str = "alice") -> Session:
    """One that waits to be resumed."""
    session = await resting(service, who)
    reply = await service.call("POST", f"api/sessions/{session.id}/resume", who)
    assert reply.status == 202, reply.json
    found: Session = service.store.get(session.id)
    return found


async def goes_on(service: Running, session: Session) -> None:
    await make_running(service, {"id": session.id}, ADDRESS)


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
    await goes_on(service, session)
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
    await goes_on(service, session)
    reply = await service.call("DELETE", f"{path}?rests=again", "alice")
    assert (reply.status, codes(reply)) == (409, ["runs_by_now"])
    assert service.store.is_kept(session.id)
    assert (await service.call("DELETE", path, "alice")).status == 202
    assert not service.store.is_kept(session.id)


async def test_one_that_comes_to_run_in_that_very_moment_is_not_ended(service: Running) -> None:
    read = await resumed(service)
    await goes_on(service, read)
    with pytest.raises(RequestError) as refused:
        await end(service.service.parts.site, service.service.hub, read, "alice", None, False)
    assert [error.code for error in refused.value.errors] == ["runs_by_now"]
    assert service.store.get(read.id).status is Status.RUNNING
    assert service.store.is_kept(read.id)


@pytest.mark.parametrize("by", ["promise", "look"])
async def test_cancelled_twice_it_rests_again(service: Running, by: str) -> None:
    session = await resumed(service)
    store, path = service.store, f"api/sessions/{session.id}"
    read = session
    if by == "look":  # on its way, and given up by its start meanwhile
        service.report_agent(cpu=100, gib=100)
        site = service.service.parts.site
        store.run_pass(site.policies, site.catalog, utcnow())
        store.move(session.id, Status.PREPARING, phase=Phase.START, now=utcnow())
        read = store.get(session.id)
        for status in (Status.TERMINATING, Status.TERMINATED):
            store.move(session.id, status, phase=Phase.TERMINATE, now=utcnow())
        await end(site, service.service.hub, read, "alice", None, False)
    else:
        for _ in range(2):
            assert (await service.call("DELETE", f"{path}?rests=again", "alice")).status == 202
    assert store.get(session.id).status is Status.HIBERNATED
    assert store.is_kept(session.id)
