"""What the configuration says of how the site is watched: metrics, and the audit log."""

from __future__ import annotations

import os

from traitlets import Bool, HasTraits, Unicode

from .configuration_values import wrong


class WatchingTraits(HasTraits):
    """These traits of `c.BackendAI`."""

    metrics_open = Bool(
        False,
        help="Tell the service's metrics to anybody who asks, for a Prometheus on a private "
        "network. Else it takes the Hub's scope `read:metrics`. Example: "
        "`c.BackendAI.metrics_open = True`.",
    ).tag(config=True)

    audit_log = Unicode(
        "",
        help="Write who changed what through the sessions service to this file too, a line of JSON "
        "each; empty is the service's own log alone. It may be moved away at any time, as "
        "logrotate does. Example: "
        '`c.BackendAI.audit_log = "/var/log/jupyterhub/backendai-audit.log"`.',
    ).tag(config=True)


def check_watching(given: WatchingTraits) -> None:
    """Raises `ConfigurationError` for the first of these traits that is wrong."""
    path = given.audit_log
    if path and (not os.path.isabs(path) or path.endswith("/")):
        raise wrong(
            "audit_log", path, "It is not the absolute path of a file.",
            "Begin it with a slash, and end it with the file's name.",
        )  # fmt: skip
