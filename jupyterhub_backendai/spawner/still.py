"""A session that stands still while a Hub that was restarted looks at its servers.

Its server answers nobody while its files are read for an image. The Hub takes one that does not
answer within `http_timeout` for dead, and has it stopped; so it is kept from asking until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ..model.images import CommitStatus
from ..site.runtime import Site
from ..store import Session, Unavailable

LOOK = 1.0  # seconds between two looks
LONGEST = 3 * 3600.0  # seconds; an image that is not made by then was given up long before


async def until_it_goes_on(
    site: Site, session: Session, answers: Callable[[], Awaitable[bool]], nobody: bool
) -> None:
    """Until no image is being made of a session any more.

    `nobody`: nobody goes on with one while this waits. Then Docker at least comes to the end of
    what it reads, and the session `answers`. One that is hibernated does not: it is left as it is,
    for the end of its server does not end it.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    while await _is_read(site, session, nobody) and loop.time() - began < LONGEST:
        if nobody and await answers():
            return
        site.warn_once(f"Session {session.id} is not looked at while an image is made of it")
        await asyncio.sleep(LOOK)


async def _is_read(site: Site, session: Session, nobody: bool) -> bool:
    try:
        commit = await site.db(site.store.commit_of, session.id)
    except Unavailable as error:
        site.log.warning("Whether session %s stands still is not known: %s", session.id, error)
        return False
    if commit is None or commit.status is not CommitStatus.COMMITTING:
        return False
    return not (nobody and commit.hibernates)
