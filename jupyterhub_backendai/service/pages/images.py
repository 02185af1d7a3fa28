"""Images that users made of their sessions: the list of them, and the end of one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from pydantic import ConfigDict

from ...model.errors import RequestError
from ...model.images import CustomImage, ImageStatus
from ...site.runtime import Site
from ...store import AgentState, Commit, NotFound
from ..auth import START
from ..base import Refused
from ..calls.sessions import ID
from ..hub import NoSuchUser
from ..image_rows import CommitRow, ImageRow, image_rows
from ..owners import may_for, whose
from ..queries import Word
from ..schemas import Part
from .base import Page
from .words import said_to

PARTS = {
    "images": "backendai/pages/images_list.html", "leaving": "backendai/pages/images_leaving.html",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Room:
    """A user's images, and how many of how many they are. `making`: those that are new, and are
    under way."""

    images: Sequence[CustomImage]
    making: Sequence[Commit]
    most: int

    @property
    def used(self) -> int:
        """How many count."""
        ready = sum(1 for image in self.images if image.status is ImageStatus.READY)
        return ready + sum(1 for commit in self.making if commit.is_new)

    @property
    def full(self) -> bool:
        """Whether there is no place for one of a new name."""
        return self.used >= self.most


async def room_of(site: Site, owner: str, groups: Iterable[str]) -> Room:
    """How many images a user has and may have."""
    images, under_way = await asyncio.gather(
        site.db(site.store.images_of, owner), site.db(site.store.commits_under_way)
    )
    making = [commit for commit in under_way if commit.owner == owner]
    return Room(images, making, site.policies.of(owner, frozenset(groups)).max_images)


def images_url(service: str, reader: str, owner: str, *path: str) -> str:
    """The address of a user's images, or of a page of one, for who reads it."""
    address = "/".join((f"{service}images", *path))
    return address if reader == owner or path else f"{address}?{urlencode({'owner': owner})}"


class ImagesQuery(Part):
    """Whose images. What else an address has is not ours."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    owner: Word | None = None


class ImagesPage(Page):
    """All images of one user."""

    async def get(self) -> None:
        caller, site = self.caller, self.site
        owner = await whose(self.service, caller, self.read_query(ImagesQuery).owner or None)
        if owner is None:
            raise Refused(400, "one_owner", "Say whose images: they are shown a user at a time.")
        mine = owner == caller.name
        groups = caller.groups if mine else await self._groups(owner)
        room, agents = await asyncio.gather(
            room_of(site, owner, groups), site.db(site.store.agents)
        )
        rows = await image_rows(site, room.images)
        ready = [row for row in rows if row.status is ImageStatus.READY]
        self.write_page(
            "backendai/pages/images.html", PARTS,
            owner=owner, mine=mine, room=room, images=ready, making=self._making(room),
            leaving=[row for row in rows if row.status is not ImageStatus.READY],
            events="" if mine else owner, launch_of=lambda row: launch_link(self, row, agents),
            may_change=await may_for(self.service, caller, START, owner),
            images_url=images_url(self.hub_auth.base_url, caller.name, owner),
            page_of_id=lambda id: f"{self.hub_auth.base_url}sessions/{id}",
        )  # fmt: skip

    async def _groups(self, owner: str) -> frozenset[str]:
        try:
            return frozenset((await self.service.hub.user(owner)).groups)
        except NoSuchUser:
            return frozenset()  # who is gone may have left images

    @staticmethod
    def _making(room: Room) -> list[CommitRow]:
        return [CommitRow.of(commit) for commit in room.making]


def launch_link(page: Page, image: ImageRow | CustomImage, agents: Sequence[AgentState]) -> str:
    """Where who looks launches a session from an image; empty where no link leads there."""
    environment = image.environment or ""
    if page.caller.name != image.owner or page.site.catalog.environment(environment) is None:
        return ""
    # The form has a group in any case, and the image may be in one only.
    group = next((a.group for a in agents if a.name == image.agent), "")
    fields = {"environment": environment, f"version.{environment}": image.version_name}
    fields |= {"resource_group": group} if group else {}
    return f"{page.launch_url}?{urlencode(fields)}"


class DeleteImagePage(Page):
    """Asks whether an image is to be deleted, and does it. It needs no script."""

    async def get(self, id: str) -> None:
        await self._show(await self._image(id))

    async def post(self, id: str) -> None:
        image = await self._image(id)
        try:
            await self.service.images.delete(self.site, image)
        except NotFound:  # since it was looked up
            raise _not_found() from None
        except RequestError as refused:
            self.set_status(refused.status)
            await self._show(image, [error.message for error in refused.errors])
            return
        self.redirect(self._list_of(image), status=303)

    async def _show(self, image: CustomImage, told: Sequence[str] = ()) -> None:
        (row,) = await image_rows(self.site, [image])
        self.show(
            "backendai/pages/image_delete.html", self.caller, image=row,
            images_url=self._list_of(image),
            told=[said_to(self.caller.name, line, image.owner) for line in told],
        )  # fmt: skip

    def _list_of(self, image: CustomImage) -> str:
        return images_url(self.hub_auth.base_url, self.caller.name, image.owner)

    async def _image(self, id: str) -> CustomImage:
        """The image of the address, for who may delete it. Raises `Refused`."""
        if not ID.fullmatch(id):
            raise _not_found()
        try:
            image = await self.site.db(self.site.store.image, id)
        except NotFound:
            raise _not_found() from None
        if not await may_for(self.service, self.caller, START, image.owner):
            raise _not_found()
        return image


def _not_found() -> Refused:
    return Refused(404, "not_found", "There is no such image.", "id")
