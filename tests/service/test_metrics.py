"""What Prometheus is told: counts that are the database's, and who may read them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.service.metrics import book
from jupyterhub_backendai.service.metrics.catalogue import CATALOGUE
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Unavailable

from .running import Running, launch, running, until_open

ON_THE_WAY = (Status.PREPARING, Status.CREATING, Status.RUNNING)


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    """A service whose metrics are looked at anew each time, with a machine of four cores."""
    monkeypatch.setattr(book, "SAME", 0.0)
    async with running(tmp_path) as started:
        await until_open(started)
        started.report_agent()
        yield started


async def told(service: Running, who: str = "admin") -> dict[tuple[str, ...], float]:
    """All samples, by name and the values of their labels in the order of their names."""
    reply = await service.call("GET", "metrics", who)
    assert reply.status == 200, reply.json
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(reply.json)
        for sample in family.samples
    }


def start(service: Running, *ids: str) -> None:
    """Places these sessions, and has them run."""
    site = service.service.parts.site
    site.store.run_pass(site.policies, site.catalog, utcnow())
    for id in ids:
        for status in ON_THE_WAY:
            site.store.move(id, status, phase=Phase.START, now=utcnow())


def end(service: Running, id: str, reason: str, *statuses: Status) -> None:
    for status in statuses:
        service.store.move(
            id, status, phase=Phase.TERMINATE, now=utcnow(), reason_code=reason, reason="So."
        )


async def test_what_is_counted(service: Running) -> None:
    before = await told(service)
    assert before["backendai_database_up",] == 1
    assert before["backendai_queue_length", "default"] == 0
    assert before["backendai_queue_wait_seconds_count", "default"] == 0
    assert before["backendai_agent_capacity", "local", "default", "cpu"] == 4
    first, second, waits = [
        str((await launch(service, who, {"resources": {"cpu": cpu}}))["id"])
        for who, cpu in (("alice", 1.5), ("bob", 1), ("alice", 2))
    ]
    start(service, first, second)
    now = await told(service)
    assert now["backendai_sessions", "default", "RUNNING"] == 2
    assert now["backendai_queue_length", "default"] == 1
    assert now["backendai_queue_oldest_timestamp_seconds", "default"] == pytest.approx(
        service.store.get(waits).submitted_at.timestamp(), abs=1e-3
    )
    assert now["backendai_queue_wait_seconds_count", "default"] == 2
    assert now["backendai_spawn_seconds_count", "default"] == 2
    assert now["backendai_spawn_seconds_bucket", "+Inf", "default"] == 2
    assert now["backendai_agent_held", "local", "default", "cpu"] == 2.5
    assert now["backendai_agent_sessions", "local", "default"] == 2
    assert now["backendai_agent_available", "local", "default"] == 1

    end(service, first, "idle_network", Status.TERMINATING, Status.TERMINATED)
    end(service, second, "image_pull_failed", Status.ERROR)
    end(service, waits, "user", Status.CANCELLED)
    for _ in range(2):  # what has been counted is not counted again
        now = await told(service)
        for status, reason in (
            ("TERMINATED", "idle_network"), ("ERROR", "image_pull_failed"), ("CANCELLED", "user"),
        ):  # fmt: skip
            assert now["backendai_sessions_ended_total", reason, status] == 1
            assert now["backendai_sessions_ended_last_day", reason, status] == 1
        service.store.set_kernel(first, role="main")  # a change, of one that is over
    assert ("backendai_sessions", "default", "RUNNING") not in now
    assert now["backendai_spawn_seconds_count", "default"] == 2


async def test_a_restart_counts_nothing_twice(service: Running) -> None:
    runs, over = [str((await launch(service, "alice", {}))["id"]) for _ in range(2)]
    start(service, runs, over)
    end(service, over, "user", Status.TERMINATING, Status.TERMINATED)
    service.service.metrics = book.Metrics()
    first = await told(service)
    assert first["backendai_sessions_ended_last_day", "user", "TERMINATED"] == 1
    end(service, runs, "idle_lifetime", Status.TERMINATING, Status.TERMINATED)
    now = await told(service)
    assert now["backendai_spawn_seconds_count", "default"] == 0
    ended = {key[1:]: n for key, n in now.items() if key[0] == "backendai_sessions_ended_total"}
    assert ended == {("idle_lifetime", "TERMINATED"): 1}


async def test_nothing_is_told_that_is_not_in_the_catalogue(service: Running) -> None:
    session = await launch(service, "alice", {"name": "her-own-word"})
    start(service, session["id"])
    text = (await service.call("GET", "metrics", "admin")).json
    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert set(families) == {one.name for one in CATALOGUE}
    assert "alice" not in text
    assert "her-own-word" not in text
    for one in CATALOGUE:
        for sample in families[one.name].samples:
            assert set(sample.labels) - {"le"} == set(one.labels), one.name


async def test_a_database_that_is_away_is_told(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> Any:
        raise Unavailable("nobody there")

    with monkeypatch.context() as patch:
        patch.setattr(service.store, "live_counts", away)
        now = await told(service)
    assert now["backendai_database_up",] == 0
    assert not any(name.startswith("backendai_agent") for name, *_ in now)
    assert (await told(service))["backendai_database_up",] == 1


async def test_who_may(service: Running, tmp_path: Path) -> None:
    service.tokens["prometheus"] = service.hub.token("bob", ["read:metrics"])
    before = await told(service, "prometheus")  # which takes no other scope
    for who, status in (("alice", 403), ("watcher", 403), (None, 401)):
        assert (await service.call("GET", "metrics", who)).status == status
    assert (await service.call("POST", "metrics", "admin")).status == 405
    now = await told(service)
    key = ("backendai_errors_total", "not_yours", "403")
    assert now[key] - before.get(key, 0) == 2
    folder = tmp_path / "open"
    folder.mkdir()
    async with running(folder, metrics_open=True) as other:
        await until_open(other)
        assert (await other.call("GET", "metrics")).status == 200
        assert (await other.call("POST", "metrics")).status == 405
