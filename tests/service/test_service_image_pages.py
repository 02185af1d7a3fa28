"""The pages of images without a browser: what they take, what they refuse, and whose they are."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from jupyterhub_backendai.engine.base import EngineError
from jupyterhub_backendai.model.images import CommitStatus
from jupyterhub_backendai.model.slots import MIB, Slots
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import AgentReport, Session

from .image_shelf import shelf_of
from .images_made import begin, make, move, with_engine
from .running import PREFIX, Reply, Running, launch, running, until_open

HEADERS = {"Content-Type": "application/x-www-form-urlencoded"}
GIB = 2**30


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Running]:
    agents = [{"name": name, "base_url": "unix:///nobody/answers.sock"} for name in ("one", "two")]
    agents[1]["resource_group"] = "other"
    groups = [{"name": "default"}, {"name": "other"}]
    async with running(tmp_path, agents=agents, resource_groups=groups) as started:
        await until_open(started)
        with_engine(started)
        yield started


async def run(service: Running, who: str = "alice", **spec: object) -> Session:
    """A session of theirs that runs, with a container, in the group `other`."""
    room = Slots(16_000, 64 * GIB)
    reports = [AgentReport("one", "default", room), AgentReport("two", "other", room)]
    service.store.report_agents(reports, now=utcnow())
    made = await launch(service, who, {"resource_group": "other", **spec})
    site = service.service.parts.site
    service.store.run_pass(site.policies, site.catalog, utcnow())
    for status in (Status.PREPARING, Status.CREATING, Status.RUNNING):
        session: Session = service.store.advance(made["id"], status, now=utcnow())
    service.store.set_kernel(session.id, agent=session.agent, container_id="c0ffee")
    return session


async def post(service: Running, path: str, who: str = "alice", **fields: str) -> Reply:
    return await service.call("POST", path, who, data=urlencode(fields), headers=HEADERS)


async def test_a_name_is_checked_and_comes_back(service: Running) -> None:
    session = await run(service)
    path = f"sessions/{session.id}/commit"
    page = (await service.call("GET", path, "alice")).json
    assert "4 to 32 letters" in page
    assert "0 of 3 images are used" in page
    reply = await post(service, path, name='<b>"x')
    assert reply.status == 400
    assert 'value="&lt;b&gt;&#34;x"' in reply.json
    assert 'aria-invalid="true"' in reply.json
    assert service.store.commit_of(session.id) is None


@pytest.mark.parametrize("written", [MIB - 1, MIB])
async def test_an_image_that_would_hold_nothing_is_told(service: Running, written: int) -> None:
    session = await run(service)
    shelf_of(service).written = written
    told = "Nothing to speak of was written outside the home and folders"
    path = f"sessions/{session.id}/commit"
    assert told not in (await service.call("GET", path, "alice")).json, "it is not known yet"
    part = (await service.call("GET", f"{path}?part=contents", "alice")).json
    assert ("About 1 MB, on top of" in part, told in part) == (written == MIB, written < MIB)
    shelf_of(service).errors["look"] = [EngineError("It does not answer.")]
    part = (await service.call("GET", f"{path}?part=contents", "alice")).json
    assert told not in part
    assert "as many bytes as those take" in part


async def test_it_begins_is_told_and_is_cancelled(service: Running) -> None:
    session = await run(service)
    own, path = f"sessions/{session.id}", f"sessions/{session.id}/commit"
    assert "Make an image" in (await service.call("GET", own, "alice")).json
    reply = await post(service, path, name="with-torch", do="make")
    assert (reply.status, reply.headers["Location"]) == (303, PREFIX + own)
    page = (await service.call("GET", own, "alice")).json
    assert "The image with-torch is being made" in page
    assert "About 2 GB" in page
    assert ">Make an image<" not in page
    for shown in ("images", "notices"):
        assert "with-torch" in (await service.call("GET", shown, "alice")).json
    reply = await post(service, path, do="cancel")
    assert reply.status == 303
    assert service.store.commit_of(session.id).status is CommitStatus.CANCELLED
    assert "The image with-torch was cancelled" in (await service.call("GET", own, "alice")).json


async def test_what_failed_says_why(service: Running) -> None:
    session = await run(service)
    commit = move(service, begin(service, session, "lost"), CommitStatus.COMMITTING)
    move(service, commit, CommitStatus.FAILED, error_code="no_room", message="There was no room.")
    page = (await service.call("GET", f"sessions/{session.id}", "alice")).json
    assert "The image lost was not made" in page
    assert "There was no room." in page
    assert "There was no room." in (await service.call("GET", "notices", "alice")).json


async def test_who_may_not_start_sessions_of_another_sees_no_such_page(service: Running) -> None:
    session = await run(service)
    image = make(service, session, "mine")
    for path in (f"sessions/{session.id}/commit", f"images/{image.id}/delete"):
        for who in ("bob", "reader", "ender"):
            for reply in (
                await service.call("GET", path, who), await post(service, path, who, name="taken"),
            ):  # fmt: skip
                assert reply.status in (403, 404), (path, who)
        assert (await service.call("GET", path, "admin")).status == 200
    assert (await service.call("GET", "images?owner=alice", "bob")).status == 403
    assert (await service.call("GET", "images?owner=*", "admin")).status == 400
    assert "mine" in (await service.call("GET", "images?owner=alice", "admin")).json
    assert "mine" not in (await service.call("GET", "images", "bob")).json
    assert service.store.image(image.id) == image
    assert (await service.call("GET", "images/none/delete", "alice")).status == 404


@pytest.mark.parametrize("kind", ["batch", "waits"])
async def test_of_what_no_image_can_be_made(service: Running, kind: str) -> None:
    if kind == "batch":
        session = await run(service, type="batch", batch={"command": "true"})
        why = "interactive session only"
    else:
        session = service.store.get((await launch(service, "alice", {}))["id"])
        why = "It does not run."
    own = f"sessions/{session.id}"
    assert "Make an image" not in (await service.call("GET", own, "alice")).json
    page = (await service.call("GET", f"{own}/commit", "alice")).json
    assert why in page
    assert 'name="name"' not in page
    reply = await post(service, f"{own}/commit", name="never")
    assert reply.status == 409
    assert reply.json.count(why) == 1


async def test_an_image_named_by_hand_replaces_those_of_its_own_base_only(tmp_path: Path) -> None:
    agents = [
        {"name": name, "base_url": "unix:///nobody/answers.sock", "resource_group": group}
        for name, group in (("one", "default"), ("two", "other"))
    ]
    groups = [{"name": "default"}, {"name": "other"}]
    policy = {"manual_image": True}
    async with running(
        tmp_path, agents=agents, resource_groups=groups, default_policy=policy
    ) as service:
        await until_open(service)
        with_engine(service)
        make(service, await run(service, image="example/torch:1"), "mine")
        for image, replaced in (("example/torch:1", True), ("example/r-base:4", False)):
            session = await run(service, image=image)
            page = await service.call("GET", f"sessions/{session.id}/commit", "alice")
            assert ("replaces that image: mine" in page.json) is replaced


async def test_at_the_limit_one_s_own_name_is_offered(service: Running) -> None:
    session = await run(service)
    for name in ("first", "second", "third"):
        make(service, session, name)
    path = f"sessions/{session.id}/commit"
    page = (await service.call("GET", path, "alice")).json
    assert "3 of 3 images are used" in page
    assert "replaces that image: first, second, third." in page
    reply = await post(service, path, name="fourth")
    assert reply.status == 403
    assert "your limit is 3" in reply.json
    assert (await post(service, path, name="second")).status == 303


async def test_ending_is_refused_while_one_is_made_and_force_is_offered(service: Running) -> None:
    session = await run(service)
    move(service, begin(service, session, "under-way"), CommitStatus.COMMITTING)
    page = (await service.call("GET", f"sessions/{session.id}/end", "alice")).json
    assert "The image under-way is being made of it" in page
    assert 'name="force" value="1"' in page
    reply = await post(service, f"sessions/{session.id}/end")
    assert reply.status == 409
    assert 'name="force" value="1"' in reply.json
    assert service.store.get(session.id).status is Status.RUNNING
    reply = await post(service, f"sessions/{session.id}/end", force="1")
    assert reply.status == 302
    assert service.store.get(session.id).status is Status.TERMINATED


async def test_an_image_is_deleted_unless_it_is_used(service: Running) -> None:
    session = await run(service)
    image = make(service, session, "kept")
    path = f"images/{image.id}/delete"
    user = await launch(service, "alice", {"name": "its-user", "image": image.reference})
    page = (await service.call("GET", path, "alice")).json
    assert "while a session uses it: its-user." in page
    assert "<form" not in page.split("<h1")[1].split("bk-spoken")[0]
    reply = await post(service, path)
    assert reply.status == 409
    assert "its-user uses it" in reply.json
    await service.call("DELETE", f"api/sessions/{user['id']}", "alice")
    reply = await post(service, path)
    assert (reply.status, reply.headers["Location"]) == (303, f"{PREFIX}images")
    page = (await service.call("GET", "images", "alice")).json
    assert "Being deleted" in page
    assert "0 of 3" in page
    service.store.note_deletion(image.id, "Its agent does not answer.")
    assert "Its agent does not answer." in (await service.call("GET", "images", "alice")).json
    assert "being deleted already" in (await service.call("GET", path, "alice")).json


async def test_an_image_is_launched_where_it_is(service: Running) -> None:
    """The link from the images, and what the form posts from there."""
    image = make(service, await run(service), "with-torch")
    page = (await service.call("GET", "images", "alice")).json
    href = unescape(re.findall(r'href="([^"]*)" aria-label="Launch with with-torch"', page)[0])
    assert href == (
        f"{PREFIX}launch?environment=python&version.python=Customizedwith-torch"
        "&resource_group=other"
    )
    form = (await service.call("GET", href.removeprefix(PREFIX), "alice")).json
    options = form.split('<optgroup label="Your images">')[1].split("</optgroup>")[0]
    assert f'data-image="{image.reference}" selected' in options
    assert "on two only" in options
    fields = {"type": "interactive", "environment": "python", "resource_group": "other"}
    fields["version.python"] = "Customizedwith-torch"
    assert (await post(service, "launch", name="from-it", **fields)).status == 303
    (row,) = (await service.call("GET", "api/sessions?name=from-it", "alice")).json["items"]
    assert row["image"] == image.reference
    wrong = await post(service, "launch", **{**fields, "resource_group": "default"})
    assert "This image is on the agent two of other." in unescape(wrong.json)
    assert "Your images" not in (await service.call("GET", "launch", "bob")).json
    theirs = (await service.call("GET", "launch?for=alice", "admin")).json
    assert '<optgroup label="Images of alice">' in theirs


async def test_the_options_say_which_versions_are_one_s_own(service: Running) -> None:
    make(service, await run(service), "with-torch")
    (python,) = (await service.call("GET", "api/options", "alice")).json["environments"]
    own = [version for version in python["versions"] if version.get("own")]
    assert [(v["name"], v["agent"], v["resource_group"]) for v in own] == [
        ("Customizedwith-torch", "two", "other")
    ]
    (python,) = (await service.call("GET", "api/options", "bob")).json["environments"]
    assert not any(version.get("own") for version in python["versions"])


async def test_what_was_launched_from_an_image_that_is_gone_says_so_at_its_field(
    service: Running,
) -> None:
    image = make(service, await run(service), "gone-soon")
    fields = {"environment": "python", "version": "Customizedgone-soon"}
    session = await launch(service, "alice", fields)
    await service.call("DELETE", f"api/sessions/{session['id']}", "alice")
    await post(service, f"images/{image.id}/delete")
    page = (await service.call("GET", f"launch?like={session['id']}", "alice")).json
    said = page.split('id="bk-version-error"')[1].split("</div>")[0]
    assert "Customizedgone-soon" in said


async def test_a_site_that_makes_no_images_offers_none(service: Running) -> None:
    session = await run(service)
    service.service.parts.site.engine._images = None  # type: ignore[assignment]
    page = (await service.call("GET", f"sessions/{session.id}", "alice")).json
    assert "Make an image" not in page
    assert "No image can be made" not in page
    page = (await service.call("GET", f"sessions/{session.id}/commit", "alice")).json
    assert "cannot make images" in page
