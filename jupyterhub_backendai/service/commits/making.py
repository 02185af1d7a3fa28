"""One image on its way from a session to its owner's list.

Each step may be done again, by this process or by the next one: where it stands is in the database,
and what an engine has left of it bears the id of this work. Nothing is in the list before it is
whole, and what is given up is cleaned before it is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ...engine.base import AgentUnreachable, ContainerGone, EngineError, ImageMissing
from ...engine.images import (
    LABEL_IMAGE_BASE,
    LABEL_IMAGE_BASE_ID,
    LABEL_IMAGE_HUB,
    LABEL_IMAGE_ID,
    LABEL_IMAGE_MADE,
    LABEL_IMAGE_NAME,
    LABEL_IMAGE_ORDER,
    LABEL_IMAGE_OWNER,
    CommitOrder,
    Images,
    Login,
    MadeImage,
    RegistryRefused,
)
from ...model.images import CommitStatus
from ...model.status import IllegalTransition
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import Commit, CommitCancelled, IllegalCommit, Made, NotFound, Session, Unavailable
from . import words
from .words import Why

T = TypeVar("T")
TellHub = Callable[[Session], Coroutine[Any, Any, None]]
"""Has the Hub stop the server of a session that is over."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long each may take, in seconds."""

    commit: float = 3600.0  # until the image is made
    push: float = 7200.0  # until the registry has it
    away: float = 600.0  # how long an agent may not answer
    again: float = 5.0  # between two tries of one that does not
    note: float = 1.0  # between two words on how far it is


class GivenUp(Exception):
    """It is not to be made, or cannot be."""

    def __init__(self, why: Why, status: CommitStatus) -> None:
        super().__init__(why.message)
        self.why, self.status = why, status


class Making:
    """The work on one image. `cancel` may be called at any time. `pushing`: whose turn it is to
    send one from this agent."""

    def __init__(
        self,
        site: Site,
        images: Images,
        commit: Commit,
        times: Times,
        tell_hub: TellHub,
        pushing: asyncio.Semaphore,
    ) -> None:
        self.site, self.images, self.times, self.tell_hub = site, images, times, tell_hub
        self.commit, self._pushing = commit, pushing
        self.leaves = False  # its agent did not answer, and what is there of it is to be cleaned
        self._cancelled: asyncio.Future[Why] = asyncio.get_running_loop().create_future()
        self._away_since: float | None = None
        self._pushed: tuple[int, int | None] | None = None

    def cancel(self, why: Why) -> None:
        """Has it given up for this reason, if there still is something to give up."""
        if not self._cancelled.done():
            self._cancelled.set_result(why)

    async def run(self) -> None:
        """Until it is over, one way or the other. Raises `Unavailable`: it is to be gone on with
        later."""
        try:
            try:
                await self._steps()
            except GivenUp as given_up:
                await self._give_up(given_up)
            except (Unavailable, IllegalCommit, NotFound):
                raise
            except EngineError as error:
                self._log("is not made", error)
                why = words.why_not_made(error, self.commit.agent)
                await self._give_up(GivenUp(why, _status_of(error)))
            except Exception:
                self.site.log.exception("The image %s is not made", self.commit.reference)
                await self._give_up(GivenUp(words.INTERNAL, CommitStatus.FAILED))
        except IllegalCommit as error:
            # Cancelled before it began, or somebody else has ended it: there is nothing to do.
            self.site.log.debug("The image %s: %s", self.commit.reference, error)
        except NotFound:
            self.site.log.warning("The image %s is forgotten", self.commit.reference)

    # ---- forward ------------------------------------------------------------------------------

    async def _steps(self) -> None:
        if self.commit.status is CommitStatus.WAITING:
            if self._cancelled.done():
                raise GivenUp(self._cancelled.result(), CommitStatus.CANCELLED)
            await self._move(CommitStatus.COMMITTING)
        elif self.commit.status is CommitStatus.COMMITTING and not await self._is_made():
            # An earlier process was at it.
            await self._limited(self.times.commit, self._patiently(self._clean))
        if self.commit.status is CommitStatus.COMMITTING:
            made = await self._limited(self.times.commit, self._patiently(self._make))
            await self._note(made.size, None)
        else:
            found = await self._limited(self.times.commit, self._patiently(self._find))
            if found is None:
                raise ImageMissing(f"{self.commit.reference} is gone from {self.commit.agent}")
            made = found
        if self.commit.hibernates:
            await self._rest(made)
            return
        digest = None
        if self.site.registry.has(self.commit.reference):
            if self.commit.status is CommitStatus.COMMITTING:
                await self._move(CommitStatus.PUSHING)
            digest = await self._push_in_turn()
        await self._finish(made, digest)

    async def _is_made(self) -> bool:
        """Of a session that is to rest: what was made stays, and its container stands still."""
        if not self.commit.hibernates:
            return False
        return await self._limited(self.times.commit, self._patiently(self._find)) is not None

    async def _rest(self, made: MadeImage) -> None:
        """The session's way to its rest begins, and nothing of it runs any more."""
        site, commit = self.site, self.commit
        policy = site.policies.of(commit.owner, await self._groups()).hibernate
        now = utcnow()
        try:
            session = await site.db(
                site.store.finish_hibernation, commit.id, _facts(made, commit.agent, None),
                policy.drop_at(now), now,
            )  # fmt: skip
        except IllegalTransition:
            raise GivenUp(words.SESSION_ENDED, CommitStatus.CANCELLED) from None
        except CommitCancelled:  # when its image was made
            raise GivenUp(words.CANCELLED, CommitStatus.CANCELLED) from None
        site.log.info("Session %s of %s is hibernated", session.id, session.owner)
        await site.end(session.id, session.reason_code, session.reason, grace=0)
        site.background(self.tell_hub(session))

    async def _groups(self) -> Sequence[str]:
        session = await self.site.db(self.site.store.get, self.commit.session_id)
        return session.owner_groups

    async def _clean(self) -> None:
        await self.images.clean(self.commit.agent, self.commit.id)

    async def _make(self) -> MadeImage:
        commit = self.commit
        labels = {
            LABEL_IMAGE_HUB: self.site.hub_id,
            LABEL_IMAGE_ID: commit.image_id,
            LABEL_IMAGE_OWNER: commit.owner,
            LABEL_IMAGE_NAME: commit.name,
            LABEL_IMAGE_BASE: commit.base,
            LABEL_IMAGE_BASE_ID: "",  # the engine knows it
            # As asked for, so that it is the same each time it is done again.
            LABEL_IMAGE_MADE: commit.began_at.isoformat(timespec="seconds"),
        }
        order = CommitOrder(
            commit.id, commit.container_id, commit.reference, labels, author=commit.owner,
            stay=commit.hibernates,
        )  # fmt: skip
        return await self.images.make(commit.agent, order)

    async def _find(self) -> MadeImage | None:
        """The image, if it is this work's."""
        found = await self.images.find(self.commit.agent, self.commit.reference)
        if found is None or found.labels.get(LABEL_IMAGE_ORDER) != self.commit.id:
            return None
        return found

    async def _push_in_turn(self) -> str:
        await self._limited(None, self._pushing.acquire())
        try:
            return await self._limited(self.times.push, self._patiently(self._push))
        finally:
            self._pushing.release()

    async def _push(self) -> str:
        self._pushed = None
        login = await self.site.registry.login(self.commit.reference)
        if not self.commit.is_new:
            await self._note_named(login)
        telling = asyncio.ensure_future(self._tell())
        try:
            return await self.images.push(
                self.commit.agent, self.commit.reference, login, self._heard
            )
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _note_named(self, login: Login | None) -> None:
        """What the registry has under this name loses it: where it is not the image that is being
        replaced, but what was given up before, nothing else knows of it."""
        reference = self.commit.reference
        try:
            digest = await self.images.named(reference, login)
        except RegistryRefused as error:
            self._log("may leave something in its registry", error)
            return
        if digest is not None:
            await self.site.db(self.site.store.note_remains, reference, digest, utcnow())

    def _heard(self, done: int, whole: int | None) -> None:
        self._pushed = (done, whole)  # in one step: it may be another thread

    async def _tell(self) -> None:
        """Notes how far it is, now and then."""
        told = None
        while True:
            await asyncio.sleep(self.times.note)
            if self._pushed is None or self._pushed == told:
                continue
            told = self._pushed
            try:
                await self._note(told[1], told[0])
            except Unavailable as error:
                self.site.log.debug("How far an image is was not noted: %s", error)

    async def _finish(self, made: MadeImage, digest: str | None) -> None:
        commit, replaced = self.commit, None
        if not commit.is_new:
            replaced = await self.site.db(self.site.store.image, commit.image_id)
        facts = _facts(made, commit.agent, digest)
        await self.site.db(self.site.store.finish_commit, commit.id, facts, utcnow())
        self.site.log.info("The image %s of %s is made", commit.reference, commit.owner)
        earlier = None if replaced is None else replaced.agent
        if earlier is not None and not self.site.engine.may_be_on(earlier, commit.agent):
            # The one before it, which nobody can start any more; a sweep finds it, too.
            await self._remove_quietly(earlier)

    # ---- giving up ----------------------------------------------------------------------------

    async def _give_up(self, given_up: GivenUp) -> None:
        """Removes what there is of it, and notes why; unless it is whole and has taken the place
        of an earlier one, which then is the better end."""
        try:
            begun = self.commit.status is not CommitStatus.WAITING
            if begun and await self._patiently(self._undo):
                return
        except AgentUnreachable as error:
            self.leaves = True
            self._log("is cleaned up later", error)
        except EngineError as error:
            self._log("could not be cleaned up", error)
        why = given_up.why
        await self.site.db(
            self.site.store.move_commit, self.commit.id, given_up.status, utcnow(),
            error_code=why.code, message=why.message,
        )  # fmt: skip
        self.site.log.info("The image %s is not made: %s", self.commit.reference, why.message)

    async def _undo(self) -> bool:
        """Whether it is made all the same."""
        commit = self.commit
        await self._clean()
        made = await self._find()
        if made is None:
            return False
        if not commit.is_new and not self.site.registry.has(commit.reference):
            await self._finish(made, None)
            return True
        await self.images.remove(commit.agent, commit.reference)
        return False

    async def _remove_quietly(self, agent: str) -> None:
        try:
            await self.images.remove(agent, self.commit.reference)
        except EngineError as error:
            self.site.log.warning(
                "The earlier %s is still on %s: %s", self.commit.reference, agent, error
            )

    # ---- means --------------------------------------------------------------------------------

    async def _limited(self, seconds: float | None, work: Awaitable[T]) -> T:
        """What `work` gives, unless it is cancelled first, or takes too long: `GivenUp`."""
        task = asyncio.ensure_future(work)
        try:
            either: set[asyncio.Future[Any]] = {task, self._cancelled}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if self._cancelled.done():
                raise GivenUp(self._cancelled.result(), CommitStatus.CANCELLED)
            raise GivenUp(words.TOO_LONG, CommitStatus.FAILED)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` gives, tried again while the agent does not answer, for ten minutes in all.
        Raises `AgentUnreachable` then."""
        while True:
            try:
                found = await work()
                self._away_since = None
                return found
            except AgentUnreachable as error:
                now = time.monotonic()
                self._away_since = now if self._away_since is None else self._away_since
                if now - self._away_since >= self.times.away:
                    raise
                self._log("waits for its agent", error)
            await self.site.db(self.site.store.note_commit, self.commit.id, more_tries=1)
            await asyncio.sleep(self.times.again)

    async def _move(self, to: CommitStatus) -> None:
        self.commit = await self.site.db(self.site.store.move_commit, self.commit.id, to, utcnow())

    async def _note(self, size: int | None, done: int | None) -> None:
        await self.site.db(self.site.store.note_commit, self.commit.id, size=size, done=done)

    def _log(self, what: str, error: EngineError) -> None:
        self.site.log.warning("The image %s %s: %s", self.commit.reference, what, error)


def _facts(made: MadeImage, agent: str, digest: str | None) -> Made:
    return Made(
        engine_id=made.id,
        base_id=made.labels.get(LABEL_IMAGE_BASE_ID, ""),
        size=made.size,
        own=made.own,
        agent=None if digest is not None else agent,
        digest=digest,
    )


def _status_of(error: EngineError) -> CommitStatus:
    gone = isinstance(error, ContainerGone)
    return CommitStatus.CANCELLED if gone else CommitStatus.FAILED
