"""The page that asks whether a session is to be cancelled or ended, and does it."""

from __future__ import annotations

from ..auth import DELETE
from ..calls.sessions import find
from ..ending import end
from .base import Page
from .words import in_line


class EndPage(Page):
    """It needs no script, and nobody but who reads it can press its button. Then it leads to what
    became of the session, from where its form is filled again."""

    async def get(self, id: str) -> None:
        session = await find(self.site, self.caller, id, DELETE)
        if session.status.is_final:
            self.redirect(self.hub_auth.base_url)
            return
        waits = in_line(session)
        self.show("backendai/pages/end.html", self.caller, session=session, waits=waits)

    async def post(self, id: str) -> None:
        session = await find(self.site, self.caller, id, DELETE)
        await end(self.site, self.service.hub, session, self.caller.name, None, force=False)
        there = self.readable(session)
        self.redirect(self.page_of(session) if there else self.hub_auth.base_url)
