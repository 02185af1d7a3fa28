"""Waits for a server to answer, without the back-off that costs the Hub's own wait seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

INTERVAL = 0.02  # seconds between tries; one try on a closed port costs well under a millisecond
EAGER = 3.0  # seconds in which most servers have come up; those that have not wait a little longer
LATER_INTERVAL = 0.1  # seconds between tries from then on: many at once cost the Hub its core
_LIMIT = aiohttp.ClientTimeout(total=10, sock_connect=2)  # of one try
ALIVE_EVERY = 0.5  # seconds between looks at whether the container is still there


def server_url(ip: str, port: int, path: str) -> str:
    """The address of something on a session's server."""
    host = f"[{ip}]" if ":" in ip else ip
    return f"http://{host}:{port}{path}"


async def wait_until_ready(
    url: str,
    timeout: float,
    alive: Callable[[], Awaitable[None]],
) -> bool:
    """True as soon as `url` answers anything below 500; False after `timeout` seconds.

    `alive` is awaited now and then and raises when it is no use to wait any longer.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    deadline = began + timeout
    look_at = began + ALIVE_EVERY
    async with aiohttp.ClientSession(timeout=_LIMIT) as client:
        while loop.time() < deadline:
            if await _answers(client, url):
                return True
            if loop.time() >= look_at:
                await alive()
                look_at = loop.time() + ALIVE_EVERY
            await asyncio.sleep(pause(loop.time() - began))
    return False


async def answers_now(url: str) -> bool:
    """Whether `url` answers anything below 500, within seconds."""
    async with aiohttp.ClientSession(timeout=_LIMIT) as client:
        return await _answers(client, url)


def pause(waited: float) -> float:
    """Seconds until the next try, after so many seconds of waiting."""
    return INTERVAL if waited < EAGER else LATER_INTERVAL


async def _answers(client: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with client.get(url, allow_redirects=False) as response:
            return response.status < 500
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
        return False
