"""Session statuses and the one table of legal transitions."""

from __future__ import annotations

from enum import Enum


class Status(str, Enum):
    """Where a session is on its way (design: pending, placed, made, running, ending, over)."""

    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    PREPARING = "PREPARING"
    PULLING = "PULLING"
    CREATING = "CREATING"
    RUNNING = "RUNNING"
    TERMINATING = "TERMINATING"
    HIBERNATED = "HIBERNATED"
    TERMINATED = "TERMINATED"
    CANCELLED = "CANCELLED"
    ERROR = "ERROR"

    @property
    def is_final(self) -> bool:
        """Whether the session is over: nothing leads away from here."""
        return not TRANSITIONS[self]

    @property
    def holds_resources(self) -> bool:
        """Whether an allocation belongs to a session in this status."""
        return self in HOLDING


class Result(str, Enum):
    """How a phase ended, as the scheduling history shows it."""

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    STALE = "STALE"
    NEED_RETRY = "NEED_RETRY"
    EXPIRED = "EXPIRED"
    GIVE_UP = "GIVE_UP"
    SKIPPED = "SKIPPED"


class Phase(str, Enum):
    """What was being done when a history row was written."""

    SUBMIT = "submit"
    SCHEDULE = "schedule"
    PREPARE = "prepare"
    PULL = "pull"
    CREATE = "create"
    START = "start"
    TERMINATE = "terminate"
    CANCEL = "cancel"
    RECONCILE = "reconcile"
    KEEP = "keep"
    COMMIT = "commit"
    HIBERNATE = "hibernate"
    RESUME = "resume"


S = Status

# From each status, where it may go. A failed attempt before RUNNING may go back to PENDING (it is
# tried again); once containers may exist the way to an end leads through TERMINATING, which is
# where they are removed. ERROR is for what could not be put right by itself. Of a session that is
# HIBERNATED its home and an image of it are kept, and it holds nothing: it may be resumed, and a
# resuming that comes to nothing leads back there.
TRANSITIONS: dict[Status, frozenset[Status]] = {
    S.PENDING: frozenset({S.SCHEDULED, S.CANCELLED, S.ERROR, S.HIBERNATED}),
    S.SCHEDULED: frozenset(
        {S.PREPARING, S.PENDING, S.TERMINATING, S.CANCELLED, S.ERROR, S.HIBERNATED}
    ),
    S.PREPARING: frozenset({S.PULLING, S.CREATING, S.PENDING, S.TERMINATING, S.ERROR}),
    S.PULLING: frozenset({S.CREATING, S.PENDING, S.TERMINATING, S.ERROR}),
    S.CREATING: frozenset({S.RUNNING, S.PENDING, S.TERMINATING, S.ERROR}),
    S.RUNNING: frozenset({S.TERMINATING, S.ERROR}),
    S.TERMINATING: frozenset({S.TERMINATED, S.ERROR, S.HIBERNATED}),
    S.HIBERNATED: frozenset({S.PENDING, S.TERMINATED, S.ERROR}),
    S.TERMINATED: frozenset(),
    S.CANCELLED: frozenset(),
    S.ERROR: frozenset(),
}
# What is being done while a session is on its way in a status.
PHASES = {
    S.SCHEDULED: Phase.START, S.PREPARING: Phase.PREPARE, S.PULLING: Phase.PULL,
    S.CREATING: Phase.CREATE,
}  # fmt: skip
IN_LINE = frozenset({S.PENDING, S.SCHEDULED})
ON_THE_WAY = frozenset({S.SCHEDULED, S.PREPARING, S.PULLING, S.CREATING})
HOLDING: frozenset[Status] = ON_THE_WAY | {S.RUNNING, S.TERMINATING}
LIVE: frozenset[Status] = frozenset(s for s in Status if TRANSITIONS[s])
FINAL: frozenset[Status] = frozenset(s for s in Status if not TRANSITIONS[s])


# A start that failed is tried again where another try may go better, five times in a phase.
MAX_TRIES = 5
AGENT_FAILED = frozenset({"agent_unreachable", "engine_error"})  # the agent is avoided for a while
RETRYABLE = AGENT_FAILED | {"hub_restarted", "hub_refused"}


class IllegalTransition(Exception):
    """A status change that the table does not allow: a defect of ours or a lost race."""

    def __init__(self, old: Status, new: Status) -> None:
        super().__init__(f"a session cannot go from {old.value} to {new.value}")
        self.old = old
        self.new = new


def check_transition(old: Status, new: Status) -> None:
    """Raises `IllegalTransition` unless `new` may follow `old`."""
    if new not in TRANSITIONS[old]:
        raise IllegalTransition(old, new)
