"""What the service compares with the Hub: servers, and owners of what waits."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

import pytest

from jupyterhub_backendai.model.hibernation import Hibernating
from jupyterhub_backendai.model.images import CommitStatus, reference_of
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.service.hub import NoSuchUser
from jupyterhub_backendai.service.images import ImageDoor
from jupyterhub_backendai.service.workers import servers
from jupyterhub_backendai.service.workers.servers import ServersWorker
from jupyterhub_backendai.site import reconcile
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import Made, Session, Wish

from .starting import Hub, site_of, submit, until, worker_of
from .test_batch_worker import running

GONE = NoSuchUser(404, "There is no user alice.")


def status(site: Site, session: Session) -> Status:
    return site.store.get(session.id).status


def servers_worker(hub: Hub) -> ServersWorker:
    return ServersWorker(site_of(hub), hub, ImageDoor())  # type: ignore[arg-type]


async def test_what_the_hub_has_lost_and_what_it_has_too_much(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = await running(hub, "train-1")
    monkeypatch.setattr(reconcile, "INTERVAL", -1)
    site, worker = site_of(hub), servers_worker(hub)
    hub.servers = {("alice", "stranger"): True}
    hub.errors = [GONE]
    await worker.once()
    await worker.once()  # renamed: her session goes on
    assert status(site, lost) is Status.RUNNING
    await worker.once()
    assert status(site, lost) is Status.TERMINATED
    assert site.store.get(lost.id).reason_code == "not_in_hub"

    hub.servers[("alice", "train-1")] = True
    await worker.once()
    assert hub.stopped == []
    await worker.once()
    assert hub.stopped == [("alice", "train-1")]


async def test_a_clock_that_was_set_back_hides_nothing(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = await running(hub, "train-1")
    site, worker = site_of(hub), servers_worker(hub)
    await worker.once()
    await worker.once()
    assert status(site, lost) is Status.RUNNING, "it has only just come to run"
    monkeypatch.setattr(reconcile, "utcnow", lambda: utcnow() - timedelta(hours=2))
    await worker.once()
    assert status(site, lost) is Status.TERMINATED


async def test_what_waits_for_an_owner_who_is_gone_is_cancelled(hub: Hub) -> None:
    site, worker = site_of(hub), servers_worker(hub)
    (waits,) = await submit(site, "train-1")
    await worker.once()
    assert status(site, waits) is Status.PENDING

    # One whom the Hub has a server of is there, and one that a start works on is that start's.
    hub.errors, hub.servers = [GONE], {("alice", "other"): True}
    await worker.once()
    hub.servers = {}
    assert site.store.claim(waits.id, site.run_id)
    await worker.once()
    assert (status(site, waits), hub.errors) == (Status.PENDING, [GONE])

    site.store.release(waits.id, site.run_id)
    await worker.once()
    row = site.store.get(waits.id)
    assert (row.status, row.reason_code) == (Status.CANCELLED, "owner_gone")
    phases = [entry.phase for entry in site.store.history(row.id)]
    assert phases[:2] == [Phase.CANCEL, Phase.RECONCILE]


async def test_no_account_gets_what_waited_for_an_earlier_one_of_its_name(hub: Hub) -> None:
    site = site_of(hub)
    (waits,) = await submit(site, "train-1")
    hub.owner.orm_user.created = (utcnow() + timedelta(seconds=1)).replace(tzinfo=None)
    await worker_of(hub).once()
    row = await until(site, waits, Status.CANCELLED)
    assert row.reason_code == "owner_gone"


async def test_the_hub_is_asked_for_a_few_owners_at_a_time_and_for_all_in_turn(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "OWNERS_A_LOOK", 2)
    site, worker = site_of(hub), servers_worker(hub)
    asked: list[str] = []

    async def user(name: str) -> None:
        asked.append(name)

    monkeypatch.setattr(hub, "user", user)
    (first,) = await submit(site, "train-1")
    names = [f"user-{number}" for number in range(5)]
    for name in names:
        site.store.submit(
            first.request, owner=name, owner_groups=[], server_name="s", name="s", driver=None,
            max_pending=None, now=utcnow(),
        )  # fmt: skip
    for _ in range(3):
        await worker.once()
    assert sorted(asked) == ["alice", *names]
    await worker.once()
    assert asked[6:] == asked[:2]


def rest(site: Site, session: Session, drop_at: datetime | None) -> Session:
    """One that runs is hibernated."""
    store, now = site.store, utcnow()
    wish = Wish("hibernated", "alice", "c" * 64, hibernates=True)
    commit = store.begin_hibernation(session.id, wish, 9, partial(reference_of, prefix=""), now)
    store.move_commit(commit.id, CommitStatus.COMMITTING, now)
    made = Made("sha256:2", "sha256:1", 10, 5, agent="here", digest=None)
    store.finish_hibernation(commit.id, made, drop_at, now)
    return store.move(session.id, Status.TERMINATED, phase=Phase.TERMINATE, now=now)


async def test_what_rests_for_good_is_dropped_where_its_owner_is_gone(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, worker = site_of(hub), servers_worker(hub)
    soon = utcnow() + timedelta(days=3)
    ends, stays = await running(hub, "ends"), await running(hub, "stays")
    rest(site, ends, soon), rest(site, stays, None)
    forever = Hibernating(retention=None)
    policy = site.policies.default.model_copy(update={"hibernate": forever})

    def until(session: Session) -> datetime | None:
        kept = site.store.hibernation(session.id)
        assert kept is not None
        return kept.drop_at

    hub.errors = [GONE]
    await worker.once()
    then = until(stays)
    assert then is not None
    assert timedelta(days=13) < then - utcnow() <= timedelta(days=14)
    assert until(ends) == soon
    (told, *_) = site.store.history(stays.id)
    assert (told.phase, told.error_code) == (Phase.RECONCILE, "owner_gone")
    hub.errors = [GONE]
    await worker.once()
    assert until(stays) == then, "not put off"
    # Back again: as the policy of now says.
    await worker.once()
    assert (until(stays), until(ends)) == (then, soon)
    monkeypatch.setattr(site, "policies", Policies(default=policy))
    await worker.once()
    assert until(stays) is None
    assert {status(site, one) for one in (ends, stays)} == {Status.HIBERNATED}
