"""When a session that waits may start: what would come of passes at each moment when one ends.

The ends are guesses, by time limits and by how long such sessions ran before; where they are not
known, neither is the start ("unknown"). Only who is before the session in its line is looked at:
those behind it hardly delay it (see `queue`). The work is bounded: where much is to come, several
ends are taken together, which makes the estimate late rather than early.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from .queue import schedule as run_pass
from .queue import turn, verdicts
from .snapshot import Holding, Pending, Placement, Snapshot

BUDGET = 60_000  # sessions and agents that the passes of one estimate look at: about a second


@dataclass(frozen=True, slots=True)
class Outlook:
    """A snapshot, and what is expected of it: when those that hold something end (seconds since
    the epoch, by session id), and how many seconds those that wait will run. What is not known
    is not in it."""

    snapshot: Snapshot
    ends: Mapping[str, float]
    lasts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would happen to a session that is submitted now; `starts_at` in seconds since the
    epoch, None where that is unknown or never."""

    code: Literal["now", "waits", "never"]
    reason: str
    ahead: int
    starts_at: float | None


def expected_length(
    limit: float | None, past: Sequence[float], elapsed: float = 0.0
) -> float | None:
    """Seconds that a session will have run in all, when it has run for `elapsed`: as long as most
    that ran longer than that, within its limit. None where nothing tells."""
    longer = [length for length in past if length > elapsed]
    guesses = [limit] if limit is not None and limit > elapsed else []
    if longer:
        guesses.append(median(longer))
    return min(guesses, default=None)


def forecast(outlook: Outlook, candidate: Pending, lasts: float | None = None) -> Forecast:
    """What would happen to `candidate`, which would run for `lasts` seconds."""
    (found,) = verdicts(outlook.snapshot, [candidate])
    if found.code == "now":
        return Forecast("now", found.reason, 0, outlook.snapshot.now)
    if found.code == "never":
        return Forecast("never", found.reason, 0, None)
    pending = (*outlook.snapshot.pending, candidate)
    known = outlook.lasts if lasts is None else {**outlook.lasts, candidate.id: lasts}
    start = estimate(
        Outlook(replace(outlook.snapshot, pending=pending), outlook.ends, known), candidate.id
    )
    return Forecast("waits", found.reason, found.ahead, start)


def estimate(outlook: Outlook, session_id: str) -> float | None:
    """When this pending session may start, in seconds since the epoch; None: unknown."""
    mine = next((one for one in outlook.snapshot.pending if one.id == session_id), None)
    return None if mine is None else _Future(outlook, mine).start()


class _Future:
    """The line of one session as time goes on."""

    def __init__(self, outlook: Outlook, mine: Pending) -> None:
        snapshot = outlook.snapshot
        self.snapshot, self.mine, self.lasts = snapshot, mine, outlook.lasts
        self.now = snapshot.now
        self.ends = {key: end for key, end in outlook.ends.items() if end > self.now}
        self.pending = [
            one for one in snapshot.pending if one.group == mine.group and turn(one) <= turn(mine)
        ]
        self.agents = [agent for agent in snapshot.agents if agent.group == mine.group]
        self.holdings = list(snapshot.holdings)
        self.budget = BUDGET

    def start(self) -> float | None:
        """When `mine` gets its place."""
        while self.budget > 0:
            self.budget -= self.cost
            decision = run_pass(
                replace(
                    self.snapshot, now=self.now, pending=self.pending, agents=self.agents,
                    holdings=self.holdings,
                )
            )  # fmt: skip
            if any(placed.session_id == self.mine.id for placed in decision.placements):
                return self.now
            if any(ending.session_id == self.mine.id for ending in decision.endings):
                return None
            self.place(decision.placements)
            if not self.go_on():
                return None
        return None

    @property
    def cost(self) -> int:
        """What one more pass looks at."""
        return len(self.pending) + len(self.agents) + 1

    def place(self, placements: Sequence[Placement]) -> None:
        """Those that start hold what they asked for, for as long as they are expected to run."""
        placed = {placement.session_id: placement for placement in placements}
        for one in self.pending:
            if one.id in placed:
                where = placed[one.id]
                self.holdings.append(
                    Holding(
                        one.id, one.owner, one.project, one.group, where.agent, one.slots,
                        where.devices, one.profile,
                    )
                )  # fmt: skip
                if one.id in self.lasts:
                    self.ends[one.id] = self.now + self.lasts[one.id]
        self.pending = [one for one in self.pending if one.id not in placed]

    def go_on(self) -> bool:
        """To the next moment when something changes, if one is known."""
        times = sorted({*self.ends.values(), *(t for t in self.moments() if t > self.now)})
        if not times:
            return False
        # About as many ends as there are sessions have to come, and each step costs one pass.
        together = (len(self.pending) + len(self.ends)) * self.cost // BUDGET
        self.now = times[min(together, len(times) - 1)]
        over = {session_id for session_id, end in self.ends.items() if end <= self.now}
        if over:
            self.ends = {key: end for key, end in self.ends.items() if key not in over}
            self.holdings = [held for held in self.holdings if held.session_id not in over]
            self.pending = [_without(one, over, self.now) for one in self.pending]
        return True

    def moments(self) -> Iterator[float]:
        """When something changes by itself: start times, and the end of the time to wait."""
        rule = self.snapshot.rules.get(self.mine.group)
        for one in self.pending:
            if one.not_before is not None:
                yield one.not_before
            if rule is not None and rule.pending_timeout:
                yield one.could_start_at + rule.pending_timeout


def _without(pending: Pending, over: set[str], now: float) -> Pending:
    """The same, with these sessions ended: in success, as far as one can tell."""
    left = tuple(d for d in pending.dependencies if d.session_id not in over)
    if len(left) == len(pending.dependencies):
        return pending
    return replace(pending, dependencies=left, ready_at=now)
