"""What the configuration says of apps that are open beyond their owners' own sign-in."""

from __future__ import annotations

import ipaddress
import re
from textwrap import dedent
from urllib.parse import urlsplit

from traitlets import HasTraits, Integer, Unicode

from .configuration_values import wrong

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.IGNORECASE)


class AppTraits(HasTraits):
    """These traits of `c.BackendAI`."""

    app_ports = Unicode(
        "",
        help=dedent(
            """
            Open ports of this machine, out of this range, to apps that people want to reach without
            the Hub: SSH for everybody, and by policy those that speak no HTTP, such as a database,
            and HTTP apps that are public. Empty opens none. A firewall has to let them through.
            Set `app_ports_host` with it. Example::

                c.BackendAI.app_ports = "30000-31000"
            """
        ),
    ).tag(config=True)

    app_ports_address = Unicode(
        "0.0.0.0",
        help="Listen for `app_ports` at this address of the machine. Example: "
        '`c.BackendAI.app_ports_address = "10.0.0.5"`.',
    ).tag(config=True)

    app_ports_host = Unicode(
        "",
        help="Tell people this name with a port of `app_ports`; empty is the Hub's own, whose "
        "cookies browsers send to all of its ports. Example: "
        '`c.BackendAI.app_ports_host = "apps.example.org"`.',
    ).tag(config=True)

    app_port_cool_down = Integer(
        60,
        min=0,
        help="Seconds after which a port that was closed is given to another app; sooner where all "
        "others are in use. Example: "
        "`c.BackendAI.app_port_cool_down = 600`.",
    ).tag(config=True)

    public_app_url = Unicode(
        "",
        help=dedent(
            """
            Give each app that is opened to the public a host of its own, by this pattern. DNS and
            a certificate for all of these names have to lead to `public_app_listen`, through a
            proxy that keeps the `Host` header. Empty puts them below the path of the sessions
            service, where browsers keep them apart from the Hub (`sandbox`), and apps that need
            cookies or storage of their own do not work in full. Example::

                c.BackendAI.public_app_url = "https://*.apps.example.org"
            """
        ),
    ).tag(config=True)

    public_app_listen = Unicode(
        "127.0.0.1:8011",
        help="Where the sessions service listens for the hosts of `public_app_url`, as the proxy "
        'before it reaches it. Example: `c.BackendAI.public_app_listen = "10.0.0.5:8011"`.',
    ).tag(config=True)


def check_apps(given: AppTraits) -> None:
    """Raises `ConfigurationError` for the first of these traits that is wrong."""
    read_ports(given.app_ports)
    _check_address(given.app_ports_address)
    host = given.app_ports_host
    if host and not (_HOST.fullmatch(host) or _is_address(host)):
        raise wrong(
            "app_ports_host", host, "It is no host.",
            "Write a name or an address, without http:// and without a port: apps.example.org.",
        )  # fmt: skip
    if given.public_app_url:
        _check_url(given.public_app_url)
        _check_listen(given.public_app_listen)


def read_ports(given: str) -> tuple[int, int] | None:
    """A range such as "30000-31000"; None for an empty one. Raises `ConfigurationError`."""
    if not given:
        return None
    found = re.fullmatch(r"\s*([0-9]{1,5})\s*-\s*([0-9]{1,5})\s*", given)
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= first <= last <= 65535:
        raise wrong(
            "app_ports", given, "It is no range of ports.",
            "Write the first and the last, of 1 to 65535: 30000-31000.",
        )  # fmt: skip
    return first, last


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _check_address(address: str) -> None:
    if not _is_address(address):
        raise wrong(
            "app_ports_address", address, "It is no address of a machine.",
            "Write one that this machine has, or 0.0.0.0 for all.",
        )  # fmt: skip


def _check_url(url: str) -> None:
    """One label of the host is the app's, and it is the first."""
    found = re.fullmatch(r"https?://\*\.([^/:]+)(?::([0-9]{1,5}))?/?", url)
    if not found or not _HOST.fullmatch(found[1]) or int(found[2] or 1) not in range(1, 65536):
        raise wrong(
            "public_app_url", url, "It is no pattern of hosts.",
            "Write a star for the app, then the domain of all: https://*.apps.example.org.",
        )  # fmt: skip


def _check_listen(place: str) -> None:
    try:
        parts = urlsplit(f"//{place}")
        good = bool(parts.hostname and parts.port) and parts.netloc == place
    except ValueError:
        good = False
    if not good:
        raise wrong(
            "public_app_listen", place, "It is no address with a port.",
            "Write both: 127.0.0.1:8011.",
        )  # fmt: skip
