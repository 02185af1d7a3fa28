"""Ports of this container: what listens, which is free, and how to connect.

The kernel is asked what listens, so that nobody is connected to who wasn't asked. It answers at
once by its diagnosis sockets; its table in /proc takes tens of milliseconds on a busy machine.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import struct

ADDRESSES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
CONNECT_TIMEOUT = 5.0  # seconds

# Where a connection to 127.0.0.1 or ::1 arrives.
_HERE = {
    ipaddress.ip_address(address).packed
    for address in ("0.0.0.0", "127.0.0.1", "::", "::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0")
}

# <linux/netlink.h>, <linux/sock_diag.h>, <linux/inet_diag.h>
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_TCP_LISTEN = 10
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ASKED = struct.Struct("=BBBBI48x")  # family, protocol, extensions, -, states, which
_FOUND = struct.Struct("!4xHH16s")  # (of either byte order) source port, destination port, source


def listening() -> set[int]:
    """The ports that answer at 127.0.0.1 or ::1."""
    try:
        return _diagnosed(socket.AF_INET) | _diagnosed(socket.AF_INET6)
    except (OSError, AttributeError, struct.error):  # not this kernel
        return _in_tables()


def _diagnosed(family: int) -> set[int]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
        link.settimeout(1)
        asked = _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _TCP_LISTEN)
        size = _HEADER.size + len(asked)
        link.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + asked)
        found: set[int] = set()
        while True:
            answer = link.recv(1 << 17)
            while answer:
                length, kind = _HEADER.unpack_from(answer)[:2]
                if kind == _DONE:
                    return found
                if kind == _ERROR or length < _HEADER.size:
                    raise OSError(errno.ENOTSUP, "no diagnosis here")
                port, _, address = _FOUND.unpack_from(answer, _HEADER.size)
                if address[: 4 if family == socket.AF_INET else 16] in _HERE:
                    found.add(port)
                answer = answer[(length + 3) & ~3 :]


def _in_tables() -> set[int]:
    """The same from /proc."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = file.read().splitlines()[1:]
        except OSError:  # a container without IPv6
            continue
        for row in rows:
            fields = row.split(None, 4)
            address, _, port = fields[1].partition(":")
            if int(fields[3], 16) == _TCP_LISTEN and _packed(address) in _HERE:
                found.add(int(port, 16))
    return found


def _packed(address: str) -> bytes:
    """An address of a table, which has words of 32 bits in the machine's own order."""
    words = [int(address[place : place + 8], 16) for place in range(0, len(address), 8)]
    return struct.pack(f"={len(words)}I", *words)


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
        except ConnectionRefusedError:
            link.close()
        except (OSError, asyncio.TimeoutError) as problem:
            link.close()
            if isinstance(problem, OSError) and family == socket.AF_INET:
                error = problem
        except BaseException:
            link.close()
            raise
    raise error
