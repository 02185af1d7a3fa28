"""Icons for our apps in JupyterLab's launcher, by jupyter-server-proxy where it is installed.

That package has an entry point for what is always there. What differs from session to session is
put into its configuration, before its extension reads it. All of them lead to our own pages; its
own proxy is left without anything to connect to.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

HERE = os.path.dirname(os.path.abspath(__file__))
GROUP = "jupyter_serverproxy_servers"
PREFIX = "backendai-"
ICONS = ("terminal", "tensorboard", "port", "app")


def terminal() -> dict:
    return entry("Terminal (tmux)", "backendai/terminal/", "terminal")


def tensorboard() -> dict:
    return entry("TensorBoard", "backendai/open/tensorboard", "tensorboard")


def entry(title: str, path: str, icon: str) -> dict:
    """A server of jupyter-server-proxy that is nothing but an icon."""
    return {
        "command": [],
        "unix_socket": os.path.join(HERE, "no-socket"),  # nothing is there, and nobody can put it
        "new_browser_tab": True,
        "launcher_entry": {
            "title": title,
            "path_info": path,
            "icon_path": os.path.join(HERE, "static", "icons", icon + ".svg"),
            "category": "Backend.AI",
        },
    }


def servers(declared: Any) -> dict[str, dict]:
    """All of a session's, by their names there."""
    found = {PREFIX + "terminal": terminal(), PREFIX + "tensorboard": tensorboard()}
    for app in declared.apps:
        if app.protocol == "http" and app.name not in ("terminal", "tensorboard", "sshd"):
            path = "backendai/open/" + quote(app.name, safe="")
            found[PREFIX + "app-" + app.name] = entry(app.title or app.name, path, "app")
    for port in declared.preopen_ports:
        found[PREFIX + f"port-{port}"] = entry(f"Port {port}", f"backendai/open/{port}", "port")
    return found


def by_entry_points() -> set[str]:
    """Those of ours that an installed package brings already."""
    from importlib.metadata import entry_points

    points: Any = entry_points()
    of_group = points.select(group=GROUP) if hasattr(points, "select") else points.get(GROUP, ())
    return {point.name for point in of_group if point.name.startswith(PREFIX)}


def configure(serverapp: Any, declared: Any) -> None:
    """Puts them into `ServerProxy.servers`; what is configured there already stays as it is."""
    from traitlets.config import Config

    there = by_entry_points()
    ours = {name: made for name, made in servers(declared).items() if name not in there}
    said: Any = serverapp.config.ServerProxy.get("servers", {})
    if hasattr(said, "get_value"):  # `c.ServerProxy.servers.update(…)`
        said = said.get_value({})
    merged = dict(ours)
    merged.update(said)
    serverapp.update_config(Config({"ServerProxy": {"servers": merged}}))
