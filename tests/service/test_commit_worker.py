"""The making of images step by step: real service and store, agents that do as a test says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from jupyterhub_backendai.engine.base import AgentUnreachable, ContainerGone, EngineError
from jupyterhub_backendai.engine.docker import AgentConfig, DockerHost
from jupyterhub_backendai.engine.images import (
    LABEL_IMAGE_BASE,
    LABEL_IMAGE_HUB,
    LABEL_IMAGE_ID,
    LABEL_IMAGE_NAME,
    LABEL_IMAGE_ORDER,
    LABEL_IMAGE_OWNER,
    CommitOrder,
    CommitRefused,
    ImageInUse,
    Login,
    RegistryRefused,
    Room,
)
from jupyterhub_backendai.model.images import CommitStatus, ImageStatus
from jupyterhub_backendai.model.slots import GIB
from jupyterhub_backendai.model.status import Phase, Result, Status
from jupyterhub_backendai.service.commits import resting
from jupyterhub_backendai.service.commits.making import Times
from jupyterhub_backendai.service.commits.removing import Removing
from jupyterhub_backendai.service.ending import tell_hub
from jupyterhub_backendai.service.workers import commits as commits_worker
from jupyterhub_backendai.service.workers import servers
from jupyterhub_backendai.service.workers.commits import CommitWorker
from jupyterhub_backendai.site import reconcile
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import Commit, Unavailable
from jupyterhub_backendai.store.image_tables import IMAGES

from .image_shelf import Shelf, begin, made, running_session, shelf_of
from .moved_time import Time
from .running import Running, running, until, until_open
from .ways import end, make_running

DONE, FAILED, CANCELLED = CommitStatus.DONE, CommitStatus.FAILED, CommitStatus.CANCELLED
COMMITTING, PUSHING, WAITING = CommitStatus.COMMITTING, CommitStatus.PUSHING, CommitStatus.WAITING
QUICK = Times(commit=60, push=60, away=0.3, again=0.01, note=0.01)
PREFIX = "registry.example.org/lab"
PASSWORD = "hunter2-and-more"


def worker_of(service: Running, shelf: Shelf, times: Times) -> CommitWorker:
    """A worker of this service, beside its own."""
    parts = service.service
    tell = partial(tell_hub, parts.parts.site, parts.hub)
    return CommitWorker(parts.parts.site, shelf, parts.images, tell, parts.drops, times)


@dataclass
class Work:
    """A service, its agents, and the worker that is asked for a round at a time."""

    service: Running
    shelf: Shelf
    worker: CommitWorker

    @property
    def site(self) -> Site:
        return self.service.service.parts.site

    def restart(self, times: Times = QUICK) -> None:
        """Another process, which knows only what is in the database."""
        self.worker = worker_of(self.service, self.shelf, times)

    async def cut_off(self) -> None:
        """The process ends in the middle of its work."""
        tasks = self.worker._tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.restart()

    async def asked(self, name: str = "mine", who: str = "alice", **body: Any) -> Commit:
        """An image that is asked for as people do."""
        session = await running_session(self.service, who, **body)
        path = f"api/sessions/{session['id']}/commit"
        reply = await self.service.call("POST", path, who, json={"name": name})
        assert reply.status == 202, reply.json
        found: Commit = self.service.store.commit(reply.json["id"])
        return found

    async def all(self) -> None:
        """A round, and all that comes of it."""
        await self.worker.once()
        await self.worker.settled()

    async def all_made(self) -> None:
        """A round, and all that comes of it but for what is removed."""
        await self.worker.once()
        await until(lambda: not self.worker._making)

    async def until_in(self, call: str) -> None:
        """A round, until the agents are in this call."""
        await self.worker.once()
        await asyncio.wait_for(self.shelf.begun[call].wait(), 60)

    def now(self, commit: Commit) -> Commit:
        found: Commit = self.service.store.commit(commit.id)
        return found


@pytest_asyncio.fixture
async def work(tmp_path: Path) -> AsyncIterator[Work]:
    async with opened(tmp_path) as work:
        yield work


@pytest_asyncio.fixture
async def pushing(tmp_path: Path) -> AsyncIterator[Work]:
    """One whose images go to a registry."""
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "password").chmod(0o600)
    registry = {"prefix": PREFIX, "user": "hub", "password_file": str(tmp_path / "password")}
    async with opened(tmp_path, image_registry=registry) as work:
        yield work


@asynccontextmanager
async def opened(tmp_path: Path, **backend: Any) -> AsyncIterator[Work]:
    async with running(tmp_path, default_policy={"max_images": 9}, **backend) as service:
        await until_open(service)
        service.report_agent(cpu=64, gib=256)
        shelf = shelf_of(service)
        found = Work(service, shelf, worker_of(service, shelf, QUICK))
        yield found
        await found.cut_off()


def away(*args: object) -> None:
    raise Unavailable("the database is away")


async def test_an_image_is_made_and_is_its_owners(work: Work) -> None:
    commit = await work.asked()
    await work.all()
    assert work.now(commit).status is DONE
    [image] = work.service.store.images_of("alice")
    there = work.shelf.images["local", image.reference]
    assert (image.engine_id, image.agent, image.digest) == (there.id, "local", None)
    assert (image.size, image.own) == (there.size, there.own)
    labels = there.labels
    assert labels[LABEL_IMAGE_HUB] == work.site.hub_id
    assert (labels[LABEL_IMAGE_ID], labels[LABEL_IMAGE_ORDER]) == (image.id, commit.id)
    assert (labels[LABEL_IMAGE_OWNER], labels[LABEL_IMAGE_NAME]) == ("alice", "mine")
    assert labels[LABEL_IMAGE_BASE] == "jupyter/base:1"
    assert work.shelf.names("push") == []


async def test_one_of_the_same_name_takes_its_place(work: Work) -> None:
    first = await work.asked()
    await work.all()
    second = await work.asked()
    await work.all()
    [image] = work.service.store.images_of("alice")
    assert image.id == first.image_id == second.image_id
    assert work.shelf.images["local", image.reference].labels[LABEL_IMAGE_ORDER] == second.id


async def test_a_few_at_a_time_in_turns_of_their_owners(work: Work) -> None:
    gate = work.shelf.hold("make")
    commits = [await work.asked(f"mine{number}") for number in range(3)]
    theirs = await work.asked("theirs", "bob")
    await work.worker.once()
    await until(lambda: len(work.shelf.names("make")) == 2)
    await work.worker.once()
    assert set(work.shelf.names("make")) == {commits[0].id, theirs.id}
    gate.set()
    await work.worker.settled()
    await work.all()
    assert {work.now(one).status for one in [*commits, theirs]} == {DONE}


async def test_a_registry_that_hangs_keeps_no_image_from_being_made(
    pushing: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits_worker, "PUSHES", 1)
    gate = pushing.shelf.hold("push")
    commits = [await pushing.asked(f"mine{number}") for number in range(3)]
    for _ in commits:
        await pushing.worker.once()
        await until(
            lambda: {m.commit.status for m, _ in pushing.worker._making.values()} <= {PUSHING}
        )
    assert {pushing.now(one).status for one in commits} == {PUSHING}
    await until(lambda: len(pushing.shelf.names("push")) == 1)
    rests = await rest_asked(pushing, "bob")
    await pushing.worker.once()
    await until(lambda: pushing.now(rests).status is DONE)
    # One that waits for its turn can be cancelled; the others have theirs, also after a restart.
    waits = pushing.service.store.commit(commits[-1].id)
    pushing.service.store.cancel_commit(waits.id, utcnow())
    await pushing.worker.once()
    await until(lambda: pushing.now(waits).status is CANCELLED)
    assert len(pushing.shelf.names("push")) == 1
    await pushing.cut_off()
    gate.set()
    await pushing.all()
    assert {pushing.now(one).status for one in commits[:-1]} == {DONE}


@pytest.mark.parametrize("step", ["make", "find", "push"])
async def test_whatever_it_was_at_the_next_process_goes_on(pushing: Work, step: str) -> None:
    commit = await pushing.asked()
    if step == "find":
        pushing.shelf.hold("push")
        await pushing.until_in("push")
        await pushing.cut_off()
        pushing.shelf.gates.pop("push")
    gate = pushing.shelf.hold(step)
    await pushing.until_in(step)
    assert pushing.now(commit).status in {COMMITTING, PUSHING}
    await pushing.cut_off()
    gate.set()
    await pushing.all()
    assert pushing.now(commit).status is DONE
    assert pushing.shelf.left == {"local": set()}
    [image] = pushing.service.store.images_of("alice")
    assert image.digest == pushing.shelf.registry[image.reference]


async def test_it_goes_to_the_registry_with_the_password_of_now(
    pushing: Work, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pushing.shelf.reports = [(10, None), (70, 100)]
    commit = await pushing.asked()
    gate = pushing.shelf.hold("push")
    await pushing.until_in("push")
    await until(lambda: pushing.now(commit).done == 70)
    assert (pushing.now(commit).status, pushing.now(commit).size) == (PUSHING, 100)
    gate.set()
    await pushing.worker.settled()
    [image] = pushing.service.store.images_of("alice")
    assert image.reference.startswith(f"{PREFIX}/base:customized_")
    assert (image.agent, image.digest) == (None, pushing.shelf.registry[image.reference])
    (tmp_path / "password").write_text("another")
    await pushing.asked()
    await pushing.all()
    assert pushing.shelf.logins == [Login("hub", PASSWORD), Login("hub", "another")]
    options = await pushing.service.call("GET", "api/options", "admin")
    told = caplog.text + str(options.json)
    assert PASSWORD not in told
    assert "another" not in told


@pytest.mark.parametrize("problem", ["gone", "open", "empty", "bytes"])
async def test_a_password_that_cannot_be_read(
    pushing: Work, tmp_path: Path, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "password"
    if problem == "gone":
        file.unlink()
    elif problem == "open":
        file.chmod(0o644)
    else:
        file.write_bytes(b"" if problem == "empty" else b"\xffsecret")
    commit = await pushing.asked()
    await pushing.all()
    over = pushing.now(commit)
    assert (over.status, over.error_code) == (FAILED, "registry")
    assert str(file) not in over.message
    assert str(file) in caplog.text
    assert "secret" not in caplog.text
    assert pushing.shelf.images == {}


FAILURES = [
    ("make", CommitRefused("no_room", "There is no room.", "ENOSPC"), FAILED, "no_room"),
    ("make", EngineError("https://inside.example/x"), FAILED, "engine"),
    ("make", ContainerGone("gone"), CANCELLED, "session_ended"),
    ("make", RuntimeError("a defect"), FAILED, "internal"),
    ("push", RegistryRefused("denied for hub"), FAILED, "registry"),
]


@pytest.mark.parametrize(("call", "error", "status", "code"), FAILURES)
async def test_what_fails_leaves_nothing(
    pushing: Work, call: str, error: Exception, status: CommitStatus, code: str
) -> None:
    commit = await pushing.asked()
    pushing.shelf.errors[call] = [error]
    await pushing.all()
    over = pushing.now(commit)
    assert (over.status, over.error_code) == (status, code)
    assert over.message
    assert "example" not in over.message
    assert pushing.shelf.left == {"local": set()}
    assert pushing.shelf.images == {}
    assert pushing.service.store.images_of("alice") == []
    view = await pushing.service.call("GET", f"api/sessions/{commit.session_id}/commit", "alice")
    assert (view.json["error_code"], view.json["message"]) == (code, over.message)
    again = await pushing.asked()
    await pushing.all()
    assert pushing.now(again).status is DONE


async def test_an_agent_that_is_away_for_a_while(work: Work) -> None:
    commit = await work.asked()
    work.shelf.errors["make"] = [AgentUnreachable("away"), AgentUnreachable("away")]
    work.restart(replace(QUICK, away=60))
    await work.all()
    assert (work.now(commit).status, work.now(commit).tries) == (DONE, 2)


async def test_an_agent_that_stays_away(work: Work) -> None:
    commit = await work.asked()
    work.shelf.errors["make"] = [AgentUnreachable("away")] * 10000
    work.shelf.errors["clean"] = [AgentUnreachable("away")] * 10000
    await work.all()
    over = work.now(commit)
    assert (over.status, over.error_code) == (FAILED, "agent_away")
    assert work.shelf.left == {"local": {commit.id}}, "which a sweep finds when it is back"
    work.shelf.errors.clear()
    work.restart()
    await work.all()
    assert work.shelf.left == {"local": set()}


async def test_an_agent_is_cleaned_as_soon_as_it_answers_again(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that stands still there would do so until the next sweep."""
    monkeypatch.setattr(commits_worker, "SWEEP_AGAIN", 0)
    await work.all()
    commit = await work.asked()
    for call in ("make", "clean", "leftovers"):
        work.shelf.errors[call] = [AgentUnreachable("away")] * 10000
    await work.all()
    assert work.now(commit).status is FAILED
    await work.all()  # asked once more, it does not answer
    work.service.report_agent(available=False)
    sweeps = len(work.shelf.names("leftovers"))
    await work.all()
    assert len(work.shelf.names("leftovers")) == sweeps, "nobody asks it in vain"
    work.shelf.errors.clear()
    work.service.report_agent()
    await work.all()
    assert work.shelf.left == {"local": set()}
    await work.all()
    assert len(work.shelf.names("leftovers")) == sweeps + 1


@pytest.mark.parametrize("limit", ["commit", "push"])
async def test_one_that_takes_too_long(pushing: Work, limit: str) -> None:
    pushing.restart(replace(QUICK, **{limit: 0.2}))
    commit = await pushing.asked()
    pushing.shelf.hold("make" if limit == "commit" else "push")
    await pushing.all()
    assert (pushing.now(commit).status, pushing.now(commit).error_code) == (FAILED, "too_long")
    assert pushing.shelf.images == {}


@pytest.mark.parametrize("call", ["make", "push"])
async def test_it_is_cancelled_on_its_way(pushing: Work, call: str) -> None:
    commit = await pushing.asked()
    pushing.shelf.hold(call)
    await pushing.until_in(call)
    path = f"api/sessions/{commit.session_id}/commit"
    asked = await pushing.service.call("DELETE", path, "alice")
    assert (asked.json["can_cancel"], asked.json["step"]) == (False, "It is being cancelled.")
    await pushing.all()
    assert (pushing.now(commit).status, pushing.now(commit).error_code) == (CANCELLED, "cancelled")
    assert (pushing.shelf.left, pushing.shelf.images) == ({"local": set()}, {})
    assert pushing.service.store.images_of("alice") == []


async def test_it_is_cancelled_while_no_process_is_there(work: Work) -> None:
    commit = await work.asked()
    work.shelf.hold("make")
    await work.until_in("make")
    await work.cut_off()
    work.service.store.cancel_commit(commit.id, utcnow())
    await work.all()
    assert work.now(commit).status is CANCELLED
    assert work.shelf.left == {"local": set()}


async def test_one_that_has_replaced_another_is_not_cancelled_any_more(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier one is gone by then: whole is better than none."""
    await work.asked()
    await work.all()
    second = await work.asked()
    with monkeypatch.context() as patch:
        patch.setattr(work.service.store, "finish_commit", away)
        await work.all()
    assert work.now(second).status is COMMITTING
    work.service.store.cancel_commit(second.id, utcnow())
    await work.all()
    assert work.now(second).status is DONE
    [image] = work.service.store.images_of("alice")
    assert image.engine_id == work.shelf.images["local", image.reference].id


@pytest.mark.parametrize("begun", [False, True])
async def test_the_session_ends_meanwhile(work: Work, begun: bool) -> None:
    commit = await work.asked()
    if begun:
        work.shelf.hold("make")
        await work.until_in("make")
    end(work.service, {"id": commit.session_id})
    await work.all()
    over = work.now(commit)
    assert (over.status, over.error_code) == (CANCELLED, "session_ended")
    assert work.shelf.left.get("local", set()) == set()
    assert work.shelf.images == {}


async def test_a_session_that_ends_while_it_is_pushed_is_not_needed_any_more(
    pushing: Work,
) -> None:
    commit = await pushing.asked()
    gate = pushing.shelf.hold("push")
    await pushing.until_in("push")
    end(pushing.service, {"id": commit.session_id})
    await pushing.worker.once()
    gate.set()
    await pushing.worker.settled()
    assert pushing.now(commit).status is DONE


async def test_a_database_that_is_away_loses_nothing(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = await work.asked()
    with monkeypatch.context() as patch:
        patch.setattr(work.service.store, "finish_commit", away)
        await work.all()
    assert work.now(commit).status is COMMITTING
    await work.all()
    assert work.now(commit).status is DONE
    assert len(work.shelf.images) == 1


def another(work: Work, daemon: str, first: str = "one") -> None:
    """Another agent, which is that daemon; the first one is `first`."""
    site = work.site
    site.engine.hosts["other"] = DockerHost(
        AgentConfig("other", client={"base_url": "unix:///nobody/answers.sock"}),
        site.hub_id,
        site.run_id,
    )
    site.engine.hosts["other"].daemon_id = daemon
    if "local" in site.engine.hosts:
        site.engine.hosts["local"].daemon_id = first


@pytest.mark.parametrize("swept", [False, True])
async def test_one_made_anew_on_another_agent_leaves_the_first(work: Work, swept: bool) -> None:
    another(work, "two")
    commit = await work.asked()
    await work.all()
    [image] = work.service.store.images_of("alice")
    old = work.shelf.images.pop(("local", image.reference))
    work.shelf.images["other", image.reference] = old
    with work.service.store._db.write() as db:
        db.execute(IMAGES.update().values(agent="other"))
    if swept:
        work.shelf.errors["remove"] = [AgentUnreachable("silent")]
    await work.asked()
    await work.all()
    assert (("other", image.reference) in work.shelf.images) is swept
    await work.worker._sweep(list(work.site.engine.hosts))
    assert set(work.shelf.images) == {("local", image.reference)}
    assert work.now(commit).status is DONE


@pytest.mark.parametrize("daemons", [("one", "one"), ("", "one"), ("two", "")])
async def test_one_made_anew_on_what_may_be_the_same_machine_stays(
    work: Work, daemons: tuple[str, str]
) -> None:
    another(work, *daemons)
    commit = await work.asked()
    await work.all()
    with work.service.store._db.write() as db:
        db.execute(IMAGES.update().values(agent="other"))
    await work.asked()
    await work.all()
    assert work.shelf.names("remove") == []
    [image] = work.service.store.images_of("alice")
    work.shelf.images["other", image.reference] = work.shelf.images["local", image.reference]
    await work.worker._sweep(list(work.site.engine.hosts))
    assert work.shelf.names("remove") == []
    assert work.now(commit).status is DONE


# ---- images that are deleted ---------------------------------------------------------------------


async def test_a_deleted_image_is_removed(pushing: Work) -> None:
    await pushing.asked()
    await pushing.all()
    [image] = pushing.service.store.images_of("alice")
    await pushing.service.call("DELETE", f"api/images/{image.id}", "alice")
    await pushing.all()
    assert pushing.service.store.images_of("alice") == []
    assert (pushing.shelf.images, pushing.shelf.registry) == ({}, {})


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        ("remove", ImageInUse("x"), "A container on local"),
        ("remove", AgentUnreachable("x"), "The agent local does not answer"),
        ("remove", EngineError("inside"), "The agent local could not"),
        ("unpush", RegistryRefused("no deletes"), "The registry does not remove it"),
    ],
)
async def test_what_cannot_be_removed_now_says_why_and_is_tried_again(
    pushing: Work, call: str, error: Exception, said: str
) -> None:
    await pushing.asked()
    await pushing.all()
    [image] = pushing.service.store.images_of("alice")
    pushing.worker.removing = Removing(pushing.site, pushing.shelf, first_pause=0.01)
    pushing.shelf.errors[call] = [error]
    await pushing.service.call("DELETE", f"api/images/{image.id}", "alice")
    await pushing.all()
    [kept] = pushing.service.store.images_of("alice")
    assert kept.status is ImageStatus.DELETING
    assert kept.reason.startswith(said)
    for _ in range(500):
        await pushing.all()
        if not pushing.service.store.images_of("alice"):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it was not tried again")


@pytest.mark.parametrize("how", ["deleted", "made-anew"])
async def test_a_registry_of_before_does_not_get_the_password_of_the_new_one(
    pushing: Work, how: str
) -> None:
    await pushing.asked()
    await pushing.all()
    [image] = pushing.service.store.images_of("alice")
    old = image.reference.replace(PREFIX, "old.example.org/lab")
    with pushing.service.store._db.write() as db:
        db.execute(IMAGES.update().values(reference=old))
    if how == "deleted":
        await pushing.service.call("DELETE", f"api/images/{image.id}", "alice")
    else:
        await pushing.asked()
    await pushing.all()
    await pushing.all()
    assert pushing.shelf.unpushed == [(old, image.digest, None)]


# ---- what a registry keeps ----------------------------------------------------------------------


@pytest.mark.parametrize("step", ["killed", "refused"])
async def test_an_image_that_was_replaced_goes_from_the_registry_whatever_happens(
    pushing: Work, step: str
) -> None:
    await pushing.asked()
    await pushing.all()
    second = await pushing.asked()
    if step == "refused":
        pushing.shelf.errors["unpush"] = [RegistryRefused("not now")]
        await pushing.all()
        await pushing.all()
    else:
        pushing.shelf.hold("unpush")
        await pushing.all_made()
        await pushing.until_in("unpush")
    assert pushing.now(second).status is DONE
    assert len(pushing.shelf.pushed) == 2
    await pushing.cut_off()
    pushing.shelf.gates.clear()
    await pushing.all()
    [image] = pushing.service.store.images_of("alice")
    assert pushing.shelf.pushed == {image.digest}
    assert pushing.shelf.registry == {image.reference: image.digest}
    assert pushing.service.store.registry_remains() == []


@pytest.mark.parametrize("ends", ["cancelled", "too-long", "killed", "refused"])
@pytest.mark.parametrize("anew", [False, True])
async def test_what_has_arrived_and_is_given_up_does_not_stay_in_the_registry(
    pushing: Work, anew: bool, ends: str
) -> None:
    if anew:
        await pushing.asked()
        await pushing.all()
    images = pushing.service.store.images_of("alice")
    there = {image.reference: image.digest for image in images}
    shelf = pushing.shelf
    shelf.arrives = True
    if ends == "too-long":
        pushing.restart(replace(QUICK, push=0.2))
    commit = await pushing.asked()
    shelf.hold("push")
    await pushing.until_in("push")
    assert len(shelf.pushed) == 1 + anew
    if ends == "refused":
        shelf.errors["put_right"] = [RegistryRefused("not now")]
    if ends == "killed":
        await pushing.cut_off()
    if ends != "too-long":
        pushing.service.store.cancel_commit(commit.id, utcnow())
    await pushing.all()
    await pushing.all()
    if ends == "refused":
        assert len(shelf.pushed) == 1 + anew
        await pushing.cut_off()
        await pushing.all()
    assert pushing.now(commit).status is (FAILED if ends == "too-long" else CANCELLED)
    assert pushing.service.store.images_of("alice") == images
    assert (shelf.registry, shelf.pushed) == (there, set(there.values()))
    assert pushing.service.store.registry_remains() == []


async def test_nothing_is_put_right_where_an_image_is_being_made(pushing: Work) -> None:
    await pushing.asked()
    await pushing.all()
    shelf = pushing.shelf
    shelf.arrives = True
    shelf.errors["put_right"] = [RegistryRefused("not now")]
    commit = await pushing.asked()
    gate = shelf.hold("push")
    await pushing.until_in("push")
    pushing.service.store.cancel_commit(commit.id, utcnow())
    await pushing.all()
    await pushing.all()
    assert shelf.names("put_right") == [commit.reference]
    again = await pushing.asked()
    await pushing.cut_off()
    shelf.begun["push"].clear()
    await pushing.until_in("push")
    await pushing.worker.once()
    assert shelf.names("put_right") == [commit.reference]
    gate.set()
    await pushing.worker.settled()
    assert pushing.now(again).status is DONE
    for _ in range(4):  # one at a time of one reference
        await pushing.all()
    [image] = pushing.service.store.images_of("alice")
    assert pushing.service.store.registry_remains() == []
    assert (shelf.registry, shelf.pushed) == ({image.reference: image.digest}, {image.digest})
    # And none is begun where something is being put right.
    late = await pushing.asked("late", "bob")
    pushing.worker._removals[late.reference] = asyncio.ensure_future(asyncio.sleep(3600))
    await pushing.worker.once()
    assert pushing.now(late).status is WAITING


async def test_an_image_on_a_machine_that_is_not_configured_any_more(work: Work) -> None:
    session = await running_session(work.service)
    id = made(work.service, session)
    work.site.engine.hosts.pop("local")
    work.service.store.delete_image(id)
    await work.all()
    assert work.service.store.images_of("alice") == []
    assert work.shelf.names("remove") == []


# ---- the slow look -------------------------------------------------------------------------------


async def test_a_sweep_removes_what_is_over_and_nothing_else(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    kept = await work.asked("kept")
    await work.all()
    [image] = work.service.store.images_of("alice")
    there = work.shelf.images["local", image.reference]
    failed = await work.asked("fails")
    work.service.store.move_commit(failed.id, CANCELLED, utcnow())
    labels = {**there.labels, LABEL_IMAGE_ID: failed.image_id, LABEL_IMAGE_ORDER: failed.id}
    work.shelf.images["local", failed.reference] = replace(there, labels=labels)
    unknown = {**there.labels, LABEL_IMAGE_ID: "0" * 32, LABEL_IMAGE_ORDER: "f" * 32}
    work.shelf.images["local", "somebody:customized"] = replace(there, labels=unknown)
    under_way = await work.asked("runs")
    work.shelf.hold("make")
    work.shelf.left["local"] = {failed.id, under_way.id, "e" * 32}
    work.restart()
    await work.until_in("make")
    await until(lambda: work.worker._sweeping is not None and work.worker._sweeping.done())
    assert work.shelf.left == {"local": {under_way.id}}
    assert set(work.shelf.images) == {
        ("local", image.reference), ("local", "somebody:customized"),
    }  # fmt: skip
    assert "Nothing is known of the image somebody:customized on local" in caplog.text
    assert work.now(kept).status is DONE


async def test_one_that_cannot_be_swept_now_stops_no_other(work: Work) -> None:
    await work.asked("kept")
    await work.all()
    [image] = work.service.store.images_of("alice")
    there = work.shelf.images["local", image.reference]
    for name in ("one1", "two2"):
        over = await work.asked(name)
        work.service.store.move_commit(over.id, CANCELLED, utcnow())
        labels = {**there.labels, LABEL_IMAGE_ID: over.image_id, LABEL_IMAGE_ORDER: over.id}
        work.shelf.images["local", over.reference] = replace(there, labels=labels)
    work.shelf.left["local"] = {"d" * 32, "e" * 32}
    work.shelf.errors["clean"] = [EngineError("a volume is in use")]
    work.shelf.errors["remove"] = [ImageInUse("a container has it")]
    await work.worker._sweep(list(work.site.engine.hosts))
    assert work.shelf.left == {"local": {"d" * 32}}
    assert len(work.shelf.images) == 2
    await work.worker._sweep(list(work.site.engine.hosts))
    assert work.shelf.left == {"local": set()}
    assert set(work.shelf.images) == {("local", image.reference)}


async def test_what_is_over_for_a_month_is_forgotten(work: Work) -> None:
    old = utcnow() - timedelta(days=31)
    session = await running_session(work.service)
    commit = begin(work.service, session)
    work.service.store.move_commit(commit.id, CANCELLED, old)
    await work.all()
    assert work.service.store.commit_of(session["id"]) is None


async def test_the_endless_work_wakes_up_for_news(work: Work) -> None:
    task = asyncio.ensure_future(work.worker.run())
    await until(lambda: not work.worker.busy)
    commit = await work.asked()
    await until(lambda: work.now(commit).status is DONE)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# ---- sessions that are hibernated ---------------------------------------------------------------


async def rest_asked(work: Work, who: str = "alice") -> Commit:
    """A session that is to be hibernated, as people ask for it."""
    session = await running_session(work.service, who)
    reply = await work.service.call("POST", f"api/sessions/{session['id']}/hibernation", who)
    assert reply.status == 202, reply.json
    found: Commit = work.service.store.commit(reply.json["id"])
    return found


@pytest.fixture
def removed(work: Work, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """What of sessions was removed, and whether the home stayed."""
    calls: list[tuple[str, bool]] = []

    async def remove(agent: str, session_id: str, keep_home: bool = False) -> int:
        calls.append((session_id, keep_home))
        return 1

    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(work.site.engine, "remove_session", remove)
    for name in ("stop_session", "save_log"):
        monkeypatch.setattr(work.site.engine, name, nothing)
    return calls


async def test_a_session_rests_and_is_dropped_when_its_time_is_over(
    work: Work, removed: list[tuple[str, bool]]
) -> None:
    time = Time()
    drops = work.service.service.drops = time.drops
    work.restart()
    commit = await rest_asked(work)
    await work.all()
    store, id = work.service.store, commit.session_id
    assert store.get(id).status is Status.HIBERNATED
    assert (store.get(id).reason_code, removed) == ("hibernated", [(id, True)])
    kept = store.hibernation(id)
    assert kept is not None
    assert kept.drop_at is not None
    assert timedelta(days=13) < kept.drop_at - utcnow() < timedelta(days=15)
    # Nothing sweeps up what is kept.
    await work.worker._sweep(list(work.site.engine.hosts))
    assert ("local", kept.reference) in work.shelf.images
    time.passes((kept.drop_at - time.wall).total_seconds() - 3600)
    await drops.look(work.site)
    await work.worker.resting.once()
    assert store.get(id).status is Status.HIBERNATED
    time.passes(3600)
    work.shelf.errors["remove"] = [ImageInUse("a container has it"), AgentUnreachable("silent")]
    for _ in range(4):
        await work.worker.resting.once()
    assert (store.get(id).status, store.get(id).reason_code) == (Status.TERMINATED, "retention")
    assert removed[-1] == (id, False)
    assert work.shelf.images == {}
    assert store.hibernations() == []


@pytest.mark.parametrize("step", ["make", "find"])
async def test_one_that_was_to_rest_is_gone_on_with(
    work: Work, removed: list[tuple[str, bool]], step: str
) -> None:
    commit = await rest_asked(work)
    gate = work.shelf.hold(step)
    if step == "make":
        await work.until_in("make")
    else:
        work.shelf.gates.pop("find")
        work.service.store.move_commit(commit.id, COMMITTING, utcnow())
        await work.shelf.make("local", _order(work, commit))
    await work.cut_off()
    gate.set()
    await work.all()
    assert work.now(commit).status is DONE
    assert work.service.store.get(commit.session_id).status is Status.HIBERNATED
    if step == "find":
        assert work.shelf.names("clean") == [], "its container would have gone on"


async def test_one_that_cannot_rest_goes_on(work: Work, removed: list[tuple[str, bool]]) -> None:
    told = "The disk of local is full."
    work.shelf.errors["make"] = [CommitRefused("no_room", told)]
    commit = await rest_asked(work)
    await work.all()
    store = work.service.store
    assert (work.now(commit).status, work.now(commit).message) == (FAILED, told)
    assert store.get(commit.session_id).status is Status.RUNNING
    assert not store.is_kept(commit.session_id)
    assert work.shelf.names("clean") == [commit.id], "so its container goes on"
    [row] = [r for r in store.history(commit.session_id) if r.result is Result.FAILURE]
    assert (row.phase, row.message) == (Phase.HIBERNATE, told)


async def test_one_that_is_cancelled_when_its_image_is_made_goes_on(
    work: Work, removed: list[tuple[str, bool]]
) -> None:
    commit = await rest_asked(work)
    gate = work.shelf.hold("make")
    await work.until_in("make")
    path = f"api/sessions/{commit.session_id}/commit"
    asked = await work.service.call("DELETE", path, "alice")
    assert (asked.status, asked.json["step"]) == (202, "It is being cancelled.")
    # It is made before anybody looks whether it is wanted still.
    gate.set()
    await work.worker.settled()
    store = work.service.store
    assert (work.now(commit).status, work.now(commit).message) == (CANCELLED, "It was cancelled.")
    assert (store.get(commit.session_id).status, removed) == (Status.RUNNING, [])
    assert not store.is_kept(commit.session_id)
    assert work.shelf.names("clean") == [commit.id], "so its container goes on"
    assert work.shelf.images == {}


async def test_one_that_is_ended_by_force_does_not_rest(
    work: Work, removed: list[tuple[str, bool]]
) -> None:
    commit = await rest_asked(work)
    gate = work.shelf.hold("make")
    await work.until_in("make")
    path = f"api/sessions/{commit.session_id}"
    reply = await work.service.call("DELETE", path, "alice")
    assert (reply.status, reply.json["errors"][0]["code"]) == (409, "commit_under_way")
    assert (await work.service.call("DELETE", f"{path}?force=1", "alice")).status == 202
    gate.set()
    await work.all()
    assert work.now(commit).status is CANCELLED
    store = work.service.store
    assert store.get(commit.session_id).status is Status.TERMINATED
    assert not store.is_kept(commit.session_id)
    assert work.shelf.images == {}


async def test_the_end_of_its_server_does_not_end_what_goes_to_rest(
    work: Work, removed: list[tuple[str, bool]]
) -> None:
    commit = await rest_asked(work)
    gate = work.shelf.hold("make")
    await work.until_in("make")
    store, id = work.service.store, commit.session_id
    for code in ("user_requested", "not_in_hub"):  # the Hub's own stop, or a culler
        await work.site.end(id, code, "Its server was stopped.")
        assert (store.get(id).status, removed) == (Status.RUNNING, [])
    gate.set()
    await work.all()
    assert (store.get(id).status, removed) == (Status.HIBERNATED, [(id, True)])


@pytest.mark.parametrize("how", ["cancelled", "no-room"])
async def test_one_whose_server_was_stopped_meanwhile_keeps_its_home(
    work: Work, removed: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Also where it could not be hibernated: it is, when there is room."""
    commit = await rest_asked(work)
    store, id = work.service.store, commit.session_id
    gate = work.shelf.hold("make")
    await work.until_in("make")
    await work.site.end(id, "user_requested", "Its server was stopped.")  # by the Hub
    if how == "cancelled":
        await work.service.call("DELETE", f"api/sessions/{id}/commit", "alice")
    else:
        work.shelf.errors["make"] = [CommitRefused("no_room", "The disk of local is full.")]
        gate.set()
    await work.all()
    gate.set()
    assert work.now(commit).status is (CANCELLED if how == "cancelled" else FAILED)
    parts, now = work.service.service, [1e6]
    monkeypatch.setattr(reconcile, "INTERVAL", -1)
    monkeypatch.setattr(servers.time, "monotonic", lambda: now[0])
    worker = servers.ServersWorker(work.site, parts.hub, parts.images)

    async def none() -> dict[tuple[str, str], bool]:
        return {}

    monkeypatch.setattr(parts.hub, "active_servers", none)
    work.shelf.written, work.shelf.rooms = 10 * GIB, Room(0, GIB)
    for _ in range(3):
        await worker.once()
    assert (store.get(id).status, removed) == (Status.RUNNING, [])
    assert store.commit_of(id) == work.now(commit)
    (row, *_) = store.history(id)
    assert (row.phase, row.result, row.error_code) == (Phase.HIBERNATE, Result.FAILURE, "no_room")
    work.shelf.written, work.shelf.rooms = GIB, Room(10 * GIB, 20 * GIB)
    await worker.once()
    assert store.commit_of(id) == work.now(commit), "not that soon"
    now[0] += servers.AGAIN
    for _ in range(2):  # the second finds that it is under way
        await worker.once()
    assert store.commit_of(id).id != commit.id
    await work.all()
    assert (store.get(id).status, removed) == (Status.HIBERNATED, [(id, True)])
    told = "The Hub does not know its server any more, so it was hibernated."
    assert (store.get(id).reason_code, store.get(id).reason) == ("not_in_hub", told)
    await worker.once()
    assert store.get(id).status is Status.HIBERNATED


async def test_one_that_rests_is_ended_for_good(
    work: Work, removed: list[tuple[str, bool]]
) -> None:
    store, path = work.service.store, "api/sessions/"
    for force in ("", "?force=1"):
        commit = await rest_asked(work)
        await work.all()
        reply = await work.service.call("DELETE", f"{path}{commit.session_id}{force}", "alice")
        assert reply.status == 202
        await until(lambda id=commit.session_id: store.get(id).status is Status.TERMINATED)
        assert store.get(commit.session_id).reason == "alice ended it."
        assert not store.is_kept(commit.session_id)
        # Its home goes at once, without a sweep.
        await until(lambda id=commit.session_id: (id, False) in removed)
        await work.worker.resting.once()
        assert work.shelf.images == {}


@pytest.mark.parametrize("keeping", [True, False], ids=["removed-already", "still-there"])
async def test_one_that_is_just_going_to_rest_is_ended_for_good(
    work: Work, removed: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch, keeping: bool
) -> None:
    commit = await rest_asked(work)
    store, id = work.service.store, commit.session_id
    begun, gate = asyncio.Event(), asyncio.Event()
    call = "remove_session" if keeping else "stop_session"
    before = getattr(work.site.engine, call)

    async def waits(*given: Any, **more: Any) -> Any:
        done = await before(*given, **more)
        begun.set()
        await gate.wait()
        return done

    monkeypatch.setattr(work.site.engine, call, waits)
    await work.worker.once()
    await asyncio.wait_for(begun.wait(), 60)
    ends = store.get(id)
    assert (ends.status, ends.reason_code) == (Status.TERMINATING, "hibernated")
    page = (await work.service.call("GET", f"sessions/{id}/end", "alice")).json
    assert "Files outside folders are deleted." in page
    reply = await work.service.call("DELETE", f"api/sessions/{id}", "alice")
    assert (reply.status, reply.json["reason"]) == (202, "alice ended it.")
    assert not store.is_kept(id)
    again = await work.service.call("DELETE", f"api/sessions/{id}", "alice")
    assert again.json["version"] == reply.json["version"], "twice is fine"
    gate.set()
    await work.worker.settled()
    await until(lambda: store.get(id).status is Status.TERMINATED)
    over = store.get(id)
    assert (over.reason_code, over.reason) == ("user_requested", "alice ended it.")
    await until(lambda: (id, False) in removed)
    await work.worker.resting.once()
    assert work.shelf.images == {}


async def test_one_whose_agent_is_not_configured_any_more_is_not_resumed(
    work: Work, removed: list[tuple[str, bool]]
) -> None:
    commit = await rest_asked(work)
    await work.all()
    store, path = work.service.store, f"api/sessions/{commit.session_id}/resume"
    host = work.site.engine.hosts.pop("local")
    another(work, "two")
    reply = await work.service.call("POST", path, "alice")
    assert (reply.status, reply.json["errors"][0]["code"]) == (409, "agent_gone")
    assert "Its home is on local" in reply.json["errors"][0]["message"]
    await work.worker._sweep(list(work.site.engine.hosts))
    assert store.get(commit.session_id).status is Status.HIBERNATED
    assert store.is_kept(commit.session_id)
    work.site.engine.hosts["local"] = host
    assert (await work.service.call("POST", path, "alice")).status == 202


@pytest.mark.parametrize("ends", ["breaks-down", "its-owner-ends-it", "later"])
async def test_one_that_is_back_keeps_its_home_until_it_is_sure_to_run(
    work: Work, removed: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    commit = await rest_asked(work)
    await work.all()
    store, id = work.service.store, commit.session_id
    assert (await work.service.call("POST", f"api/sessions/{id}/resume", "alice")).status == 202
    await make_running(work.service, {"id": id}, "127.0.0.1:1")
    await work.worker.resting.once()
    assert store.is_kept(id)
    if ends == "later":
        monkeypatch.setattr(resting, "utcnow", lambda: utcnow() + resting.SETTLES)
        await work.worker.resting.once()
        assert not store.is_kept(id)
        assert len(work.shelf.images) == 1, "it runs from that"
    if ends == "its-owner-ends-it":
        reply = await work.service.call("DELETE", f"api/sessions/{id}", "alice")
        assert reply.status == 202
    else:
        await work.site.end(id, "container_gone", "Its container is gone.")
    rests = ends == "breaks-down"
    over = Status.HIBERNATED if rests else Status.TERMINATED
    await until(lambda: store.get(id).status is over)
    assert removed[-1] == (id, rests)
    await work.worker.resting.once()
    assert len(work.shelf.images) == rests


async def test_its_owner_sees_that_it_is_dropped_soon(
    work: Work, removed: list[tuple[str, bool]]
) -> None:
    commit = await rest_asked(work)
    await work.all()
    page = "?part=warnings"
    assert "dropped" not in (await work.service.call("GET", page, "alice")).json
    time = Time()
    time.passes(13 * 86400 + 3600)
    work.service.service.drops = time.drops
    told = (await work.service.call("GET", page, "alice")).json
    assert "will be dropped at" in told
    assert f"sessions/{commit.session_id}" in told
    assert "dropped" not in (await work.service.call("GET", page, "bob")).json
    listed = (await work.service.call("GET", "?part=list", "alice")).json
    assert "then it is dropped" in listed
    assert f"sessions/{commit.session_id}/resume" in listed


def _order(work: Work, commit: Commit) -> CommitOrder:
    labels = {LABEL_IMAGE_HUB: work.site.hub_id, LABEL_IMAGE_ID: commit.image_id}
    return CommitOrder(commit.id, commit.container_id, commit.reference, labels, stay=True)
