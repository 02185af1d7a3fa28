"""`setup(c)`: the last line of an admin's `jupyterhub_config.py`.

It appends and fills in what is not set, and never overwrites. The long form is in the docs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

from ._data import data_paths
from .configuration import BackendAI, read_configuration
from .model.errors import ConfigurationError


def setup(c: Config) -> None:
    """Puts compute sessions on the Hub that `c` configures.

    A configuration that cannot work ends the Hub's start here, with a message that names the
    trait, its value and the remedy.
    """
    try:
        _setup(c)
    except ConfigurationError as error:
        # SystemExit rather than a traceback through the Hub: the message is all there is to say.
        sys.exit(f"jupyterhub_backendai cannot start with this configuration:\n{error}")


def _setup(c: Config) -> None:
    configuration = read_configuration(c)
    hub = c.JupyterHub
    _default(hub, "spawner_class", "backendai")
    _default(hub, "allow_named_servers", True)
    # The queue bounds what starts at once; the Hub's own limits would refuse instead.
    _default(hub, "concurrent_spawn_limit", 0)
    templates, static = data_paths()
    # A list, or what traitlets holds of `.append` calls until there is a list to append to.
    paths = hub.setdefault("template_paths", [])
    for path in (templates, static):
        if isinstance(paths, LazyConfigValue) or path not in paths:
            paths.append(path)
    if configuration.service:
        _serve(c, configuration)
    _reachable(c)
    open_site(c)


def _serve(c: Config, configuration: BackendAI) -> None:
    """Adds the sessions service, and keeps sessions when the Hub is restarted."""
    from .registration import add_service
    from .spawner.docker import DockerSessionSpawner

    _default(c.JupyterHub, "cleanup_servers", False)
    offered = {} if configuration.environments else DockerSessionSpawner.own_catalog_of(c)
    add_service(c, configuration, DockerSessionSpawner.client_of(c), offered)


def _default(section: Mapping[str, Any], name: str, value: Any) -> None:
    if name not in section:
        section[name] = value  # type: ignore[index]


def _reachable(c: Config) -> None:
    """Has the Hub listen where containers reach it, unless the admin said where."""
    from .site.reach import HUB_ADDRESS_TRAITS, hub_address

    if any(name in c.JupyterHub for name in HUB_ADDRESS_TRAITS):
        return
    address = hub_address(c)
    if address is not None:
        c.JupyterHub.update(address)


def open_site(c: Config) -> None:
    """Opens the database before the Hub serves, and begins the start-up work on its loop.

    Raises `ConfigurationError`. Does nothing where no Hub is being started.
    """
    from jupyterhub.app import JupyterHub

    if not JupyterHub.initialized() or JupyterHub.instance().subapp is not None:
        return  # only looked at: `jupyterhub token`, `--generate-config`, documentation
    from .spawner.docker import DockerSessionSpawner

    site = DockerSessionSpawner.site_of(c)
    with suppress(RuntimeError):  # no loop runs: then nothing is served from here either
        asyncio.get_running_loop()
        site.background(_begin(c, site))


async def _begin(c: Config, site: Any) -> None:
    from .site.reach import check_hub_access

    await site.ready()
    if site.configuration.check_hub_access:
        await check_hub_access(site, c)
