"""A schedule of faults on stand-ins: what people do, what is killed, and what must hold."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from jupyterhub import orm
from traitlets.config import Config

from jupyterhub_backendai.configuration import BackendAI, read_configuration
from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.status import Status
from jupyterhub_backendai.service.hub import HubRefused
from jupyterhub_backendai.store import NotFound, Session, SessionResult, Store

from ..holdings import holdings
from .processes import StubHub, StubService
from .virtual import BEGIN, VirtualLoop
from .world import AGENTS, Box, Job, World, ask

OWNERS = ("alice", "bob", "carol")
SESSIONS = 30
FAULTS = 20
LAUNCHES, ENDS = 20, 20  # seconds: the last launch, and after it the last wish that it end
WORK = 10  # seconds that a command takes at most
STEPS_APART = 180  # at most, between two faults
SETTLED = 900  # seconds after which all must be well
KILLS = (
    ("service",), ("hub",), ("proxy",), ("dockerd",), ("service", "hub"), ("service", "dockerd"),
    ("hub", "proxy"), ("hub", "dockerd"), ("proxy", "service"), ("proxy", "dockerd"),
)  # fmt: skip


@dataclass
class Wish:
    """What one person does: a launch, by the service or a page of the Hub, and maybe an end."""

    name: str
    owner: str
    at: float
    options: dict[str, Any]
    by_page: bool
    ends: str  # "call", "force", "page", or "" where it is left alone
    after: float
    depends_on: Wish | None = None
    id: str = ""
    ended: bool = False  # that was answered


class Schedule:
    """One run of one seed."""

    def __init__(self, seed: int, store: Store, loop: VirtualLoop) -> None:
        self.loop, self.world, self.store = loop, World(seed), store
        self.random = self.world.random
        self.configuration, self.rows = configuration(), hub_rows()
        self.wishes: list[Wish] = []
        for number in range(SESSIONS):
            self.wishes.append(self._wish(number))

    def _wish(self, number: int) -> Wish:
        dice, name = self.random, f"work-{number}"
        wish = Wish(
            name, dice.choice(OWNERS), dice.uniform(0, LAUNCHES), {"name": name},
            by_page=dice.random() < 0.3, ends="", after=dice.uniform(0, ENDS),
        )  # fmt: skip
        wish.options["resources"] = {"cpu": dice.choice((0.5, 1, 2)), "mem": "512m"}
        if dice.random() < 0.6:
            job = Job(round(dice.uniform(0.1, WORK), 1), dice.choice((0, 0, 0, 3, 127)))
            wish.options |= {"type": "batch", "batch": {"command": job.command}}
            wish.by_page = False
            if dice.random() < 0.1:
                wish.options["batch"]["starts_at"] = f"{dice.randint(5, 40)}s"
            earlier = [other for other in self.wishes if other.owner == wish.owner]
            if earlier and dice.random() < 0.25:
                wish.depends_on = dice.choice(earlier)
                wish.options["depends_on"] = [wish.depends_on.name]
            wish.ends = dice.choice(("", "", "", "call", "force"))
        else:
            wish.ends = dice.choice(("call", "call", "page", "force")) if number % 10 else ""
        return wish

    # ---- what happens -------------------------------------------------------------------------

    async def run(self) -> list[str]:
        """Everything; what is wrong in the end."""
        world, dice = self.world, self.random
        world.fault, world.ending = self._kill_some, self._look_whether_it_ends
        world.faults = [dice.randint(1, STEPS_APART)]
        for _ in range(FAULTS - 1):
            world.faults.append(world.faults[-1] + dice.randint(1, STEPS_APART))
        self._start("hub")
        self._start("service")
        people = [asyncio.ensure_future(self._person(wish)) for wish in self.wishes]
        await asyncio.wait(people)
        broken = [person.exception() for person in people]
        if wrong := [f"somebody met {error!r}" for error in broken if error]:
            return wrong
        while world.faults:  # everybody was quick: the rest of the kills
            self._go_on()
            await asyncio.sleep(1)
        wrong = await self._settled()
        for wish in self.wishes:
            if not self.store.get(wish.id).status.is_final:
                await self._end(wish, "call")
        return wrong + await self._settled(none_live=True) + world.broken

    async def _settled(self, none_live: bool = False) -> list[str]:
        until = self.loop.now + SETTLED
        while (wrong := self.problems(none_live)) and self.loop.now < until:  # noqa: ASYNC110
            await asyncio.sleep(15)
        return wrong

    def _kill_some(self) -> None:
        for what in self.random.choice(KILLS):
            target = self.random.choice(AGENTS) if what == "dockerd" else what
            self._kill(target)
            back = self.random.uniform(0.2, 25)
            self.loop.call_later(back, self._start, target)

    def _kill(self, target: str) -> None:
        world = self.world
        world.say(f"kill -9 of {target}")
        if target in AGENTS:
            world.down.add(target)
            if self.random.random() < 0.3:  # no live restore
                for box in world.boxes.values():
                    if box.agent == target:
                        world.stop(box)
        elif target == "proxy":
            world.proxy = False
        elif (killed := getattr(world, target)) is not None:
            setattr(world, target, None)
            killed.process.kill()
            if target == "hub" and world.service is not None:
                # It looks every second whether its Hub is there; the next one starts its own.
                self.loop.call_later(self.random.random(), self._orphaned, world.service)

    def _orphaned(self, service: StubService) -> None:
        service.process.kill()
        if self.world.service is service:
            self.world.service = None
            self._start("service")

    def _start(self, target: str) -> None:
        world = self.world
        world.say(f"{target} is there")
        if target in AGENTS:
            world.down.discard(target)
        elif target == "proxy":
            world.proxy = True
        elif target == "hub" and world.hub is None:
            world.hub = StubHub(world, self.rows, self.configuration)
            world.hub.process.run(self._boot(world.hub))
            self._start("service")
        elif target == "service" and world.service is None and world.hub is not None:
            world.service = StubService(world, self.configuration)
            world.service.process.run(self._boot(world.service))

    async def _boot(self, process: Any) -> None:
        try:
            await process.boot()
        except Exception as error:
            self.world.say(f"{process.process.name} failed: {traceback.format_exc()}")
            if process.process.alive:
                self.world.broken.append(f"{process.process.name} did not begin: {error!r}")
            raise

    async def _person(self, wish: Wish) -> None:
        await asyncio.sleep(wish.at)
        while wish.depends_on and not wish.depends_on.id:
            self._go_on()
            await asyncio.sleep(1)
        await self._launch(wish)
        if wish.ends:
            await asyncio.sleep(wish.after)
            await self._end(wish, wish.ends)

    def _go_on(self) -> None:
        """Not after what no fault explains: what does not begin is waited for without end."""
        if self.world.broken:
            raise AssertionError(self.world.broken[0])

    async def _asked(self, of: str, call: Callable[[Any], Awaitable[Any]]) -> Any:
        """An answer, however often it takes."""
        while True:
            self._go_on()
            there = getattr(self.world, of)
            ready = there is not None and (there.open if of == "service" else there.listening)
            if ready and self.world.proxy:
                try:
                    return await ask(self.world, there.process, lambda: call(there))  # noqa: B023
                except ConnectionError:
                    self.world.say("an answer was lost")
            await asyncio.sleep(self.random.uniform(0.5, 4))

    async def _launch(self, wish: Wish) -> None:
        server = wish.name if wish.by_page else ""
        try:
            if wish.by_page:
                await self._asked("hub", lambda hub: hub.start(wish.owner, server, wish.options))
            else:
                await self._asked("service", lambda s: s.launch(wish.owner, wish.options))
        except (RequestError, HubRefused) as no:
            self.world.say(f"{wish.name}: {no}")  # or it was there already, the answer lost
        found = self.store.find_sessions(wish.owner, [wish.name])
        wish.id = found[wish.name].id if found else ""
        if not wish.id:  # what it was to wait for has failed by now
            del wish.options["depends_on"]
            await self._launch(wish)
            return
        self.world.say(f"{wish.name} is {wish.id}, {wish.options}")

    async def _end(self, wish: Wish, how: str) -> None:
        row = self.store.get(wish.id)
        for _ in range(10):
            try:
                if how == "page":  # and by a call, for of one that waits the Hub knows nothing
                    await self._asked("hub", lambda hub: hub.stop(row.owner, row.server_name))
                await self._asked("service", lambda s: s.end(wish.id, how == "force"))
                wish.ended = True
                return
            except (HubRefused, NotFound) as no:
                self.world.say(f"{wish.name} was not ended by {how}: {no}")
                await asyncio.sleep(5)

    # ---- what must hold -----------------------------------------------------------------------

    def problems(self, none_live: bool) -> list[str]:
        """What does not hold now."""
        world, wrong = self.world, []
        if world.hub is None or world.service is None:
            return ["a process is not there"]
        rows = [change.session for change in self.store.changes(0)]  # of all there ever were
        live = {row.id: row for row in rows if not row.status.is_final}
        for row in live.values():
            server = row.owner, row.server_name
            boxes = [box for box in world.boxes.values() if box.session == row.id and box.running]
            if row.status is not Status.RUNNING or len(boxes) != 1 or none_live:
                wrong.append(f"{row.name} is {row.status.value} with {len(boxes)} containers")
            if server not in world.hub.running:
                wrong.append(f"{row.name} is live and the Hub does not have it")
        held = Counter(holding.session_id for holding in holdings(self.store))
        if held != Counter(live.keys()):
            wrong.append(f"what is held is {dict(held)} and live are {list(live)}")
        wrong += [f"a container of {b.session} is left" for b in world.boxes.values()
                  if b.session not in live]  # fmt: skip
        wrong += [f"a volume of {session} is left" for session in world.volumes.keys() - live]
        servers = {(row.owner, row.server_name) for row in live.values()}
        wrong += [f"the Hub has a server {server}" for server in world.rows.keys() - servers]
        for row in rows:
            wrong += [f"{row.name}: {problem}" for problem in self._of_batch(row)]
        ended = {wish.id for wish in self.wishes if wish.ended}
        wrong += [f"{live[each].name} was ended and is live" for each in ended & live.keys()]
        return wrong

    def _look_whether_it_ends(self, box: Box) -> None:
        """The container of a session that is RUNNING is not for service or Hub to end."""
        row = self.store.get(box.session)
        if row.status is Status.RUNNING and row.agent == box.agent and box.running:
            self.world.broken.append(f"{row.name} ran, and its container {box.id} was ended")

    def _of_batch(self, row: Session) -> list[str]:
        began = [at for session, at in self.world.commands if session == row.id]
        wrong = [f"its command ran {len(began)} times"] if len(began) > 1 else []
        if began and row.not_before is not None and began[0] < row.not_before:
            wrong.append(f"its command began at {began[0]}, before {row.not_before}")
        code = self.world.finished.get(row.id)
        result = SessionResult.UNDEFINED
        if code is not None:
            result = SessionResult.FAILURE if code else SessionResult.SUCCESS
        if row.status.is_final and row.type == "batch":
            if row.result is not result:
                wrong.append(f"it ended with {code} and its result is {row.result.value}")
            if code is not None and row.exit_code != code:
                wrong.append(f"it ended with {code} and its exit code is {row.exit_code}")
        return wrong


CONFIGURED: dict[str, Any] = {
    "service": True,
    "queue_patience": 3,
    "environments": [{"name": "python", "image": "python:3"}],
    "agents": [{"name": name, "base_url": "unix:///nowhere"} for name in AGENTS],
    "default_policy": {"max_pending": 200},
}


@cache
def configuration() -> BackendAI:
    """The site's, the same in each schedule."""
    return read_configuration(Config(BackendAI=CONFIGURED))


def hub_rows() -> dict[str, orm.User]:
    """The Hub's users. No database is behind them: what a Hub keeps of its servers is `World.rows`,
    and of the rest nothing is asked here."""
    rows = {name: orm.User(name=name, admin=False, created=BEGIN) for name in OWNERS}
    for user in rows.values():
        orm.Spawner(user=user, name="")  # each has a default server
    return rows
