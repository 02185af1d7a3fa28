"""What sessions' servers are told of their end, and what comes of a wish to keep one: real service
and store, a server that says what the test has it say, and a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyterhub_backendai.engine.images import Room
from jupyterhub_backendai.model.slots import GIB
from jupyterhub_backendai.service.idle import telling
from jupyterhub_backendai.service.idle.telling import (
    EVERY,
    MISSES,
    MOST_BYTES,
    RARELY,
    SOON,
    Teller,
)
from jupyterhub_backendai.service.workers.telling import TellingWorker
from jupyterhub_backendai.store import Unavailable

from .image_shelf import CONTAINER, shelf_of
from .running import launch
from .session_server import session_server
from .test_idle_worker import HOUR, Idle, idle
from .ways import make_running

KEEP = {"default_policy": {"keep": {"each": "2h", "total": "3h"}}}
QUIET = {"here": False, "keep": ""}
PATIENCE = 3600.0  # a machine that is slow is not a server that is silent


class Told:
    """A session, and the worker that tells its server."""

    def __init__(self, one: Idle, worker: TellingWorker) -> None:
        self.idle, self.worker = one, worker

    async def once(self, passes: float = 0.0) -> list[Any]:
        """What its server is told in the round after so many seconds."""
        one = self.idle
        one.time.passes(passes)
        await one.once()
        assert one.worker.watch is not None
        before = len(self.all())
        await self.worker.teller.once(one.worker.watch)
        return self.all()[before:]

    def all(self) -> list[Any]:
        asked = self.idle.server.asked
        return [
            json.loads(body) for method, path, body in asked
            if method == "PUT" and path.endswith("/backendai/ending/told")
        ]  # fmt: skip

    @property
    def messages(self) -> list[str]:
        history = self.idle.service.store.history(self.idle.id)
        return [entry.message for entry in history if entry.message and "keeps it" in entry.message]


@asynccontextmanager
async def told(folder: Path, rules: Any, **backend: Any) -> AsyncIterator[Told]:
    warnings = {"idle_warnings": ["1h", "10m"]}
    async with idle(folder, rules, **{**warnings, **backend}) as one:
        one.server.told = QUIET
        site = one.service.service.parts.site
        worker = TellingWorker(site, one.worker)
        worker.teller = Teller(site, worker._place, PATIENCE)
        try:
            yield Told(one, worker)
        finally:
            await worker.teller.close()


async def test_it_is_told_anew_where_it_is_not_hibernated_after_all(tmp_path: Path) -> None:
    async with told(tmp_path, {"network": "2h", "then": "hibernate"}) as one:
        shelf = shelf_of(one.idle.service)
        shelf.rooms = Room(0, GIB)
        one.idle.service.store.set_kernel(one.idle.id, container_id=CONTAINER)
        one.idle.says(used=0)
        await one.once()
        await one.idle.rounds(await one.idle.left() - 30)
        (before,) = await one.once()
        assert before["ending"]["warning"] == 2
        assert "it is hibernated" in before["ending"]["why"]
        await one.idle.rounds(60)
        (after,) = await one.once(EVERY)
        assert after["ending"]["warning"] == 3, "so that it is shown to who put it away"
        assert 0 < after["ending"]["left"] <= 600
        assert "it ends" in after["ending"]["why"]
        assert "so its home and what was installed go: The session has" in after["ending"]["why"]


async def test_it_is_told_when_its_end_is_near_and_no_sooner(tmp_path: Path) -> None:
    async with told(tmp_path, {"lifetime": "2h"}, **KEEP) as one:
        assert await one.once() == []
        assert await one.once(0.9 * HOUR) == []
        (said,) = await one.once(0.3 * HOUR)
        ending = said["ending"]
        assert abs(ending["left"] - 0.8 * HOUR) < 60
        assert ending["warning"] == 1
        assert (ending["fate"], ending["stays"]) == ("ended", "")
        assert ending["why"] == "Its lifetime of 2 hours is over then."
        assert ending["keep"] == "", "a lifetime is not put off"
        assert said["answer"] is None
        assert await one.once(EVERY - 1) == [], "nobody looks"
        (said,) = await one.once(1)
        one.idle.server.told = {**QUIET, "here": True}
        assert len(await one.once(EVERY)) == 1
        assert await one.once(SOON - 1) == []
        assert len(await one.once(1)) == 1
        (said,) = await one.once(0.7 * HOUR)
        assert said["ending"]["warning"] == 2


async def test_it_is_told_that_it_will_be_hibernated_and_what_is_kept(tmp_path: Path) -> None:
    async with told(tmp_path, {"network": "30m", "then": "hibernate"}, **KEEP) as one:
        one.idle.says(used=1000)
        (said,) = await one.once(1000)
        ending = said["ending"]
        assert (ending["fate"], ending["stays"]) == ("hibernated", "its home is kept")


async def test_who_is_not_to_be_warned_is_told_nothing(tmp_path: Path) -> None:
    async with told(tmp_path, {"lifetime": "30m"}, idle_warnings=[]) as one:
        assert await one.once(1500) == []


async def test_it_is_told_once_that_its_end_is_put_off(tmp_path: Path) -> None:
    async with told(tmp_path, {"network": "30m"}, **KEEP) as one:
        one.idle.says(used=1000)
        (said,) = await one.once(1000)
        assert said["ending"]["keep"] == "2 hours"
        assert "Nobody has used it" in said["ending"]["why"]
        assert (await one.idle.keep()).status == 200  # on the pages
        (said,) = await one.once(EVERY)
        assert said == {"ending": None, "answer": None}
        assert await one.once(EVERY) == []


async def test_a_wish_is_granted_once_and_by_the_policy(tmp_path: Path) -> None:
    async with told(tmp_path, {"network": "30m"}, **KEEP) as one:
        one.idle.says(used=1000)
        wish = {"here": True, "keep": "w1"}
        one.idle.server.told = wish
        before = await one.once(1000)
        assert before[0]["answer"] is None
        assert before[1] == {
            "ending": None,
            "answer": {"to": "w1", "kept": True, "message": "It is kept for 2 hours."},
        }
        assert one.messages == ["alice, from inside, keeps it for 2 hours."]
        assert (await one.idle.view())["keep"]["left"] == HOUR
        # It did not hear that, or pretends so.
        assert await one.once(EVERY) == []
        assert one.messages == ["alice, from inside, keeps it for 2 hours."]

        for number, message in (
            ("w2", "It is kept for 1 hour."),
            ("w3", "It was kept for 3 hours"),
        ):
            one.idle.server.told = {"here": True, "keep": number}
            one.idle.says(used=HOUR)
            *_, said = await one.once((await one.idle.left()) - 300)
            assert said["answer"]["to"] == number
            assert said["answer"]["message"].startswith(message)
            assert said["answer"]["kept"] == (number == "w2")
        assert said["ending"]["keep"] == "", "nothing is left"
        assert len(one.messages) == 2


async def test_the_same_wish_gets_the_same_answer(tmp_path: Path) -> None:
    # a keep so short that its owner is still warned after it
    keep = {"default_policy": {"keep": {"each": "1m", "total": "1h"}}}
    async with told(tmp_path, {"network": "30m"}, **keep) as one:
        one.idle.says(used=1000)
        one.idle.server.told = {"here": True, "keep": "w1"}
        first = await one.once(1000)
        for _ in range(3):
            again = await one.once(SOON)
            assert [said["answer"] for said in again] == [first[-1]["answer"]] * 2
        assert len(one.messages) == 1


async def test_a_policy_that_lets_nothing_be_kept(tmp_path: Path) -> None:
    policy = {"default_policy": {"keep": None}}
    async with told(tmp_path, {"network": "30m"}, **policy) as one:
        one.idle.says(used=1000)
        one.idle.server.told = {"here": True, "keep": "w1"}
        *_, said = await one.once(1000)
        assert said["ending"]["keep"] == ""
        assert said["answer"]["message"] == "Its policy does not let it be kept."
        assert one.messages == []


async def test_a_server_keeps_no_session_but_its_own(tmp_path: Path) -> None:
    """Two sessions of two people: each is told of its own end, at its own address."""
    async with told(tmp_path, {"network": "30m"}, **KEEP) as one, session_server() as other:
        other.activity, other.told = {"used": 1000, "asked": 1000, "uptime": 1e6}, QUIET
        session = await launch(one.idle.service, "bob", {"preset": "small"})
        await make_running(one.idle.service, session, other.address)
        one.idle.says(used=1000)
        # Whatever it says besides, its word is about itself.
        one.idle.server.told = {
            "here": True, "keep": "w1", "id": session["id"], "session": session["id"],
            "owner": "bob", "seconds": 1e9,
        }  # fmt: skip
        await one.once(1000)
        assert len(one.messages) == 1
        bobs = f"api/sessions/{session['id']}/idle"
        view = (await one.idle.service.call("GET", bobs, "bob")).json
        assert (view["kept_until"], view["warn"]) == (None, True)
        paths = {path for method, path, _ in other.asked if method == "PUT"}
        assert len(paths) == 1
        assert "/user/bob/" in paths.pop()


HOSTILE: dict[str, Any] = {
    "list": [1],
    "text": "keep",
    "lacks": {"here": True},
    "number": {"here": True, "keep": 5},
    "yes": {"here": True, "keep": True},
    "word": {"here": "true", "keep": "w1"},
    "long": {"here": True, "keep": "x" * 65},
    "large": {"here": True, "keep": "w1", "more": "x" * MOST_BYTES},
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_makes_no_sense_keeps_nothing(tmp_path: Path, name: str) -> None:
    async with told(tmp_path, {"network": "30m"}, **KEEP) as one:
        one.idle.says(used=1000)
        one.idle.server.told = HOSTILE[name]
        assert len(await one.once(1000)) == 1
        assert one.messages == []


async def test_a_server_that_knows_nothing_of_this_is_left_alone(tmp_path: Path) -> None:
    async with told(tmp_path, {"network": "30m"}, **KEEP) as one:
        one.idle.says(used=1000)
        one.idle.server.told = None  # of a session that was started before there was this
        one.idle.time.passes(1000)
        for _ in range(MISSES):
            assert len(await one.once(EVERY)) == 1
        assert await one.once(RARELY - 1) == []
        one.idle.server.told = QUIET
        assert len(await one.once(1)) == 1
        assert len(await one.once(EVERY)) == 1


async def test_who_keeps_silent_keeps_no_others_waiting(tmp_path: Path) -> None:
    async with told(tmp_path, {"network": "30m"}, **KEEP) as one, session_server() as other:
        other.activity, other.told = {"used": 1000, "asked": 1000, "uptime": 1e6}, QUIET
        session = await launch(one.idle.service, "alice", {"preset": "small"})
        await make_running(one.idle.service, session, other.address)
        one.idle.says(used=1000)
        one.idle.server.told = None
        one.idle.time.passes(1000)
        for _ in range(MISSES):
            await one.once(EVERY)
        assert one.worker.teller._told[one.idle.id].silent
        one.idle.time.passes(RARELY)
        watch = one.idle.worker.watch
        assert watch is not None
        first = []

        async def place(watched: Any) -> Any:
            first.append(watched.session.id)
            return await one.worker._place(watched)

        for each in one.worker.teller._told.values():
            each.place = None
        one.worker.teller._places = place
        await one.worker.teller.once(watch)
        assert first == [session["id"], one.idle.id]


async def test_a_round_has_an_end_and_all_have_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with told(tmp_path, {"network": "30m"}, **KEEP) as one, session_server() as other:
        other.activity = {"used": 1000, "asked": 1000, "uptime": 1e6}
        bobs = await launch(one.idle.service, "bob", {"preset": "small"})
        await make_running(one.idle.service, bobs, other.address)
        one.idle.says(used=1000)
        one.idle.time.passes(1000)
        monkeypatch.setattr(telling, "AT_ONCE", 1)
        teller = one.worker.teller
        one.worker.teller = Teller(teller.site, teller._places, PATIENCE, deadline=0.0)
        tellings = []
        for _ in range(4):
            before = len(other.asked)
            mine = len(await one.once(EVERY))
            his = [path for method, path, _ in other.asked[before:] if method == "PUT"]
            tellings.append((mine, len(his)))
        await teller.close()
        assert sorted(tellings[:2]) == [(0, 1), (1, 0)]
        assert tellings[2:] == tellings[:2], "who was told longest ago is the first"


async def test_the_worker_tells_and_outlives_a_database_that_is_away(tmp_path: Path) -> None:
    async with told(tmp_path, {"network": "30m"}, **KEEP) as one:
        one.idle.says(used=1000)
        one.idle.time.passes(1000)
        await one.idle.once()
        failed = asyncio.Event()
        place = one.worker._place

        async def away(watched: Any) -> Any:
            one.worker.teller._places = place
            failed.set()
            raise Unavailable("it is away")

        one.worker.teller._places = away
        running = asyncio.ensure_future(one.worker.run())
        await failed.wait()
        one.idle.time.passes(EVERY)
        while not one.all():
            assert not running.done()
            await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
