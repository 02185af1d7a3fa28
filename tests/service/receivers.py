"""Who is told of warnings: a real mail server and a real receiver of webhooks, on loopback, that do
what a test wants of them."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiohttp import web
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from jupyterhub_backendai.site.clock import utcnow


@dataclass
class Mailbox:
    """A mail server. `rcpt`, `data`: what it answers next to these, in this order; then it takes
    all. `hold`: it answers no mail that it has before this is set."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    to: list[str] = field(default_factory=list)
    rcpt: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    logins: list[tuple[bytes, bytes]] = field(default_factory=list)
    secure: list[bool] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if self.rcpt:
            return self.rcpt.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.data:
            return self.data.pop(0)
        mail = message_from_bytes(envelope.content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.to += envelope.rcpt_tos
        self.secure.append(session.ssl is not None)
        if self.hold is not None:
            await self.hold.wait()
        return "250 OK"

    def authenticator(
        self, server: Any, session: Any, envelope: Any, kind: str, data: Any
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"s3cret")

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "host": "127.0.0.1", "port": self.port, "security": "none",
            "sender": "hub@example.org", "domain": "example.org",
        }  # fmt: skip


@asynccontextmanager
async def mailbox(tls: ssl.SSLContext | None = None) -> AsyncIterator[Mailbox]:
    """With `tls` it talks no other way, and wants a password."""
    box = Mailbox()
    more: dict[str, Any] = {}
    if tls is not None:
        more = {
            "tls_context": tls, "require_starttls": True, "auth_required": True,
            "authenticator": box.authenticator,
        }  # fmt: skip
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(box, hostname="mail.example.org", loop=loop, **more), "127.0.0.1"
    )
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        server.close()


@dataclass
class Hook:
    """A receiver of webhooks. `answers`: what it says next, in this order; then 204. `hold`: it
    does not answer before this is set."""

    url: str = ""
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[web.StreamResponse] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def take(self, request: web.Request) -> web.StreamResponse:
        self.got.append((dict(request.headers), await request.read()))
        if self.hold is not None:
            await self.hold.wait()
        return self.answers.pop(0) if self.answers else web.Response(status=204)

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


@asynccontextmanager
async def receiver() -> AsyncIterator[Hook]:
    hook = Hook()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", hook.take)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    hook.url = f"http://{host}:{port}/hook"
    try:
        yield hook
    finally:
        await runner.cleanup()


@contextmanager
def silence() -> Iterator[int]:
    """A port at which somebody listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def certificate(folder: Path, name: str = "server") -> tuple[ssl.SSLContext, str]:
    """What a server of 127.0.0.1 shows, and the file by which it is known."""
    key = ec.generate_private_key(ec.SECP256R1())
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = utcnow()
    made = (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(named)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / f"{name}.pem", folder / f"{name}.key"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem, secret)
    return context, str(pem)
