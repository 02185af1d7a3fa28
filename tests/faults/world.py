"""What survives a kill -9, as a stand-in: machines with containers, the Hub's rows, the proxy."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jupyterhub_backendai.engine.base import (
    LABEL_SESSION,
    AgentStatus,
    AgentUnreachable,
    Container,
    ContainerGone,
    Engine,
)
from jupyterhub_backendai.engine.batch import Ending, Outcome
from jupyterhub_backendai.engine.docker import AgentConfig
from jupyterhub_backendai.engine.logs import LogPart
from jupyterhub_backendai.engine.saved_logs import LogShelf
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.usage import Reading
from jupyterhub_backendai.site.clock import utcnow

from .virtual import Killed, Process, VirtualLoop, current, pause

AGENTS = ("one", "two")
ROOM = Slots(6000, 8 * GIB)
# How likely others have their turn before what reaches out of a process. After it they have it in
# half of all cases, and between two of them that is as good.
BEFORE = 1 / 8
LINGER = 60  # seconds that a container stays up after its command


@dataclass
class Job:
    """A batch session's command: how long it takes, and its exit code."""

    seconds: float
    exit_code: int

    @property
    def command(self) -> str:
        return f"sleep {self.seconds}; exit {self.exit_code}"

    @classmethod
    def of(cls, command: str) -> Job:
        _, seconds, _, code = command.replace(";", "").split()
        return cls(float(seconds), int(code))


@dataclass
class Box:
    """A container. `stopped_at`: by the engine or by its machine, not by itself."""

    id: str
    session: str
    agent: str
    job: Job | None
    started: bool = False
    stopped_at: datetime | None = None
    began_at: datetime | None = None

    def ended_at(self) -> datetime | None:
        """When its command was over by itself; None where it was not, or not yet."""
        if self.began_at is None or self.job is None:
            return None
        end = self.began_at + timedelta(seconds=self.job.seconds)
        return end if end <= min(utcnow(), self.stopped_at or end) else None

    @property
    def running(self) -> bool:
        ended = self.ended_at()
        lingers = ended is None or utcnow() < ended + timedelta(seconds=LINGER)
        return self.started and self.stopped_at is None and lingers


@dataclass
class World:
    """All of it. `faults`: numbers of steps at which `fault` is called."""

    seed: int
    boxes: dict[str, Box] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)  # agent by session
    commands: list[tuple[str, datetime]] = field(default_factory=list)  # that began: whose, when
    finished: dict[str, int] = field(default_factory=dict)  # exit codes of boxes that are removed
    rows: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # the Hub's
    hub: Any = None
    service: Any = None
    proxy: bool = True
    down: set[str] = field(default_factory=set)  # machines whose dockerd is dead
    steps: int = 0
    faults: list[int] = field(default_factory=list)
    fault: Callable[[], None] = lambda: None
    ending: Callable[[Box], None] = lambda _: None  # is told of what somebody stops or removes
    broken: list[str] = field(default_factory=list)  # what no fault explains
    told: list[tuple[datetime, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def say(self, text: str) -> None:
        self.told.append((utcnow(), self.steps, text))

    @property
    def story(self) -> list[str]:
        """What happened, line by line."""
        return [f"{at:%M:%S.%f} step {step}: {text}" for at, step, text in self.told]

    async def step(self, turn: float = 0.5) -> None:
        """A moment at which anything may be killed, whoever takes the step included; `turn` is how
        likely others have theirs before it goes on."""
        process = current.get()
        self.steps += 1
        self._alive(process)
        while self.faults and self.steps >= self.faults[0]:
            self.faults.pop(0)
            self.fault()
            self._alive(process)
        chance = self.random.random()
        if chance < turn:
            await pause(chance * 0.04)
            self._alive(process)

    @staticmethod
    def _alive(process: Process | None) -> None:
        if process is not None and not process.alive:
            raise Killed

    async def on(self, agent: str, work: Callable[[], Any]) -> Any:
        """A call of a machine's dockerd, which may die before or after it has done its work."""
        await self.step(BEFORE)
        if agent in self.down:
            raise AgentUnreachable(f"{agent} does not answer")
        found = work()
        await self.step()
        if agent in self.down:
            raise AgentUnreachable(f"{agent} broke off")
        return found

    def of(self, session: str, agent: str) -> list[Box]:
        return [b for b in self.boxes.values() if (b.session, b.agent) == (session, agent)]

    def box(self, container: str) -> Box:
        if container not in self.boxes:
            raise ContainerGone(container)
        return self.boxes[container]

    def stop(self, box: Box) -> None:
        if box.running:
            box.stopped_at = utcnow()

    def remove(self, box: Box) -> None:
        if box.id not in self.boxes:
            return  # somebody else was faster
        self.ending(box)
        self.stop(box)
        if box.job is not None and box.ended_at() is not None:
            self.finished[box.session] = box.job.exit_code
        del self.boxes[box.id]
        self.say(f"{box.id} of {box.session} is removed")


async def ask(world: World, process: Process, work: Callable[[], Awaitable[Any]]) -> Any:
    """A request to another process. Raises `ConnectionError` where that dies before it answers."""
    await world.step()

    async def answered() -> Any:
        await world.step(BEFORE)
        return await work()

    task, over = process.run(answered()), VirtualLoop.latest.create_future()
    task.add_done_callback(lambda _: over.done() or over.set_result(None))
    await over  # as `asyncio.wait` does, without its detours
    if task.cancelled() or not process.alive:
        raise ConnectionError(f"{process.name} broke off")
    found = task.result()
    await world.step()
    return found


class StubEngine(Engine):
    """A process's way to the machines."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hosts = {name: AgentConfig(name) for name in AGENTS}

    async def agents(self) -> list[AgentStatus]:
        await self.world.step()
        down = self.world.down
        return [AgentStatus(a, "default", ROOM, a not in down, "it is silent") for a in AGENTS]

    async def containers(self, agent: str) -> list[Container]:
        def listed() -> list[Container]:
            return [
                Container(agent, b.id, b.id, b.session, "main1", b.running,
                          {LABEL_SESSION: b.session})
                for b in self.world.boxes.values() if b.agent == agent
            ]  # fmt: skip

        return list(await self.world.on(agent, listed))

    async def readings(self, agent: str, containers: Collection[str]) -> Mapping[str, Reading]:
        return {}

    async def create(self, agent: str, session: str, job: Job | None) -> str:
        """A container with its volume; it does not run yet."""
        world = self.world

        def made() -> str:
            number = f"box-{world.steps}"
            world.volumes[session] = agent
            world.boxes[number] = Box(number, session, agent, job)
            world.say(f"{number} on {agent} for {session}")
            return number

        return str(await world.on(agent, made))

    async def start(self, agent: str, container: str) -> None:
        def started() -> None:
            self.world.box(container).started = True

        await self.world.on(agent, started)

    async def stop_session(self, agent: str, session_id: str, grace: int) -> None:
        def stopped(box: Box) -> None:
            self.world.ending(box)
            self.world.stop(box)

        for box in self.world.of(session_id, agent):
            await self.world.on(agent, lambda box=box: stopped(box))

    async def remove_session(self, agent: str, session_id: str, keep_home: bool = False) -> int:
        world, count = self.world, 0
        while boxes := await world.on(agent, lambda: world.of(session_id, agent)):
            await world.on(agent, lambda boxes=boxes: world.remove(boxes[0]))
            count += 1

        def emptied() -> None:
            if world.volumes.get(session_id) == agent and not keep_home:
                del world.volumes[session_id]

        await world.on(agent, emptied)
        return count

    async def has_home(self, agent: str, session_id: str) -> bool:
        return await self.world.on(agent, lambda: self.world.volumes.get(session_id) == agent)

    def may_be_on(self, session_agent: str, agent: str) -> bool:
        return session_agent == agent

    async def orphans(self, agent: str) -> Sequence[str]:
        def there() -> list[str]:
            boxes = [b.session for b in self.world.boxes.values() if b.agent == agent]
            return boxes + [s for s, at in self.world.volumes.items() if at == agent]

        return list(await self.world.on(agent, there))

    async def logs(self, agent: str, container: str, lines: int) -> str:
        return ""

    async def put_go(self, agent: str, container: str) -> None:
        world = self.world

        def go() -> None:
            box = world.box(container)
            if box.running and box.began_at is None:
                box.began_at = utcnow()
                world.commands.append((box.session, box.began_at))

        await world.on(agent, go)

    async def command_started(self, agent: str, container: str) -> datetime | None:
        found = await self.world.on(agent, lambda: self.world.box(container).began_at)
        return found  # type: ignore[no-any-return]

    async def outcome(self, agent: str, container: str) -> Outcome | None:
        def what() -> Outcome | None:
            box = self.world.box(container)
            if box.job is not None and (ended := box.ended_at()) is not None:
                code = box.job.exit_code
                ending = Ending.FAILED if code else Ending.FINISHED
                return Outcome(ending, code, None, box.began_at, ended)
            if box.running:
                return None
            began = box.began_at
            return Outcome(Ending.INTERRUPTED if began else Ending.NEVER_STARTED, started_at=began)

        found = await self.world.on(agent, what)
        return found  # type: ignore[no-any-return]

    async def open_log(
        self, agent: str, container: str, part: LogPart
    ) -> AsyncGenerator[bytes, None]:
        yield b""

    async def save_log(
        self, agent: str, container: str, shelf: LogShelf, session_id: str, kernel: str
    ) -> None:
        await self.world.on(agent, lambda: self.world.box(container))
