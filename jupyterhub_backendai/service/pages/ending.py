"""The page that asks whether a session is to be cancelled or ended, and does it."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.errors import RequestError
from ...store import Session
from ..auth import DELETE
from ..calls.sessions import find
from ..ending import end
from .base import Page
from .words import in_line, said_to


class EndPage(Page):
    """It needs no script, and nobody but who reads it can press its button. Then it leads to what
    became of the session, from where its form is filled again."""

    async def get(self, id: str) -> None:
        session = await find(self.site, self.caller, id, DELETE)
        if session.status.is_final:
            self.redirect(self.hub_auth.base_url)
            return
        await self._show(session)

    async def post(self, id: str) -> None:
        session = await find(self.site, self.caller, id, DELETE)
        form = self.form()
        force, rests = form.get("force") == ["1"], form.get("rests") == ["again"]
        try:
            await end(self.site, self.service.hub, session, self.caller.name, None, force, rests)
        except RequestError as refused:
            self.set_status(refused.status)
            # As it is now: it is not what was asked about any more.
            session = await find(self.site, self.caller, id, DELETE)
            told = [said_to(self.caller.name, e.message, session.owner) for e in refused.errors]
            await self._show(session, told)
            return
        there = self.readable(session)
        self.redirect(self.page_of(session) if there else self.hub_auth.base_url)

    async def _show(self, session: Session, told: Sequence[str] = ()) -> None:
        commit = await self.site.db(self.site.store.commit_of, session.id)
        under_way = commit is not None and not commit.status.is_final
        self.show(
            "backendai/pages/end.html", self.caller, session=session, waits=in_line(session),
            image=commit.name if commit is not None and under_way else "",
            hibernates=commit is not None and commit.hibernates,
            page_of=self.page_of, told=told,
        )  # fmt: skip
