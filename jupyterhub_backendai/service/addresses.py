"""Addresses for browsers."""

from __future__ import annotations

import os

from jupyterhub.services.auth import HubAuth
from jupyterhub.utils import url_escape_path, url_path_join

from ..store import Session


def server_url(hub: HubAuth, session: Session) -> str:
    """Where a session's own server is."""
    # With a host for each user only the Hub knows which, and leads there from its own path.
    prefix = os.environ["JUPYTERHUB_BASE_URL"]
    if hub.hub_host:
        prefix = f"{hub.hub_host}{hub.hub_prefix}"
    name = [url_escape_path(session.server_name)] if session.server_name else []
    return str(url_path_join(prefix, "user", url_escape_path(session.owner), *name, "/"))
