"""What the API takes and gives, as pydantic models; the OpenAPI schema is made from them.

Amounts are as everywhere: cpu and fgpu in thousandths, mem and shm in bytes. Times are in UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..model.slots import Slots
from ..model.status import Status
from ..store import Session, SessionResult

MOST_ITEMS = 200  # of one page
MOST_OFFSET = 10**9


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
    """Resource slots: thousandths of cores, bytes, bytes, thousandths of a GPU share."""

    cpu: int
    mem: int
    shm: int
    fgpu: int


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
    etag: int = Field(description="Changes with every change; for If-Match.")

    @classmethod
    def of(cls, session: Session) -> SessionRow:
        """The row of a session."""
        return cls(**_row(session))


class SessionPage(Part):
    """A page of a list and how many there are in all."""

    items: list[SessionRow]
    total: int
    limit: int
    offset: int


Limit = Annotated[int, Field(ge=1, le=MOST_ITEMS, description="How many, at most.")]
Offset = Annotated[int, Field(ge=0, le=MOST_OFFSET, description="How many to leave out.")]
Word = Annotated[str, Field(min_length=1, max_length=255)]


class SessionQuery(Part):
    """Which sessions, in which order."""

    owner: Word | None = Field(
        default=None, description="Whose; `*` is everybody's. Without it, one's own."
    )
    state: Literal["live", "over"] | None = None
    status: list[Status] | None = Field(default=None, max_length=len(Status))
    type: Literal["interactive", "batch"] | None = None
    resource_group: Word | None = None
    project: Word | None = None
    sort: Literal[
        "submitted_at", "-submitted_at", "name", "-name", "owner", "-owner", "status", "-status",
        "priority", "-priority", "ended_at", "-ended_at",
    ] = "-submitted_at"  # fmt: skip
    limit: Limit = 50
    offset: Offset = 0


def amounts(slots: Slots, shm: int) -> Amounts:
    """Slots with the shared memory that is part of them."""
    return Amounts(cpu=slots.cpu, mem=slots.mem, shm=shm, fgpu=slots.fgpu)


def _row(session: Session) -> dict[str, object]:
    request = session.request
    same = (
        "id", "name", "owner", "project", "type", "status", "reason_code", "reason", "position",
        "result", "exit_code", "resource_group", "agent", "priority", "submitted_at", "placed_at",
        "running_at", "ended_at", "server_name",
    )  # fmt: skip
    row: dict[str, object] = {name: getattr(session, name) for name in same}
    row.update(
        environment=request.environment, version=request.version, image=request.image,
        resources=amounts(request.slots, request.shm), starts_at=session.not_before,
        etag=session.version,
    )  # fmt: skip
    return row
