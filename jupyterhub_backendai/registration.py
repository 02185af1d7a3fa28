"""What `setup(c)` adds for the service: the service itself, its scopes, and its users' scope."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from copy import copy
from typing import Any, TypeVar
from urllib.parse import urlsplit

from jupyterhub.utils import subdomain_hook_idna, subdomain_hook_legacy
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

from .configuration import BackendAI
from .service import keeper, menu
from .service.handover import LOOK, VARIABLE, pack
from .service.parts import CLIENT

T = TypeVar("T", list[Any], dict[str, Any])
NAME = "backendai"
LINK = "backendai_sessions"  # of the variables of templates: where the sessions page is
SERVICE = [sys.executable, "-m", "jupyterhub_backendai.service"]
ACCESS = f"access:services!service={NAME}"
# To find owners and their groups, and to start and end their servers. Nothing of tokens, nothing
# of other services, nothing of what is inside a server.
SCOPES = ["list:users", "read:users:groups", "servers", "users:activity"]
# What a browser's sign-in may do here, as far as its user may: the same as at the Hub.
ON_BEHALF = [ACCESS, "servers", "read:metrics"]


def add_service(
    c: Config, configuration: BackendAI, client: Mapping[str, Any], offered: Mapping[str, Any]
) -> None:
    """Appends the service to what the Hub runs; one of that name stays as the admin made it.

    `client`: arguments of the Docker client. `offered`: traits of what the site offers where the
    configuration has none of them, because DockerSpawner's own say it.
    """
    hub = c.JupyterHub
    if any(service.get("name") == NAME for service in _given(hub, "services", list)):
        return
    given = {name: getattr(configuration, name) for name in c.get("BackendAI", {})}
    filled = {name: value for name, value in offered.items() if not given.get(name)}
    sections = {"BackendAI": {**given, **filled}, CLIENT: client, LOOK: _look(hub)}
    _append(
        hub,
        "services",
        {
            "name": NAME,
            "url": configuration.service_url,
            "command": [sys.executable, "-I", "-S", keeper.__file__, *SERVICE],
            "environment": {VARIABLE: pack(sections)},
            "oauth_no_confirm": True,
            "oauth_client_allowed_scopes": ON_BEHALF,
            "display": False,
        },
    )
    _append(hub, "load_roles", {"name": f"{NAME}-service", "services": [NAME], "scopes": SCOPES})
    _let_users_in(hub)
    _lead_to_sessions(hub, configuration)


def _look(hub: Config) -> dict[str, Any]:
    """What an admin has made of the Hub's pages, for the service's to look the same: templates,
    those of their variables that are plain values, and the menu of services."""
    values = _given(hub, "template_vars", dict)
    services = _given(hub, "services", list)
    names = [str(service.get("name", "")) for service in services]
    return {
        "services": menu.entries(
            services,
            _given(hub, "load_roles", list),
            _extra_scopes(hub),
            {name: _address(hub, name) for name in names},
        ),
        "template_paths": _given(hub, "template_paths", list),
        "template_vars": {name: value for name, value in values.items() if _is_plain(value)},
    }


def _is_plain(value: Any) -> bool:
    """Whether a value can be told to another process; a function, say, cannot."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _lead_to_sessions(hub: Config, configuration: BackendAI) -> None:
    """A link in the navigation of the Hub's pages, and the page that people come to first."""
    address = _address(hub, NAME)
    if LINK not in _given(hub, "template_vars", dict):
        hub.setdefault("template_vars", {}).update({LINK: address})
    if configuration.sessions_first and "default_url" not in hub and not hub.get("subdomain_host"):
        hub["default_url"] = address


def _address(hub: Config, name: str) -> str:
    """Where a service is, as the Hub's own rule has it."""
    path = f"{_base_url(hub)}services/{name}/"
    given = str(hub.get("subdomain_host") or "")
    if not given:
        return path
    place = urlsplit(given if "://" in given else f"https://{given}")
    hook = hub.get("subdomain_hook", "idna")
    hook = {"idna": subdomain_hook_idna, "legacy": subdomain_hook_legacy}.get(hook, hook)
    port = f":{place.port}" if place.port else ""
    return f"{place.scheme}://{hook(name, place.hostname, kind='service')}{port}{path}"


def _let_users_in(hub: Config) -> None:
    """To the `user` role where the admin wrote one, for then the Hub reads nothing else."""
    for role in _given(hub, "load_roles", list):
        if role.get("name") == "user" and "scopes" in role:
            if ACCESS not in role["scopes"]:
                role["scopes"] = [*role["scopes"], ACCESS]
            return
    scopes = hub.setdefault("extra_user_scopes", set())
    if isinstance(scopes, (set, LazyConfigValue)):
        scopes.update({ACCESS})
    else:
        hub["extra_user_scopes"] = {*scopes, ACCESS}


def _extra_scopes(hub: Config) -> set[str]:
    """The scopes that the configuration gives each user, also while it is only `.update` calls."""
    value = hub.get("extra_user_scopes", set())
    if isinstance(value, LazyConfigValue):
        value = copy(value).get_value(set())
    return set(value)


def _base_url(hub: Config) -> str:
    """Where all of the Hub is, by the two traits that may say so, in the Hub's own form."""
    given = hub.get("base_url") or urlsplit(str(hub.get("bind_url", ""))).path
    path = str(given).strip("/")
    return f"/{path}/" if path else "/"


def _given(hub: Config, name: str, kind: type[T]) -> T:
    """A list or dict of the configuration, also while it is only `.append` or `.update` calls."""
    value = hub.get(name, kind())
    if isinstance(value, LazyConfigValue):
        value = copy(value).get_value(kind())  # a copy: one that was read takes no more
    return kind(value)


def _append(hub: Config, name: str, value: Any) -> None:
    hub.setdefault(name, []).append(value)
