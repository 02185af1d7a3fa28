"""`GET metrics`: for Prometheus."""

from __future__ import annotations

from ..auth import Caller
from ..base import Handler

# The format of what `generate_latest` writes, for names such as ours; each Prometheus reads it.
FORMAT = "text/plain; version=0.0.4; charset=utf-8"


class MetricsHandler(Handler):
    """Numbers of the whole site, for whoever may read the Hub's own; for anybody where the admin
    says so."""

    async def _admit(self) -> None:
        ready = self.service.parts.problem is None
        if ready and self.request.method == "GET" and self.site.configuration.metrics_open:
            return
        await super()._admit()

    async def identify(self) -> Caller:
        """By token or cookie; the Hub's scope for metrics is enough. Raises `Refused`."""
        model = await self.model()
        if model is None:
            raise self._nobody()
        return Caller.of(model)

    async def get(self) -> None:
        text = await self.service.metrics.text(self.site)
        self.set_header("Content-Type", FORMAT)
        self.finish(text)
