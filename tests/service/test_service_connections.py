"""Connections that the Hub's proxy keeps: an answer that ends one says so."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from jupyterhub_backendai.service.app import PAGES
from jupyterhub_backendai.service.table import CALLS

from .running import PREFIX, Running, until_open

STREAMS = {"api/events"}


async def _head(reader: asyncio.StreamReader) -> dict[str, str]:
    """The head of the next answer, whose body is read too."""
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    head = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    await reader.readexactly(int(head.get("content-length", 0)))
    return {**head, "status": status.split()[1]}


def _requests() -> list[tuple[str, str, str]]:
    """Method, path and who asks, of every page and call, for nobody and for somebody."""
    asked = [("GET", page, who) for page in PAGES for who in ("", "alice")]
    asked += [("POST", page, who) for page in PAGES for who in ("", "alice")]
    asked += [
        (call.method, call.path, who)
        for call in CALLS
        for who in ("", "alice", "nobody-s-token")
        if call.path not in STREAMS
    ]
    asked += [("PURGE", "api/sessions", ""), ("GET", "not/there", ""), ("PUT", "", "alice")]
    return [(m, p.replace("{", "").replace("}", ""), who) for m, p, who in asked]


@pytest.mark.parametrize(("method", "path", "who"), _requests())
async def test_a_connection_that_ends_was_said_to_end(
    service: Running, method: str, path: str, who: str
) -> None:
    await until_open(service)
    token = f"Authorization: token {service.tokens.get(who, who)}\r\n" if who else ""
    one = f"{method} {PREFIX}{path} HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n{token}\r\n"
    where = urlsplit(service.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        writer.write(one.encode())
        first = await _head(reader)
        if first.get("connection") == "close":
            assert await reader.read() == b""
            return
        # It was not said to end, so the next request finds it open.
        writer.write(f"GET {PREFIX}health HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        assert (await _head(reader))["status"] == "200"
    finally:
        writer.close()
