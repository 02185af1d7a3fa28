"""Counters of a Docker host's containers: from the kernel's files where it is this machine, else
from Docker's stats API, which costs both sides some hundred times as much."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import docker
from docker.errors import APIError, NotFound
from docker.utils import version_gte
from traitlets.log import get_logger

from ..model.usage import Reading
from .base import AgentUnreachable
from .readings import Files, Place

if TYPE_CHECKING:
    from .docker import DockerHost

ASKED_AT_ONCE = 8  # containers that one daemon is asked for at the same time


class DockerReadings:
    """Readings of one host's containers. What was found once of each is kept."""

    def __init__(self, host: DockerHost, files: Files | None = None) -> None:
        self.log = get_logger()
        self._host = host
        self._files = files or Files()
        self._places: dict[str, Place] = {}
        self._out_of_reach: set[str] = set()  # containers whose files cannot be seen from here
        self._asking = asyncio.Semaphore(ASKED_AT_ONCE)

    async def read(self, containers: Collection[str]) -> dict[str, Reading]:
        """Their counters, by id; one that does not run is left out. Raises `AgentUnreachable` where
        nothing at all can be known."""
        wanted = set(containers)
        self._out_of_reach &= wanted
        for gone in self._places.keys() - wanted:
            del self._places[gone]
        found = await asyncio.to_thread(self._read_files) if self._places else {}
        try:
            if self._host.local:
                new = wanted - found.keys() - self._out_of_reach
                await self._find(new)
                found |= await asyncio.to_thread(self._read_files, new)
                wanted = set(self._out_of_reach)
            found |= await self._ask(wanted)
        except AgentUnreachable as error:
            if not found:
                raise
            self.log.debug("Some containers cannot be read: %s", error)
        return found

    def _read_files(self, only: Collection[str] | None = None) -> dict[str, Reading]:
        found = {}
        for container, place in list(self._places.items()):
            if only is not None and container not in only:
                continue
            reading = self._files.read(place)
            if reading is None:  # it has ended, or was started again
                del self._places[container]
            else:
                found[container] = reading
        return found

    async def _find(self, containers: Collection[str]) -> None:
        """Notes where the files of these are, or that they cannot be seen."""

        def run(client: docker.APIClient) -> None:
            for container in containers:
                try:
                    said = client.inspect_container(container)
                except NotFound:
                    continue
                pid = int(said["State"].get("Pid") or 0)
                if not pid:
                    continue  # it does not run
                mode = str((said.get("HostConfig") or {}).get("NetworkMode", ""))
                own = mode != "host" and not mode.startswith("container:")
                place = self._files.find(container, pid, own)
                if place is None:
                    self._out_of_reach.add(container)
                else:
                    self._places[container] = place

        if containers:
            try:
                await self._host.call(run)
            except APIError as error:
                raise AgentUnreachable(f"Docker on {self._host.name}: {error}") from error

    async def _ask(self, containers: Collection[str]) -> dict[str, Reading]:
        async def one(container: str) -> tuple[str, Reading | None]:
            async with self._asking:
                return container, await self._host.call(lambda client: _stats(client, container))

        pairs = await asyncio.gather(*(one(container) for container in containers))
        return {container: reading for container, reading in pairs if reading is not None}


def _stats(client: docker.APIClient, container: str) -> Reading | None:
    """One look by Docker's stats API; None where it does not run, or cannot be looked at."""
    # Without it the daemon looks twice, a second apart; older ones know nothing else.
    once = True if version_gte(client.api_version, "1.41") else None
    try:
        said = client.stats(container, decode=None, stream=False, one_shot=once)
    except APIError:  # gone, or of a daemon that cannot tell
        return None
    return reading_of(said, time.monotonic())


def reading_of(said: Mapping[str, Any], at: float) -> Reading | None:
    """What an answer of the stats API says; None of a container that does not run."""
    cpu = (said.get("cpu_stats") or {}).get("cpu_usage") or {}
    memory = said.get("memory_stats") or {}
    if "usage" not in memory and not cpu.get("total_usage"):
        return None
    used, detail = memory.get("usage"), memory.get("stats") or {}
    if used is not None:
        dropped = detail.get("total_inactive_file", detail.get("inactive_file", 0))
        used = used - dropped if dropped < used else used
    total = cpu.get("total_usage")
    disk = (said.get("blkio_stats") or {}).get("io_service_bytes_recursive")
    nets = said.get("networks")
    return Reading(
        at, "", None if total is None else total / 1e9, used,
        disk_read=_disk(disk, "read"), disk_write=_disk(disk, "write"),
        net_in=None if nets is None else sum(net["rx_bytes"] for net in nets.values()),
        net_out=None if nets is None else sum(net["tx_bytes"] for net in nets.values()),
    )  # fmt: skip


def _disk(rows: list[dict[str, Any]] | None, direction: str) -> int | None:
    if rows is None:
        return None
    return sum(row["value"] for row in rows if str(row["op"]).lower() == direction)
