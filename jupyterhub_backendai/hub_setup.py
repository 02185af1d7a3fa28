"""`setup(c)`: the last line of an admin's `jupyterhub_config.py`.

It appends and fills in what is not set, and never overwrites. The long form is in the docs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from traitlets import TraitError
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue
from traitlets.log import get_logger

from ._data import data_paths
from .configuration import BackendAI, read_configuration
from .model.errors import ConfigurationError

if TYPE_CHECKING:
    from .spawner.docker import DockerSessionSpawner

SPAWNER = "backendai"  # its entry point


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
    from .spawner.inherited import check_inherited

    configuration = read_configuration(c)
    hub = c.JupyterHub
    spawner_class = _spawner_class(hub.get("spawner_class", SPAWNER))
    for warning in check_inherited(c, spawner_class):
        get_logger().warning("%s", warning)
    _default(hub, "spawner_class", SPAWNER)
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
        _serve(c, configuration, spawner_class)
    _reachable(c)
    open_site(c, spawner_class)


def _spawner_class(given: Any) -> type[DockerSessionSpawner]:
    """The class that the Hub will use. Raises `ConfigurationError` for one that is not ours."""
    from jupyterhub.app import JupyterHub

    from .spawner.docker import DockerSessionSpawner

    try:
        found = JupyterHub.class_traits()["spawner_class"].validate(None, given)
    except (TraitError, ImportError):
        return DockerSessionSpawner  # the Hub says what is wrong with it
    if not issubclass(found, DockerSessionSpawner):
        raise ConfigurationError(
            "JupyterHub.spawner_class", given, "It does not start sessions.",
            "Leave it out, or derive it from "
            "jupyterhub_backendai.spawner.docker.DockerSessionSpawner.",
        )  # fmt: skip
    return found


def _serve(c: Config, configuration: BackendAI, spawner_class: type[DockerSessionSpawner]) -> None:
    """Adds the sessions service, and keeps sessions when the Hub is restarted."""
    from .registration import add_service

    _default(c.JupyterHub, "cleanup_servers", False)
    offered = spawner_class.own_catalog_of(c, bool(configuration.environments))
    add_service(c, configuration, spawner_class.client_of(c), offered)


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


def open_site(c: Config, spawner_class: type[DockerSessionSpawner]) -> None:
    """Opens the database before the Hub serves, and begins the start-up work on its loop.

    Raises `ConfigurationError`. Does nothing where no Hub is being started.
    """
    from jupyterhub.app import JupyterHub

    if not JupyterHub.initialized() or JupyterHub.instance().subapp is not None:
        return  # only looked at: `jupyterhub token`, `--generate-config`, documentation
    site = spawner_class.site_of(c)
    with suppress(RuntimeError):  # no loop runs: then nothing is served from here either
        asyncio.get_running_loop()
        site.background(_begin(c, site))


async def _begin(c: Config, site: Any) -> None:
    from .site.reach import check_hub_access

    await site.ready()
    if site.configuration.check_hub_access:
        await check_hub_access(site, c)
