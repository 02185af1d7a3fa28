"""Makes the images that are asked for and removes those that are deleted, a few at a time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Collection, Iterable
from contextlib import suppress
from functools import partial

from ..._within import within
from ...engine.images import Images
from ...model.images import CommitStatus
from ...model.status import Status
from ...site.runtime import Site
from ...store import Commit, NotFound, Session, Unavailable
from ..commits import words
from ..commits.making import Making, TellHub, Times
from ..commits.removing import Removing
from ..commits.resting import Resting
from ..commits.sweeping import sweep
from ..dropping import Drops
from ..images import ImageDoor

ON_AN_AGENT = 2  # images that are made on one agent at a time; more only wait for its disk
PUSHES = 4  # images that one agent sends to the registry at a time; they keep none from being made
REMOVALS = 4  # at a time
SOON, LATER = 1.0, 15.0  # seconds between two rounds, while there is work and while there is none
SWEEP_EVERY = 600.0  # seconds
SWEEP_AGAIN = 15.0  # seconds until an agent is swept that did not answer, and does since
DROP_EVERY = 15.0  # seconds between looks at hibernated sessions whose time is over
FREED = frozenset({CommitStatus.PUSHING})  # from here on the session is not needed any more


class CommitWorker:
    """The part of the service that makes images of sessions."""

    def __init__(
        self,
        site: Site,
        images: Images,
        door: ImageDoor,
        tell_hub: TellHub,
        drops: Drops,
        times: Times | None = None,
    ) -> None:
        self.site, self.images, self.door, self.tell_hub = site, images, door, tell_hub
        self.times = times or Times()
        self.removing = Removing(site, images)
        self.resting = Resting(site, images, drops)
        self._making: dict[str, tuple[Making, asyncio.Task[None]]] = {}  # by the id of the work
        self._pushing: dict[str, asyncio.Semaphore] = {}  # by agent
        self._removals: dict[str, asyncio.Task[None]] = {}  # by the reference of the image
        self._swept: float | None = None
        self._looked = float("-inf")
        self._sweeping: asyncio.Task[None] | None = None
        self._unswept: set[str] = set()  # agents that did not answer when they were to be cleaned
        self._dropping: asyncio.Task[None] | None = None
        self._dropped: float | None = None

    async def run(self) -> None:
        """The endless work."""
        try:
            while True:
                self.door.news.clear()
                try:
                    await self.once()
                except Unavailable as error:
                    self.site.log.warning("No images can be made now: %s", error)
                with suppress(asyncio.TimeoutError):
                    await within(SOON if self.busy else LATER, self.door.news.wait())
        finally:
            # What they were at is gone on with by the next process.
            tasks = self._tasks()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return bool(self._making or self._removals)

    async def once(self) -> None:
        """One round. Raises `Unavailable`."""
        under_way = await self.site.db(self.site.store.commits_under_way)
        for commit in under_way:
            await self._look_after(commit)
        for commit in self._next(under_way):
            self._begin(commit)
        for one in await self.removing.due():
            if one.reference not in self._removals and len(self._removals) < REMOVALS:
                task = asyncio.ensure_future(self._surely(self.removing.remove(one)))
                self._removals[one.reference] = task
                task.add_done_callback(partial(self._removed, one.reference))
        since = None if self._dropped is None else time.monotonic() - self._dropped
        if (since is None or since >= DROP_EVERY) and not _is_busy(self._dropping):
            self._dropped = time.monotonic()
            self._dropping = asyncio.ensure_future(self._surely(self.resting.once()))
        if not _is_busy(self._sweeping) and (agents := await self._to_sweep()):
            # Beside the rounds: an agent may take its time to answer.
            self._sweeping = asyncio.ensure_future(self._surely(self._sweep(agents)))

    async def settled(self) -> None:
        """Until nothing is under way."""
        while tasks := self._tasks():
            await asyncio.wait(tasks)
            await asyncio.sleep(0)  # for what they do when they are done

    def _tasks(self) -> list[asyncio.Task[None]]:
        making = [task for _, task in self._making.values()]
        beside = [
            one for one in (self._sweeping, self._dropping) if one is not None and not one.done()
        ]
        return [*making, *self._removals.values(), *beside]

    async def _to_sweep(self) -> list[str]:
        """Now and then all agents; those that did not answer as soon as they do."""
        hosts, now = list(self.site.engine.hosts), time.monotonic()
        if self._swept is None or now - self._swept >= SWEEP_EVERY:
            self._swept = self._looked = now
            return hosts
        if not self._unswept or now - self._looked < SWEEP_AGAIN:
            return []
        self._looked = now
        there = {agent.name for agent in await self.site.db(self.site.store.agents)
                 if agent.available}  # fmt: skip
        return [agent for agent in hosts if agent in self._unswept & there]

    async def _sweep(self, agents: Collection[str]) -> None:
        before, self._unswept = self._unswept, self._unswept - set(agents)
        try:
            self._unswept.update(await sweep(self.site, self.images, self._making, agents))
        except Unavailable:
            self._unswept |= before
            raise

    # ---- images that are made -------------------------------------------------------------------

    async def _look_after(self, commit: Commit) -> None:
        """Has one given up that is not wanted any more, or cannot be made."""
        found = self._making.get(commit.id)
        why = None
        if commit.cancel_asked:
            why = words.CANCELLED
        elif commit.status not in FREED and not await self._is_there(commit):
            why = words.SESSION_ENDED
        if why is None:
            return
        if found is None:
            found = self._begin(commit)
        found[0].cancel(why)

    async def _is_there(self, commit: Commit) -> bool:
        """Whether the session still has the container that the image is made of."""
        try:
            session: Session = await self.site.db(self.site.store.get, commit.session_id)
        except NotFound:
            return False
        return session.status is Status.RUNNING

    def _next(self, under_way: Iterable[Commit]) -> list[Commit]:
        """What is begun now: what was under way already, then in turns of their owners."""
        commits = list(under_way)
        on_agent = Counter(
            making.commit.agent for making, _ in self._making.values() if _is_on_disk(making.commit)
        )
        of_owner = Counter(making.commit.owner for making, _ in self._making.values())
        waiting = [commit for commit in commits if commit.id not in self._making]
        begun: list[Commit] = []
        while waiting:
            waiting.sort(
                key=lambda one: (
                    one.status is CommitStatus.WAITING, of_owner[one.owner], one.began_at, one.id
                )
            )  # fmt: skip
            commit = waiting.pop(0)
            full = _is_on_disk(commit) and on_agent[commit.agent] >= ON_AN_AGENT
            if full or commit.reference in self._removals:
                continue
            on_agent[commit.agent] += _is_on_disk(commit)
            of_owner[commit.owner] += 1
            begun.append(commit)
        return begun

    def _begin(self, commit: Commit) -> tuple[Making, asyncio.Task[None]]:
        pushing = self._pushing.setdefault(commit.agent, asyncio.Semaphore(PUSHES))
        making = Making(self.site, self.images, commit, self.times, self.tell_hub, pushing)
        task = asyncio.ensure_future(self._surely(making.run()))
        self._making[commit.id] = making, task
        task.add_done_callback(partial(self._made, commit.id))
        return making, task

    def _made(self, commit_id: str, _: object) -> None:
        making, _task = self._making.pop(commit_id)
        if making.leaves:
            self._unswept.add(making.commit.agent)
        self.door.news.set()  # somebody else has a turn

    def _removed(self, reference: str, _: object) -> None:
        self._removals.pop(reference, None)

    async def _surely(self, work: Awaitable[None]) -> None:
        """Work that is gone on with in a later round, whatever becomes of it in this one."""
        try:
            await work
            return
        except Unavailable as error:
            self.site.log.warning("An image waits for the database: %s", error)
        except Exception:
            self.site.log.exception("The work on an image failed; it is gone on with")
        await asyncio.sleep(SOON)


def _is_on_disk(commit: Commit) -> bool:
    """Whether the agent's disk has work with it: from then on only the registry has."""
    return commit.status is not CommitStatus.PUSHING


def _is_busy(task: asyncio.Task[None] | None) -> bool:
    return task is not None and not task.done()
