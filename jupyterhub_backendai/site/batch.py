"""What came of a batch session's command, as its row and its owner are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..engine.base import ContainerGone
from ..engine.batch import Ending, Outcome
from ..model.moments import span_words
from ..store import Session, SessionResult

if TYPE_CHECKING:
    from .runtime import Site

MAIN_KERNEL = "main1"


@dataclass(frozen=True, slots=True)
class Told:
    """A result, with the reason for the session's end."""

    result: SessionResult
    exit_code: int | None
    reason_code: str
    reason: str


def told(outcome: Outcome, timeout: int | None) -> Told:
    """The outcome of a command in words. `timeout`: the seconds that it had (None: any)."""
    if outcome.succeeded is None:
        result = SessionResult.UNDEFINED
    else:
        result = SessionResult.SUCCESS if outcome.succeeded else SessionResult.FAILURE
    code, sentence = _words(outcome, timeout or 0)
    return Told(result, outcome.exit_code, code, sentence)


def _words(outcome: Outcome, timeout: int) -> tuple[str, str]:
    number = outcome.exit_code
    limit = f"{timeout} seconds" if timeout < 120 else span_words(timeout)
    missing = ": a program was not found" if number == 127 else ""
    return {
        Ending.FINISHED: ("task_finished", "Its command ended in success."),
        Ending.FAILED: ("task_failed", f"Its command ended with exit code {number}{missing}."),
        Ending.KILLED: ("task_failed", f"Its command was ended by signal {outcome.signal}."),
        Ending.OUT_OF_MEMORY: ("out_of_memory", "Memory ran out. Ask for more memory."),
        Ending.TIMED_OUT: ("task_timeout", f"Its command was ended at its time limit of {limit}."),
        Ending.TERMINATED: ("terminated", "It was ended before its command was through."),
        Ending.INTERRUPTED: (
            "container_gone",
            "Its container ended before its command was through.",
        ),
        Ending.NEVER_STARTED: ("container_gone", "Its container ended before its command began."),
    }[outcome.ending]


async def container_of(site: Site, session: Session) -> tuple[str, str] | None:
    """Agent and id of the session's main container; None where none was noted."""
    for kernel in await site.db(site.store.kernels, session.id):
        if kernel.name == MAIN_KERNEL and kernel.agent and kernel.container_id:
            return kernel.agent, kernel.container_id
    return None


async def note_outcome(site: Site, session: Session) -> Outcome | None:
    """Looks at a batch session's container and writes down what came of its command; None while
    that is open, or where there is no container to ask. Raises `AgentUnreachable`, `EngineError`.
    """
    found = await container_of(site, session)
    if session.request.batch is None or found is None or found[0] not in site.engine.hosts:
        return None
    try:
        outcome = await site.engine.outcome(*found)
    except ContainerGone:
        return None
    if outcome is None:
        return None
    if outcome.started_at is not None:
        await site.db(site.store.mark_batch_started, session.id, outcome.started_at)
    await site.db(
        site.store.set_kernel,
        session.id,
        ended_at=outcome.ended_at,
        exit_code=outcome.exit_code,
    )
    words = told(outcome, session.request.batch.timeout)
    await site.db(site.store.mark_batch_ended, session.id, words.result, words.exit_code)
    return outcome
