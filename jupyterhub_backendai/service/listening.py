"""Where the service listens: at what its keeper opened for it, or at a port that it opens itself,
also while a service that a dead Hub left behind is still there."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from urllib.parse import urlsplit

from tornado.httpserver import HTTPServer

from .keeper import SOCKETS

PATIENCE = 0.5  # seconds between two tries


async def listen(server: HTTPServer, url: str) -> None:
    """Listens at `url`. Where the port is taken it waits: to exit would end the Hub's start."""
    if opened := [_taken_over(int(number)) for number in os.environ.pop(SOCKETS, "").split()]:
        server.add_sockets(opened)
        return
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


def _taken_over(number: int) -> socket.socket:
    """A socket that was inherited; it goes to nobody from here."""
    opened = socket.socket(fileno=number)
    opened.set_inheritable(False)
    opened.setblocking(False)
    return opened
