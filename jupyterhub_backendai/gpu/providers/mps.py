"""MPS with namespaces (drivers from 615 on): each session has one of its own on its GPU's server.

One daemon, as root and for all users, so that a session's user owns no server and can change no
limit; one server a GPU, so that a fault stays on that GPU; one namespace a session, with its
ceiling of multiprocessors and its memory. A program is in the namespace whose socket it opens, and
a container has that of its own session only.

A daemon that runs already is used: where the Hub's own service may be restarted, the daemon is
better a service of its own, or it ends with the Hub's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...model.gpu_settings import GpuSettings
from ...model.gpus import Granted
from ...model.slots import MIB, parse_bytes
from ..devices import ComputeMode
from ..errors import GpuError
from ..writes import DriverWrites
from .base import Grants, Provider, Running, only_one, session_name
from .memory import MemoryLimits
from .mps_control import (
    Control,
    ControlFailed,
    Daemon,
    MpsThread,
    check_socket,
    server_name,
    wait_for,
)

PIPES = "run/nvidia-mps"  # from the root
LOGS = "var/log/nvidia-mps"
CSV = "--format=csv,noheader"
SERVERS_OWN = "default"
# Of a server's own namespace, in which nobody is to be: whoever gets there has next to nothing.
NOBODYS_PERCENT, NOBODYS_MEMORY = 1, "512M"
_SESSION = re.compile(r"s_([a-z0-9_]+)")


@dataclass(frozen=True, slots=True)
class Server:
    """A line of `server list`."""

    name: str
    uid: str
    pid: str
    status: str
    pipes: str
    devices: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """A line of `namespace list`."""

    name: str
    memory: str
    percent: str

    def is_held(self, granted: Granted) -> bool:
        """Whether its limits are those of the grant, or nothing above them."""
        return self.is_within(granted.percent, granted.memory)

    def is_within(self, most_percent: int, most_memory: int) -> bool:
        """Whether it has limits, and none above these (percents, bytes)."""
        try:
            percent, memory = float(self.percent), parse_bytes(self.memory)
        except ValueError:  # no limit, or nothing that can be read
            return False
        return 0 < percent <= most_percent and 0 < memory <= most_memory


class Servers:
    """The daemon, its servers and their namespaces. Everything here blocks."""

    def __init__(self, control: Control, pipes: Path, logs: Path) -> None:
        self._control = control
        self._daemon = Daemon(pipes, logs)
        self._pipes = pipes

    def directory(self, session: str, uuid: str) -> Path:
        """Where a session's socket is; what its container is given."""
        return self._pipes / server_name(uuid) / f"s_{session_name(session)}"

    def ready(self, uuid: str) -> None:
        """Until the GPU's server is there, with next to nothing in its own namespace. Raises
        `ControlFailed`."""
        name = server_name(uuid)
        check_socket(self._pipes / name)
        self._start_daemon()
        made = self._server(name) is None
        try:
            if made:
                self._create_server(name, uuid)
            self._check_server(name, uuid)
            self._limit_server(name)
        except ControlFailed:
            if made and self._server(name) is not None:  # the next try is to begin anew
                self._call("server", "delete", name, "--force")
            raise

    def hold(self, session: str, granted: Granted) -> None:
        """Makes the session's namespace, with its limits. Raises `ControlFailed`.

        The limits of a namespace that has programs in it cannot be set; one that has its own
        already is left as it is.
        """
        server, name = server_name(granted.uuid), f"s_{session_name(session)}"
        directory = self.directory(session, granted.uuid)
        check_socket(directory)
        found = self._namespaces(server).get(name)
        if found is None:
            self._call("namespace", "create", name, f"--server={server}")
        if found is None or not found.is_held(granted):
            try:
                self._limit(server, name, granted)
            except ControlFailed:
                if found is None:  # nobody may find it without limits
                    self._delete(server, name)
                raise
        found = self._namespaces(server).get(name)
        if found is None or not found.is_held(granted):
            raise ControlFailed(
                f"the namespace of session {session} is not as it was made: {found}"
            )
        if not (directory / "control").exists():
            raise ControlFailed(f"there is no socket in {directory}")

    def restore(self, uuid: str, sessions: Mapping[str, Granted]) -> None:
        """Makes what is missing of these sessions on one GPU. Raises the first `ControlFailed`, in
        the end."""
        self.ready(uuid)
        there = self._namespaces(server_name(uuid))
        failures: list[ControlFailed] = []
        for session, granted in sessions.items():
            found = there.get(f"s_{session}")
            if found is None or not found.is_held(granted):
                try:
                    self.hold(session, granted)
                except ControlFailed as failure:
                    failures.append(failure)
        if failures:
            raise failures[0]

    def free(self, session: str, uuid: str) -> None:
        """Removes the session's namespace; fine where there is none. Raises `ControlFailed`."""
        server, name = server_name(uuid), f"s_{session_name(session)}"
        if self._runs() and self._server(server) and name in self._namespaces(server):
            self._delete(server, name)

    def sweep(self, kept: Collection[str]) -> None:
        """Removes namespaces of sessions that are not among `kept`. Raises the first
        `ControlFailed`, in the end."""
        failures: list[ControlFailed] = []
        for server in self._list() if self._runs() else ():
            if server.name.startswith("gpu_"):
                failures += self._sweep(server.name, kept)
        if failures:
            raise failures[0]

    def leave(self, uuid: str) -> None:
        """Ends the GPU's server, so that others may use it. Raises `ControlFailed` where sessions
        still do by MPS."""
        name = server_name(uuid)
        if (self._pipes / name).is_dir() and self._runs() and self._server(name):
            self._call("server", "delete", name)

    # ---- the daemon ------------------------------------------------------------------------------

    def _start_daemon(self) -> None:
        if self._runs():
            return
        self._daemon.make_folders()
        self._control.call(self._daemon, "-d", "-p", "3", "-m")
        wait_for(self._answers, "the control daemon")

    def _answers(self) -> bool:
        self._list()
        return True

    def _runs(self) -> bool:
        try:
            return self._pipes.is_dir() and self._answers()
        except ControlFailed:
            return False

    def _call(self, *arguments: str) -> str:
        return self._control.call(self._daemon, "-p", "3", *arguments)

    # ---- servers ---------------------------------------------------------------------------------

    def _list(self) -> list[Server]:
        rows = _rows(self._call("server", "list", CSV), 6)
        return [Server(*row[:6]) for row in rows]

    def _server(self, name: str) -> Server | None:
        return next((server for server in self._list() if server.name == name), None)

    def _create_server(self, name: str, uuid: str) -> None:
        self._call("server", "create", name, f"--allowed-devices={uuid}")
        wait_for(lambda: self._ready_server(name), f"the server of {uuid}")

    def _limit_server(self, name: str) -> None:
        """Also of a server that was there: who made it may have been killed before this. Limits are
        not set where they are, since programs may be in the server by now."""
        own = self._namespaces(name).get(SERVERS_OWN)
        if own is None or not own.is_within(NOBODYS_PERCENT, parse_bytes(NOBODYS_MEMORY)):
            self._call(
                "server", "set", name, f"--active-thread-percentage={NOBODYS_PERCENT}",
                f"--pinned-memory-limit={NOBODYS_MEMORY}",
            )  # fmt: skip

    def _ready_server(self, name: str) -> Server | None:
        server = self._server(name)
        return server if server and server.status.lower() == "ready" else None

    def _check_server(self, name: str, uuid: str) -> None:
        """A server without its GPU ends without a word, and programs then run without limits."""
        server = self._server(name)
        if server is None:
            raise ControlFailed(f"the server of {uuid} has ended; see its log")
        if server.status.lower() != "ready" or not self._control.runs(server.pid):
            raise ControlFailed(f"the server of {uuid} is {server.status or 'gone'}; see its log")
        if server.devices != uuid:
            raise ControlFailed(f"server {name} has other devices than {uuid}: {server.devices}")
        if server.uid != "0":
            raise ControlFailed(
                f"server {name} is not root's, so that a session could lift its limits: end the "
                "daemon, and start it as root with -m"
            )

    # ---- namespaces ------------------------------------------------------------------------------

    def _sweep(self, server: str, kept: Collection[str]) -> list[ControlFailed]:
        """Removes what one server has of other sessions; what went wrong."""
        failures: list[ControlFailed] = []
        try:
            names = list(self._namespaces(server))
        except ControlFailed as failure:
            return [failure]
        for name in names:
            session = _SESSION.fullmatch(name)
            if session and session[1] not in kept:
                try:
                    self._delete(server, name)
                except ControlFailed as failure:
                    failures.append(failure)
        return failures

    def _namespaces(self, server: str) -> dict[str, Namespace]:
        rows = _rows(self._call("namespace", "list", f"--server={server}", CSV), 5)
        return {row[0]: Namespace(row[0], row[3], row[4]) for row in rows}

    def _limit(self, server: str, name: str, granted: Granted) -> None:
        self._call(
            "namespace", "set", name, f"--server={server}",
            f"--pinned-memory-limit={granted.memory // MIB}M",
            f"--active-thread-percentage={granted.percent}",
        )  # fmt: skip

    def _delete(self, server: str, name: str) -> None:
        self._call("namespace", "delete", name, f"--server={server}", "--force")


def _rows(said: str, fields: int) -> list[list[str]]:
    """The lines of a list; what has fewer fields is a remark of the program's."""
    rows = [[field.strip() for field in line.split(",")] for line in said.splitlines()]
    return [row for row in rows if len(row) >= fields]


class Mps(Provider):
    """Shares of computing time and memory, by namespaces; memory also by cgroup where it was
    granted as held."""

    name = "mps"

    def __init__(
        self, driver: DriverWrites, limits: MemoryLimits, servers: Servers, thread: MpsThread
    ) -> None:
        self._driver = driver
        self._limits = limits
        self._servers = servers
        self._thread = thread

    def settings(self, session: str, granted: Grants) -> GpuSettings:
        directory = str(self._servers.directory(session, only_one(granted).uuid))
        return GpuSettings(
            environment={"CUDA_MPS_PIPE_DIRECTORY": directory},
            mounts=(directory,),
            cgroup_parent=self._limits.parent(session) if _limited(granted) else "",
        )

    async def ready(self, devices: Sequence[str]) -> None:
        for uuid in devices:
            # Before the server: a program that goes round it then has no GPU at all.
            await self._driver.set_compute_mode(uuid, ComputeMode.EXCLUSIVE_PROCESS)
            await self._thread.run(partial(self._servers.ready, uuid))

    async def prepare(self, session: str, granted: Grants) -> None:
        one = only_one(granted)
        await self.ready([one.uuid])
        await self._thread.run(partial(self._servers.hold, session, one))
        if _limited(granted):
            await self._limits.hold(session, granted)

    async def attach(self, session: str, granted: Grants, running: Running) -> None:
        if _limited(granted):
            await self._limits.attach(granted, running)

    async def release(self, session: str, granted: Grants) -> None:
        for one in granted:
            await self._thread.run(partial(self._servers.free, session, one.uuid))
        if _limited(granted):
            await self._limits.free(session, granted)

    async def restore(self, sessions: Mapping[str, Grants], kept: Collection[str]) -> None:
        errors: list[GpuError] = []
        for uuid in sorted({one.uuid for granted in sessions.values() for one in granted}):
            own = {
                session: one
                for session, granted in sessions.items()
                for one in granted
                if one.uuid == uuid
            }
            try:
                await self._driver.set_compute_mode(uuid, ComputeMode.EXCLUSIVE_PROCESS)
                await self._thread.run(partial(self._servers.restore, uuid, own))
            except GpuError as error:
                errors.append(error)
        try:
            await self._thread.run(partial(self._servers.sweep, kept))
        except GpuError as error:
            errors.append(error)
        if errors:
            raise errors[0]


def _limited(granted: Grants) -> bool:
    return all(one.enforcement.memory == "hard" for one in granted)
