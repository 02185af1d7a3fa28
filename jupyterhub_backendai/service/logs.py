"""Where a container's log is to be had: from its engine while it is there, from the shelf after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Literal

from ..engine.base import ContainerGone
from ..engine.logs import LogPart
from ..engine.saved_logs import COMMAND, CONTAINER, SavedLog
from ..engine.streams import Readers, Source
from ..site.runtime import Site
from ..store import Kernel, Session

Kind = Literal["all", "command"]
_KINDS = {"all": CONTAINER, "command": COMMAND}
READERS = Readers()  # of files: not to be kept waiting by logs that are followed for days


class NoLog(Exception):
    """There is no such log: nothing was written yet, or it is not kept any more."""


async def chunks(
    site: Site, session: Session, kernel: Kernel, kind: Kind, part: LogPart
) -> AsyncIterator[bytes]:
    """A log, as it comes. Raises `NoLog`, `EngineBusy`, `AgentUnreachable`, `EngineError`.

    Whoever stops before its end calls `aclose`.
    """
    agent = kernel.agent or session.agent
    if kind == "all" and kernel.container_id and agent in site.engine.hosts:
        try:
            async with aclosing(site.engine.open_log(agent, kernel.container_id, part)) as live:
                async for chunk in live:
                    yield chunk
            return
        except ContainerGone as gone:
            site.log.debug("%s", gone)
    opening = partial(_saved, site, session.id, kernel.name, kind, part)
    async with aclosing(READERS.read(opening)) as saved:
        async for chunk in saved:
            yield chunk


def _saved(site: Site, session_id: str, kernel: str, kind: Kind, part: LogPart) -> Source:
    found: SavedLog | None = site.shelf.open(session_id, kernel, part, _KINDS[kind])
    if found is None:
        raise NoLog
    return found
