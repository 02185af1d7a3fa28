"""Ends a session, from whatever status, however often it is asked."""

from __future__ import annotations

from ..engine.base import EngineError
from ..model.errors import FieldError, Kind, RequestError
from ..model.hibernation import not_resumed_by
from ..model.status import IN_LINE, ON_THE_WAY, IllegalTransition, Phase, Result, Status
from ..site.clock import utcnow
from ..site.ending import clear, ended_by
from ..site.runtime import Site
from ..site.steps import Steps
from ..store import Changed, NotFound, Session
from .hub import HubClient, HubError, HubUnavailable

MAX_RACES = 10  # looks at a session that somebody else keeps moving
_BEFORE_THE_END = frozenset({Status.TERMINATING, Status.HIBERNATED})  # nothing of it runs
USER, FORCED = "user_requested", "force_terminated"
_RUNS_BY_NOW = FieldError(
    "",
    "runs_by_now",
    "It runs by now, so it does not rest again by that. Hibernate it, or terminate it for good.",
    Kind.CONFLICT,
)


def rests_again(session: Session) -> bool:
    """Whether a session is just being resumed: ended now, it rests again."""
    # Nothing else starts that has run before.
    return session.running_at is not None and session.status in IN_LINE | ON_THE_WAY


async def end(
    site: Site,
    hub: HubClient,
    session: Session,
    asked_by: str,
    version: int | None,
    force: bool,
    rests: bool = False,
) -> Session:
    """Cancels what waits, has the Hub stop what runs; what is over stays as it is.

    `version`: only if the session has that one still, else `Changed`. `force`: it is over at
    once, whether or not its machine answers; what is left there is removed when it does.
    `rests`: only if it rests again then, as whoever asks was told; so it is, too, where it does by
    our first look. Raises `NotFound`, `HubRefused`; `RequestError` while an image is made of it,
    which only `force` ends, and where it was to rest again and runs by now.
    """
    if version is not None and version != session.version:
        raise Changed(session.id, session.version)
    if rests and force:
        message = "What is ended by force does not rest. Leave one of the two out."
        raise RequestError([FieldError("force", "rests", message)])
    rests = rests or (rests_again(session) and not force)
    for _ in range(MAX_RACES):
        if rests and not rests_again(session):
            if session.status is Status.RUNNING:
                raise RequestError([_RUNS_BY_NOW])
            return session  # it rests, or is just going to, or is over
        try:
            return await _end_now(site, hub, session, asked_by, force, version)
        except IllegalTransition:
            # Somebody else moved it between our look and our step: look again.
            session = await site.db(site.store.get, session.id)
    return session


async def _end_now(
    site: Site, hub: HubClient, session: Session, asked_by: str, force: bool, version: int | None
) -> Session:
    reason = ended_by(asked_by)
    ends = session.status is Status.TERMINATING and not force
    # One that is on its way to its rest does not end by that.
    if session.status.is_final or (ends and not await site.db(site.store.is_kept, session.id)):
        return session
    if session.status in _BEFORE_THE_END or force:
        # What is kept of it goes, too.
        session = await site.db(site.store.let_go, session.id, USER, reason, version)
        version = None
    if session.status in _BEFORE_THE_END and not force:
        site.background(site.end(session.id, USER, reason))
        return session
    if session.status is Status.RUNNING:
        await _end_commit(site, session, force)
        if not force:  # one that was just resumed is not to rest again
            await site.db(site.store.let_go, session.id, USER, reason, version)
    if session.status in IN_LINE:
        if session.running_at is not None and not force:  # it was resumed, and rests again
            reason = not_resumed_by(asked_by)
        # A start that waits in the Hub sees it, and ends with this reason.
        ended = await _move(site, session, Status.CANCELLED, Phase.CANCEL, reason, USER, version)
        site.queue.kick()
        return ended
    if force:
        if session.status not in _BEFORE_THE_END:
            await _move(site, session, Status.TERMINATING, Phase.TERMINATE, reason, FORCED, version)
            version = None  # which was the one before
        ended = await _move(
            site, session, Status.TERMINATED, Phase.TERMINATE, reason, FORCED, version
        )
        site.background(_clear_away(site, hub, session))
        site.queue.kick()
        return ended
    return await _stop(site, hub, session, reason)


async def _end_commit(site: Site, session: Session, force: bool) -> None:
    """Has an image that is made of a session given up, with `force`; else raises
    `RequestError`."""
    commit = await site.db(site.store.commit_of, session.id)
    if commit is None or commit.status.is_final:
        return
    if force:
        # The service's worker sees it, and cleans up.
        await site.db(site.store.cancel_commit, commit.id, utcnow())
        return
    message = (
        f"The image {commit.name} is being made of it. Wait until that is made, cancel it, or end "
        "the session with force."
    )
    if commit.hibernates:
        message = "It is being hibernated. Wait until it is, cancel that, or end it with force."
    raise RequestError([FieldError("", "commit_under_way", message, Kind.CONFLICT)])


async def _stop(site: Site, hub: HubClient, session: Session, reason: str) -> Session:
    """Through the Hub; where that is away, or knows nothing of it, without it."""
    try:
        over = await hub.stop(session.owner, session.server_name, remove=True)
    except HubUnavailable as error:
        site.log.warning("Session %s is ended without the Hub: %s", session.id, error)
        over = True
    session = await site.db(site.store.get, session.id)
    if over and not session.status.is_final and session.status is not Status.TERMINATING:
        session = await _move(site, session, Status.TERMINATING, Phase.TERMINATE, reason, USER)
        site.background(site.end(session.id, USER, reason))
    else:
        # The Hub's own words do not say who it was. Not before it has agreed.
        await site.db(
            site.store.note, session.id, Phase.TERMINATE, Result.SUCCESS, message=reason,
            now=utcnow(),
        )  # fmt: skip
    return session


async def tell_hub(site: Site, hub: HubClient, session: Session) -> None:
    """Has the Hub stop the server of a session that is over, unless another one has its name by
    now, or it was resumed. The Hub notices by itself too, when it next looks at that server."""
    async with hub.alone_with(session.owner, session.server_name):
        latest = await site.db(site.store.latest_of, session.owner, session.server_name)
        this = session.id, session.submitted_at
        if latest is None or (latest.id, latest.submitted_at) != this:
            return
        try:
            await hub.stop(session.owner, session.server_name, remove=True)
        except HubError as error:
            site.log.warning("The Hub was not told of the end of %s: %s", session.id, error)


async def _clear_away(site: Site, hub: HubClient, session: Session) -> None:
    """Removes what is left of a session that was ended by force. Where its machine does not answer
    that is the reconciler's, when it does."""
    try:
        await hub.stop(session.owner, session.server_name, remove=True)
    except HubError as error:
        site.log.warning("The Hub was not told of the end of %s: %s", session.id, error)
    try:
        await clear(site, await site.db(site.store.get, session.id), Steps())
    except (EngineError, NotFound) as error:
        site.log.warning("What session %s left is removed later: %s", session.id, error)


async def _move(
    site: Site,
    session: Session,
    to: Status,
    phase: Phase,
    reason: str,
    code: str,
    version: int | None = None,
) -> Session:
    return await site.move(
        session.id, to, phase, reason_code=code, reason=reason, message=reason, version=version
    )
