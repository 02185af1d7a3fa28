"""Warnings by mail."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
from email.message import EmailMessage
from email.policy import SMTP as POLICY
from email.utils import format_datetime

from aiosmtplib import SMTP, SMTPException, SMTPResponseException

from ...configuration_notices import read_secret
from ...model.errors import shown
from ...model.notices import Mail
from ...site.clock import utcnow
from .addresses import Addresses
from .channel import Delivery, NotTaken
from .message import Message


class MailChannel:
    """Sends mail by the configured server, each by a connection of its own."""

    name = "mail"

    def __init__(self, settings: Mail) -> None:
        self.patience = float(settings.timeout)
        self._settings = settings
        self._addresses = Addresses(settings)
        self._tls: ssl.SSLContext | None = None  # not read yet

    async def send(self, message: Message, delivery: Delivery) -> None:
        """See `Channel`. A server that says no to an address or to the mail itself would say so
        again; all else may pass."""
        address = await self._addresses.of(message.owner)
        mail = compose(message, self._settings.sender, address).as_bytes(policy=POLICY)
        smtp = await self._connection()
        try:
            await self._hand_over(smtp, address, mail, delivery)
        except SMTPResponseException as error:
            if delivery.handed and not 400 <= error.code < 600:
                raise  # that is no answer
            for_good = delivery.handed and error.code >= 500
            raise NotTaken(f"{error.code} {shown(error.message, 200)}", for_good=for_good) from None
        except (SMTPException, OSError, ValueError) as error:
            if delivery.handed:
                raise
            raise NotTaken(shown(error, 200) or type(error).__name__) from error
        finally:
            smtp.close()

    async def _hand_over(self, smtp: SMTP, address: str, mail: bytes, delivery: Delivery) -> None:
        settings = self._settings
        await smtp.connect()
        if settings.user is not None and settings.password_file is not None:
            secret = await asyncio.to_thread(read_secret, settings.password_file)
            await smtp.login(settings.user, secret.decode())
        await smtp.mail(settings.sender)
        await self._to(smtp, address)
        delivery.handed = True
        await smtp.data(mail)

    async def _to(self, smtp: SMTP, address: str) -> None:
        try:
            await smtp.rcpt(address)
        except SMTPResponseException as error:
            for_good = 500 <= error.code < 600
            told = f"{address}: {error.code} {shown(error.message, 200)}"
            raise NotTaken(told, for_good=for_good) from None

    async def _connection(self) -> SMTP:
        settings = self._settings
        if self._tls is None and settings.security != "none":
            try:
                self._tls = await asyncio.to_thread(
                    ssl.create_default_context, cafile=settings.ca_file
                )
            except OSError as error:
                raise NotTaken(f"ca_file cannot be used: {error}") from error
        host, port = settings.place
        return SMTP(
            hostname=host,
            port=port,
            use_tls=settings.security == "tls",
            start_tls=settings.security == "starttls",
            tls_context=self._tls,
            timeout=self.patience,
            local_hostname=socket.gethostname(),  # else the resolver is asked for a longer one
        )

    def close(self) -> None:
        """Ends what it has begun."""
        self._addresses.close()


def compose(message: Message, sender: str, address: str) -> EmailMessage:
    """The mail. Its id is the same when it is sent again, so that one that came twice after all
    can be seen to be the same."""
    mail = EmailMessage(policy=POLICY)
    mail["From"] = sender
    mail["To"] = address
    mail["Subject"] = message.subject
    mail["Date"] = format_datetime(utcnow())
    digest = hashlib.sha256(f"{message.id} {address}".encode()).hexdigest()[:32]
    mail["Message-ID"] = f"<{digest}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(message.text)
    return mail
