"""What the store gives out: plain immutable facts, good for as long as you keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, TypedDict

from sqlalchemy import Row

from ..model.gpus import GpuDevice
from ..model.resolve import SessionRequest
from ..model.slots import Slots
from ..model.status import Phase, Result, Status


class SessionResult(str, Enum):
    """What came of a session's work: of a batch command, by its exit code; else undefined."""

    UNDEFINED = "undefined"
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """The main container of a session that runs, and what it was granted: thousandths of cores,
    bytes."""

    session_id: str
    agent: str
    container: str
    cpu: int
    mem: int


@dataclass(frozen=True, slots=True)
class Session:
    """One session as its row is.

    `name` is what the owner reads, `server_name` the Hub's ('' is the default server). `agent` is
    where it is placed, and stays after its end; None while it waits. `driver` is the process run
    that works on it. `position` counts from 1. `reason` is a sentence for the owner. `slots` in
    thousandths and bytes; times in UTC. `version` grows with each change that two people could
    make at once. `asked` are the options as sent, less what looks secret.
    """

    id: str
    name: str
    server_name: str
    owner: str
    owner_groups: tuple[str, ...]
    project: str | None
    type: str
    status: Status
    reason_code: str
    reason: str
    position: int | None
    resource_group: str
    agent: str | None
    priority: int
    request: SessionRequest
    result: SessionResult
    exit_code: int | None
    driver: str | None
    submitted_at: datetime
    status_changed_at: datetime
    placed_at: datetime | None
    running_at: datetime | None
    ended_at: datetime | None
    not_before: datetime | None
    version: int
    asked: Mapping[str, Any] | None
    batch_started_at: datetime | None

    @property
    def slots(self) -> Slots:
        """What the session takes of an agent."""
        return self.request.slots


@dataclass(frozen=True, slots=True)
class Kernel:
    """One container of a session.

    `address` is the session's server as the Hub reaches it (`172.17.0.5:8888`); `apps_key` opens
    its apps, and is for nobody to see.
    """

    session_id: str
    name: str
    role: str
    status: Status | None
    agent: str | None
    container_id: str | None
    container_name: str | None
    image: str | None
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    address: str | None = None
    apps_key: str | None = field(default=None, repr=False)


class KernelFacts(TypedDict, total=False):
    """What may be noted of a kernel; what is not named stays as it is."""

    role: str
    status: Status | None
    agent: str | None
    container_id: str | None
    container_name: str | None
    image: str | None
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    address: str | None
    apps_key: str | None


@dataclass(frozen=True, slots=True)
class SubStep:
    """One step inside a phase; `result` is SUCCESS or FAILURE."""

    step: str
    result: Result
    error_code: str | None = None
    message: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        """The step as JSON."""
        return {
            "step": self.step,
            "result": self.result.value,
            "error_code": self.error_code,
            "message": self.message,
            "started_at": self.started_at.isoformat() if self.started_at else None,
            "ended_at": self.ended_at.isoformat() if self.ended_at else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SubStep:
        """The step from its JSON."""
        started, ended = data["started_at"], data["ended_at"]
        return cls(
            step=data["step"],
            result=Result(data["result"]),
            error_code=data["error_code"],
            message=data["message"],
            started_at=datetime.fromisoformat(started) if started else None,
            ended_at=datetime.fromisoformat(ended) if ended else None,
        )


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One row of a session's scheduling history.

    `to_status` is None where the status stayed. `attempts` counts the tries that the row stands
    for; `message` and `sub_steps` are those of the first.
    """

    id: int
    session_id: str
    phase: Phase
    from_status: Status | None
    to_status: Status | None
    result: Result
    error_code: str | None
    message: str
    sub_steps: tuple[SubStep, ...]
    attempts: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What an engine says of one of its agents. `reason`: why it is not available; `devices`: its
    GPUs, in an order that stays."""

    name: str
    group: str
    capacity: Slots
    available: bool = True
    reason: str = ""
    devices: tuple[GpuDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentState:
    """An agent as it was last reported (`seen_at`).

    Since `drained_at` it takes no sessions, because the admin `drained_by` said so; None where it
    takes them. `seq` is the number in the change feed of its last change that is told there.
    """

    name: str
    group: str
    capacity: Slots
    available: bool
    reason: str
    seen_at: datetime
    drained_at: datetime | None
    drained_by: str | None
    seq: int
    devices: tuple[GpuDevice, ...] = ()

    @property
    def schedulable(self) -> bool:
        """Whether its admin lets sessions on it."""
        return self.drained_at is None


@dataclass(frozen=True, slots=True)
class Way:
    """An app of a session that is open beyond its owner's own sign-in.

    `kind`: "public" has an address of its own below the service or as a host, "port" has a port of
    the machine: `number`, and `wanted` where a certain one was asked for. `protocol` is the
    app's: "http" or "tcp". `closed_*` are None while it is open. Times in UTC.
    """

    id: str
    session_id: str
    app: str
    kind: str
    protocol: str
    number: int | None
    wanted: int | None
    opened_by: str
    opened_at: datetime
    closed_at: datetime | None
    closed_by: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class OpenWay:
    """A way that is open, and where it leads: the server of a session as the Hub reaches it, and
    the key that opens its apps; None while that is not known."""

    way: Way
    owner: str
    owner_groups: tuple[str, ...]
    session_name: str
    server_name: str
    running: bool
    address: str | None
    apps_key: str | None = field(repr=False)


# An enum's own way from value to member takes several times as long.
_STATUS = {status.value: status for status in Status}
_RESULT = {result.value: result for result in SessionResult}


def session_of(row: Row[Any]) -> Session:
    """The row as a plain fact."""
    return Session(
        id=row.id,
        name=row.name,
        server_name=row.server_name,
        owner=row.owner,
        owner_groups=row.owner_groups,
        project=row.project,
        type=row.type,
        status=_STATUS[row.status],
        reason_code=row.reason_code,
        reason=row.reason,
        position=row.position,
        resource_group=row.resource_group,
        agent=row.agent,
        priority=row.priority,
        request=row.spec,
        result=_RESULT[row.result],
        exit_code=row.exit_code,
        driver=row.driver,
        submitted_at=row.submitted_at,
        status_changed_at=row.status_changed_at,
        placed_at=row.placed_at,
        running_at=row.running_at,
        ended_at=row.ended_at,
        not_before=row.not_before,
        version=row.version,
        asked=row.asked,
        batch_started_at=row.batch_started_at,
    )


def kernel_of(row: Row[Any]) -> Kernel:
    """The row as a plain fact."""
    return Kernel(
        session_id=row.session_id,
        name=row.name,
        role=row.role,
        status=Status(row.status) if row.status else None,
        agent=row.agent,
        container_id=row.container_id or None,  # "" of a start that was given up
        container_name=row.container_name,
        image=row.image,
        started_at=row.started_at,
        ended_at=row.ended_at,
        exit_code=row.exit_code,
        address=row.address,
        apps_key=row.apps_key,
    )


def way_of(row: Row[Any]) -> Way:
    """The row as a plain fact."""
    return Way(
        id=row.id,
        session_id=row.session_id,
        app=row.app,
        kind=row.kind,
        protocol=row.protocol,
        number=row.number,
        wanted=row.wanted,
        opened_by=row.opened_by,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        closed_by=row.closed_by,
        reason=row.reason,
    )


def open_way_of(row: Row[Any]) -> OpenWay:
    """The row of a way with its session and its container as a plain fact."""
    return OpenWay(
        way=way_of(row),
        owner=row.owner,
        owner_groups=row.owner_groups,
        session_name=row.name,
        server_name=row.server_name,
        running=row.status == Status.RUNNING.value,
        address=row.address,
        apps_key=row.apps_key,
    )


def entry_of(row: Row[Any]) -> HistoryEntry:
    """The row as a plain fact."""
    return HistoryEntry(
        id=row.id,
        session_id=row.session_id,
        phase=Phase(row.phase),
        from_status=Status(row.from_status) if row.from_status else None,
        to_status=Status(row.to_status) if row.to_status else None,
        result=Result(row.result),
        error_code=row.error_code,
        message=row.message,
        sub_steps=tuple(SubStep.from_dict(step) for step in row.sub_steps),
        attempts=row.attempts,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def agent_of(row: Row[Any]) -> AgentState:
    """The row as a plain fact."""
    return AgentState(
        name=row.name,
        group=row.resource_group,
        capacity=Slots(row.cpu, row.mem, row.fgpu, row.gpu, row.mig),
        devices=row.devices,
        available=row.available,
        reason=row.reason,
        seen_at=row.seen_at,
        drained_at=row.drained_at,
        drained_by=row.drained_by,
        seq=row.seq,
    )
