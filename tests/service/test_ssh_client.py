"""`backendai-ssh.py` as SSH runs it, against a real websocket, with TLS and without."""

from __future__ import annotations

import asyncio
import datetime
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application
from tornado.websocket import WebSocketHandler

CLIENT = Path(__file__).parents[2] / "share/static/backendai/ssh/backendai-ssh.py"
MUCH = os.urandom(1 << 20) * 24


class Echo(WebSocketHandler):
    async def prepare(self) -> None:
        if self.request.headers.get("Authorization") != "token good":
            self.set_status(403)
            self.finish()

    async def on_message(self, message: Any) -> None:
        await self.write_message(message, binary=True)
        if message.endswith(b"over"):
            self.close()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of this host that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hub")])
    now = datetime.datetime.now(datetime.timezone.utc)
    host = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(host, critical=False).sign(key, hashes.SHA256())
    )  # fmt: skip
    path, key_path = folder / "hub.pem", folder / "hub.key"
    path.write_bytes(made.public_bytes(Encoding.PEM))
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    key_path.write_bytes(key.private_bytes(*form))
    return path, key_path


@asynccontextmanager
async def hub(folder: Path, tls: bool) -> AsyncIterator[str]:
    """The address of a session whose SSH says back what it hears."""
    application = Application(
        [("/user/me/train1/backendai/ssh", Echo)], websocket_max_message_size=1 << 20
    )
    context = None
    if tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate(folder))
    server = HTTPServer(application, ssl_options=context)
    sock, port = bind_unused_port()
    server.add_socket(sock)
    yield f"http{'s' if tls else ''}://127.0.0.1:{port}/user/me/train1/"
    server.stop()
    await server.close_all_connections()


async def client(
    folder: Path, url: str, said: bytes, token: bytes = b"good"
) -> tuple[int, bytes, str]:
    """What it ends with, what it gave back, and what it told."""
    place = folder / ".ssh" / "backendai-token"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(token)
    place.chmod(0o600)
    environment = {"HOME": str(folder), "SSL_CERT_FILE": str(folder / "hub.pem")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, CLIENT, url, env=environment, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    found, told = await asyncio.wait_for(process.communicate(said), 120)
    return process.returncode or 0, found, told.decode()


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
async def test_much_goes_both_ways_at_once(tmp_path: Path, tls: bool) -> None:
    async with hub(tmp_path, tls) as url:
        code, found, told = await client(tmp_path, url, MUCH + b"over")
    assert (code, told) == (0, "")
    assert found == MUCH + b"over"


@pytest.mark.parametrize(
    "token", [b"good\r\n", b"\xef\xbb\xbfgood\n", "good\r\n".encode("utf-16")],
    ids=["windows", "notepad", "powershell"],
)  # fmt: skip
async def test_a_token_as_editors_write_it(tmp_path: Path, token: bytes) -> None:
    async with hub(tmp_path, False) as url:
        assert await client(tmp_path, url, b"over", token) == (0, b"over", "")


async def test_what_is_wrong_is_told_in_a_line(tmp_path: Path) -> None:
    async with hub(tmp_path, True) as url:
        refused = await client(tmp_path, url, b"", b"bad")
        (tmp_path / "hub.pem").write_text("")
        strange = await client(tmp_path, url, b"")
    gone = await client(tmp_path, url, b"")
    empty = await client(tmp_path, url, b"", b"")
    nothing = await client(tmp_path, "train1", b"")
    for (code, _, told), words in [
        (refused, "does not take your token"), (strange, "certificate"),
        (gone, "cannot be reached"), (empty, "has no token"), (nothing, "session's address"),
    ]:  # fmt: skip
        assert code == 1
        assert words in told
        assert told.count("\n") == 1, "no traceback"
