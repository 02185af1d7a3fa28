"""What the configuration says of ways."""

from __future__ import annotations

from dataclasses import dataclass

from ...site.runtime import Site
from ...store import Pool


@dataclass(frozen=True, slots=True)
class Settings:
    """See the traits of these names."""

    url: str = ""  # public_app_url
    listen: str = ""  # public_app_listen
    pool: Pool | None = None  # app_ports, app_port_cool_down
    address: str = ""  # app_ports_address
    host: str = ""  # app_ports_host

    @classmethod
    def of(cls, site: Site) -> Settings:
        """Those of a site."""
        given = site.configuration
        ports = given.port_range()
        return cls(
            url=given.public_app_url,
            listen=given.public_app_listen,
            pool=None if ports is None else Pool(*ports, given.app_port_cool_down),
            address=given.app_ports_address,
            host=given.app_ports_host,
        )
