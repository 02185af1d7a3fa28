"""Idle checks from the database to the end of a session: real service and store, a session's
server that says what the test has it say, and a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from jupyterhub_backendai.model.slots import GIB
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.model.usage import Step, span_of
from jupyterhub_backendai.service.idle.asking import Asker
from jupyterhub_backendai.service.idle.clock import SteadyClock
from jupyterhub_backendai.service.idle.watched import Watched
from jupyterhub_backendai.service.sampling import Has
from jupyterhub_backendai.service.workers.idle import IdleWorker
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import ClockRecord, Session

from .moved_time import Time
from .running import Running, launch, running, until, until_open
from .session_server import SessionServer, session_server
from .ways import make_running

INTERVAL = 15.0
HOUR = 3600.0


@dataclass
class Idle:
    """A service, a session that runs, its server, and the worker of idle checks."""

    service: Running
    server: SessionServer
    id: str
    time: Time
    worker: IdleWorker

    @property
    def session(self) -> Session:
        found: Session = self.service.store.get(self.id)
        return found

    @property
    def watched(self) -> Watched:
        assert self.worker.watch is not None
        return self.worker.watch.sessions[self.id]

    @property
    def is_running(self) -> bool:
        return self.session.status is Status.RUNNING

    def says(self, used: float, asked: float | None = None) -> None:
        """What its server answers; if it said nothing before, it is asked in the next round."""
        if self.server.activity is None:
            self.watched.ask_at = 0.0
        asked = used if asked is None else asked
        self.server.activity = {"used": used, "asked": asked, "uptime": 1e6}

    async def rounds(self, seconds: float, *, each: float = INTERVAL, grow: bool = True) -> None:
        """So much time passes, with a round at each interval, until the session is over."""
        end = self.time.boot + seconds
        while self.time.boot < end and self.is_running:
            step = min(each, end - self.time.boot)
            self.time.passes(step)
            if grow and self.server.activity:
                said = self.server.activity
                self.says(said["used"] + step, said["asked"] + step)
            await self.once()

    async def once(self) -> None:
        await self.worker.once()
        await self.settle()

    async def heard(self) -> None:
        """A round, and until its server was heard."""
        await self.once()
        await until(lambda: self.watched.heard_since(self.now))

    @property
    def now(self) -> float:
        """By the clock of idle checks."""
        assert self.worker.watch is not None
        return self.worker.watch.clock.now()

    async def settle(self) -> None:
        """Until all that the round began is over."""
        site = self.service.service.parts.site
        while site._tasks:
            for task in list(site._tasks):
                await task
            await asyncio.sleep(0)  # a task that is over takes itself off the list a step later

    async def view(self, who: str = "alice") -> Mapping[str, Any]:
        reply = await self.service.call("GET", f"api/sessions/{self.id}/idle", who)
        assert reply.status == 200, reply.json
        return dict(reply.json)

    async def keep(self, who: str = "alice", **body: Any) -> Any:
        return await self.service.call("POST", f"api/sessions/{self.id}/idle", who, json=body)

    async def left(self) -> float:
        """Seconds to the end that people are told."""
        view = await self.view()
        assert view["ends_at"] is not None, view
        told = datetime.fromisoformat(view["ends_at"])
        return (told - self.time.wall).total_seconds()

    async def restart(self, down: float) -> None:
        """The service ends, and comes back later."""
        assert self.worker.watch is not None
        await self.worker.watch.note()
        await self.worker.asker.close()
        self.time.passes(down)
        self.new_worker()

    def new_worker(self) -> None:
        site = self.service.service.parts.site
        hub = self.service.service.hub
        self.worker = IdleWorker(
            site, hub, INTERVAL, self.service.service.images, self.time.sources
        )
        self.worker.asker = Asker(HOUR)  # a machine that is slow is not a server that is silent
        self.worker.patience = HOUR
        self.service.service.idle = self.worker


@asynccontextmanager
async def idle(folder: Path, idle: Any, **backend: Any) -> AsyncIterator[Idle]:
    async with (
        running(folder, idle=idle, **{"idle_warnings": [], **backend}) as service,
        session_server() as server,
    ):
        await until_open(service)
        service.report_agent()
        session = await launch(service, "alice", {"preset": "small"})
        await make_running(service, session, server.address)
        made = Idle(service, server, session["id"], Time(), None)  # type: ignore[arg-type]
        made.new_worker()
        await made.once()
        try:
            yield made
        finally:
            await made.worker.asker.close()


async def test_lifetime_ends_it_when_it_was_told(tmp_path: Path) -> None:
    async with idle(tmp_path, {"lifetime": "2h"}) as one:
        assert abs(await one.left() - 2 * HOUR) < 60
        one.time.is_set(+5 * HOUR)  # a clock that is set ends nothing
        await one.once()
        assert one.is_running
        left = await one.left()
        assert abs(left - 2 * HOUR) < 60
        await one.rounds(left - INTERVAL)
        assert one.is_running
        await one.restart(down=0)
        await one.rounds(2 * INTERVAL)
        assert not one.is_running
        assert one.session.reason_code == "idle_lifetime"
        assert one.session.reason == "It reached its lifetime of 2 hours."
        history = one.service.store.history(one.id)
        assert history[0].message == one.session.reason


async def test_a_lifetime_goes_on_while_the_service_is_away(tmp_path: Path) -> None:
    async with idle(tmp_path, {"lifetime": "2h"}) as one:
        await one.restart(down=HOUR)
        await one.once()
        assert one.is_running
        assert abs(await one.left() - HOUR) < 60
        one.time.is_set(-3 * HOUR)
        await one.restart(down=0.5 * HOUR)
        one.time.is_set(+9 * HOUR)
        await one.once()
        assert abs(await one.left() - 0.5 * HOUR) < 60


LIMITS: dict[str, Any] = {"lifetime": {"lifetime": "3h"}, "network": {"network": "3h"}}
WARNINGS = {"idle_warnings": ["1h", "10m"]}


@pytest.mark.parametrize("check", LIMITS)
@pytest.mark.parametrize("down", [4 * HOUR, 3 * HOUR - 180])
async def test_an_end_that_came_while_the_service_was_away_leaves_the_notice(
    tmp_path: Path, check: str, down: float
) -> None:
    async with idle(tmp_path, LIMITS[check], **WARNINGS) as one:
        one.says(used=0)
        await one.rounds(INTERVAL)
        assert await one.left() > 2.9 * HOUR, "nobody is warned yet"
        await one.restart(down)
        one.says(used=down + INTERVAL)
        await one.once()
        assert one.is_running
        assert 600 - 2 <= await one.left() <= 601
        assert (await one.view())["warn"]
        await one.restart(down=300)  # who was warned is not given more
        one.says(used=down + INTERVAL + 300)
        await one.once()
        assert abs(await one.left() - 300) <= 2
        await one.rounds(400)
        assert one.session.reason_code == f"idle_{check}"


async def test_while_the_machine_slept_nobody_was_warned(tmp_path: Path) -> None:
    async with idle(tmp_path, LIMITS["lifetime"], **WARNINGS) as one:
        one.time.passes(4 * HOUR)
        await one.once()
        assert one.is_running
        assert 600 - 2 <= await one.left() <= 601


async def test_who_was_warned_before_the_service_went_away_is_not_warned_anew(
    tmp_path: Path,
) -> None:
    async with idle(tmp_path, {"network": "10m"}, **WARNINGS) as one:
        one.says(used=0)
        await one.rounds(400, each=60)
        assert (await one.view())["warn"], "of ten minutes only half are left then"
        left = await one.left()
        await one.restart(down=150)
        one.says(used=550)
        await one.once()
        assert abs(await one.left() - (left - 150)) <= 2
        await one.restart(down=300)
        one.says(used=850)
        await one.once()
        await one.rounds(2 * INTERVAL)
        assert not one.is_running


async def test_network_counts_from_its_last_use(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "1h"}) as one:
        view = await one.view()
        assert [check["state"] for check in view["checks"]] == ["unknown"]
        assert view["ends_at"] is None, "it does not say when it was used"
        await one.rounds(3 * HOUR, each=600)
        assert one.is_running, "what is not known ends nothing"

        one.says(used=0)
        await one.rounds(INTERVAL)
        assert abs(await one.left() - HOUR) <= 2 * INTERVAL
        await one.rounds(HOUR / 2)
        assert abs(await one.left() - HOUR / 2) <= 2 * INTERVAL
        one.says(used=0)
        await one.rounds(60)  # asked at least once a minute
        assert await one.left() > HOUR - 180
        left = await one.left()
        await one.rounds(left - 1)
        assert one.is_running
        await one.rounds(INTERVAL)
        assert one.session.reason_code == "idle_network"
        assert one.session.reason == "Nobody had used it for 1 hour."


async def test_who_comes_back_at_the_last_moment_keeps_it(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "1h"}) as one:
        one.says(used=0)
        await one.rounds(HOUR - 20)
        one.says(used=0)  # nobody has asked its server since
        await one.rounds(INTERVAL, grow=False)
        await one.rounds(60)
        assert one.is_running
        assert await one.left() > HOUR - 180


async def test_a_server_that_falls_silent_is_not_taken_for_unused(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "1h"}) as one:
        one.says(used=0)
        await one.rounds(HOUR / 2)
        one.server.activity = None
        await one.rounds(2 * HOUR, each=60)
        assert one.is_running
        assert [check["state"] for check in (await one.view())["checks"]] == ["unknown"]


async def test_who_says_nothing_delays_nobody_else(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "1h"}) as one, hanging() as (address, asked):
        session = await launch(one.service, "bob", {"preset": "small"})
        await make_running(one.service, session, address)
        one.worker.patience = 0.01
        one.says(used=0)
        await one.heard()
        assert len(asked) == 1, "and that is not over"
        one.time.passes(HOUR - 120)
        one.says(used=HOUR - 120)
        await one.heard()
        one.time.passes(120)
        one.says(used=HOUR)
        await one.heard()
        await one.once()
        assert not one.is_running
        assert len(asked) == 1, "it is asked once at a time"
        await one.worker._quick.close()


async def test_who_took_long_is_asked_apart(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "1h"}) as one, hanging() as (address, asked):
        bobs = await launch(one.service, "bob", {"preset": "small"})
        await make_running(one.service, bobs, address)
        one.worker.asker = Asker(0.05)
        one.worker.patience = 0.01
        await one.once()
        assert one.worker.watch is not None
        bob = one.worker.watch.sessions[bobs["id"]]
        await until(lambda: bob.slow)
        one.watched.slow = False  # as it would be if this machine were not
        one.worker.asker = Asker(HOUR)
        one.worker.patience = HOUR
        before = len(asked)
        one.time.passes(60)
        one.says(used=0)
        await one.once()  # which waits for all but those
        assert one.watched.heard_since(one.now)
        await until(lambda: len(asked) > before)
        await one.worker._slow.close()


async def test_no_session_ends_by_an_answer_of_an_earlier_round(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "1h"}) as one:
        one.says(used=0)
        await one.rounds(INTERVAL)
        left = await one.left()
        one.time.passes(left + 1)
        one.says(used=HOUR + 1)
        await one.worker._ask(one.watched)  # which took longer than the round
        one.time.passes(INTERVAL)
        one.says(used=0)  # somebody is back
        assert one.worker.watch is not None
        one.worker.watch.judge(one.watched)
        assert one.watched.due(one.now) is not None
        await one.worker._end(one.worker.watch, one.watched)
        assert one.is_running
        assert abs(await one.left() - HOUR) <= 2


@asynccontextmanager
async def hanging() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A session's server that accepts and says nothing: its address, and what it was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while more := await reader.read(65536):
                asked.append(more)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"{host}:{port}", asked
    finally:
        server.close()


@pytest.mark.parametrize("polling", [False, True])
async def test_polling_counts_as_the_admin_says(tmp_path: Path, polling: bool) -> None:
    async with idle(tmp_path, {"network": {"timeout": "1h", "polling": polling}}) as one:
        one.says(used=0, asked=0)
        for _ in range(40):
            await one.rounds(120)
            if one.is_running:
                one.says(one.server.activity["used"], asked=0)
        assert one.is_running is polling


async def test_utilization_of_a_parked_session(tmp_path: Path) -> None:
    rule = {"window": "1h", "grace": "10m", "thresholds": {"cpu": 5, "gpu": 50}}
    async with idle(tmp_path, {"utilization": rule}) as one:
        for _ in range(int(HOUR / INTERVAL)):
            await use(one, 800)
        view = await one.view()
        assert (view["ends_at"], view["checks"][0]["state"]) == (None, "used")
        assert [m["metric"] for m in view["checks"][0]["metrics"]] == ["cpu"], "it has no GPU"
        told: list[datetime] = []
        for _ in range(int(2 * HOUR / INTERVAL)):
            await use(one, 10)
            if not one.is_running:
                break
            if (ends := (await one.view())["ends_at"]) is not None:
                told.append(datetime.fromisoformat(ends))
        assert one.session.reason_code == "idle_utilization"
        assert "% of its CPU (less than 5%)" in one.session.reason
        late = [(one.time.wall - at).total_seconds() for at in told[len(told) // 2 :]]
        assert len(told) > 20
        assert max(abs(each) for each in late) <= INTERVAL + 1, late


async def use(one: Idle, cpu: float) -> None:
    """A step in which it uses so many thousandths of a core, and a round."""
    one.time.passes(INTERVAL)
    one.worker.add([Step(one.id, one.time.wall, INTERVAL, cpu=cpu, mem=None)])
    await one.once()


async def test_nothing_ends_for_what_was_not_seen(tmp_path: Path) -> None:
    rule = {"window": "1h", "thresholds": {"cpu": 5}}
    async with idle(tmp_path, {"utilization": rule}) as one:
        await one.rounds(3 * HOUR, each=60)
        assert one.is_running, "no sample came"
        for _ in range(int(0.9 * HOUR / INTERVAL)):
            await use(one, 0)
        assert one.is_running
        await one.restart(down=HOUR)
        await one.once()
        assert one.is_running
        assert (await one.view())["ends_at"] is None


async def test_an_end_that_comes_suddenly_leaves_the_notice(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "1h"}) as one:
        site = one.service.service.parts.site
        site.idle.warnings = (1200, 600)
        await one.rounds(3 * HOUR, each=600)
        one.says(used=2 * HOUR)  # the first that is heard of it
        await one.rounds(INTERVAL)
        left = await one.left()
        assert 600 - 2 * INTERVAL <= left <= 601
        assert (await one.view())["warn"]
        await one.restart(down=60)
        await one.once()
        assert abs(await one.left() - (left - 60)) <= 2 * INTERVAL
        await one.rounds(await one.left() - 1)
        assert one.is_running
        await one.rounds(2 * INTERVAL)
        assert not one.is_running


async def test_an_owner_keeps_it_as_long_as_the_policy_allows(tmp_path: Path) -> None:
    policy = {"keep": {"each": "1h", "total": "90m"}}
    async with idle(tmp_path, {"network": "1h"}, default_policy=policy) as one:
        one.says(used=0)
        await one.rounds(HOUR / 2)
        left = await one.left()
        reply = await one.keep(seconds="2h")
        assert reply.status == 409
        assert reply.json["errors"][0]["field"] == "seconds"
        assert "may be kept for 1 hour now" in reply.json["errors"][0]["message"]
        reply = await one.keep()
        assert reply.status == 200
        assert reply.json["keep"] == {"each": HOUR, "left": HOUR / 2, "now": HOUR / 2}
        assert abs(await one.left() - (left + HOUR)) <= 2
        await one.restart(down=60)
        await one.rounds(INTERVAL)
        assert abs(await one.left() - (left + HOUR - 60 - INTERVAL)) <= 2, "it is in the database"
        assert (await one.keep(seconds=1800)).status == 200
        reply = await one.keep()
        assert (reply.status, reply.json["errors"][0]["code"]) == (409, "used_up")
        assert [entry.message for entry in one.service.store.history(one.id)[:2]] == [
            "alice keeps it for 30 minutes.", "alice keeps it for 1 hour.",
        ]  # fmt: skip
        assert (await one.keep("bob")).status == 404
        await one.rounds(await one.left() - INTERVAL)
        assert one.is_running
        await one.rounds(2 * INTERVAL)
        assert not one.is_running


async def test_it_is_not_kept_for_a_moment_time_and_again(tmp_path: Path) -> None:
    policy = {"keep": {"each": "2m", "total": "150s"}}
    async with idle(tmp_path, {"network": "1h"}, default_policy=policy) as one:
        one.says(used=0)
        await one.rounds(INTERVAL)
        before = len(one.service.store.history(one.id))
        for seconds in (1, 59):
            reply = await one.keep(seconds=seconds)
            (error,) = reply.json["errors"]
            assert (reply.status, error["field"], error["code"]) == (400, "seconds", "too_little")
            assert "1 minute" in error["message"]
        assert len(one.service.store.history(one.id)) == before
        assert (await one.keep(seconds=60)).status == 200
        assert (await one.keep(seconds=60)).status == 200
        assert (await one.keep(seconds=29)).status == 400
        assert (await one.keep(seconds=30)).status == 200, "that is all that is left"


async def test_what_may_not_be_kept(tmp_path: Path) -> None:
    async with idle(tmp_path, {"lifetime": "1h"}) as one:
        reply = await one.keep()
        assert (reply.status, reply.json["errors"][0]["code"]) == (409, "lifetime")
    (tmp_path / "b").mkdir()
    policy = {"keep": None}
    async with idle(tmp_path / "b", {"network": "1h"}, default_policy=policy) as one:
        reply = await one.keep()
        assert (reply.status, reply.json["errors"][0]["code"]) == (409, "not_allowed")


async def test_pages_show_and_keep(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "1h"}) as one:
        one.service.service.parts.site.idle.warnings = (HOUR,)
        one.says(used=0)
        await one.rounds(INTERVAL)
        call = one.service.call
        part = (await call("GET", f"sessions/{one.id}?part=idle", "alice")).json
        assert "Keep it 2 h" in part
        assert "nobody has used for" in part
        early = (await call("GET", "?part=warnings", "alice")).json
        assert "will be ended" not in early, "nobody is warned who still has most of the hour"
        await one.rounds(HOUR / 2)
        warned = (await call("GET", "?part=warnings", "alice")).json
        assert "will be ended at" in warned
        assert "Keep it 2 h" in warned
        assert "will be ended" not in (await call("GET", "?part=warnings", "bob")).json
        listed = (await call("GET", "?part=list", "alice")).json
        assert "if nothing changes" in listed
        assert (await call("GET", f"sessions/{one.id}/keep", "alice")).status == 200
        assert (await call("GET", f"sessions/{one.id}/keep", "bob")).status == 404
        left = await one.left()
        reply = await call("POST", f"sessions/{one.id}/keep", "alice", data={})
        assert reply.status == 302
        assert abs(await one.left() - (left + 2 * HOUR)) <= 2


def test_the_clock_goes_on_across_restarts_of_all_kinds() -> None:
    time = Time()
    clock = SteadyClock(None, time.sources)
    began = clock.now()
    time.passes(100)
    time.is_set(-5000)
    assert clock.now() == pytest.approx(began + 100)
    noted = clock.record()
    time.passes(50)
    assert SteadyClock(noted, time.sources).now() == pytest.approx(began + 150)
    time.boot, time.boot_id = 3.0, "two"  # the machine was started anew
    time.passes(10)
    assert SteadyClock(noted, time.sources).now() == pytest.approx(began + 160)
    back = ClockRecord(noted.time, noted.wall + 9999, noted.boot_time, noted.boot_id)
    assert SteadyClock(back, time.sources).now() == pytest.approx(began + 100), "never back"


async def test_pages_show_what_it_uses(tmp_path: Path) -> None:
    async with idle(tmp_path, {"network": "1h"}) as one:
        service = one.service.service
        page = f"sessions/{one.id}?part=use"
        assert "Memory" in (await one.service.call("GET", page, "alice")).json
        step = Step(one.id, utcnow(), INTERVAL, cpu=250, mem=GIB // 2, net_in=3000, net_out=0)
        service.sampling.has[one.id] = Has(1000, GIB)
        service.sampling.latest[one.id] = step
        await service.parts.site.db(
            one.service.store.add_usage, [span_of(step)], before=None, now=utcnow()
        )
        text = (await one.service.call("GET", page, "alice")).json
        assert "0.25 cores" in text
        assert "Received" in text
        assert "GPU" not in text
        listed = (await one.service.call("GET", "?part=list", "alice")).json
        assert "CPU 25%" in listed
        assert "Memory 50%" in listed
        assert (await one.service.call("GET", page, "bob")).status == 404
