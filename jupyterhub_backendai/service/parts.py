"""What the service is made of: the site once it is open, and until then why it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from traitlets.config import Config
from traitlets.log import get_logger

from ..configuration import read_configuration
from ..model.errors import ConfigurationError
from ..site.runtime import Site
from ..store import Session, Unavailable

RETRY = 10.0  # seconds until a site that could not be opened is tried again
CLIENT = "Client"  # the section with the arguments of the Docker client


class ServiceSite(Site):
    """A site as the service has it: the Hub's process looks at agents and puts things right."""

    async def _start(self) -> None:
        """Nothing: what the Hub's process notes in the database is there to be read."""

    async def release_gpus(self, session: Session) -> None:
        """Nothing: one process alone speaks to what holds shares, and the Hub's takes back within
        half a minute what is nobody's any more."""


def open_site(config: Config) -> ServiceSite:
    """Reads the configuration, opens the database and brings it up to date. Blocking.

    Raises `ConfigurationError`, `Unavailable`.
    """
    return ServiceSite(read_configuration(config), dict(config.get(CLIENT, {})))


class NotReady(Exception):
    """The site is not open. `message` is for everybody, `detail` for admins."""

    def __init__(self, code: str, message: str, detail: str = "") -> None:
        super().__init__(detail or message)
        self.code = code
        self.message = message
        self.detail = detail


class Parts:
    """The site, opened in the background and tried again until it is."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self.log = get_logger()
        self._config = config
        self._site: ServiceSite | None = None
        self._problem = NotReady("starting", "The sessions service is starting. Try again soon.")

    @property
    def site(self) -> ServiceSite:
        """The open site. Raises `NotReady`."""
        if self._site is None:
            raise self._problem
        return self._site

    @property
    def problem(self) -> NotReady | None:
        """Why there is no site; None where there is one."""
        return self._problem if self._site is None else None

    async def open(self) -> ServiceSite:
        """Opens the site, however often it has to be tried."""
        while True:
            try:
                self._site = await asyncio.to_thread(lambda: open_site(self._config()))
                self.log.info("The sessions service is open")
                return self._site
            except (ConfigurationError, Unavailable) as error:
                self._wrong(str(error))
            except Exception as error:  # told and tried again: it must not end the process
                self.log.exception("The sessions service cannot be opened")
                self._wrong(f"{type(error).__name__}: see the Hub's log.")
            await asyncio.sleep(RETRY)

    async def close(self) -> None:
        """Closes what is open."""
        if self._site is not None:
            await self._site.close()

    def _wrong(self, detail: str) -> None:
        if detail != self._problem.detail:
            self.log.error("The sessions service is not open: %s", detail)
        message = "The sessions service does not work at the moment. Tell your admin."
        self._problem = NotReady("not_working", message, detail)
