"""Puts the parts together, and their routes into the server.

A part is a module with `handlers(parts) -> list` of tornado routes below `parts.root`. A part that
cannot be imported, or whose routes cannot be made, is left out with a line in the log.

A part that brings an app of its own (`terminal`, `ssh`) may also have

* `item(parts) -> dict`: what differs in its item of `E/apps`: `available`, `why`, `notes`, …
* `async start(parts) -> int`: starts it where it isn't running; its port. Raises
  `processes.NotStarted`.

They are told by the app's name: `terminal`, and `sshd` for `ssh`.
"""

from __future__ import annotations

import atexit
import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import jinja2

from . import declared, entries
from .access import Key
from .apps import Apps
from .processes import Processes
from .splice import Splices
from .watching import Watch

HERE = os.path.dirname(os.path.abspath(__file__))
# In this order; `terminal` and `ssh` where they are there.
PARTS = ("watching", "apps", "pages", "terminal", "ssh", "tunnel", "proxy")
LOADED = "backendai_session"  # in the web application's settings
LINKED = "_backendai_session_icons"  # at the server itself


class Parts:
    """What the parts share; one for each server."""

    def __init__(self, serverapp: Any) -> None:
        self.serverapp = serverapp
        self.log = serverapp.log
        self.base_url: str = serverapp.web_app.settings["base_url"]
        self.root = self.base_url.rstrip("/") + "/backendai/"
        self.declared = declared.read(self.log)
        self.key = Key(self.declared.key_sha256)
        self.watch = Watch(self)
        self.templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(os.path.join(HERE, "templates")),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
        )
        self.modules: dict = {}  # of the parts that are there, by name
        self.apps = Apps(self)
        self.splices = Splices()
        self._runtime_dir = ""
        self._at_end: list[Callable[[], Any]] = []
        atexit.register(self._end)
        self.processes = Processes(self)
        self.at_end(self.processes.end_all)

    def url(self, path: str = "") -> str:
        """The path of a route of ours, from the host's root; `path` is escaped already."""
        return self.root + path

    def pattern(self, path: str) -> str:
        """The same for a route's regular expression; `path` is one."""
        return re.escape(self.root) + path

    @property
    def runtime_dir(self) -> str:
        """A folder of this server's own, 0700, gone with it. It is where Jupyter's own are: there
        are variables, keys and logs in it, and nothing in `/tmp` is safe from an image."""
        if not self._runtime_dir:
            place = self.serverapp.runtime_dir
            self._runtime_dir = tempfile.mkdtemp(prefix="backendai-", dir=place)
            self.at_end(lambda: shutil.rmtree(self._runtime_dir, ignore_errors=True))
        return self._runtime_dir

    def at_end(self, call: Callable[[], Any]) -> None:
        """Calls that when the server ends; in the order in which they were given."""
        self._at_end.append(call)

    def _end(self) -> None:
        for call in self._at_end:
            try:
                call()
            except OSError as error:
                self.log.warning("Backend.AI: at the server's end: %s", error)


def link(serverapp: Any) -> None:
    """What has to be there before other extensions are loaded, once."""
    if not getattr(serverapp, LINKED, False):  # it has no web application yet
        setattr(serverapp, LINKED, True)
        entries.configure(serverapp, declared.read(serverapp.log))


def load(serverapp: Any) -> None:
    """Adds our routes to the server, once."""
    link(serverapp)
    settings = serverapp.web_app.settings
    if LOADED in settings:
        serverapp.log.info("Backend.AI: loaded already, %s does nothing", __package__)
        return
    settings[LOADED] = parts = Parts(serverapp)
    routes: list[Any] = []
    for name in PARTS:
        if not os.path.exists(os.path.join(HERE, name + ".py")):
            continue
        try:
            module = importlib.import_module("." + name, __package__)
            routes += module.handlers(parts)
            parts.modules[name] = module
        except Exception as error:  # one part less is better than no server
            parts.log.warning("Backend.AI: %s is left out: %s", name, error)
    serverapp.web_app.add_handlers(".*$", routes)
