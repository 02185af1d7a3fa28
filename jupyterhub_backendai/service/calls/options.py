"""`GET api/options` and `POST api/estimate`: what may be chosen, and when it would start."""

from __future__ import annotations

from ...site.options import options_view
from ..base import Handler
from ..launching import context_of
from ..schemas import Options


class OptionsHandler(Handler):
    """What the caller may choose now."""

    async def get(self) -> None:
        context = await context_of(self.service, self.caller, {}, self.call.scope)
        self.reply(Options(**await options_view(self.site, context)))
