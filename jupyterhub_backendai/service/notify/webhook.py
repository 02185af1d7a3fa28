"""Warnings by a POST of JSON, signed where there is a secret."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time

import aiohttp

from ..._version import __version__
from ...configuration_notices import read_secret
from ...model.errors import shown
from ...model.notices import Webhook
from .channel import Delivery, NotTaken
from .message import Message

TIMESTAMP, SIGNATURE = "X-Backendai-Timestamp", "X-Backendai-Signature"
PASSES = frozenset({408, 425, 429})  # what a receiver says that may take it later


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """The value of the header `SIGNATURE`: so that nobody else's is taken for ours, and none that
    was sent before."""
    signed = timestamp.encode() + b"." + body
    return f"sha256={hmac.new(secret, signed, hashlib.sha256).hexdigest()}"


class WebhookChannel:
    """Tells one address. Of its answers the status is read, and nothing more."""

    name = "webhook"

    def __init__(self, settings: Webhook) -> None:
        self.patience = float(settings.timeout)
        self._settings = settings

    async def send(self, message: Message, delivery: Delivery) -> None:
        """See `Channel`. Nothing leads it elsewhere: an address that moved is not followed."""
        body = json.dumps(message.as_json(), ensure_ascii=False).encode()
        headers = await self._headers(body)
        try:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(force_close=True),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    timeout=aiohttp.ClientTimeout(total=self.patience),
                    trace_configs=[_noting(delivery)],
                ) as client,
                client.post(
                    self._settings.url, data=body, headers=headers, allow_redirects=False
                ) as reply,
            ):
                status = reply.status
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if delivery.handed:
                raise
            raise NotTaken(shown(error, 200) or type(error).__name__) from error
        if not 200 <= status < 300:
            raise NotTaken(f"it answered {status}", for_good=status < 500 and status not in PASSES)

    async def _headers(self, body: bytes) -> dict[str, str]:
        found = {
            "Content-Type": "application/json",
            "User-Agent": f"jupyterhub-backendai/{__version__}",
        }
        if self._settings.secret_file is not None:
            try:
                secret = await asyncio.to_thread(read_secret, self._settings.secret_file)
            except (OSError, ValueError) as error:
                raise NotTaken(f"secret_file cannot be used: {error}") from error
            found[TIMESTAMP] = str(int(time.time()))
            found[SIGNATURE] = sign(secret, found[TIMESTAMP], body)
        return found

    def close(self) -> None:
        """Nothing stays open."""


def _noting(delivery: Delivery) -> aiohttp.TraceConfig:
    """Notes that there is a connection: from then on the message may have arrived."""

    async def connected(*_: object) -> None:
        delivery.handed = True

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(connected)
    return trace
