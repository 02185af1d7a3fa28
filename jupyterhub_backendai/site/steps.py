"""Takes down the sub-steps of a phase while it is under way; they are written with its row."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ..engine.base import AgentUnreachable, ContainerGone, EngineError, ImageMissing
from ..model.errors import LaunchError
from ..model.status import Result
from ..model.steps import Step
from ..store import SubStep
from .clock import utcnow


class Steps:
    """What was done since it was last asked, in the order in which it came to its end."""

    def __init__(self) -> None:
        self._over: list[SubStep] = []

    @contextmanager
    def of(self, step: Step, message: str = "") -> Iterator[None]:
        """Around what the step does; what it raises is its failure, and goes on."""
        began = utcnow()
        try:
            yield
        except BaseException as error:
            code, why = _failure(error)
            self._over.append(SubStep(step.value, Result.FAILURE, code, why, began, utcnow()))
            raise
        self._over.append(SubStep(step.value, Result.SUCCESS, None, message, began, utcnow()))

    def taken(self) -> tuple[SubStep, ...]:
        """All of them, for the row that is written now; the next phase begins without any."""
        over, self._over = tuple(self._over), []
        return over


def _failure(error: BaseException) -> tuple[str, str]:
    """Code and sentence; the owner reads them, so that no engine's own words are among them."""
    match error:
        case LaunchError():
            return error.reason, error.message
        case ImageMissing():
            return "image_missing", "It is not on the machine and cannot be downloaded."
        case AgentUnreachable():
            return "agent_unreachable", "The machine does not answer."
        case ContainerGone():
            return "container_gone", "There is no such container any more."
        case EngineError():
            return "engine_error", "The machine refused it. The log of the Hub says why."
        case asyncio.CancelledError():
            return "interrupted", "It was broken off."
    return "failed", "It failed. The log of the Hub says why."
