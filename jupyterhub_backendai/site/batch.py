"""Batch sessions: their command's start and end, and what outlives the container of any session."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ..engine.base import AgentUnreachable, ContainerGone, EngineError
from ..engine.batch import TIMED_OUT, Ending, Outcome
from ..model.steps import Step
from ..store import Kernel, NotFound, Session, SessionResult, Unavailable
from ..store.passes import MAIN_KERNEL
from .clock import utcnow
from .steps import Steps

if TYPE_CHECKING:
    from .runtime import Site

# Reasons of an end that nobody wished for: what the command itself says is the better one.
_BY_ITSELF = frozenset({"exited", "container_gone"})


async def attend(site: Site, session: Session) -> Outcome | None:
    """One look at a batch session that is RUNNING: its command starts when its time has come, and
    its start and end are noted. What became of it, when it is over: then the session is to end.

    Safe to call by anybody at any time. Raises `ContainerGone`, `AgentUnreachable`, `EngineError`.
    """
    main = await _main(site, session)
    if main is None or main.container_id is None or session.agent is None:
        return None
    engine, container = site.engine, main.container_id
    if session.batch_started_at is None:
        earliest = session.request.not_before
        # Asked once more, because a clock may have been set back since it left the line.
        if earliest is not None and utcnow() < earliest:
            return None
        await engine.put_go(session.agent, container)
        await _note_start(site, session, container)
    outcome = await engine.outcome(session.agent, container)
    return None if outcome is None else await _note_end(site, session, outcome)


async def keep(site: Site, session: Session, steps: Steps) -> Outcome | None:
    """What must outlive the session's containers, before they are removed: logs, and what became
    of its command.

    Raises `AgentUnreachable`: then they may not be removed yet. Anything else that goes wrong is
    for the log; a full disk here must not keep every session's container for ever.
    """
    outcome = None
    for kernel in await site.db(site.store.kernels, session.id):
        agent = kernel.agent or session.agent
        if kernel.container_id is None or agent is None or agent not in site.engine.hosts:
            continue
        try:
            if kernel.name == MAIN_KERNEL and session.request.batch is not None:
                with steps.of(Step.SAVE_OUTCOME):
                    outcome = await site.engine.outcome(agent, kernel.container_id)
                    if outcome is not None:
                        outcome = await _note_end(site, session, outcome)
            with steps.of(Step.SAVE_LOG):
                await site.engine.save_log(
                    agent, kernel.container_id, site.shelf, session.id, kernel.name
                )
        except ContainerGone as gone:
            site.log.debug("Session %s: %s", session.id, gone)
        except AgentUnreachable:
            raise
        except (EngineError, OSError) as error:
            site.log.error("What session %s leaves cannot be kept: %s", session.id, error)
    return outcome


async def own_reason(site: Site, session: Session, code: str, sentence: str) -> tuple[str, str]:
    """Why a session ends: what its command says, where nobody ended it and that can be known."""
    if code not in _BY_ITSELF or session.request.batch is None:
        return code, sentence
    return explained(code, sentence, noted(session) or await _left(site, session))


def explained(code: str, sentence: str, outcome: Outcome | None) -> tuple[str, str]:
    """The same, of an outcome that is known."""
    words = _words(outcome) if outcome is not None and code in _BY_ITSELF else None
    return words or (code, sentence)


def noted(session: Session) -> Outcome | None:
    """What was noted of the command's end when its container was still there."""
    if session.result is SessionResult.UNDEFINED:
        return None
    if session.result is SessionResult.SUCCESS:
        return Outcome(Ending.FINISHED, session.exit_code)
    if session.exit_code is None:
        return Outcome(Ending.OUT_OF_MEMORY)  # the one failure without a code
    timed_out = session.exit_code == TIMED_OUT
    return Outcome(Ending.TIMED_OUT if timed_out else Ending.FAILED, session.exit_code)


async def _left(site: Site, session: Session) -> Outcome | None:
    main = await _main(site, session)
    if main is None or main.container_id is None or session.agent not in site.engine.hosts:
        return None
    try:
        return await site.engine.outcome(str(session.agent), main.container_id)
    except EngineError as error:
        site.log.debug("Session %s: nothing is known of its command: %s", session.id, error)
        return None


def reason_of(outcome: Outcome) -> tuple[str, str]:
    """Reason code and sentence of a session that ends because its command is over."""
    return _words(outcome) or ("task_interrupted", "Nothing is known of its command's end.")


def _words(outcome: Outcome) -> tuple[str, str] | None:
    match outcome.ending:
        case Ending.FINISHED:
            return "task_finished", "Its command is done."
        case Ending.FAILED:
            return "task_failed", f"Its command ended with exit code {outcome.exit_code}."
        case Ending.KILLED:
            return "task_failed", f"Its command was killed by signal {outcome.signal}."
        case Ending.OUT_OF_MEMORY:
            return "task_failed", "Its memory ran out. Start it again with more memory."
        case Ending.TIMED_OUT:
            return "task_timeout", "Its command took longer than its timeout, and was ended."
    return None


def result_of(outcome: Outcome) -> SessionResult:
    """What came of a session's work."""
    if outcome.succeeded is None:
        return SessionResult.UNDEFINED
    return SessionResult.SUCCESS if outcome.succeeded else SessionResult.FAILURE


async def _main(site: Site, session: Session) -> Kernel | None:
    kernels = await site.db(site.store.kernels, session.id)
    return next((kernel for kernel in kernels if kernel.name == MAIN_KERNEL), None)


async def _note_start(site: Site, session: Session, container: str) -> None:
    at = await site.engine.command_started(str(session.agent), container)
    if at is not None:
        await _note_began(site, session, at)


async def _note_began(site: Site, session: Session, at: datetime) -> None:
    """Between its session's start and now, whatever the clock of its machine says, or its user."""
    at = min(max(at, session.running_at or at), utcnow())
    await site.db(site.store.mark_batch_started, session.id, at)


async def _note_end(site: Site, session: Session, outcome: Outcome) -> Outcome:
    """At once and not with the status: whatever dies next, it is known. The outcome as it could
    be noted: no session keeps its place for one that could not."""
    try:
        # The first note counts, so that what is known here needs no other.
        if outcome.started_at is not None and session.batch_started_at is None:
            await _note_began(site, session, outcome.started_at)
        if session.result is SessionResult.UNDEFINED:
            result = result_of(outcome)
            await site.db(site.store.mark_batch_ended, session.id, outcome.exit_code, result)
    except (NotFound, Unavailable):
        raise  # later it may be possible
    except Exception:
        site.log.exception("What became of session %s cannot be noted", session.id)
        return Outcome(Ending.INTERRUPTED)
    return outcome
