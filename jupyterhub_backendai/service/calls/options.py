"""`GET api/options` and `POST api/estimate`: what may be chosen, and when it would start."""

from __future__ import annotations

from ...model.resolve import resolve
from ...site.options import options_view
from ..base import Handler
from ..launching import context_of
from ..queries import OptionsQuery
from ..schemas import Options


class OptionsHandler(Handler):
    """What the caller, or whom the caller acts for, may choose now."""

    async def get(self) -> None:
        asked = {"owner": self.read_query(OptionsQuery).owner}
        context = await context_of(self.service, self.caller, asked, self.call.scope)
        self.reply(Options(**await options_view(self.site, context)))


class EstimateHandler(Handler):
    """When a spec would start that is not launched yet."""

    async def post(self) -> None:
        options = self.object_body()
        context = await context_of(self.service, self.caller, options, self.call.scope)
        request, asked_by = resolve(options, context), self.caller.name
        estimates = self.service.estimates
        self.reply(await estimates.of_request(self.site, asked_by, request, context))
