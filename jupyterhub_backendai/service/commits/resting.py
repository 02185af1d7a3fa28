"""Hibernated sessions whose time is over, and images of those that nothing is resumed from."""

from __future__ import annotations

from ...engine.base import EngineError
from ...engine.images import ImageInUse, Images
from ...model.hibernation import SETTLES, Hibernation
from ...site.clock import utcnow
from ...site.runtime import Site
from ..dropping import Drops

CODE = "retention"
DROPPED = "It was hibernated for as long as is allowed, and was dropped."


class Resting:
    """Drops what is not to be kept any longer. Each step may be done again."""

    def __init__(self, site: Site, images: Images, drops: Drops) -> None:
        self.site, self.images, self.drops = site, images, drops

    async def once(self) -> None:
        """One round. Raises `Unavailable`."""
        site = self.site
        for session_id in await site.db(site.store.hibernations_back, utcnow() - SETTLES):
            await site.db(site.store.back_for_good, session_id)
        now = self.drops.now
        for rest, _ in await site.db(site.store.hibernations_dropping, None, now):
            if not self.drops.is_due(rest):
                continue
            id = rest.session_id
            if await site.db(site.store.drop_if_due, id, CODE, DROPPED, now):
                site.log.info("Session %s is dropped", id)
                await site.end(id, CODE, DROPPED)
        for rest in await site.db(site.store.hibernations_over):
            await self._remove(rest)

    async def _remove(self, rest: Hibernation) -> None:
        site = self.site
        try:
            # What is on a machine that is not configured any more is out of our reach.
            if rest.agent in site.engine.hosts:
                await self.images.remove(rest.agent, rest.reference)
        except ImageInUse:
            return  # its container is just being removed
        except EngineError as error:
            site.log.warning("What session %s was is not removed yet: %s", rest.session_id, error)
            return
        await site.db(site.store.forget_hibernation, rest.id)
