"""The page that has an image made of a session, and gives one up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...engine.base import EngineError
from ...model.errors import FieldError, RequestError
from ...model.images import IMAGE_NAME, CustomImage, ImageStatus, place_of, version_name
from ...model.slots import MIB
from ...store import Session
from ...store.passes import MAIN_KERNEL
from ..auth import START
from ..calls.sessions import find
from ..image_rows import CommitRow
from ..images import engine_of
from .images import images_url, room_of
from .session import SessionPage
from .words import said_to, session_to

PARTS = {  # which come late
    "size": "backendai/pages/commit_size.html",
    "contents": "backendai/pages/commit_contents.html",
}
LITTLE = MIB  # bytes; half of it is what each container is given of ours


class CommitPage(SessionPage):
    """It says what is in an image before one is made. It needs no script."""

    scopes: tuple[str, ...] = (START,)

    async def get(self, id: str) -> None:
        session = await self._session(id)
        if self.part in PARTS:
            size = await self._written(session)
            little = size is not None and size < LITTLE
            on = self.environment_of(session)
            self.write_page("", PARTS, size=size, little=little, environment=on)
            return
        await self._show(session)

    async def post(self, id: str) -> None:
        session = await self._session(id)
        form = self.form()
        if form.get("do") == ["cancel"]:
            commit = await self.site.db(self.site.store.commit_of, session.id)
            if commit is not None:
                await self.service.images.cancel(self.site, commit)
        else:
            name = form.get("name", [""])[-1].strip()
            try:
                await self.service.images.begin(self.site, session, name, self.caller.name)
            except RequestError as refused:
                self.set_status(refused.status)
                await self._show(session, name, refused.errors)
                return
        there = self.readable(session)
        self.redirect(self.page_of(session) if there else self.hub_auth.base_url, status=303)

    async def _session(self, id: str) -> Session:
        session = await find(self.site, self.caller, id, *self.scopes)
        return session_to(self.caller.name, session)

    async def _show(
        self, session: Session, typed: str = "", errors: Sequence[FieldError] = ()
    ) -> None:
        site, store = self.site, self.site.store
        obstacle, room, commit = await asyncio.gather(
            self.service.images.obstacle(site, session),
            room_of(site, session.owner, session.owner_groups),
            site.db(store.commit_of, session.id),
        )
        if errors and obstacle in errors:
            errors = ()  # the page says it once
        told: dict[str, list[str]] = {"name": [], "": []}
        for error in errors:
            words = said_to(self.caller.name, error.message, session.owner)
            told["name" if error.field == "name" else ""].append(words)
        under_way = commit is not None and not commit.status.is_final
        self.write_page(
            "backendai/pages/commit.html", PARTS,
            session=session, page_of=self.page_of, events=None,
            obstacle=obstacle and said_to(self.caller.name, obstacle.message, session.owner),
            commit=CommitRow.of(commit) if commit is not None and under_way else None,
            commit_url=self.page_of(session, "commit"), typed=typed, wrong=told["name"],
            told=told[""], rule=IMAGE_NAME.text, room=room, version_name=version_name,
            mine=session.owner == self.caller.name, theirs=replaceable(session, room.images),
            environment=self.environment_of(session), mounts=session.request.mounts,
            size=None, little=False,
            images_url=images_url(self.hub_auth.base_url, self.caller.name, session.owner),
        )  # fmt: skip

    async def _written(self, session: Session) -> int | None:
        """Bytes that an image would have of its own; None where that is not known."""
        images = engine_of(self.site)
        kernels = await self.site.db(self.site.store.kernels, session.id)
        main = next((one for one in kernels if one.name == MAIN_KERNEL), None)
        if images is None or main is None or main.container_id is None or session.agent is None:
            return None
        try:
            return await images.look(session.agent, main.container_id, fresh=False)
        except EngineError as error:
            self.site.log.warning("The size of session %s is not known: %s", session.id, error)
            return None


def replaceable(session: Session, images: Sequence[CustomImage]) -> list[str]:
    """Names of the owner's images that one of the same name, made of this session, replaces."""
    request = session.request
    own = next((image for image in images if image.reference == request.image), None)
    place = own.place if own is not None else place_of(request.environment, request.image)
    return [
        image.name for image in images if image.place == place and image.status is ImageStatus.READY
    ]
