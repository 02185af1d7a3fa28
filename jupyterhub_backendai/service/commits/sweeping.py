"""A slow look at all agents: what the making of images left there is removed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from ...engine.base import EngineError
from ...engine.images import Images
from ...site.clock import utcnow
from ...site.runtime import Site

KEPT = timedelta(days=30)  # that it is known how the making of an image ended


async def sweep(site: Site, images: Images, busy: Collection[str]) -> None:
    """Cleans what is left of work that is over, and forgets what was over long ago. `busy`: ids of
    the work that this process is at. Raises `Unavailable`."""
    for agent in list(site.engine.hosts):
        try:
            left = await images.leftovers(agent)
            over = await site.db(site.store.commits_over, left) - frozenset(busy)
            for order in sorted(over):
                site.log.warning("What %s left on %s is removed", order, agent)
                await images.clean(agent, order)
        except EngineError as error:
            site.log.warning("Agent %s cannot be swept of images: %s", agent, error)
    await site.db(site.store.forget_commits, utcnow() - KEPT)
