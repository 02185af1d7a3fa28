"""`api/sessions/{id}/commit`: an image of a session; `api/images`: what came of it."""

from __future__ import annotations

from ...model.images import CustomImage
from ...store import Commit, NotFound
from ..auth import SCOPES
from ..base import Handler, Refused
from ..hibernating import hibernate, resume
from ..image_rows import CommitBody, CommitRow, HibernationRow, ImageList, image_rows
from ..owners import may_for, whose
from ..queries import ImageQuery
from .sessions import ID, SessionHandler


class CommitHandler(SessionHandler):
    """The making of an image of a session: the newest there was."""

    async def get(self, id: str) -> None:
        self.reply(CommitRow.of(await self._newest(id)))

    async def post(self, id: str) -> None:
        session = await self.session(id)
        name = self.read_body(CommitBody).name
        commit = await self.service.images.begin(self.site, session, name, self.caller.name)
        self.reply(CommitRow.of(commit))

    async def delete(self, id: str) -> None:
        commit = await self._newest(id)
        self.reply(CommitRow.of(await self.service.images.cancel(self.site, commit)))

    async def _newest(self, id: str) -> Commit:
        session = await self.session(id)
        commit = await self.site.db(self.site.store.commit_of, session.id)
        if commit is None:
            raise Refused(404, "no_commit", "No image was made of this session.", "id")
        return commit


class HibernationHandler(SessionHandler):
    """A session's rest."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        rest = await self.site.db(self.site.store.hibernation, session.id)
        if rest is None:
            raise Refused(404, "not_hibernated", "This session is not hibernated.", "id")
        self.reply(HibernationRow.of(self.service.drops.told(rest)))

    async def post(self, id: str) -> None:
        session = await self.session(id)
        commit = await hibernate(self.site, self.service.images, session, self.caller.name)
        self.reply(CommitRow.of(commit))


class ResumeHandler(SessionHandler):
    """Its way back."""

    async def post(self, id: str) -> None:
        session = await self.session(id)
        resumed = await resume(self.site, self.service.hub, session, self.caller)
        await self.show(resumed)


class ImagesHandler(Handler):
    """All images that one may see."""

    async def get(self) -> None:
        owner = await whose(self.service, self.caller, self.read_query(ImageQuery).owner)
        site = self.site
        if owner is None:
            images = await site.db(site.store.all_images)
        else:
            images = await site.db(site.store.images_of, owner)
        self.reply(ImageList(items=await image_rows(site, images)))


class ImageHandler(Handler):
    """One image, for its owner or for whoever may do the same for them."""

    async def get(self, id: str) -> None:
        await self._show(await self._image(id))

    async def delete(self, id: str) -> None:
        image = await self._image(id)
        try:
            image = await self.service.images.delete(self.site, image)
        except NotFound:  # since it was looked up
            raise _not_found() from None
        await self._show(image)

    async def _show(self, image: CustomImage) -> None:
        (row,) = await image_rows(self.site, [image])
        self.reply(row)

    async def _image(self, id: str) -> CustomImage:
        """The image of this id, if the caller may do this with it: else 404. Raises `Refused`."""
        if not ID.fullmatch(id):
            raise _not_found()
        try:
            image = await self.site.db(self.site.store.image, id)
        except NotFound:
            raise _not_found() from None
        scope, caller = self.call.scope, self.caller
        if await may_for(self.service, caller, scope, image.owner):
            return image
        for other in SCOPES:
            if await may_for(self.service, caller, other, image.owner):
                raise Refused(403, "missing_scope", f"Your token does not have the scope {scope}.")
        if caller.is_user and caller.name == image.owner:
            raise Refused(403, "missing_scope", f"Your token does not have the scope {scope}.")
        raise _not_found()


def _not_found() -> Refused:
    return Refused(404, "not_found", "There is no such image.", "id")
