"""The GPUs of the machine that the Hub is on: what its agent has, and what sessions are given.

GPUs are offered by one agent, the first whose Docker engine is on this machine: two agents that are
two names of one machine would give each GPU away twice. What must be done on the machine for a
session's share is done by the Hub's process; the service only reads what was noted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from docker import APIClient
from docker.errors import APIError, NotFound
from traitlets.log import get_logger

from ..engine.base import LABEL_SESSION, AgentStatus, EngineError
from ..engine.belongings import is_up
from ..engine.docker import DockerHost
from ..gpu import Usage
from ..gpu.errors import GpuError
from ..gpu.machine import Gpus
from ..gpu.offers import simulated
from ..model.gpu_settings import GpuSettings
from ..model.gpus import GpuDevice, GpuRule, Granted, slots_in

Grants = tuple[Granted, ...]


class GpuFailed(EngineError):
    """A session's GPU could not be made ready, or its share could not be held."""


class SiteGpus:
    """GPUs of one agent of the site; of all others there are none."""

    def __init__(
        self,
        hosts: Mapping[str, DockerHost],
        rules: Sequence[GpuRule],
        simulated_gpus: int,
        uid: int = 1000,  # of the programs in sessions
    ) -> None:
        self.log: logging.Logger | logging.LoggerAdapter[Any] = get_logger()
        shared = next((rule for rule in rules if rule.shared), GpuRule(shares_per_gpu=5))
        made_up = simulated(simulated_gpus, shared)
        self.on = bool(rules or made_up)
        self._host = _nearest(hosts) if self.on else None
        self._gpus = Gpus(rules, simulated=made_up, uid=uid)
        self._wrong: dict[str, str] = {}  # why a device is not available, by UUID
        self._attached: set[str] = set()  # sessions whose container this process has seen to

    async def devices(self, agent: AgentStatus) -> tuple[GpuDevice, ...]:
        """The GPUs of an agent that was looked at a moment ago."""
        if self._host is None or agent.name != self._host.name or not agent.available:
            return ()
        self._gpus.engine_says(self._host.says, local=self._host.local)
        found = await self._gpus.devices(agent.group)
        self._tell(agent.name, found)
        return found

    async def with_devices(
        self, agents: Sequence[AgentStatus]
    ) -> list[tuple[AgentStatus, tuple[GpuDevice, ...]]]:
        """Agents with what they have of GPUs counted in, and the GPUs themselves."""
        found = []
        for agent in agents:
            devices = await self.devices(agent)
            capacity = agent.capacity + slots_in(devices)
            found.append((replace(agent, capacity=capacity), devices))
        return found

    def _tell(self, agent: str, devices: Sequence[GpuDevice]) -> None:
        """Tells the admin what cannot be used, and why, once each time that it changes."""
        for device in devices:
            if device.reason == self._wrong.get(device.uuid, ""):
                continue
            self._wrong[device.uuid] = device.reason
            if device.available:
                self.log.warning("GPU %s of %s can be used again", device.uuid, agent)
            else:
                self.log.error(
                    "GPU %s (%s) of %s is not given to sessions: %s",
                    device.uuid, device.name, agent, device.reason,
                )  # fmt: skip

    async def prepare(self, session_id: str, granted: Grants) -> GpuSettings:
        """Makes ready what the session was granted. Raises `GpuFailed`."""
        try:
            return await self._gpus.prepare(session_id, granted)
        except GpuError as error:
            raise GpuFailed(str(error)) from error

    async def attach(self, session_id: str, granted: Grants, container: str, pid: int) -> None:
        """Holds what can be held of a running container only. Raises `GpuFailed`: then the
        container must not go on."""
        try:
            await self._gpus.attach(session_id, granted, container, pid)
        except GpuError as error:
            raise GpuFailed(str(error)) from error
        self._attached.add(session_id)

    async def release(self, session_id: str, granted: Grants) -> None:
        """Takes back what the session had. Where that fails it is logged and done later, with
        `restore`: the container that used it is gone."""
        try:
            await self._gpus.release(session_id, granted)
        except GpuError as error:
            self.log.error("The GPU of session %s is not released yet: %s", session_id, error)

    async def restore(self, sessions: Mapping[str, Grants], starting: Collection[str]) -> None:
        """Makes anew what a restart took away, and takes back what of these sessions is none: all
        that hold something, and those that a start of this process is busy with."""
        if not self.on:
            return
        try:
            await self._gpus.restore(sessions, starting)
            await self._attach_again(sessions)
        except (GpuError, EngineError, APIError) as error:
            self.log.error("GPUs of sessions could not all be put right: %s", error)
        self._attached &= sessions.keys()

    async def _attach_again(self, sessions: Mapping[str, Grants]) -> None:
        """What a process before this one may not have come to, when it died during a start."""
        missing = sessions.keys() - self._attached
        if self._host is None or not missing:
            return
        for row in await self._host.listing():
            session_id = row["Labels"].get(LABEL_SESSION, "")
            if session_id in missing and is_up(row):
                found = await self._host.call(partial(_inspect, container=row["Id"]))
                if found is not None and (pid := int(found["State"]["Pid"])):
                    try:
                        await self.attach(session_id, sessions[session_id], row["Id"], pid)
                    except GpuFailed as error:  # which must not keep the others from it
                        self.log.error(
                            "The GPU share of session %s is not held as it was granted, and it is "
                            "tried again: %s", session_id, error,
                        )  # fmt: skip

    async def usage(self, containers: Collection[str]) -> Usage:
        """What is used of this machine's GPUs now, and by which of these containers."""
        return await self._gpus.usage(containers)

    async def close(self) -> None:
        """Lets the driver go."""
        await self._gpus.close()


def _nearest(hosts: Mapping[str, DockerHost]) -> DockerHost | None:
    """The first on this machine; simulated GPUs are offered by another where there is none."""
    found = [host for host in hosts.values() if host.local]
    return next(iter(found or hosts.values()), None)


def _inspect(client: APIClient, container: str) -> dict[str, Any] | None:
    """What Docker says of a container; None where it is gone."""
    try:
        return dict(client.inspect_container(container))
    except NotFound:
        return None
