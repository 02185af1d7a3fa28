"""The shells of a session, by name: each in tmux where the image has it, else in a pty of ours."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from typing import Any

from . import seeds
from .access import Failure
from .ptys import Attached, Shared

MOST = 20  # shells at a time; what more there are in tmux is the user's own doing
PATIENCE = 10  # seconds for tmux to answer
_PREFIX = "shell-"
_NO_SHELL = {"nologin", "false", "true"}


def make(serverapp: Any) -> Shells:
    """The shells of this server; it looks once whether the image has tmux."""
    environment = environment_of(serverapp)
    folder = os.path.expanduser(serverapp.root_dir)
    tmux = shutil.which("tmux")
    if tmux:
        return TmuxShells(tmux, environment, folder)
    return PtyShells(environment, folder)


def environment_of(serverapp: Any) -> dict[str, str | None]:
    """What a shell's environment has otherwise than the server's; None takes a variable out."""
    changes: dict[str, str | None] = {
        "SHELL": program(),
        "COLORTERM": "truecolor",
        "JUPYTER_SERVER_ROOT": serverapp.root_dir,
        "JUPYTER_SERVER_URL": serverapp.connection_url,
    }
    # A server that was itself started in tmux is no reason to be inside that one; the size is the
    # pty's to tell, and terminado's own words mean nothing to anyone.
    changes.update(dict.fromkeys(("TMUX", "TMUX_PANE", "COLUMNS", "LINES", "PYXTERM_DIMENSIONS")))
    if not any(os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        changes["LANG"] = "C.UTF-8"
    return changes


def program() -> str:
    """The user's shell: $SHELL, or bash, or sh."""
    wanted = os.environ.get("SHELL", "")
    if os.path.isabs(wanted) and os.path.basename(wanted) not in _NO_SHELL:
        found = shutil.which(wanted)
        if found:
            return found
    return shutil.which("bash") or "/bin/sh"


def running(shell: int) -> str:
    """The program that has the terminal of the shell with this pid; "" where the shell waits."""
    try:
        with open(f"/proc/{shell}/stat", encoding="utf-8", errors="replace") as file:
            front = int(file.read().rpartition(")")[2].split()[5])
        if front in (shell, -1):
            return ""
        with open(f"/proc/{front}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().replace("\0", " ").strip()[:80]
    except (OSError, ValueError, IndexError):
        return ""


class Shells:
    """What both kinds can do. A name that is not there is refused with 404."""

    kind = ""
    manager: Any

    async def names(self) -> list[str]:
        """The shells there are, the oldest first."""
        raise NotImplementedError

    async def new(self) -> str:
        """Starts another one; its name."""
        names = await self.names()
        if len(names) >= MOST:
            raise Failure(409, "too_many", f"You have {len(names)} shells. Close one first.")
        for number in range(1, MOST + len(names) + 1):
            name = f"{_PREFIX}{number}"
            if name not in names and await self.start(name):
                return name
        raise Failure(409, "too_many", "No name is free for another shell. Close one first.")

    async def start(self, name: str) -> bool:
        """Starts one of this name; False where somebody took the name meanwhile."""
        raise NotImplementedError

    async def ready(self, name: str) -> None:
        """Makes sure that a window can attach to it now."""
        if name not in await self.names():
            raise Failure(404, "no_shell", f"There is no shell {name}.")

    async def running(self, name: str) -> str:
        """The command line of what runs in it now, "" where it waits for one."""
        raise NotImplementedError

    async def close(self, name: str) -> None:
        """Ends it, and what runs in it."""
        raise NotImplementedError

    async def last_output(self) -> float:
        """When one of them last wrote something, in seconds since 1970; 0 for not known."""
        return 0.0


class PtyShells(Shells):
    """Without tmux: shells of this server, which end with it."""

    kind = "pty"

    def __init__(self, environment: dict[str, str | None], folder: str) -> None:
        self.manager = Shared([str(environment["SHELL"])], environment, folder)

    async def names(self) -> list[str]:
        return list(self.manager.terminals)

    async def start(self, name: str) -> bool:
        if name in self.manager.terminals:
            return False
        try:
            self.manager.new_named_terminal(name=name)
        except OSError as error:
            raise Failure(
                503, "no_shell", f"The shell does not start: {error.strerror}."
            ) from error
        return True

    async def running(self, name: str) -> str:
        await self.ready(name)
        return running(self.manager.terminals[name].ptyproc.pid)

    async def close(self, name: str) -> None:
        await self.ready(name)
        self.manager.end(name)

    async def last_output(self) -> float:
        return self.manager.last_output


class TmuxShells(Shells):
    """With tmux: a session each on the user's own tmux server, so `tmux ls` shows them too."""

    kind = "tmux"

    def __init__(self, tmux: str, environment: dict[str, str | None], folder: str) -> None:
        self.folder = folder
        self.command = [tmux, "-u", "-f", os.path.join(seeds.HERE, "start.conf")]
        self.own_settings = os.path.expanduser("~/.tmux.conf")
        self.settings = os.path.join(seeds.HERE, "tmux.conf")
        self.manager = Attached([tmux, "-u", "attach-session", "-t"], environment, folder)
        self.environment = self.manager.make_term_env()
        self.environment["BACKENDAI_TMUX_CONF"] = self.settings  # start.conf takes it out again

    async def tmux(self, *words: str) -> tuple[int, str, str]:
        """Runs a tmux command; its exit code, output and complaint."""
        process = await asyncio.create_subprocess_exec(
            *self.command, *words,
            env=self.environment, cwd=self.folder, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        except asyncio.TimeoutError:
            process.kill()
            raise Failure(503, "tmux", "tmux does not answer. Try again in a moment.") from None
        code = process.returncode or 0
        return code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace").strip()

    async def names(self) -> list[str]:
        form = "#{session_created} #{session_id} #{session_name}"
        rows = await self._rows("list-sessions", "-F", form)
        found = [
            (int(made), int(number.lstrip("$")), name)
            for made, number, name in (row.split(" ", 2) for row in rows)
        ]
        return [name for *_, name in sorted(found)]

    async def _rows(self, *words: str) -> list[str]:
        """What a tmux listing says, a row each; [] where no tmux server runs."""
        code, out, _ = await self.tmux(*words)
        return out.splitlines() if code == 0 else []

    async def start(self, name: str) -> bool:
        words = ("new-session", "-d", "-s", name, "-c", self.folder)
        code, _, complaint = await self.tmux(*words)
        if code and "duplicate session" in complaint:
            return False
        if code:
            said = re.sub(r"\s+", " ", complaint)[:300] or f"exit code {code}"
            raise Failure(503, "tmux", f"tmux does not start a shell: {said}.")
        return True

    async def ready(self, name: str) -> None:
        await super().ready(name)
        _, known, _ = await self.tmux("show-options", "-gqv", "@backendai")
        if known.strip() != "1":  # a server that the user's own `tmux` started, with other settings
            await self.tmux("source-file", self.settings)
            await self.tmux("source-file", "-q", self.own_settings)

    async def running(self, name: str) -> str:
        await Shells.ready(self, name)
        rows = await self._rows("list-panes", "-a", "-F", "#{pane_pid} #{session_name}")
        pids = [int(pid) for pid, of in (row.split(" ", 1) for row in rows) if of == name]
        return next(filter(None, map(running, pids)), "")

    async def close(self, name: str) -> None:
        await Shells.ready(self, name)
        await self.tmux("kill-session", "-t", f"={name}")

    async def last_output(self) -> float:
        rows = await self._rows("list-windows", "-a", "-F", "#{window_activity}")
        return max(map(float, rows), default=0.0)
