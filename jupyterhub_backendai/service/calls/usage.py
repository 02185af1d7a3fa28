"""`api/sessions/{id}/usage`: what a session uses and used."""

from __future__ import annotations

import asyncio

from ..charts import usage_of
from ..queries import UsageQuery
from .sessions import SessionHandler


class UsageHandler(SessionHandler):
    """What a session uses of what it was granted, now and since its start."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        since = self.read_query(UsageQuery).since
        kernels, granted = await asyncio.gather(
            self.site.db(self.site.store.kernels, session.id), self.site.granted(session)
        )
        gpus = await self.service.usages.of(self.site, session, kernels, granted)
        now = self.service.sampling.now(session.id)
        self.reply(await usage_of(self.site, session, granted, gpus, now, since))
