"""Time that passes only where everybody waits, and processes that can be killed in it.

A process is the tasks that were begun in it. `kill` is a kill -9: nothing of it reaches what
survives it any more, whatever its `except` and `finally` would do. For that, each of its ways out
(database, engine, Hub, users) goes through `World.step`.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

BEGIN = datetime(2030, 1, 1, tzinfo=timezone.utc)
current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Killed(BaseException):
    """Ends a task of a process that is no more; no `except Exception` holds it up."""


class Process:
    """Tasks that live and die together."""

    def __init__(self, name: str) -> None:
        self.name, self.alive = name, True
        self.tasks: dict[asyncio.Task[Any], None] = {}  # in their order

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of this process, and all that it begins."""

        def begin() -> asyncio.Task[Any]:
            current.set(self)
            return asyncio.get_running_loop().create_task(work)

        return contextvars.copy_context().run(begin)

    def kill(self) -> None:
        self.alive = False
        for task in list(self.tasks):
            task.cancel()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that skips the time in which nothing happens; what others do in threads it does at
    once, so that the same seed gives the same run.

    It has timers and callbacks of its own, because it watches nothing else: asyncio's way around
    sockets and signals would take longer than what runs in it. What is to be called soon cannot be
    cancelled: nobody does that.
    """

    latest: VirtualLoop  # there is one at a time; asyncio asks the kernel whose thread this is

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle | asyncio.Future[None]]] = []
        self._order = itertools.count()  # of timers of the same moment
        super().__init__()
        VirtualLoop.latest = self
        self.set_task_factory(_task)  # type: ignore[arg-type]
        self.set_exception_handler(lambda *_: None)  # of tasks that were killed

    def time(self) -> float:
        return self.now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> None:
        if context is None:
            context = contextvars.copy_context()
        self._ready.append((context, callback, args))  # type: ignore[attr-defined]

    def _run_once(self) -> None:
        ready: deque[tuple[contextvars.Context, Callable[..., object], tuple[Any, ...]]]
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        while not self._stopping:  # type: ignore[attr-defined]
            while timers and (not ready or timers[0][0] <= self.now):
                when, _, timer = heapq.heappop(timers)
                if timer.cancelled():
                    continue
                if when > self.now:
                    self.now = when
                if type(timer) is asyncio.TimerHandle:
                    ready.append((timer._context, _due, (timer,)))
                else:
                    timer.set_result(None)
            if not ready:
                raise AssertionError("everybody waits for ever")
            for _ in range(len(ready)):
                context, callback, args = ready.popleft()
                context.run(callback, *args)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def clock(self) -> type:
        """A stand-in for `datetime` that tells this loop's time."""
        loop = self

        class Clock:
            @staticmethod
            def now(zone: tzinfo) -> datetime:
                now = BEGIN + timedelta(seconds=loop.now)
                return now if zone is BEGIN.tzinfo else now.astimezone(zone)

        return Clock


def _due(timer: asyncio.TimerHandle) -> None:
    if not timer.cancelled():  # by what came before it in the same moment
        timer._callback(*timer._args)


async def pause(seconds: float) -> None:
    """`asyncio.sleep` without its detours, and without a turn of the loop where this one is next
    anyway."""
    loop = VirtualLoop.latest
    when, timers = loop.now + seconds, loop._timers
    if not loop._ready and (not timers or when < timers[0][0]):  # type: ignore[attr-defined]
        loop.now = when
        return
    over: asyncio.Future[None] = asyncio.Future(loop=loop)
    heapq.heappush(timers, (when, next(loop._order), over))
    await over


def _task(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **more)
    process = current.get()
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(lambda done: process.tasks.pop(done, None))
        if not process.alive:
            task.cancel()
    return task
