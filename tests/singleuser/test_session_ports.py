"""What listens, as the kernel tells it in two ways."""

from __future__ import annotations

import socket

import pytest

from jupyterhub_backendai.singleuser.server import ports

ADDRESSES = [
    (socket.AF_INET, "127.0.0.1", True),
    (socket.AF_INET, "0.0.0.0", True),
    (socket.AF_INET, "127.0.0.2", False),
    (socket.AF_INET6, "::1", True),
    (socket.AF_INET6, "::", True),
]


@pytest.mark.parametrize("way", [ports.listening, ports._in_tables])
@pytest.mark.parametrize(("family", "address", "answers"), ADDRESSES)
def test_listening(way, family: int, address: str, answers: bool) -> None:
    try:
        listener = socket.create_server((address, 0), family=family)
    except OSError:
        assert family == socket.AF_INET6, "this machine has no IPv6"
        return
    port = listener.getsockname()[1]
    with listener:
        assert (port in way()) == answers
        with socket.create_connection((address, port)):
            pass
    assert port not in way(), "a connection is no listener"


def test_both_ways_say_the_same() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert port in ports._diagnosed(socket.AF_INET)
        assert port in ports._in_tables()


def test_a_free_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        assert ports.free(taken, set()) != taken
    assert ports.free(taken, set()) == taken
    assert ports.free(taken, {taken}) != taken


async def test_nothing_to_connect_to() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with pytest.raises(ConnectionRefusedError, match=f"Nothing answers on port {port}"):
            await ports.connect(port)
