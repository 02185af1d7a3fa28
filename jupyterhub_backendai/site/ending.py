"""The end of a session, whoever asks for it and whyever: the one place where something is removed.

What a session leaves is saved before: what came of its command, and its logs. A step that was
interrupted is done again by whoever comes next, up to the removal of what is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..engine.base import ContainerGone, EngineError
from ..model.status import IN_LINE, RETRYABLE, IllegalTransition, Phase, Status
from ..store import NotFound, Session, SessionResult
from .batch import note_outcome

if TYPE_CHECKING:
    from .runtime import Site

MAX_RACES = 10  # looks at a session that somebody else keeps moving
STOP_GRACE = 5  # seconds for what runs to end by itself before it is killed

# Reasons that leave a session in ERROR rather than TERMINATED: it ended by no one's wish.
FAILED = RETRYABLE | {"start_failed", "image_missing", "start_timeout", "folder", "configuration"}


@dataclass(frozen=True, slots=True)
class Why:
    """Why a session ends; `exit_code` and `result` where they are known without its container."""

    code: str
    sentence: str
    exit_code: int | None = None
    result: SessionResult | None = None


async def end(site: Site, session_id: str, why: Why) -> None:
    """Ends a session from whatever status: its containers and scratch go, then its allocation.

    Safe to call twice, and by two at once. Where the agent does not answer the session stays
    TERMINATING and the reconciler goes on with it.
    """
    try:
        for _ in range(MAX_RACES):
            try:
                await _end_now(site, await site.db(site.store.get, session_id), why)
                return
            except IllegalTransition as race:
                # Somebody else moved it between our look and our step: look again.
                site.log.debug("Session %s: %s", session_id, race)
        site.log.error("Session %s could not be ended yet; it is tried again", session_id)
    except NotFound:
        site.log.debug("Session %s is not there any more", session_id)
    finally:
        site.queue.kick()


async def _end_now(site: Site, session: Session, why: Why) -> None:
    """One try. Raises `IllegalTransition`."""
    if session.status in IN_LINE:
        await _move(site, session, Status.CANCELLED, Phase.CANCEL, why)
    elif session.status is Status.TERMINATING:
        # The first reason counts: whoever goes on with an end does not know why it began.
        code = session.reason_code or why.code
        first = Why(code, session.reason or why.sentence, why.exit_code, why.result)
        await _terminate(site, session, first)
    elif not session.status.is_final:
        session = await _move(site, session, Status.TERMINATING, Phase.TERMINATE, why)
        await _terminate(site, session, why)


async def _terminate(site: Site, session: Session, why: Why) -> None:
    try:
        await clear(site, session)
    except EngineError as error:
        site.log.warning("Session %s cannot be removed yet: %s", session.id, error)
        return
    final = Status.ERROR if why.code in FAILED else Status.TERMINATED
    # What its container said of its command is there already and goes before a guess.
    known = (await site.db(site.store.get, session.id)).result is not SessionResult.UNDEFINED
    rest = Why(why.code, why.sentence) if known else why
    await _move(site, session, final, Phase.TERMINATE, rest)


async def clear(site: Site, session: Session) -> None:
    """Saves and removes what the session has on its agent; on all of them, where its own is not
    configured any more: it may only have another name now. Raises `EngineError`."""
    if session.agent is None:
        return
    known = session.agent in site.engine.hosts
    for agent in [session.agent] if known else list(site.engine.hosts):
        if session.running_at is not None:
            await site.engine.stop_session(agent, session.id, STOP_GRACE)
            await save(site, session, agent)
        await site.engine.remove_session(agent, session.id)


async def save(site: Site, session: Session, agent: str) -> None:
    """Keeps what outlives the session's containers there. Raises `EngineError`."""
    await note_outcome(site, session)
    for container in await site.engine.containers(agent):
        if container.session_id != session.id or not container.id:
            continue
        try:
            await site.engine.save_log(
                agent, container.id, site.shelf, session.id, container.kernel
            )
        except ContainerGone:
            continue
        except OSError as error:
            # A full disk must not keep what the session holds from everybody else.
            site.log.error("The log of session %s cannot be kept: %s", session.id, error)


async def _move(site: Site, session: Session, to: Status, phase: Phase, why: Why) -> Session:
    return await site.move(
        session.id, to, phase, reason_code=why.code, reason=why.sentence, message=why.sentence,
        exit_code=why.exit_code, result_of_work=why.result,
    )  # fmt: skip
