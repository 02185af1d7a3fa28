"""The channels of a site."""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import quote

from jupyterhub.utils import url_path_join

from ...site.runtime import Site
from .channel import Channel, Pages
from .mail import MailChannel
from .webhook import WebhookChannel


def channels_of(site: Site) -> list[Channel]:
    """The pages, and what is configured besides."""
    found: list[Channel] = [Pages()]
    if (mail := site.configuration.mail()) is not None:
        found.append(MailChannel(mail))
    if (webhook := site.configuration.webhook()) is not None:
        found.append(WebhookChannel(webhook))
    if len(found) > 1 and not _public():
        site.log.warning(
            "Mails and webhooks have no links: set c.JupyterHub.public_url to the address that "
            "people know the Hub by."
        )
    return found


def session_pages() -> Callable[[str], str]:
    """The address of a session's page, as somebody outside reaches it; empty where the Hub does
    not know its own."""
    public = _public()
    return lambda id: url_path_join(public, "sessions", quote(id)) if public else ""


def _public() -> str:
    return os.environ.get("JUPYTERHUB_PUBLIC_URL", "")
