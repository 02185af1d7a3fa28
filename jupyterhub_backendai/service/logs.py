"""Where a container's log is to be had: from its engine while it is there, from the shelf after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial

from ..engine.base import ContainerGone
from ..engine.logs import LogPart
from ..engine.saved_logs import COMMAND, CONTAINER, SavedLog
from ..engine.streams import Readers, Source
from ..model.status import IN_LINE, ON_THE_WAY, Status
from ..site.runtime import Site
from ..store import Kernel, Session
from ..store.passes import MAIN_KERNEL

LOOK_INTERVAL = 1.0  # seconds between two looks whether a container is there that is waited for
READERS = Readers()  # of files: not to be kept waiting by logs that are followed


class NoLog(Exception):
    """There is no such log: it is not kept any more, or never was."""


class NoCommand(NoLog):
    """The log of a command was asked for, of a session that has none."""


class NoTimes(Exception):
    """What came since some moment was asked for, of a log that is kept without times."""


class NotStarted(Exception):
    """There is no container yet; the session is in `status`."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


async def chunks(site: Site, session: Session, kernel: str, part: LogPart) -> AsyncIterator[bytes]:
    """The log of a container by its name, as it comes; where it is followed, also of one that is
    still to be made.

    Raises `NoLog`, `NoTimes`, `NotStarted`, `EngineBusy`, `AgentUnreachable`, `EngineError`.
    Whoever stops before its end calls `aclose`.
    """
    if part.output_only and session.request.batch is None:
        raise NoCommand
    waited = False
    while True:
        try:
            found = await _kernel(site, session, kernel)
            async with aclosing(_now(site, session, found, part)) as log:  # type: ignore[type-var]
                async for chunk in log:
                    yield chunk
            return
        except NoLog:
            if session.status not in IN_LINE | ON_THE_WAY or kernel != MAIN_KERNEL:
                if waited:
                    return  # it ended without a container
                raise
        if not part.follow:
            raise NotStarted(session.status)
        waited = True
        await asyncio.sleep(LOOK_INTERVAL)
        session = await site.db(site.store.get, session.id)


async def _kernel(site: Site, session: Session, name: str) -> Kernel:
    for kernel in await site.db(site.store.kernels, session.id):
        if kernel.name == name:
            return kernel
    raise NoLog


async def _now(site: Site, session: Session, kernel: Kernel, part: LogPart) -> AsyncIterator[bytes]:
    agent = kernel.agent or session.agent
    if kernel.container_id and agent in site.engine.hosts:
        try:
            async with aclosing(site.engine.open_log(agent, kernel.container_id, part)) as live:
                async for chunk in live:
                    yield chunk
            return
        except ContainerGone as gone:
            site.log.debug("%s", gone)
    opening = partial(_saved, site, session.id, kernel.name, part)
    async with aclosing(READERS.read(opening)) as saved:
        async for chunk in saved:
            yield chunk


def _saved(site: Site, session_id: str, kernel: str, part: LogPart) -> Source:
    kind = COMMAND if part.output_only else CONTAINER
    found: SavedLog | None = site.shelf.open(session_id, kernel, part, kind)
    if found is None:
        raise NoLog
    if part.since is not None:
        found.close()
        raise NoTimes
    return found
