"""`api/sessions/{id}/idle`: what its idle checks say, and keeping it."""

from __future__ import annotations

from ...model.status import Status
from ...store import Session
from ..base import Refused
from ..idle.keeping import keep
from ..idle.schemas import KeepBody
from ..idle.views import view_of
from ..idle.watch import Watch
from ..idle.watched import Watched
from .sessions import SessionHandler


class IdleHandler(SessionHandler):
    """The idle checks of a session."""

    async def get(self, id: str) -> None:
        watch, watched = await self.watched(await self.session(id))
        self.reply(view_of(self.site, watch, watched))

    async def post(self, id: str) -> None:
        watch, watched = await self.watched(await self.session(id))
        body = self.read_body(KeepBody)
        await keep(self.site, watch, watched, body.seconds, self.caller.name)
        self.reply(view_of(self.site, watch, watched))

    async def watched(self, session: Session) -> tuple[Watch, Watched]:
        """The session as idle checks see it. Raises `Refused`."""
        return await self.service.idle_of(session)


def not_watched(session: Session) -> Refused:
    """Why there is nothing to be said of its idle checks."""
    if session.status is not Status.RUNNING:
        return Refused(409, "not_running", "It does not run, so no idle check applies.")
    return Refused(503, "starting", "Idle checks are starting. Try again in a moment.")
