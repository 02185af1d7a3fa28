"""The end of a session, whoever asks for it and whyever: the one place where something is removed.

What a session leaves is saved before: what came of its command, and its logs. A step that was
interrupted is done again by whoever comes next, up to the removal of what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..engine.base import EngineError
from ..engine.batch import Outcome
from ..model.images import CommitStatus
from ..model.status import (
    IN_LINE,
    ON_THE_WAY,
    PHASES,
    RETRYABLE,
    IllegalTransition,
    Phase,
    Result,
    Status,
)
from ..model.steps import Step
from ..store import Changed, Commit, NotFound, Session, SessionResult, SubStep
from .batch import explained, keep, noted, own_reason
from .clock import utcnow
from .steps import Steps

if TYPE_CHECKING:
    from .runtime import Site

MAX_RACES = 10  # looks at a session that somebody else keeps moving
STOP_GRACE = 5  # seconds

# Reasons that leave a session in ERROR rather than TERMINATED: it ended by no one's wish.
FAILED = RETRYABLE | {
    "start_failed", "image_missing", "start_timeout", "folder", "configuration", "gpu",
    "home_missing", "environment_gone",
}  # fmt: skip


# Reasons that only say that the Hub has its server no more.
_WITH_ITS_SERVER = frozenset({"user_requested", "not_in_hub"})


@dataclass(frozen=True, slots=True)
class Why:
    """Why a session ends; `exit_code` and `result` where they are known without its container.
    `grace`: seconds for what runs to end by itself before it is killed."""

    code: str
    sentence: str
    exit_code: int | None = None
    result: SessionResult | None = None
    grace: int = STOP_GRACE


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
            except (IllegalTransition, Changed) as race:
                # Somebody else moved it between our look and our step: look again.
                site.log.debug("Session %s: %s", session_id, race)
        site.log.error("Session %s could not be ended yet; it is tried again", session_id)
    except NotFound:
        site.log.debug("Session %s is not there any more", session_id)
    finally:
        site.queue.kick()


def ended_by(name: str) -> str:
    """The reason of a session that somebody ended, as it is kept; whoever shows it to that person
    says "You"."""
    return f"{name} ended it."


async def note_failure(
    site: Site, session_id: str, code: str, sentence: str, sub_steps: Sequence[SubStep]
) -> None:
    """Notes the step of a start that failed; nothing where it was not on its way any more."""
    session = (await site.db(site.store.get_many, [session_id])).get(session_id)
    if session is not None and session.status in ON_THE_WAY:
        await site.db(
            site.store.note, session_id, PHASES[session.status], Result.FAILURE, now=utcnow(),
            error_code=code, message=sentence, sub_steps=sub_steps,
        )  # fmt: skip


async def _end_now(site: Site, session: Session, why: Why) -> None:
    """One try. Raises `IllegalTransition`, `Changed`."""
    if session.status in IN_LINE:
        await _move(site, session, Status.CANCELLED, Phase.CANCEL, why)
    elif session.status is Status.HIBERNATED:
        # Whoever ends what runs does not mean what rests. Only what is let go of is removed.
        if not await site.db(site.store.is_kept, session.id):
            await _terminate(site, session, _first(session, why))
    elif session.status is Status.TERMINATING:
        # The first reason counts: whoever goes on with an end does not know why it began.
        await _terminate(site, session, _first(session, why))
    elif why.code in _WITH_ITS_SERVER and await goes_to_rest(site, session):
        # Who stops its server meanwhile, or a culler that takes it for idle because it stands
        # still, does not mean that it is to be lost: it rests in a moment.
        site.log.info("Session %s is being hibernated, and is not ended", session.id)
    elif not session.status.is_final:
        code, sentence = await own_reason(site, session, why.code, why.sentence)
        why = replace(why, code=code, sentence=sentence)
        session = await _move(site, session, Status.TERMINATING, Phase.TERMINATE, why)
        await _terminate(site, session, why)


async def goes_to_rest(site: Site, session: Session) -> bool:
    """Whether a session that runs is being hibernated."""
    commit = await to_rest(site, session)
    return commit is not None and not commit.status.is_final


async def to_rest(site: Site, session: Session) -> Commit | None:
    """The hibernating of a session that runs, which is under way or came to nothing; None where
    that is not what was done with it last."""
    if session.status is not Status.RUNNING:
        return None
    commit = await site.db(site.store.commit_of, session.id)
    if commit is None or not commit.hibernates or commit.status is CommitStatus.DONE:
        return None
    return commit


def _first(session: Session, why: Why) -> Why:
    code = session.reason_code or why.code
    return replace(why, code=code, sentence=session.reason or why.sentence)


async def _terminate(site: Site, session: Session, why: Why) -> None:
    steps = Steps()
    # One that is to rest may be let go of meanwhile: then its home goes, too, and that is why.
    version = session.version if await site.db(site.store.is_kept, session.id) else None
    try:
        outcome = await clear(site, session, steps, why.grace)
    except EngineError as error:
        site.log.warning("Session %s cannot be removed yet: %s", session.id, error)
        return
    code, sentence = explained(why.code, why.sentence, outcome or noted(session))
    if outcome is not None:
        why = replace(why, exit_code=outcome.exit_code, result=None)  # that is noted already
    why = replace(why, code=code, sentence=sentence)
    final = Status.ERROR if code in FAILED else Status.TERMINATED
    await _move(site, session, final, Phase.TERMINATE, why, steps.taken(), version)


async def clear(
    site: Site, session: Session, steps: Steps, grace: int = STOP_GRACE
) -> Outcome | None:
    """Saves and removes what the session has on its agent; on all of them, where its own is not
    configured any more: it may only have another name now. What became of its command. Of one that
    is kept the home stays.

    Raises `EngineError`.
    """
    if session.agent is None:
        return None
    known = session.agent in site.engine.hosts
    agents = [session.agent] if known else list(site.engine.hosts)
    if session.running_at is not None:
        for agent in agents:
            with steps.of(Step.STOP_CONTAINER):
                await site.engine.stop_session(agent, session.id, grace)
    outcome = await keep(site, session, steps)
    for agent in agents:
        with steps.of(Step.REMOVE_CONTAINER):
            await remove(site, agent, session.id)
    await site.release_gpus(session)
    return outcome


async def remove(site: Site, agent: str, session_id: str) -> None:
    """Removes what a session has on an agent; its home stays while it is to be resumed. Raises
    `EngineError`."""
    keep_home = await site.db(site.store.is_kept, session_id)
    await site.engine.remove_session(agent, session_id, keep_home=keep_home)


async def _move(
    site: Site,
    session: Session,
    to: Status,
    phase: Phase,
    why: Why,
    sub_steps: Sequence[SubStep] = (),
    version: int | None = None,
) -> Session:
    return await site.move(
        session.id, to, phase, reason_code=why.code, reason=why.sentence, message=why.sentence,
        exit_code=why.exit_code, result_of_work=why.result, sub_steps=sub_steps,
        version=version,
    )  # fmt: skip
