"""Ports of this container: what listens, which is free, and how to connect.

What listens is looked up in the kernel's tables, so that nobody is connected to who wasn't asked.
"""

from __future__ import annotations

import asyncio
import socket

_LISTEN = "0A"
# Where a connection to 127.0.0.1 or ::1 arrives, as the tables write it on either byte order.
_HERE = {
    "00000000",
    "0100007F",
    "7F000001",
    "0" * 32,
    "00000000000000000000000001000000",
    "00000000000000000000000000000001",
    "0000000000000000FFFF00000100007F",
    "00000000000000000000FFFF7F000001",
}
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
ADDRESSES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
CONNECT_TIMEOUT = 5.0  # seconds


def listening() -> set[int]:
    """The ports that answer at 127.0.0.1 or ::1."""
    found = set()
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as file:
                rows = file.read().splitlines()[1:]
        except OSError:  # a container without IPv6
            continue
        for row in rows:
            fields = row.split(None, 4)
            address, _, port = fields[1].partition(":")
            if fields[3] == _LISTEN and address in _HERE:
                found.add(int(port, 16))
    return found


def free(preferred: int, avoid: set[int]) -> int:
    """A port to listen on at 127.0.0.1: the preferred one where it is free, else any."""
    for port in (preferred, 0, 0, 0):
        if port in avoid:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found = int(probe.getsockname()[1])
        if found not in avoid:
            return found
    raise OSError("No port is free in this session.")


async def connect(port: int) -> socket.socket:
    """A connection to what listens there, not blocking. Raises OSError where nothing does."""
    loop = asyncio.get_running_loop()
    error: OSError = ConnectionRefusedError(f"Nothing answers on port {port}.")
    for family, address in ADDRESSES:
        try:
            link = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # no IPv6 here
            continue
        try:
            link.setblocking(False)
            await asyncio.wait_for(loop.sock_connect(link, (address, port)), CONNECT_TIMEOUT)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return link
        except (OSError, asyncio.TimeoutError) as problem:
            link.close()
            if isinstance(problem, OSError):
                error = problem
        except BaseException:
            link.close()
            raise
    raise error
