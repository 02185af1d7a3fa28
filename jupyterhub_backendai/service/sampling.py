"""What all sessions use, looked at time and again: read of their agents, stored, and told to others
in this process."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..engine.base import EngineError
from ..model.gpus import Granted
from ..model.usage import (
    METRICS,
    SIZES,
    Reading,
    Span,
    Step,
    Values,
    merged,
    percent,
    span_of,
    step_between,
)
from ..site.clock import utcnow
from ..site.runtime import Site
from ..store import RunningContainer, Unavailable
from .usage import Usages

PATIENCE = 5.0  # seconds that a round waits for an agent; what comes later is of the next round
DATABASE = 10.0  # seconds that a round waits for the database; that goes on beside the next ones
PORTION = 500  # steps that are stored at once where all of them together cannot be
MOST_UNWRITTEN = 50_000  # steps that are kept while the database is away; the oldest go first
SOME_MORE = 0.95  # of the finest size: rounds are never exactly as long as they should be

Listener = Callable[[Sequence[Step]], None]


@dataclass(frozen=True, slots=True)
class Has:
    """What a session was granted: thousandths of cores, bytes, GPUs and bytes of their memory."""

    cpu: int
    mem: int
    gpus: tuple[Granted, ...] = ()

    @property
    def gpu_mem(self) -> int | None:
        """Bytes of GPU memory; None without a GPU."""
        return sum(one.memory for one in self.gpus) if self.gpus else None


class Sampling:
    """The steps of all sessions that run. `listeners` are called with those of a round, on the
    loop; one that fails is logged and keeps the others from nothing."""

    def __init__(self, usages: Usages) -> None:
        self.listeners: list[Listener] = []
        self.latest: dict[str, Step] = {}  # by session; of those that run
        self.has: dict[str, Has] = {}
        self._usages = usages
        self.interval: float | None = None  # seconds between two rounds; None: nobody makes any
        self._running: list[RunningContainer] = []
        self._readings: dict[str, tuple[str, Reading]] = {}  # by session, and of which container
        self._asked: dict[str, asyncio.Task[Any]] = {}  # by agent; those that have not answered
        self._open: defaultdict[str, list[Span]] = defaultdict(list)  # shorter than the finest size
        self._unwritten: deque[Span] = deque(maxlen=MOST_UNWRITTEN)
        self._written: datetime | None = None
        self._away = False
        self._working: dict[str, asyncio.Task[None]] = {}  # by what it is; calls of the store
        self._late: set[str] = set()  # those of which the log says that they take long

    def sampled_every(self, seconds: float | None) -> None:
        """Says how often there is a round; None: not any more."""
        self.interval = self._usages.every = seconds

    def now(self, session_id: str) -> Step | None:
        """The last step of a session; None where it is not of now."""
        step = self.latest.get(session_id)
        if step is None or self.interval is None:
            return step
        age = time.monotonic() - self._readings[session_id][1].at
        return step if age < 3 * self.interval + PATIENCE else None

    async def once(self, site: Site) -> list[Step]:
        """One look at all sessions that run; their steps."""
        await self._in_time(site, "which sessions run", self._look_who_runs)
        steps = [step for step in await self._look(site) if step is not None]
        self.latest.update({step.session_id: step for step in steps})
        for listener in self.listeners:
            try:
                listener(steps)
            except Exception:  # of somebody else: the samples go on
                site.log.exception("What listens to the usage of sessions failed")
        self._take(steps)
        await self._in_time(site, "what sessions use", self._write)
        return steps

    async def _in_time(
        self, site: Site, what: str, work: Callable[[Site], Coroutine[Any, Any, None]]
    ) -> None:
        """Waits for work with the database, but not for ever: samples are taken all the same. None
        is begun before the last is over."""
        self._reap(what)
        if what not in self._working:
            task = self._working[what] = asyncio.ensure_future(work(site))
            await asyncio.wait({task}, timeout=DATABASE)
            self._reap(what)
        if what in self._working and what not in self._late:
            self._late.add(what)
            site.log.error(
                "The database takes more than %g s over %s; samples are kept", DATABASE, what
            )

    def _reap(self, what: str) -> None:
        """Takes work off the list if it is over."""
        if (task := self._working.get(what)) is not None and task.done():
            del self._working[what]
            self._late.discard(what)
            task.result()

    def used(self, session_id: str) -> dict[str, int | None] | None:
        """Percent of what a session was granted that it uses now, by metric; None where nothing is
        known. Of memory only, so that each row of a list can have it."""
        step, has = self.now(session_id), self.has.get(session_id)
        if step is None or has is None:
            return None
        gpu = step.gpu if has.gpus else None
        return {
            "cpu": _percent(step.cpu, has.cpu),
            "mem": _percent(step.mem, has.mem),
            "gpu": None if gpu is None else round(gpu),
            "gpu_mem": _percent(step.gpu_mem, has.gpu_mem),
        }

    async def _look_who_runs(self, site: Site) -> None:
        try:
            self._running, granted = await asyncio.gather(
                site.db(site.store.running_containers), site.db(site.store.all_granted)
            )
        except Unavailable:
            return  # those that ran a moment ago
        self.has = {
            one.session_id: Has(one.cpu, one.mem, granted.get(one.session_id, ()))
            for one in self._running
        }
        for kept in (self.latest, self._readings):
            for gone in kept.keys() - self.has.keys():
                del kept[gone]

    async def _look(self, site: Site) -> list[Step | None]:
        """The steps that come of this round's readings."""
        groups: defaultdict[str, list[RunningContainer]] = defaultdict(list)
        for one in self._running:
            groups[one.agent].append(one)
        asked: dict[str, Callable[[], Awaitable[Any]]] = {
            agent: lambda agent=agent, group=group: site.engine.readings(  # type: ignore[misc]
                agent, [one.container for one in group]
            )
            for agent, group in groups.items()
        }
        if any(not part.simulated for has in self.has.values() for part in has.gpus):
            asked[""] = lambda: self._usages.read(site)
        answers = await self._ask(site, asked)
        usage = answers.pop("", None)
        found: dict[str, Reading] = {}
        for readings in answers.values():
            found.update(readings)
        now, monotonic = utcnow(), time.monotonic()
        steps = []
        for one in self._running:
            reading = found.get(one.container)
            if reading is not None:
                at = now - timedelta(seconds=monotonic - reading.at)
                steps.append(self._step(one, reading, at, usage))
        return steps

    async def _ask(
        self, site: Site, asked: Mapping[str, Callable[[], Awaitable[Any]]]
    ) -> dict[str, Any]:
        """The answers of those that answer soon. Who did not answer the last time is not waited
        for, nor asked once more before it has."""
        new = {}
        for name, ask in asked.items():
            if name not in self._asked:
                new[name] = self._asked[name] = asyncio.ensure_future(ask())
        if new:
            await asyncio.wait(new.values(), timeout=PATIENCE)
        answers = {}
        for name, task in list(self._asked.items()):
            if not task.done():
                continue
            del self._asked[name]
            try:
                answers[name] = task.result()
            except EngineError as error:  # which the log has from whoever looks after agents
                site.log.debug("What is used on %s is not known: %s", name, error)
            except Exception as error:  # of one agent: the others are sampled all the same
                site.warn_once(f"What is used on {name} cannot be read: {error!r}")
        return answers

    def _step(
        self, one: RunningContainer, reading: Reading, at: datetime, usage: Any
    ) -> Step | None:
        before = self._readings.get(one.session_id)
        self._readings[one.session_id] = one.container, reading
        if before is None or before[0] != one.container:
            return None
        has = self.has[one.session_id]
        gpu = {} if usage is None else _of_gpus(usage, one.container, has.gpus)
        return step_between(one.session_id, before[1], reading, at, gpu)

    def _take(self, steps: Iterable[Step]) -> None:
        """Has steps stored, with those that could not be stored before."""
        for step in steps:
            self._open[step.session_id].append(span_of(step))
        for session_id in list(self._open):
            spans = self._open[session_id]
            if session_id not in self.has or _length(spans) >= SIZES[0] * SOME_MORE:
                self._unwritten.append(merged(spans))
                del self._open[session_id]

    async def _write(self, site: Site) -> None:
        now, before = utcnow(), self._written
        spans = list(self._unwritten)
        self._unwritten.clear()
        try:
            try:
                await site.db(site.store.add_usage, spans, before=before, now=now)
            except Unavailable:
                raise
            except Exception:
                site.log.exception("What sessions used cannot be stored at once")
                while spans:
                    await self._write_some(site, spans[:PORTION], now, now)
                    del spans[:PORTION]
                # Only now, as coarser steps are made of all.
                await self._write_some(site, [], before, now)
        except Unavailable as error:
            if not self._away:
                site.log.error("What sessions use cannot be stored; it is kept: %s", error)
            self._away = True
            # The oldest go first, if there are too many.
            self._unwritten = deque([*spans, *self._unwritten], maxlen=MOST_UNWRITTEN)
            return
        self._away, self._written = False, now

    async def _write_some(
        self, site: Site, spans: list[Span], before: datetime | None, now: datetime
    ) -> None:
        try:
            await site.db(site.store.add_usage, spans, before=before, now=now)
        except Unavailable:
            raise
        except Exception:  # the same would fail each time
            site.log.exception("%d steps of what sessions used are left out", len(spans))

    async def close(self) -> None:
        """Gives up on agents and a database that have not answered."""
        tasks = [*self._asked.values(), *self._working.values()]
        self._asked.clear()
        self._working.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _length(spans: Iterable[Span]) -> float:
    return sum(span.seconds for span in spans)


def _of_gpus(usage: Any, container: str, granted: Sequence[Granted]) -> Values:
    """`gpu` and `gpu_mem` of a session; None as soon as one part is not known, or simulated."""
    if not granted or any(one.simulated for one in granted):
        return {}
    found = usage.of(container, [one.uuid for one in granted])
    busy = found.busy
    return {"gpu": None if busy is None else busy / len(granted), "gpu_mem": found.memory_bytes}


def _percent(value: float | None, of: int | None) -> int | None:
    found = percent(value, of)
    return None if found is None else round(found)


assert set(METRICS) <= set(Step.__slots__), "a step has each metric"
