"""`python -m jupyterhub_backendai.service`: what `keeper` runs. Listens first, opens after."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
from contextlib import suppress

from tornado.httpserver import HTTPServer

from .app import Service
from .handover import VARIABLE, unpack
from .keeper import LIFE, URL
from .life import Life
from .listening import listen
from .ways.public import READ

ORPHANED = 1.0  # seconds between two looks at whether our keeper is there


async def main() -> None:
    """Serves until it is told to stop, or until the process that started it is gone."""
    life = Life(os.environ.pop(LIFE, ""))
    service = Service(lambda: unpack(os.environ.get(VARIABLE, "")), life)
    server = HTTPServer(service.application(), xheaders=True, chunk_size=READ)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    orphaned = asyncio.ensure_future(_until_orphaned(os.getppid(), stop))
    turns = asyncio.ensure_future(life.turns())  # to the end, which may take its time too
    await listen(server, os.environ[URL])
    service.start()
    await stop.wait()
    orphaned.cancel()
    server.stop()
    await service.stop()
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(server.close_all_connections(), 5)
    turns.cancel()
    # Not the usual way, which waits for every thread: one may read a log for as long as a command
    # writes it. What a thread was at is done again, as after a kill.
    os._exit(0)


async def _until_orphaned(parent: int, stop: asyncio.Event) -> None:
    """A keeper that was killed leaves us behind, and the Hub starts another."""
    while os.getppid() == parent:  # noqa: ASYNC110 - the system tells nobody
        await asyncio.sleep(ORPHANED)
    logging.getLogger(__name__).warning("The keeper is gone; the sessions service ends")
    stop.set()


if __name__ == "__main__":
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="[%(levelname).1s %(asctime)s backendai %(module)s:%(lineno)d] %(message)s",
    )
    faulthandler.register(signal.SIGUSR1)  # its keeper asks one that hangs where it does
    asyncio.run(main())
