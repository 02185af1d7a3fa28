"""When hibernated sessions are dropped: real service and store, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest_asyncio

from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.service.commits.resting import Resting
from jupyterhub_backendai.store import Return

from .image_shelf import Shelf, running_session, shelf_of
from .images_made import rest
from .moved_time import Time
from .running import Running, running, until_open

DAY, HOUR, MINUTE = 86400.0, 3600.0, 60.0
YEAR = 365 * DAY


@dataclass
class Kept:
    """A service with a session that is hibernated, and what drops it."""

    service: Running
    shelf: Shelf
    id: str
    time: Time
    until: datetime

    @property
    def is_kept(self) -> bool:
        return bool(self.service.store.is_kept(self.id))

    def begin(self) -> None:
        """As after a start of the process."""
        self.service.service.drops = self.time.drops
        site = self.service.service.parts.site
        self.resting = Resting(site, self.shelf, self.service.service.drops)

    async def passes(self, seconds: float, each: float = 30.0) -> None:
        """So much time, in which the service is there, as long as the session is kept."""
        end = self.time.boot + seconds
        while self.time.boot < end and self.is_kept:
            self.time.passes(min(each, end - self.time.boot))
            await self.once()

    async def once(self) -> None:
        """What the service does all the time."""
        drops, site = self.service.service.drops, self.service.service.parts.site
        await drops.look(site)
        await self.resting.once()

    def cancel(self) -> None:
        """Its owner does not want it resumed after all."""
        now = self.time.wall
        self.service.store.move(self.id, Status.CANCELLED, phase=Phase.CANCEL, now=now)

    async def told(self) -> datetime:
        """When it is dropped, as the API tells."""
        reply = await self.service.call("GET", f"api/sessions/{self.id}/hibernation", "alice")
        assert reply.status == 200, reply.json
        return datetime.fromisoformat(reply.json["drop_at"])

    async def left(self) -> float:
        """Seconds until then."""
        return (await self.told() - self.time.wall).total_seconds()


@pytest_asyncio.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    async with running(tmp_path) as service:
        await until_open(service)
        service.report_agent()
        shelf = shelf_of(service)
        id = (await running_session(service))["id"]
        rest(service, service.store.get(id), timedelta(days=14))
        until = service.store.hibernation(id).drop_at
        found = Kept(service, shelf, id, Time(), until)
        found.begin()
        await found.once()
        yield found


async def test_it_is_dropped_when_that_was_told(kept: Kept) -> None:
    await kept.passes(14 * DAY - 2 * HOUR, each=DAY)
    await kept.passes(2 * HOUR - 5 * MINUTE)
    assert kept.is_kept
    assert await kept.told() == kept.until
    await kept.passes(HOUR)
    assert not kept.is_kept
    assert timedelta(0) <= kept.time.wall - kept.until < timedelta(minutes=1)
    assert kept.service.store.get(kept.id).reason_code == "retention"


async def test_one_whose_time_was_over_while_the_service_was_away_is_warned_of_first(
    kept: Kept,
) -> None:
    for down in (20 * DAY, 2 * HOUR):  # and down once more, when nobody was warned for an hour
        kept.time.passes(down)
        kept.begin()
        assert abs(await kept.left() - HOUR) <= 2, "who looks at once"
        await kept.once()
        told = await kept.told()
        page = (await kept.service.call("GET", "?part=warnings", "alice")).json
        assert "will be dropped at" in page
        assert f"{kept.id}-drop-{told.isoformat()}" in page
        await kept.passes(HOUR - 2 * MINUTE)
        assert kept.is_kept
        assert await kept.told() == told, "it is one warning"
        page = (await kept.service.call("GET", "?part=list", "alice")).json
        assert "then it is dropped" in page
    await kept.passes(3 * MINUTE)
    assert not kept.is_kept
    assert abs((kept.time.wall - told).total_seconds()) < MINUTE


async def test_a_clock_that_is_set_drops_nothing_without_a_warning(kept: Kept) -> None:
    kept.time.is_set(YEAR)
    await kept.passes(50 * MINUTE)
    assert abs(await kept.left() - 10 * MINUTE) < MINUTE
    kept.time.is_set(-YEAR)
    await kept.passes(DAY, each=HOUR)
    assert await kept.told() == kept.until
    # Set again, what was up then does not count.
    kept.time.is_set(YEAR)
    await kept.passes(50 * MINUTE)
    assert kept.is_kept
    kept.time.is_set(-YEAR)
    await kept.passes(12 * DAY, each=HOUR)
    assert kept.is_kept
    assert await kept.told() == kept.until


async def test_one_that_is_kept_for_a_short_time_is_not_kept_for_longer(kept: Kept) -> None:
    store, id = kept.service.store, kept.id
    store.let_go(id, "user_requested", "alice ended it.")
    kept.id = id = (await running_session(kept.service))["id"]
    rest(kept.service, store.get(id), timedelta(minutes=30))
    await kept.passes(30 * MINUTE - 2 * MINUTE)
    assert kept.is_kept
    await kept.passes(4 * MINUTE)
    assert not kept.is_kept


async def test_one_that_comes_back_from_a_resuming_is_warned_of_anew(kept: Kept) -> None:
    store = kept.service.store
    await kept.passes(14 * DAY - 90 * MINUTE, each=DAY)
    await kept.passes(80 * MINUTE)
    store.resume(kept.id, Return("alice", (), None), kept.time.wall)
    await kept.passes(HOUR)
    assert kept.is_kept
    kept.cancel()
    assert abs(await kept.left() - DAY) < MINUTE
    await kept.passes(DAY - 10 * MINUTE, each=5 * MINUTE)
    store.resume(kept.id, Return("alice", (), None), kept.time.wall)
    await kept.passes(HOUR)
    kept.cancel()
    assert abs(await kept.left() - HOUR) < MINUTE, "a day more is once"
    await kept.passes(HOUR - 5 * MINUTE)
    assert kept.is_kept
    await kept.passes(10 * MINUTE)
    assert not kept.is_kept
