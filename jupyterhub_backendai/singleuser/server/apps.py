"""The apps of this session and their state, and `E/apps`."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import Any, NamedTuple
from urllib.parse import quote

from . import declared, known, ports, tensorboard
from .access import SignedInOrKey, checked
from .processes import NotStarted
from .tensorboard import Ask

ALWAYS = ("terminal", "sshd", "tensorboard")  # listed whether they can be had or not
OF_JUPYTER = {name for name, *_ in known.OF_JUPYTER}
# What a part of ours is, by the app's name.
OF_PARTS = {"terminal": "terminal", "sshd": "ssh"}


class App(NamedTuple):
    """An app of this session, wherever it comes from."""

    name: str
    title: str
    category: str
    icon: str
    path: str  # in the app itself; of the server's own pages: below base_url
    protocol: str = "http"
    port: int | None = None  # its own; None: it has none, or it is a page of this server
    command: tuple[str, ...] = ()  # () = somebody else starts it
    strips: bool = True  # whether it is asked without the prefix
    env: tuple[tuple[str, str], ...] = ()
    why: str = ""  # why it is not available, and what to do
    shareable: bool = False
    asks: tuple[Ask, ...] = ()
    own_port_only: bool = False  # whoever listens there is it, whoever started it
    notes: tuple[str, ...] = ()

    @property
    def is_page(self) -> bool:
        """A page of this server itself."""
        return self.protocol == "http" and self.port is None


class Apps:
    """All of them, looked up anew each time: people install programs meanwhile."""

    def __init__(self, parts: Any) -> None:
        self._parts = parts
        self._arguments: dict[str, str] = {}  # TensorBoard's log directory, once it was started

    # ---- which there are

    def all(self) -> list[App]:
        found: dict[str, App] = {}
        for app in [*self._of_this_server(), *self._declared(), *self._known(), *self._preopen()]:
            found.setdefault(app.name, app)
        return sorted(found.values(), key=_place)

    def get(self, name: str) -> App | None:
        """The app of that name, without a look at all the others: each request asks."""
        if name in ALWAYS:
            return self._always(name)
        said = self._said(name)
        if said is not None and name not in OF_JUPYTER:
            return self._of_catalog(said)
        if any(name == str(port) for port in self._parts.declared.preopen_ports):
            return self._of_port(int(name))
        model = known.find(name)
        if model is not None:
            return self._of_known(model) if known.installed(model) else None
        return next((app for app in self.all() if app.name == name), None)

    def _of_this_server(self) -> list[App]:
        found = [
            App(name, title, "Development", icon, path)
            for name, title, icon, path in known.of_jupyter(self._parts.serverapp)
        ]
        return found + [self._always(name) for name in ALWAYS]

    def _always(self, name: str) -> App:
        if name == "terminal":
            return self._of_part(name, "Terminal", "terminal", "backendai/terminal/")
        if name == "sshd":
            return self._of_part(name, "SSH and SFTP", "key", "")
        return self._tensorboard()

    def _tensorboard(self) -> App:
        why = "" if tensorboard.program() else tensorboard.NOT_INSTALLED
        said = self._said(tensorboard.NAME)
        return App(
            tensorboard.NAME, "TensorBoard", "ML tools", "chart-line", "",
            port=said.ports[0] if said else tensorboard.PORT, why=why, shareable=True,
            asks=(tensorboard.ask(self._arguments.get(tensorboard.NAME, "")),),
        )  # fmt: skip

    def _of_part(self, name: str, title: str, icon: str, path: str) -> App:
        module = self._parts.modules.get(OF_PARTS[name])
        more = module.item(self._parts) if hasattr(module, "item") else {}
        why = "" if module else f"{title} is not there in this session. Its log says why."
        if not more.get("available", True):
            why = more.get("why") or f"{title} is not available."
        tcp = name == "sshd"
        return App(
            name, more.get("title", title), more.get("category", "Utilities"),
            more.get("icon", icon), path,
            protocol="tcp" if tcp else "http",
            port=more.get("port", self._parts.declared.ssh_port) if tcp else None,
            why=why, notes=tuple(more.get("notes", ())), own_port_only=tcp,
        )  # fmt: skip

    def _said(self, name: str) -> declared.App | None:
        return next((app for app in self._parts.declared.apps if app.name == name), None)

    def _declared(self) -> list[App]:
        return [self._of_catalog(app) for app in self._parts.declared.apps]

    def _of_catalog(self, said: declared.App) -> App:
        """What the catalog says; what it leaves out is as we know it."""
        model = known.find(said.name)
        why = ""
        if said.command and shutil.which(said.command[0]) is None:
            why = f"The program {said.command[0]} is not installed in this environment."
        return App(
            said.name,
            said.title or (model.title if model else said.name),
            said.category or (model.category if model else "Other"),
            said.icon or (model.icon if model else "cube"),
            said.path or (model.path if model else ""),
            protocol=said.protocol,
            port=said.ports[0],
            command=said.command,
            strips=model.strips if model else True,
            env=model.env if model and said.command else (),
            why=why,
            shareable=said.shareable and not known.is_private(said.name, said.command),
            own_port_only=True,
        )

    def _known(self) -> list[App]:
        return [self._of_known(model) for model in known.APPS if known.installed(model)]

    def _of_known(self, model: known.Known) -> App:
        return App(
            model.name, model.title, model.category, model.icon, model.path, port=model.port,
            command=model.command, strips=model.strips, env=model.env,
            shareable=model.shareable and model.name not in known.PRIVATE,
        )  # fmt: skip

    def _preopen(self) -> list[App]:
        return [self._of_port(port) for port in self._parts.declared.preopen_ports]

    def _of_port(self, port: int) -> App:
        return App(
            str(port), f"Port {port}", "Preopen ports", "globe", "", port=port,
            shareable=True, own_port_only=True,
        )  # fmt: skip

    # ---- how they are

    def port(self, app: App) -> int | None:
        """Where it answers, or would."""
        process = self._parts.processes.running(app.name)
        return process.port if process else app.port

    def target(self, app: App) -> int:
        """The port to connect to. Raises ConnectionRefusedError where nothing of it is running."""
        port = self.port(app)
        if port is None or not self._is_its_own(app, port):
            raise ConnectionRefusedError(f"{app.title} is not running.")
        return port

    def _is_its_own(self, app: App, port: int) -> bool:
        """Whether what listens there is that app. What we did not start counts on a port that is
        the app's alone; what we started for another app never does."""
        if self._parts.processes.running(app.name):
            return True
        return app.own_port_only and port not in self._parts.processes.others(app.name)

    def is_listening(self, app: App, listening: set[int] | None = None) -> bool:
        """Whether it answers."""
        port = self.port(app)
        if port is None or not self._is_its_own(app, port):
            return False
        return port in (ports.listening() if listening is None else listening)

    def item(self, app: App, listening: set[int]) -> dict:
        if app.is_page:
            path = app.path
        else:
            path = "" if app.protocol == "tcp" else "backendai/open/" + quote(app.name, safe="")
        answers = self.is_listening(app, listening)
        process = self._parts.processes.running(app.name)
        return {
            "name": app.name, "title": app.title, "category": app.category, "icon": app.icon,
            "protocol": app.protocol, "port": self.port(app), "path": path,
            "available": not app.why, "why": app.why, "notes": list(app.notes),
            "shareable": app.shareable, "asks": [ask._asdict() for ask in app.asks],
            "running": process is not None or answers or (app.is_page and not app.why),
            "listening": answers,
        }  # fmt: skip

    def items(self) -> list[dict]:
        listening = ports.listening()
        return [self.item(app, listening) for app in self.all()]

    # ---- starting them

    def prefix(self, app: App) -> str:
        """The path of its pages, without the last slash."""
        return str(self._parts.url("app/" + quote(app.name, safe="")))

    def starts(self, app: App) -> bool:
        """Whether it is us who start it."""
        return bool(app.command or app.asks or self._hook(app))

    def _hook(self, app: App) -> Any:
        module = self._parts.modules.get(OF_PARTS.get(app.name, ""))
        return getattr(module, "start", None)

    async def start(self, app: App, arguments: dict | None = None) -> None:
        """Starts it unless it runs as asked, and waits until it answers.

        Raises NotStarted; tensorboard.Refused for an argument.
        """
        if app.why:
            raise NotStarted(app.why)
        try:
            await self._start(app, arguments)
        except OSError as error:  # of its folders and files
            failure = NotStarted(f"It cannot be started: {error}")
            self._parts.processes.failed(app.name, failure)
            raise failure from error

    async def _start(self, app: App, arguments: dict | None) -> None:
        hook = self._hook(app)
        if hook is not None:
            await hook(self._parts)
        elif app.name == tensorboard.NAME:
            await self._start_tensorboard(app, arguments or {})
        elif app.command and not self.is_listening(app):
            await self._parts.processes.start(
                app.name, lambda port: self._words(app, port), app.port, **self._how(app)
            )

    async def _start_tensorboard(self, app: App, arguments: dict) -> None:
        said = arguments.get(tensorboard.ARGUMENT)
        now = self._arguments.get(app.name, "")
        loop = asyncio.get_running_loop()
        logdir = await loop.run_in_executor(
            None, tensorboard.directory, now or tensorboard.default() if said is None else said
        )
        other = logdir != now
        self._arguments[app.name] = logdir
        await self._parts.processes.start(
            app.name, lambda port: tensorboard.command(logdir, port), app.port,
            again=other, **self._how(app),
        )  # fmt: skip

    def _values(self, app: App) -> dict[str, str]:
        return {
            "prefix": self.prefix(app),
            "home": known.home(),
            "runtime": self._parts.runtime_dir,
            "user": known.user(),
        }

    def _words(self, app: App, port: int) -> list[str]:
        values = {"port": str(port)}
        if self._said(app.name) is None:
            values.update(self._values(app))
        return known.words(app.command, values)

    def _how(self, app: App) -> dict:
        env = dict(os.environ)
        # what opens this server and the Hub is no app's business
        for name in ("JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JUPYTER_TOKEN"):
            env.pop(name, None)
        values = self._values(app)
        for name, value in app.env:
            env.setdefault(name, known.words((value,), values)[0])
        home = known.home()
        return {"env": env, "cwd": home if os.path.isdir(home) else None}


def _place(app: App) -> tuple:
    order = known.CATEGORIES
    last = len(order) - 1
    rank: float = order.index(app.category) if app.category in order else last - 0.5
    first = ("jupyterlab", "notebook", "terminal", "tensorboard", "sshd")
    return (rank, app.category, first.index(app.name) if app.name in first else len(first),
            app.port if app.category == "Preopen ports" else 0, app.title)  # fmt: skip


class AppsHandler(SignedInOrKey):
    """`GET E/apps`"""

    needs = ("read", "terminals")

    @checked
    async def get(self):
        self.answer({"apps": self.parts.apps.items()})


def handlers(parts):
    return [(parts.pattern("apps"), AppsHandler, {"parts": parts})]
