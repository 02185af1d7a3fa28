"""The log of a session, read by the page's own script: it may be followed, and has no end."""

from __future__ import annotations

from .session import SessionPage

TAIL = 2000  # lines that are shown at first; the whole is there to be downloaded


class LogPage(SessionPage):
    """What the containers of a session wrote."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        kernels = await self.site.db(self.site.store.kernels, session.id)
        self.show(
            "backendai/pages/log.html", self.caller,
            session=session, kernels=kernels, page_of=self.page_of, tail=TAIL,
            events=self.events(session),
        )  # fmt: skip
