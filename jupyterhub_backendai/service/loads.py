"""What is taken of each agent, and by which sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..model.slots import Slots
from ..scheduling.snapshot import Holding
from ..store import AgentState


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
