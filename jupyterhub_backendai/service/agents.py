"""Agents: what is taken of each and by which sessions, and what the API takes and gives of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import Field, StrictBool

from ..model.gpu_words import amount_of, short
from ..model.gpus import GpuDevice
from ..model.slots import Slots, format_thousandths
from ..scheduling.snapshot import Holding
from ..store import AgentState
from .schemas import GpuRow, Part


class HolderRow(Part):
    """A session that holds some of a GPU or a MIG device."""

    session_id: str
    name: str
    owner: str
    amount: int = Field(description="How much it was given, in thousandths.")
    memory: int = Field(description="Bytes of the GPU's memory that it was given.")
    memory_used: int | None = Field(description="Bytes that it uses; null: not known.")
    busy: int | None = Field(
        description="Percent of the time in which something of it ran there; null: not known."
    )

    @property
    def share(self) -> str:
        """How much it was given, as a person reads it."""
        return format_thousandths(self.amount)


@dataclass
class Load:
    """What is held on one agent; the sessions that hold it, the newest first: owners by id; of
    devices, by UUID, how much is held (thousandths) and by whom, whichever agent offered them
    then."""

    used: Slots = field(default_factory=Slots)
    devices: Counter[str] = field(default_factory=Counter)
    sessions: dict[str, str] = field(default_factory=dict)
    holders: Mapping[str, list[HolderRow]] = field(default_factory=dict)


def loads(
    agents: Sequence[AgentState],
    holdings: Sequence[Holding],
    holders: Mapping[str, list[HolderRow]] | None = None,
) -> dict[str, Load]:
    """The load of each of these agents, by name. `holdings` as the store gives them, `holders` of
    GPUs by UUID."""
    devices: Counter[str] = Counter()
    found = {agent.name: Load(devices=devices, holders=holders or {}) for agent in agents}
    for holding in reversed(holdings):
        devices.update(dict(holding.devices))
        if (load := found.get(holding.agent)) is not None:
            load.used += holding.slots
            load.sessions[holding.session_id] = holding.owner
    return found


class AgentAmounts(Part):
    """Amounts of an agent: thousandths of cores, bytes, thousandths of a GPU share, of a whole GPU,
    of a MIG device."""

    cpu: int
    mem: int
    fgpu: int
    gpu: int
    mig: int

    @classmethod
    def of(cls, slots: Slots) -> AgentAmounts:
        """These amounts."""
        return cls(**slots.as_dict())


class DeviceRow(GpuRow):
    """A GPU or a MIG device that sessions are given."""

    free: int = Field(description="What nobody holds of it.")
    available: bool
    reason: str = Field(description="Why it is not available.")
    holders: list[HolderRow] = Field(description="Sessions that hold some of it.")

    @classmethod
    def of(cls, device: GpuDevice, load: Load) -> DeviceRow:
        """The row of a device with this load."""
        free = max(0, device.capacity - load.devices[device.uuid])
        holders = load.holders.get(device.uuid, [])
        return cls(**cls.told(device), free=free, holders=holders)

    @property
    def amount(self) -> str:
        """What of it is free, as a person reads it."""
        has = amount_of(self.slot, self.capacity, self.profile)
        return f"{format_thousandths(self.free)} of {has} free"

    @property
    def short(self) -> str:
        """As much of its UUID as tells it from others."""
        return short(self.uuid)


def device_rows(agent: AgentState, load: Load) -> list[DeviceRow]:
    """The rows of an agent's devices, with this load."""
    return [DeviceRow.of(device, load) for device in agent.devices]


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
    devices: list[DeviceRow] = Field(description="Its GPUs and MIG devices.")

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
            devices=device_rows(agent, load),
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
