"""What is around every page: the Hub's `page.html`, as this process renders it, and its policy."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import ChainableUndefined, ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH
from jupyterhub.utils import url_escape_path, url_path_join
from tornado.escape import json_encode
from tornado.web import StaticFileHandler
from traitlets.config import Config

from ..._data import data_paths
from ...model.errors import ConfigurationError
from ..handover import LOOK
from ..menu import Entry
from . import words

if TYPE_CHECKING:
    from jupyterhub.services.auth import HubOAuth

    from ..auth import Caller

HUB_STATIC = "static/hub/"  # below our prefix: the Hub's files, where its own are out of reach
_FOR_READERS = re.compile(r"^ *//[^\n]*\n|^ */\*\*.*?\*/\n|^ +", re.DOTALL | re.MULTILINE)
# What a policy can name with a path. By the standard no address in numbers but this one.
_HOST = re.compile(r"(?!\d+(\.\d+){3}(:|$))[a-z0-9-]+(\.[a-z0-9-]+)*(:\d+)?", re.IGNORECASE)
_LOOPBACK = re.compile(r"127\.0\.0\.1(:\d+)?")
_SCRIPT = re.compile(r"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)


def for_browsers(text: str) -> str:
    """One of our scripts or style sheets less its comments and indents, which are for who reads the
    files; no text in them goes over several lines, as a test sees to."""
    return _FOR_READERS.sub("", text)


def look(config: Callable[[], Config]) -> Config:
    """How the Hub's pages look, of the configuration that it handed over; nothing special where
    that cannot be read, which is told elsewhere."""
    try:
        found: Config = config().get(LOOK, Config())
    except ConfigurationError:
        return Config()
    return found


class Shell:
    """Renders templates as the Hub does: an admin's first, then ours, then the Hub's."""

    def __init__(self, hub_auth: HubOAuth, look: Config) -> None:
        self._hub_auth = hub_auth
        self._host = str(hub_auth.hub_host)
        self._prefix = str(hub_auth.hub_prefix)
        self._vars: Mapping[str, Any] = look.get("template_vars", {})
        self._menu = [Entry(**entry) for entry in look.get("services", [])]
        templates, static = data_paths()
        theirs = Path(DATA_FILES_PATH, "templates")
        self.environment = Environment(
            loader=ChoiceLoader([
                PrefixLoader({"templates": FileSystemLoader(theirs)}, "/"),
                FileSystemLoader([*look.get("template_paths", []), templates, static, theirs]),
            ]),
            autoescape=True,
            undefined=ChainableUndefined,  # of what only the Hub's process can tell an admin's
        )  # fmt: skip
        self.environment.globals.update(words.GLOBALS)
        self.environment.filters.update(words.FILTERS)
        self.static = Static(Path(static, "backendai"))
        self.hub_static = Path(DATA_FILES_PATH, "static")

    def page(
        self, template: str, caller: Caller | None, xsrf_token: str, host: str, **more: Any
    ) -> tuple[str, str]:
        """A page and its content security policy. `host` is where the browser asks for it, with
        its port; `more` is what the template itself needs."""
        context = self._context(caller, xsrf_token)
        html = self.environment.get_template(template).render({**context, **more})
        # The scripts that the Hub's or an admin's page has around ours. Ours has none: so what
        # somebody got into a page by a name is none of these, and is not run. They have the user's
        # name and sign-in in them, so nothing of it is kept; it takes a tenth of a millisecond.
        shell = self.environment.get_template("page.html").render(**context)
        return html, self._policy(shell, host)

    def part(self, template: str, xsrf_token: str, **more: Any) -> str:
        """A part of a page, by itself."""
        found = self.environment.get_template(template)
        return found.render({**self._addresses(), "xsrf_token": xsrf_token, **more})

    def script(self, template: str) -> str:
        """A script of several files, as the Hub's page has it."""
        return for_browsers(self.environment.get_template(template).render())

    def _addresses(self) -> dict[str, Any]:
        hub, service = f"{self._host}{self._prefix}", self._hub_auth.base_url
        return {
            "base_url": hub,
            "prefix": os.environ.get("JUPYTERHUB_BASE_URL", "/"),
            "service_url": service,
            "asset": lambda name: url_path_join(service, self.static.path, name),
        }

    def _context(self, caller: Caller | None, xsrf_token: str) -> dict[str, Any]:
        hub = f"{self._host}{self._prefix}"
        files = {"static_path": str(self.hub_static), "static_url_prefix": self._hub_files}

        def static_url(path: str, include_version: bool = True) -> str:
            return str(StaticFileHandler.make_static_url(files, path, include_version))

        return {
            **self._vars,
            **self._addresses(),
            "caller": caller,
            "user": None if caller is None else _User(caller.name),
            "login_url": url_path_join(hub, "login"),
            "logout_url": url_path_join(hub, "logout"),
            "static_url": static_url,
            "version_hash": "",
            "parsed_scopes": {"admin-ui"} if caller is not None and caller.admin else set(),
            "services": [] if caller is None else [e for e in self._menu if e.is_for(caller)],
            "xsrf_token": xsrf_token,
            "no_spawner_check": True,
            "here": "",
            "backendai_sessions": self._hub_auth.base_url,
        }

    @property
    def _hub_files(self) -> str:
        """Where the Hub's style sheets, scripts and fonts are: at its own addresses, so that what
        a browser has of it is not loaded twice. Where services have a host of their own, at ours:
        a browser takes fonts from no other host that does not allow it."""
        if self._host:
            return url_path_join(self._hub_auth.base_url, HUB_STATIC)
        return url_path_join(self._prefix, "static/")

    def _policy(self, shell: str, host: str) -> str:
        """What the page may load, and from where. Scripts come from two folders: on this host there
        may be users' servers too, and a script of theirs is none of ours. How the page looks does
        not depend on the host's name, which a proxy in front may have changed on the way."""
        service = self._hub_auth.base_url
        files = _below(host, url_path_join(service, f"{self.static.path}/"), self._hub_files)
        own = f"'self' {self._host}".strip()
        hashes = {
            base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            for script in _SCRIPT.findall(shell)
        }
        scripts = " ".join(f"'sha256-{found}'" for found in sorted(hashes))
        return (
            f"default-src 'none'; script-src {files} {scripts}; style-src {own}; "
            f"img-src {own} data:; font-src {own}; connect-src {_below(host, service)}; "
            f"form-action {own}; base-uri 'none'; frame-ancestors 'none'"
        )


def _below(host: str, *paths: str) -> str:
    """Sources of a policy: what is below these paths, or all of this host where a policy cannot
    name it."""
    if not (_HOST.fullmatch(host) or _LOOPBACK.fullmatch(host)):
        return "'self'"
    return " ".join(f"{host}{quote(path, safe='/%~@')}" for path in paths)


class _User:
    """What the Hub's templates ask of who is signed in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.escaped_name = url_escape_path(name)
        self.json_escaped_name = json_encode(name)[1:-1]


class Static:
    """Our style sheets and scripts, below an address that changes with any of them, so that a
    browser keeps them for good and never has some of an older version."""

    def __init__(self, root: Path) -> None:
        self.root = root
        digest = hashlib.sha256()
        for path in sorted(root.rglob("*")):
            if path.is_file():
                digest.update(str(path.relative_to(root)).encode())
                digest.update(path.read_bytes())
        self.path = f"static/{digest.hexdigest()[:12]}"
