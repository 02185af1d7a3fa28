"""What a schedule pass checked, as sub-steps of its history rows. All are as of its one moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..model.status import Result
from ..model.steps import CHECKS, Step
from ..scheduling.snapshot import EndCode, Ending, Wait
from .records import Session, SubStep

_ENDED_BY: dict[EndCode, Step] = {
    "dependency_failed": Step.DEPENDENCIES,
    "pending_timeout": Step.PENDING_TIMEOUT,
}


def of_place(session: Session, selection: str, now: datetime) -> tuple[SubStep, ...]:
    """Of one that was given its place; `selection` is how its resource group selects agents."""
    asked_for = session.request.agent is not None
    how = "asked for" if asked_for else selection
    return (
        *_passed(CHECKS[:-1], now),
        SubStep(Step.SELECT_AGENT.value, Result.SUCCESS, None, f"{how}: {session.agent}", now, now),
        *_passed((Step.ALLOCATE,), now),
    )


def of_wait(wait: Wait, now: datetime) -> tuple[SubStep, ...]:
    """Of one that goes on waiting."""
    before = CHECKS[: CHECKS.index(wait.stopped_by)]
    return (*_passed(before, now), _failed(wait.stopped_by, wait.code, wait.reason, now))


def of_ending(ending: Ending, now: datetime) -> tuple[SubStep, ...]:
    """Of one that waits no more."""
    return (_failed(_ENDED_BY[ending.code], ending.code, ending.reason, now),)


def _passed(steps: Sequence[Step], now: datetime) -> tuple[SubStep, ...]:
    return tuple(SubStep(step.value, Result.SUCCESS, None, "", now, now) for step in steps)


def _failed(step: Step, code: str, reason: str, now: datetime) -> SubStep:
    return SubStep(step.value, Result.FAILURE, code, reason, now, now)
