"""The door to images that users make: what may be made or deleted, and why not, before any work.

The API and the pages ask here; the work itself is `workers.commits`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from ..engine.base import AgentUnreachable, ContainerGone, EngineError
from ..engine.images import CommitRefused, Images, Room
from ..model.errors import FieldError, Kind, Problem, RequestError
from ..model.images import (
    CommitStatus,
    CustomImage,
    check_image_name,
    no_room,
    not_committable,
    reference_of,
    room_left,
    too_large,
    too_many_images,
)
from ..model.policy import Policy
from ..model.status import Status
from ..site.clock import utcnow
from ..site.runtime import Site
from ..store import Commit, Session, Wish
from ..store.images import under_way
from ..store.passes import MAIN_KERNEL

UNWRITTEN = frozenset({CommitStatus.WAITING, CommitStatus.COMMITTING})  # by none of its bytes yet


class ImageDoor:
    """Lets in what may be done. `news`: set when there is something to do."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._entering = asyncio.Lock()  # so that no two are promised the same room

    async def obstacle(self, site: Site, session: Session) -> FieldError | None:
        """Why no image at all can be made of a session now, whatever it would be called."""
        running = session.status is Status.RUNNING and session.agent is not None
        if (error := not_committable(session.type, running)) is not None:
            return error
        if engine_of(site) is None:
            message = "What runs the sessions of this site cannot make images."
            return FieldError("", "engine_cannot", message, Kind.CONFLICT)
        most = _most(site, session)
        if most == 0:
            return too_many_images(0, most)
        latest = await site.db(site.store.commit_of, session.id)
        if latest is not None and not latest.status.is_final:
            return under_way()
        return None

    async def begin(self, site: Site, session: Session, name: str, by: str) -> Commit:
        """Has an image made of a session. `by`: who asks.

        Raises `RequestError`, with what to do, before anything is done; `NotFound`.
        """
        try:
            check_image_name(name)
        except Problem as problem:
            raise RequestError([problem.at("name")]) from None
        if (error := await self.obstacle(site, session)) is not None:
            raise RequestError([error])
        most = _most(site, session)
        await site.db(site.store.check_commit, session.id, name, most)
        container = await container_of(site, session)
        written = await look_at(site, session, container)
        largest = _policy(site, session).max_image_size
        if largest is not None and written > largest:
            raise RequestError([too_large(written, largest)])
        reference = partial(reference_of, prefix=site.registry.prefix)
        async with self.room_for(site, session, written):
            commit = await site.db(
                site.store.begin_commit, session.id, Wish(name, by, container, written),
                most, reference, utcnow(),
            )  # fmt: skip
        site.log.info("%s makes the image %s of session %s", by, commit.reference, session.id)
        self.news.set()
        return commit

    @asynccontextmanager
    async def room_for(self, site: Site, session: Session, written: int) -> AsyncIterator[None]:
        """Around the begin of an image of so many bytes of its own. Raises `RequestError` where its
        agent's disk has no room for it beside those that are being made there."""
        agent = str(session.agent)
        room = await _room_at(site, session)
        async with self._entering:
            if room is not None:
                making = await site.db(site.store.commits_under_way)
                promised = sum(
                    commit.size or 0
                    for commit in making
                    if commit.status in UNWRITTEN and site.engine.may_be_on(commit.agent, agent)
                )
                left = room_left(room.free, room.whole, promised, room.copies)
                if written > left:
                    raise RequestError([no_room(written, left)])
            yield

    async def cancel(self, site: Site, commit: Commit) -> Commit:
        """Has the making of an image given up; one that is over stays as it is. Raises
        `NotFound`."""
        asked = await site.db(site.store.cancel_commit, commit.id, utcnow())
        self.news.set()
        return asked

    async def delete(self, site: Site, image: CustomImage) -> CustomImage:
        """Has an image removed: from now on nobody can use it. Raises `RequestError` while a
        session uses it, `NotFound`."""
        deleted = await site.db(site.store.delete_image, image.id)
        site.log.info("The image %s of %s is deleted", image.reference, image.owner)
        self.news.set()
        return deleted


def engine_of(site: Site) -> Images | None:
    """What makes images on this site's agents; None where nothing can."""
    return site.engine.images


def _policy(site: Site, session: Session) -> Policy:
    return site.policies.of(session.owner, session.owner_groups)


def _most(site: Site, session: Session) -> int:
    return _policy(site, session).max_images


async def container_of(site: Site, session: Session) -> str:
    """The container of a session that runs. Raises `RequestError` where it has none."""
    for kernel in await site.db(site.store.kernels, session.id):
        if kernel.name == MAIN_KERNEL and kernel.container_id is not None:
            return kernel.container_id
    raise RequestError([_gone()])


async def look_at(site: Site, session: Session, container: str) -> int:
    """Bytes that an image would have of its own. Raises `RequestError` where that says that none
    can be made."""
    images, agent = engine_of(site), str(session.agent)
    assert images is not None, "that was an obstacle"
    async with _refusals(site, session):
        # As the Hub's process saw it last: who asks need not wait to find out the same.
        seen = {one.name: one for one in await site.db(site.store.agents)}.get(agent)
        if seen is not None and not seen.available:
            raise AgentUnreachable(seen.reason)
        return await images.look(agent, container)


async def _room_at(site: Site, session: Session) -> Room | None:
    """The room for images on a session's agent; None where it is not known. Raises
    `RequestError`."""
    images = engine_of(site)
    assert images is not None, "that was an obstacle"
    offered = [version.image for e in site.catalog.environments for version in e.versions]
    offered.sort(key=lambda image: image != session.request.image)
    async with _refusals(site, session):
        room = await images.room(str(session.agent), offered)
    if room is None:
        site.log.warning(
            "How much room there is for images on %s is not known: none of the images that are "
            "offered is there, or has a df. An image of session %s is made all the same.",
            session.agent, session.id,
        )  # fmt: skip
    return room


@asynccontextmanager
async def _refusals(site: Site, session: Session) -> AsyncIterator[None]:
    """Around a question to a session's agent. Raises `RequestError` where it does not answer, or
    says that no image can be made."""
    try:
        yield
        return
    except ContainerGone:
        error = _gone()
    except CommitRefused as refused:
        error = FieldError("", refused.code, refused.told, Kind.CONFLICT)
    except AgentUnreachable as silent:
        site.log.warning("No image of session %s can be made: %s", session.id, silent)
        message = "The agent that it runs on does not answer. Try again later, or tell your admin."
        error = FieldError("", "agent_away", message, Kind.CONFLICT)
    except EngineError as failed:
        site.log.error("No image of session %s can be made: %s", session.id, failed)
        message = "The agent that it runs on cannot make images now. Tell your admin."
        error = FieldError("", "engine", message, Kind.CONFLICT)
    raise RequestError([error])


def _gone() -> FieldError:
    message = "Its container is gone: the session is ending."
    return FieldError("", "not_running", message, Kind.CONFLICT)
