"""Images that are deleted, and what a registry has that is nobody's any more, until nothing is left
of them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ...engine.base import EngineError
from ...engine.images import Images
from ...model.images import CustomImage
from ...site.runtime import Site
from ...store import NotFound, Remains
from . import words

FIRST_PAUSE = 10.0  # seconds until a removal that failed is tried again
LONGEST_PAUSE = 3600.0  # seconds; each failure doubles the pause up to this


@dataclass
class _Wait:
    until: float = 0.0
    pause: float = FIRST_PAUSE


class Removing:
    """Removes images, and tries again what cannot be removed now. Nothing else may be done with the
    reference of one meanwhile."""

    def __init__(self, site: Site, images: Images, first_pause: float = FIRST_PAUSE) -> None:
        self.site, self.images = site, images
        self._first_pause = first_pause
        self._waits: dict[str, _Wait] = {}  # by the id of the image, or of what remains of one

    async def due(self) -> list[CustomImage | Remains]:
        """Those whose turn it is. Raises `Unavailable`."""
        found: list[CustomImage | Remains] = []
        found += await self.site.db(self.site.store.images_deleted)
        found += await self.site.db(self.site.store.registry_remains)
        deleting = {one.id: one for one in found}
        self._waits = {id: wait for id, wait in self._waits.items() if id in deleting}
        now = time.monotonic()
        return [one for id, one in deleting.items() if self._wait(id).until <= now]

    async def remove(self, one: CustomImage | Remains) -> None:
        """One try. Raises `Unavailable`."""
        if isinstance(one, CustomImage):
            await self._remove_image(one)
        elif await self._put_right(one):
            await self.site.db(self.site.store.drop_remains, one.id)
        else:
            self._put_off(one.id)

    async def _put_right(self, remains: Remains) -> bool:
        """Whether its registry has only what it is to have of that reference."""
        reference, digest = remains.reference, remains.digest
        try:
            login = await self.site.registry.login(reference)
            if digest is None:
                await self.images.put_right(reference, remains.wanted, login)
            elif digest != remains.wanted:
                await self.images.unpush(reference, digest, login)
        except EngineError as error:
            what = f"{reference}@{digest}" if digest else f"What was given up of {reference}"
            self.site.log.warning("%s is not removed from its registry yet: %s", what, error)
            return False
        return True

    async def _remove_image(self, image: CustomImage) -> None:
        reason = await self._reason(image)
        if reason is None:
            await self.site.db(self.site.store.drop_image, image.id)
            self.site.log.info("The image %s of %s is removed", image.reference, image.owner)
            return
        self._put_off(image.id)
        try:
            await self.site.db(self.site.store.note_deletion, image.id, reason)
        except NotFound:
            self.site.log.debug("The image %s is forgotten already", image.reference)

    async def _reason(self, image: CustomImage) -> str | None:
        """Why it is still there; None: it is not."""
        agents = list(self.site.engine.hosts) if image.agent is None else [image.agent]
        agent = None
        try:
            for agent in agents:
                # What is on a machine that is not configured any more is out of our reach.
                if agent in self.site.engine.hosts:
                    await self.images.remove(agent, image.reference)
            agent = None
            if image.digest is not None:
                login = await self.site.registry.login(image.reference)
                await self.images.unpush(image.reference, image.digest, login)
        except EngineError as error:
            self.site.log.warning("The image %s is not removed yet: %s", image.reference, error)
            return words.why_not_removed(error, agent)
        return None

    def _put_off(self, id: str) -> None:
        wait = self._wait(id)
        wait.until = time.monotonic() + wait.pause
        wait.pause = min(2 * wait.pause, LONGEST_PAUSE)

    def _wait(self, id: str) -> _Wait:
        return self._waits.setdefault(id, _Wait(pause=self._first_pause))
