"""`api/sessions/{id}/usage`: what a session uses now."""

from __future__ import annotations

import asyncio

from .sessions import SessionHandler


class UsageHandler(SessionHandler):
    """What a session uses of its GPUs now."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        db, store = self.site.db, self.site.store
        kernels, granted = await asyncio.gather(
            db(store.kernels, session.id), db(store.granted, session.id)
        )
        self.reply(await self.service.usages.of(self.site, session, kernels, granted))
