"""What a schedule pass looks at, and what it answers: plain frozen data.

Times are seconds since the epoch (UTC), durations are seconds, amounts are `Slots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..model.gpus import GpuDevice
from ..model.slots import Limits, Slots
from ..model.status import Result
from ..model.steps import Step

Code = Literal[
    "no_room",
    "agent_full",
    "behind",
    "owner_quota",
    "owner_sessions",
    "project_quota",
    "project_sessions",
    "not_before",
    "dependency",
    "no_agent",
    "drained",
    "never_fits",
]
"""Why a session waits, as one word of a bounded set (history rows and metrics labels use it)."""


Devices = tuple[tuple[str, int], ...]
"""Of GPUs or MIG devices, by UUID: how much of each, in thousandths of its slot."""

EndCode = Literal["dependency_failed", "pending_timeout"]
"""Why a session waits no more although it never started."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """An earlier session of the same owner that has not ended in success: not yet, or never
    (`failed`)."""

    session_id: str
    name: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """A session that waits. `group` is its resource group, `agent` the one agent that its user
    picked, `avoid` the agents that failed it lately (used only if nothing else fits).

    `ready_at` is when the last of what it depended on ended; `pending_since` when it came into
    line the last time, where that is not when it was submitted: a start may fail and be tried
    again, and its place in line is still that of its submission. `profile` is that of the MIG
    devices that it asks; None: any.
    """

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
    dependencies: tuple[Dependency, ...] = ()
    ready_at: float | None = None
    pending_since: float | None = None
    profile: str | None = None

    @property
    def could_start_at(self) -> float:
        """Since when nothing but room and quotas has kept it, as far as that is in the past."""
        return max(self.submitted_at, self.not_before or 0.0, self.ready_at or 0.0)


@dataclass(frozen=True, slots=True)
class Agent:
    """One machine that runs containers. Names are unique over all resource groups. `available`: it
    answers; `schedulable`: its admin lets sessions on it. `devices` are its GPUs, in an order that
    stays; `capacity` has the sums of those that can be used."""

    name: str
    group: str
    capacity: Slots
    available: bool = True
    schedulable: bool = True
    devices: tuple[GpuDevice, ...] = ()

    @property
    def takes_sessions(self) -> bool:
        """Whether a session may be placed on it now, if there is room."""
        return self.available and self.schedulable


@dataclass(frozen=True, slots=True)
class Holding:
    """An allocation that is held now. A session may hold several; it is counted once. `devices`:
    of GPUs as they are offered now; `profile` is that of its MIG devices."""

    session_id: str
    owner: str
    project: str | None
    group: str
    agent: str
    slots: Slots
    devices: Devices = ()
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class GroupRule:
    """How the queue of one resource group works.

    `max_bypass` is in seconds: what has waited as long is passed by nothing that needs what it
    waits for (0: never passed, infinity: no bound). It has no meaning for room in a strict queue,
    where nothing is passed at all. What has waited for `pending_timeout` seconds (0: no bound)
    since it could have started waits no more.

    `gpu_spread`: more than one GPU is whole ones and at most one share ("packed"), or equal shares.
    `gpu_placement`: where least is left of a GPU, or where fewest fragments arise.
    """

    name: str
    mode: Literal["backfill", "strict"] = "backfill"
    max_bypass: float = 900.0
    selection: Literal["concentrated", "dispersed"] = "concentrated"
    pending_timeout: float = 0.0
    gpu_spread: Literal["packed", "even"] = "packed"
    gpu_placement: Literal["tightest", "fragments"] = "tightest"


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
    """A session that starts now, where, and on which GPUs."""

    session_id: str
    agent: str
    devices: Devices = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """A session that goes on waiting.

    `reason` is a sentence for its owner, `position` its place (from 1) in the line of its resource
    group. `result` is NEED_RETRY for one that lacked room or quota itself, SKIPPED for one that
    was only held back, by others or by its own start time. `stopped_by` is the first check that it
    did not pass.
    """

    session_id: str
    code: Code
    reason: str
    position: int
    result: Result
    stopped_by: Step


@dataclass(frozen=True, slots=True)
class Ending:
    """A session that waits no more, and will not start. `reason` is a sentence for its owner."""

    session_id: str
    code: EndCode
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of one pass: each pending session is in exactly one of the three, in order."""

    placements: tuple[Placement, ...]
    waits: tuple[Wait, ...]
    endings: tuple[Ending, ...] = ()
