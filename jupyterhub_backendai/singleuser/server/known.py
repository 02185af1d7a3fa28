"""Apps that we know how to start where an image has them.

In a command `{port}`, `{prefix}` (the path of the app's pages, without the last slash), `{home}`,
`{runtime}` (a folder of this server's own) and `{user}` stand for what they say. Each is bound to
127.0.0.1, and to a path where it needs to know it.
"""

from __future__ import annotations

import getpass
import importlib
import importlib.util
import os
import shutil
from typing import Any, NamedTuple

CATEGORIES = ("Development", "ML tools", "Utilities", "Desktop", "Preopen ports", "Other")

# These give whoever reaches them the session itself: never for others, whatever is declared.
PRIVATE = {"jupyterlab", "notebook", "terminal", "sshd", "vscode", "rstudio", "ttyd", "marimo"}
# The same by the program, whatever an app is called.
_JUPYTER = {"jupyter", "jupyter-lab", "jupyter-notebook", "jupyter-server", "jupyterhub-singleuser"}
_EDITORS = {"code", "openvscode-server"}


class Known(NamedTuple):
    name: str
    title: str
    category: str
    icon: str
    command: tuple[str, ...]  # its first word is the program that has to be there
    port: int
    path: str = ""
    shareable: bool = False
    strips: bool = True  # whether the app is asked without the prefix
    env: tuple[tuple[str, str], ...] = ()


APPS = (
    Known(
        "vscode", "Visual Studio Code", "Development", "code",
        ("code-server", "--bind-addr", "127.0.0.1:{port}", "--auth", "none",
         "--disable-telemetry", "--disable-update-check", "{home}"),
        8443,
    ),
    Known(
        "rstudio", "RStudio", "Development", "chart-bar",
        ("rserver", "--server-daemonize=0", "--www-address=127.0.0.1", "--www-port={port}",
         "--www-root-path={prefix}/", "--www-frame-origin=same", "--www-verify-user-agent=0",
         "--auth-none=1", "--server-user={user}", "--server-data-dir={runtime}/rstudio",
         "--secure-cookie-key-file={runtime}/rstudio.key"),
        8787,
        env=(("USER", "{user}"),),
    ),
    Known(
        "marimo", "marimo", "Development", "leaf",
        ("marimo", "edit", "--headless", "--no-token", "--host", "127.0.0.1", "--port", "{port}",
         "--base-url", "{prefix}"),
        2718, strips=False,
    ),
    Known(
        "mlflow", "MLflow", "ML tools", "flask",
        ("mlflow", "ui", "--host", "127.0.0.1", "--port", "{port}"),
        5000, shareable=True,
        # It is reached by our proxies alone, which look who asks and from where. Its own look knows
        # this machine's names only, and where others are allowed, it lets them all read.
        env=(("MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE", "true"),),
    ),
    Known(
        "netron", "Netron", "ML tools", "project-diagram",
        ("netron", "--host", "127.0.0.1", "--port", "{port}"),
        8081, shareable=True,
    ),
    Known(
        "ttyd", "Console (ttyd)", "Utilities", "terminal",
        ("ttyd", "-W", "-i", "127.0.0.1", "-p", "{port}", "{shell}"),
        7681,
    ),
    Known(
        "filebrowser", "FileBrowser", "Utilities", "folder-open",
        ("filebrowser", "--address", "127.0.0.1", "--port", "{port}", "--root", "{home}",
         "--database", "{runtime}/filebrowser.db", "--baseURL", "{prefix}", "--noauth"),
        8085, strips=False,
    ),
)  # fmt: skip


def home() -> str:
    return os.path.expanduser("~")


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        return str(os.getuid())


def installed(known: Known) -> bool:
    return shutil.which(known.command[0]) is not None


def is_private(name: str, command: tuple[str, ...]) -> bool:
    """Whether an app of that name, started so, is never for others."""
    program = os.path.basename(command[0]) if command else ""
    if command[1:2] == ("run",) and program == "marimo":
        return name in PRIVATE  # a notebook as an app: nobody edits it
    own = {known.command[0] for known in APPS if known.name in PRIVATE}
    return name in PRIVATE or program in own | _JUPYTER | _EDITORS | {"sshd"}


def find(name: str) -> Known | None:
    return next((known for known in APPS if known.name == name), None)


def words(command: tuple[str, ...], values: dict[str, str]) -> list[str]:
    """The command with what its names in braces stand for; a list, never a shell's."""
    found: list[str] = []
    for word in command:
        if word == "{shell}":
            found += shell()
            continue
        for name, value in values.items():
            word = word.replace("{" + name + "}", value)
        found.append(word)
    return found


def shell() -> list[str]:
    """What a console runs: a tmux session that stays, or a shell."""
    if shutil.which("tmux"):
        return ["tmux", "new", "-A", "-s", "main"]
    return [next((s for s in ("zsh", "bash", "sh") if shutil.which(s)), "sh")]


# What this server itself has: (name, title, icon, path below the server, extension, module)
OF_JUPYTER = (
    ("jupyterlab", "JupyterLab", "flask", "lab", "jupyterlab"),
    ("notebook", "Jupyter Notebook", "book", "tree", "notebook"),
    ("notebook", "Jupyter Notebook", "book", "tree", "nbclassic"),
)


def has_module(name: str) -> bool:
    """Whether this Python has it, looked up anew and not imported."""
    importlib.invalidate_caches()
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def of_jupyter(serverapp: Any) -> list[tuple[str, str, str, str]]:
    """(name, title, icon, path) of the user interfaces that this server has."""
    linked = getattr(getattr(serverapp, "extension_manager", None), "linked_extensions", None)
    found: dict[str, tuple[str, str, str, str]] = {}
    for name, title, icon, path, module in OF_JUPYTER:
        switched_off = isinstance(linked, dict) and linked and not linked.get(module, False)
        if name not in found and has_module(module) and not switched_off:
            found[name] = (name, title, icon, path)
    return list(found.values())
