"""`api/sessions/{id}/usage`: what a session uses now."""

from __future__ import annotations

import asyncio

from .sessions import SessionHandler


class UsageHandler(SessionHandler):
    """What a session uses of its GPUs now."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        kernels, granted = await asyncio.gather(
            self.site.db(self.site.store.kernels, session.id), self.site.granted(session)
        )
        self.reply(await self.service.usages.of(self.site, session, kernels, granted))
