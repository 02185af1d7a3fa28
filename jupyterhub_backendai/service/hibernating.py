"""The door to hibernating: which session may rest or come back, and why not, before any work.

The API and the pages ask here. The image of a session that is to rest is made by the worker of all
images (`workers.commits`), which ends the session when it is whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import partial
from types import MappingProxyType

from ..model.errors import FieldError, Kind, RequestError
from ..model.hibernation import (
    IMAGE_NAME,
    Hibernating,
    not_hibernatable,
    not_resumable,
    owner_gone,
    too_many,
)
from ..model.images import reference_of
from ..model.status import Status
from ..site.clock import utcnow
from ..site.runtime import Site
from ..store import Commit, Return, Session, Wish
from ..store.images import under_way
from .auth import START, Caller
from .hub import HubClient, NoSuchUser
from .images import ImageDoor, container_of, engine_of, look_at


def rule_of(site: Site, session: Session) -> Hibernating:
    """What its owner's policy says of it."""
    return site.policies.of(session.owner, session.owner_groups).hibernate


def lasting(
    site: Site, session: Session, resting: Mapping[str, Set[str]] = MappingProxyType({})
) -> FieldError | None:
    """Why a session cannot be hibernated now or a little later, whatever its agent says. `resting`:
    by owner the sessions that count as hibernated."""
    running = session.status is Status.RUNNING and session.agent is not None
    if (error := not_hibernatable(session.type, running)) is not None:
        return error
    if engine_of(site) is None:
        message = "What runs the sessions of this site cannot hibernate them."
        return FieldError("", "engine_cannot", message, Kind.CONFLICT)
    others = resting.get(session.owner, frozenset()) - {session.id}
    return too_many(len(others), rule_of(site, session).most)


async def obstacle(site: Site, session: Session) -> FieldError | None:
    """Why a session cannot be hibernated now; the limit is asked of the database only then."""
    if (error := lasting(site, session)) is not None:
        return error
    latest = await site.db(site.store.commit_of, session.id)
    if latest is not None and not latest.status.is_final:
        return under_way()
    return None


async def hibernate(
    site: Site, door: ImageDoor, session: Session, by: str, why: tuple[str, str] = ("", "")
) -> Commit:
    """Has a session hibernated; the work that leads there. `by`: who asks; or `why`, as a code and
    a sentence, where nobody does.

    Raises `RequestError`, with what to do, before anything is done; `NotFound`.
    """
    if (error := await obstacle(site, session)) is not None:
        raise RequestError([error])
    most = rule_of(site, session).most
    await site.db(site.store.check_hibernation, session.id, most)
    container = await container_of(site, session)
    written = await look_at(site, session, container)
    async with door.room_for(site, session, written):
        commit = await site.db(
            site.store.begin_hibernation, session.id,
            Wish(IMAGE_NAME, by, container, written, True, *why),
            most, partial(reference_of, prefix=""), utcnow(),
        )  # fmt: skip
    site.log.info("%s hibernates session %s", by or "An idle check", session.id)
    door.news.set()
    return commit


async def resume(site: Site, hub: HubClient, session: Session, caller: Caller) -> Session:
    """Has a hibernated session wait for its place, by what its owner is now. Whether that is still
    the same person the Hub knows, when it starts it; an admin is taken at their word. Raises
    `RequestError`, `NotFound`, `HubRefused`, `HubUnavailable`."""
    rest = await site.db(site.store.hibernation, session.id)
    if session.status is not Status.HIBERNATED or rest is None:
        raise RequestError([not_resumable(session.status)])
    if rest.agent not in site.engine.hosts:
        message = f"Its home is on {rest.agent}, which this site does not have any more."
        raise RequestError([FieldError("", "agent_gone", message, Kind.CONFLICT)])
    try:
        owner = await hub.user(session.owner)
    except NoSuchUser:
        raise RequestError([owner_gone(session.owner)]) from None
    most = site.policies.of(owner.name, owner.groups).max_pending
    back = Return(caller.name, owner.groups, most, vouched=caller.may_all(START))
    session = await site.db(
        site.store.resume, session.id, back, utcnow(), site.policies, site.catalog
    )
    site.log.info("%s resumes session %s", caller.name, session.id)
    site.queue.kick()
    return session
