"""Where the service listens, also while one that a dead Hub left behind is still going."""

from __future__ import annotations

import asyncio
import errno
import logging
from urllib.parse import urlsplit

from tornado.httpserver import HTTPServer

PATIENCE = 0.5  # seconds between two tries


async def listen(server: HTTPServer, url: str) -> None:
    """Listens at `url`. Where the port is taken it waits: to exit would end the Hub's start."""
    place = urlsplit(url)
    told = False
    while True:
        try:
            server.listen(place.port or 80, place.hostname or "127.0.0.1")
            return
        except OSError as error:
            if not told:
                taken = "it is taken" if error.errno == errno.EADDRINUSE else error.strerror
                logging.getLogger(__name__).error(
                    "The sessions service cannot listen at %s: %s. Set c.BackendAI.service_url "
                    "to a free port.", url, taken,
                )  # fmt: skip
                told = True
            await asyncio.sleep(PATIENCE)
