"""Looks at what sessions use, every `usage_interval` seconds."""

from __future__ import annotations

import asyncio
import time

from ...site.runtime import Site
from ..sampling import Sampling


class UsageWorker:
    """The part of the service that samples; see `service.sampling`."""

    def __init__(self, site: Site, sampling: Sampling) -> None:
        self.site, self.sampling = site, sampling

    async def run(self) -> None:
        """The endless work."""
        interval = self.site.configuration.usage_interval
        self.sampling.sampled_every(interval)
        try:
            while True:
                began = time.monotonic()
                await self.sampling.once(self.site)
                # By the clock, not after the work: steps are as long as the admin says.
                await asyncio.sleep(max(interval - (time.monotonic() - began), interval / 10))
        finally:
            self.sampling.sampled_every(None)
            await self.sampling.close()
