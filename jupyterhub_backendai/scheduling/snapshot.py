"""What a schedule pass looks at, and what it answers: plain frozen data.

Times are seconds since the epoch (UTC), durations are seconds, amounts are `Slots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..model.slots import Limits, Slots
from ..model.status import Result

Code = Literal[
    "no_room",
    "agent_full",
    "behind",
    "owner_quota",
    "owner_sessions",
    "project_quota",
    "project_sessions",
    "not_before",
    "no_agent",
    "never_fits",
]
"""Why a session waits, as one word of a bounded set (history rows and metrics labels use it)."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A session that waits. `group` is its resource group, `agent` the one agent that its user
    picked, `avoid` the agents that failed it lately (used only if nothing else fits)."""

    id: str
    owner: str
    project: str | None
    group: str
    slots: Slots
    priority: int
    submitted_at: float
    agent: str | None = None
    not_before: float | None = None
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Agent:
    """One machine that runs containers. Names are unique over all resource groups."""

    name: str
    group: str
    capacity: Slots
    available: bool = True


@dataclass(frozen=True, slots=True)
class Holding:
    """An allocation that is held now. A session may hold several; it is counted once."""

    session_id: str
    owner: str
    project: str | None
    group: str
    agent: str
    slots: Slots


@dataclass(frozen=True, slots=True)
class GroupRule:
    """How the queue of one resource group works.

    `max_bypass` is in seconds: what has waited as long is passed by nothing that needs what it
    waits for (0: never passed, infinity: no bound). It has no meaning for room in a strict queue,
    where nothing is passed at all.
    """

    name: str
    mode: Literal["backfill", "strict"] = "backfill"
    max_bypass: float = 900.0
    selection: Literal["concentrated", "dispersed"] = "concentrated"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one pass decides on. An owner or project that is not in the limits has
    none; a group without a rule has the default one."""

    now: float
    pending: Sequence[Pending]
    agents: Sequence[Agent]
    holdings: Sequence[Holding]
    owner_limits: Mapping[str, Limits]
    project_limits: Mapping[str, Limits]
    rules: Mapping[str, GroupRule]


@dataclass(frozen=True, slots=True)
class Placement:
    """A session that starts now, and where."""

    session_id: str
    agent: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A session that goes on waiting.

    `reason` is a sentence for its owner, `position` its place (from 1) in the line of its resource
    group. `result` is NEED_RETRY for one that lacked room or quota itself, SKIPPED for one that
    was only held back, by others or by its own start time.
    """

    session_id: str
    code: Code
    reason: str
    position: int
    result: Result


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of one pass: each pending session is in exactly one of the two, in order."""

    placements: tuple[Placement, ...]
    waits: tuple[Wait, ...]
