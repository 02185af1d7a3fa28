"""What the API takes and gives, as pydantic models; the OpenAPI schema is made from them.

Amounts are as everywhere: cpu, fgpu, gpu and mig in thousandths, mem and shm in bytes. Times are
in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ..model.errors import Problem
from ..model.gpu_words import held
from ..model.gpus import Enforcement, GpuDevice, Granted
from ..model.rules import check_session_name, check_title
from ..model.secrets import blanked
from ..model.slots import Slots
from ..model.status import Phase, Result, Status
from ..model.steps import Step
from ..store import HistoryEntry, Kernel, Launch, Session, SessionResult
from .etags import etag


class Part(BaseModel):
    """Base of all: what is not known is refused by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# ---- errors ---------------------------------------------------------------------------------


class Error(Part):
    """One thing that is wrong."""

    field: str = Field(description="Dotted path of the setting; empty: the request as a whole.")
    code: str = Field(description="A stable word for programs.")
    message: str = Field(description="A sentence for a person.")


class Errors(Part):
    """What every answer that is no success looks like."""

    errors: list[Error]


class Health(Part):
    """Whether the service works."""

    status: Literal["ok", "starting", "not_working"]


# ---- sessions -------------------------------------------------------------------------------


class Amounts(Part):
    """Resource slots: thousandths of cores, bytes, bytes, thousandths of a GPU share, of a whole
    GPU, of a MIG device."""

    cpu: int
    mem: int
    shm: int
    fgpu: int
    gpu: int
    mig: int
    mig_profile: str | None = Field(description="Which MIG devices.")


class UsedPercent(Part):
    """What a session uses now, in percent of what it was granted; null: not known."""

    cpu: int | None
    mem: int | None
    gpu: int | None = Field(description="Of the time that its GPUs were busy.")
    gpu_mem: int | None


class SessionRow(Part):
    """A session in a list."""

    id: str
    name: str
    owner: str
    project: str | None
    type: str
    status: Status
    reason_code: str
    reason: str = Field(description="Why it waits, or how it ended; for its owner.")
    position: int | None = Field(description="In line, from 1.")
    result: SessionResult
    exit_code: int | None
    environment: str | None
    version: str | None
    image: str
    resource_group: str
    agent: str | None
    priority: int
    resources: Amounts
    submitted_at: datetime
    starts_at: datetime | None = Field(description="It does not start before.")
    placed_at: datetime | None
    running_at: datetime | None
    ended_at: datetime | None
    server_name: str = Field(description="The Hub's server; empty is the default one.")
    etag: str = Field(
        description="For If-Match. Changes with the name, the status and the start of the command; "
        "not with the place in line, the reason for a wait, or the result of the command."
    )

    usage: UsedPercent | None = Field(
        description="Null where it is not known, and always in events."
    )

    @classmethod
    def of(cls, session: Session, used: UsedPercent | None = None) -> SessionRow:
        """The row of a session, and what it uses."""
        return cls(**_row(session), usage=used)


class KernelRow(Part):
    """One container of a session."""

    name: str
    role: str
    status: Status | None
    agent: str | None
    container_id: str | None
    image: str | None
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None

    @classmethod
    def of(cls, kernel: Kernel) -> KernelRow:
        """The row of a container."""
        return cls(**{name: getattr(kernel, name) for name in cls.model_fields})


class Link(Part):
    """Another session that this one waits for, or that waits for it."""

    id: str
    name: str
    status: Status
    result: SessionResult

    @classmethod
    def of(cls, session: Session) -> Link:
        """The link to a session."""
        return cls(**{name: getattr(session, name) for name in cls.model_fields})


class MountRow(Part):
    """A folder at its place in the container."""

    folder: str
    target: str
    permission: str


class BatchRow(Part):
    """What a batch session runs; `timeout` in seconds."""

    command: str
    timeout: int | None
    started_at: datetime | None


class GpuRow(Part):
    """A GPU or a MIG device, and how its shares are held."""

    uuid: str
    name: str = Field(description="The driver's name of the GPU.")
    slot: str
    profile: str | None
    capacity: int = Field(description="What it has in all: thousandths of the slot's unit.")
    memory: int = Field(description="Bytes: of a session its own, of a device all to be given out.")
    provider: str = Field(description="What divides it.")
    enforcement: Enforcement
    verified: bool = Field(description="Whether the enforcement was shown on such a device.")
    label: str = Field(description="The enforcement in words.")
    simulated: bool = Field(description="There is no such GPU.")

    @classmethod
    def told(cls, gpu: GpuDevice | Granted) -> dict[str, Any]:
        """What such a row says of it."""
        own = {name: value for name, value in gpu if name in cls.model_fields}
        label = held(gpu.enforcement, gpu.verified, gpu.simulated)
        return {**own, "label": label, "simulated": gpu.simulated}


class GrantedRow(GpuRow):
    """What a session has of one GPU or MIG device, as it was when it was granted."""

    amount: int = Field(description="Thousandths of the slot's unit.")
    percent: int = Field(description="Of the computing time.")

    @classmethod
    def of(cls, part: Granted) -> GrantedRow:
        """The row of a part of what was granted."""
        return cls(**cls.told(part))


class SessionDetail(SessionRow):
    """All there is to say about a session."""

    preset: str | None
    gpus: list[GrantedRow] = Field(description="What it has of which GPUs, once it has its place.")
    mounts: list[MountRow]
    preopen_ports: list[int]
    batch: BatchRow | None = Field(
        description="Null for an interactive session, and where the token may not read."
    )
    kernels: list[KernelRow]
    depends_on: list[Link]
    dependents: list[Link]
    may_start_at: datetime | None = Field(
        description="With `estimate=1`, of one that waits; null where nobody can know."
    )
    spec: dict[str, Any] | None = Field(
        description="What was asked for, to be asked for again; values that look secret are "
        "empty. Null where the token may not read."
    )
    blanked: list[str] = Field(description="Variables in `spec` to be filled in again.")

    @classmethod
    def of_all(
        cls,
        session: Session,
        kernels: Sequence[Kernel],
        earlier: Sequence[Session],
        later: Sequence[Session],
        may_start_at: datetime | None,
        *,
        readable: bool,
        granted: Sequence[Granted] = (),
        used: UsedPercent | None = None,
    ) -> SessionDetail:
        """A session with what belongs to it; unless it is `readable`, without what it was told to
        do. `granted`: what it has of which GPUs; `used`: what it uses of all that it has."""
        request = session.request
        asked = session.asked if readable else None
        batch = None
        if request.batch is not None and readable:
            batch = BatchRow(
                command=request.batch.command,
                timeout=request.batch.timeout,
                started_at=session.batch_started_at,
            )
        return cls(
            **_row(session),
            usage=used,
            preset=request.preset,
            gpus=[GrantedRow.of(part) for part in granted],
            mounts=[
                MountRow(folder=m.folder, target=m.target, permission=m.permission)
                for m in request.mounts
            ],
            preopen_ports=list(request.preopen_ports),
            batch=batch,
            kernels=[KernelRow.of(kernel) for kernel in kernels],
            depends_on=[Link.of(other) for other in earlier],
            dependents=[Link.of(other) for other in later],
            may_start_at=may_start_at,
            spec=None if asked is None else dict(asked),
            blanked=blanked(asked or {}),
        )


class Launched(Part):
    """The sessions that were made, in the order of their names."""

    sessions: list[SessionRow]


def _by(rule: Callable[[str], str]) -> AfterValidator:
    """A rule of the model as one of pydantic's."""

    def check(value: str) -> str:
        try:
            return rule(value)
        except Problem as problem:
            message = {"message": problem.message}
            raise PydanticCustomError(problem.code, "{message}", message) from None

    return AfterValidator(check)


class Change(Part):
    """What is to be changed of a session: its name, or its place in line by its priority."""

    name: Annotated[str, Field(min_length=1), _by(check_session_name)] | None = None
    priority: Annotated[StrictInt, Field(ge=0, le=100)] | None = Field(
        default=None, description="Of one that waits; for whoever may start everybody's sessions."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Change:
        if self.name is None and self.priority is None:
            raise PydanticCustomError("missing", "Write a name or a priority.")
        return self


class Page(Part):
    """A page of a list and how many there are in all."""

    total: int
    limit: int
    offset: int


class SessionPage(Page):
    """A page of a list of sessions."""

    items: list[SessionRow]


# ---- history ---------------------------------------------------------------------------------


class SubStepRow(Part):
    """One step inside a phase."""

    step: str = Field(description=f"One of {', '.join(step.value for step in Step)}.")
    result: Result
    error_code: str | None
    message: str
    started_at: datetime | None
    ended_at: datetime | None


class HistoryRow(Part):
    """One phase of a session's way and how it went; `attempts` tries in one row, whose message and
    sub-steps are those of the first."""

    id: int
    phase: Phase
    from_status: Status | None
    to_status: Status | None
    result: Result
    error_code: str | None
    message: str
    sub_steps: list[SubStepRow]
    attempts: int
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, entry: HistoryEntry) -> HistoryRow:
        """The row of an entry."""
        row = {name: getattr(entry, name) for name in cls.model_fields}
        row["sub_steps"] = [step.as_dict() for step in entry.sub_steps]
        return cls(**row)


class HistoryPage(Page):
    """A page of a history."""

    items: list[HistoryRow]


# ---- launches, options -----------------------------------------------------------------------


class LaunchRow(Part):
    """A launch of lately, to be launched again."""

    id: int
    name: str
    pinned: bool
    created_at: datetime
    spec: dict[str, Any] = Field(description="What was asked for, less what looks secret.")
    blanked: list[str] = Field(description="Variables in `spec` to be filled in again.")

    @classmethod
    def of(cls, launch: Launch) -> LaunchRow:
        """The row of a launch."""
        return cls(
            id=launch.id, name=launch.name, pinned=launch.pinned, created_at=launch.created_at,
            spec=dict(launch.asked), blanked=blanked(launch.asked),
        )  # fmt: skip


class LaunchList(Part):
    """The five newest launches and all that are pinned, newest first."""

    items: list[LaunchRow]


class LaunchChange(Part):
    """A new name, or whether it is kept."""

    name: Annotated[str, Field(min_length=1, max_length=64), _by(check_title)] | None = None
    pinned: StrictBool | None = None

    @model_validator(mode="after")
    def _says_something(self) -> LaunchChange:
        if self.name is None and self.pinned is None:
            raise PydanticCustomError("missing", "Write a name, or whether it is pinned.")
        return self


class Options(BaseModel):
    """What one may choose now: environments, presets, groups, folders, limits. A version that is
    `own` is an image that the user made; `agent` and `resource_group` say where it is, if it is
    not everywhere."""

    model_config = ConfigDict(extra="allow")


class Outlook(Part):
    """What would happen to a session that is launched now."""

    code: str = Field(description="`now`, `waits` or `never`, as a word for programs.")
    text: str
    ahead: int = Field(description="How many are before it in line.")
    starts_in: float | None = Field(description="Seconds; null where nobody can know.")


def amounts(slots: Slots, shm: int, mig_profile: str | None = None) -> Amounts:
    """Slots with the shared memory that is part of them, and which MIG devices they are of."""
    return Amounts(**slots.as_dict(), shm=shm, mig_profile=mig_profile)


def _row(session: Session) -> dict[str, Any]:
    request = session.request
    same = (
        "id", "name", "owner", "project", "type", "status", "reason_code", "reason", "position",
        "result", "exit_code", "resource_group", "agent", "priority", "submitted_at", "placed_at",
        "running_at", "ended_at", "server_name",
    )  # fmt: skip
    row: dict[str, Any] = {name: getattr(session, name) for name in same}
    row.update(
        environment=request.environment, version=request.version, image=request.image,
        resources=amounts(request.slots, request.shm, request.mig_profile),
        starts_at=session.not_before,
        etag=etag(session.version),
    )  # fmt: skip
    return row
