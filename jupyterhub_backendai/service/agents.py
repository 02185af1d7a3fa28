"""Agents: what is taken of each and by which sessions, and what the API takes and gives of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import Field, StrictBool

from ..model.slots import Slots
from ..scheduling.snapshot import Holding
from ..store import AgentState
from .schemas import Part


@dataclass
class Load:
    """What is held on one agent; the sessions that hold it, the newest first: owners by id."""

    used: Slots = field(default_factory=Slots)
    sessions: dict[str, str] = field(default_factory=dict)


def loads(agents: Sequence[AgentState], holdings: Sequence[Holding]) -> dict[str, Load]:
    """The load of each of these agents, by name. `holdings` as the store gives them."""
    found = {agent.name: Load() for agent in agents}
    for holding in reversed(holdings):
        if (load := found.get(holding.agent)) is not None:
            load.used += holding.slots
            load.sessions[holding.session_id] = holding.owner
    return found


class AgentAmounts(Part):
    """Amounts of an agent: thousandths of cores, bytes, thousandths of a GPU share."""

    cpu: int
    mem: int
    fgpu: int

    @classmethod
    def of(cls, slots: Slots) -> AgentAmounts:
        """These amounts."""
        return cls(**slots.as_dict())


class AgentRow(Part):
    """A machine that runs sessions."""

    name: str
    resource_group: str
    available: bool = Field(description="Whether it answers.")
    reason: str = Field(description="Why it does not.")
    seen_at: datetime = Field(description="When it was looked at last.")
    schedulable: bool = Field(description="Whether sessions may be placed on it.")
    drained_at: datetime | None = Field(description="Since when none may.")
    drained_by: str | None = Field(description="Who said so.")
    capacity: AgentAmounts
    used: AgentAmounts
    sessions: int = Field(description="How many hold something there.")

    @classmethod
    def of(cls, agent: AgentState, load: Load) -> AgentRow:
        """The row of an agent with this load."""
        same = (
            "name", "available", "reason", "seen_at", "schedulable", "drained_at", "drained_by",
        )  # fmt: skip
        return cls(
            **{name: getattr(agent, name) for name in same},
            resource_group=agent.group,
            capacity=AgentAmounts.of(agent.capacity),
            used=AgentAmounts.of(load.used),
            sessions=len(load.sessions),
        )


class AgentList(Part):
    """All agents, by name."""

    items: list[AgentRow]


class AgentChange(Part):
    """What is to be changed of an agent."""

    schedulable: StrictBool = Field(
        description="False: nothing more is placed on it. What has its place there goes on."
    )


class AgentEvent(Part):
    """An agent that is new, or of which something has changed, as an event tells it."""

    name: str
    available: bool
    schedulable: bool
    drained_at: datetime | None
    drained_by: str | None

    @classmethod
    def of(cls, agent: AgentState) -> AgentEvent:
        """The event of an agent."""
        return cls(**{name: getattr(agent, name) for name in cls.model_fields})
