"""Calls of the store about images that users make. One transaction a call, as with all of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy.exc import IntegrityError

from ..model.errors import RequestError
from ..model.images import CommitStatus, CustomImage
from . import images, queries, remains, sessions
from .base import StoreBase
from .image_records import Commit, Made, Remains, Wish


class ImageCalls(StoreBase):
    """See the head of this module."""

    # -- the making of an image

    def check_commit(self, session_id: str, name: str, most: int) -> None:
        """Whether an image of that name may be made of a session now; see `begin_commit`."""
        with self._db.read() as db:
            images.check(db, queries.get(db, session_id), name, most)

    def begin_commit(
        self,
        session_id: str,
        wish: Wish,
        most: int,
        reference: Callable[[str, str], str],
        now: datetime,
    ) -> Commit:
        """Notes that an image is to be made of a session; `most`: how many its owner may have.
        `reference` makes a new image's full name of its base and its id.

        Raises `NotFound`; `RequestError`: its session is none that an image is made of
        (`batch`, `not_running`), one is being made (`under_way`, `name_under_way`), one too many
        (`too_many`), or the image of that name is being deleted (`deleting`).
        """  # fmt: skip
        with self._db.query() as db:
            owner = queries.get(db, session_id).owner
        try:
            with self._changing(owner) as db:
                session = sessions.touch(db, session_id)
                return images.begin(db, session, wish, most, reference, now)
        except IntegrityError:
            # Two at once, which the checks could not see.
            raise RequestError([images.under_way()]) from None

    def commit_of(self, session_id: str) -> Commit | None:
        """The latest making of an image of this session, if there was one."""
        with self._db.query() as db:
            return images.latest_commit(db, session_id)

    def commit(self, commit_id: str) -> Commit:
        """The making of an image. Raises `NotFound`."""
        with self._db.query() as db:
            return images.commit(db, commit_id)

    def commits_under_way(self) -> list[Commit]:
        """Those that are not over, oldest first."""
        with self._db.query() as db:
            return images.commits_under_way(db)

    def commits_of(self, owner: str, since: datetime) -> list[Commit]:
        """Those of one owner that began since then, newest first."""
        with self._db.query() as db:
            return images.commits_of(db, owner, since)

    def cancel_commit(self, commit_id: str, now: datetime) -> Commit:
        """Asks that it is given up; what waits is at once. Raises `NotFound`."""
        with self._write() as db:
            return images.ask_cancel(db, commit_id, now)

    def move_commit(
        self,
        commit_id: str,
        to: CommitStatus,
        now: datetime,
        *,
        error_code: str = "",
        message: str = "",
    ) -> Commit:
        """Takes it to another status; FAILED and CANCELLED say why, to its owner. To DONE only
        `finish_commit` leads. Raises `IllegalCommit`, `NotFound`."""  # fmt: skip
        if to is CommitStatus.DONE:
            raise ValueError("finish_commit has the image, too")
        with self._write() as db:
            return images.move(db, commit_id, to, now, error_code, message)

    def note_commit(
        self,
        commit_id: str,
        *,
        size: int | None = None,
        done: int | None = None,
        more_tries: int = 0,
    ) -> None:
        """Notes how far it is: bytes in all, bytes done, tries. Raises `NotFound`."""  # fmt: skip
        with self._write() as db:
            images.note(db, commit_id, size, done, more_tries)

    def finish_commit(self, commit_id: str, made: Made, now: datetime) -> CustomImage:
        """Ends it in success, and in the same step the image is its owner's. Raises
        `IllegalCommit`, `NotFound`."""
        with self._write() as db:
            return images.finish(db, commit_id, made, now)

    def commits_over(self, ids: frozenset[str]) -> frozenset[str]:
        """Which of these are not under way: over, or not known. Of a session that is hibernated it
        is only when nothing of that runs any more."""
        with self._db.query() as db:
            return ids - {one.id for one in images.commits_under_way(db)} - images.going_to_rest(db)

    def forget_commits(self, before: datetime) -> int:
        """Forgets those that were over before then; returns how many."""
        with self._db.write() as db:
            return images.forget_commits(db, before)

    # -- images

    def images_of(self, owner: str) -> list[CustomImage]:
        """All images of one owner, by name."""
        with self._db.query() as db:
            return images.of_owner(db, owner)

    def image(self, image_id: str) -> CustomImage:
        """The image of this id. Raises `NotFound`."""
        with self._db.query() as db:
            return images.one(db, image_id)

    def all_images(self) -> list[CustomImage]:
        """All images, of every owner."""
        with self._db.query() as db:
            return images.everyones(db)

    def images_deleted(self) -> list[CustomImage]:
        """Those that wait to be removed."""
        with self._db.query() as db:
            return images.deleted(db)

    def image_users(self, image_id: str) -> list[str]:
        """Names of the sessions, not over, that were started from an image or wait to be."""
        with self._db.query() as db:
            return images.users(db, images.one(db, image_id))

    def delete_image(self, image_id: str) -> CustomImage:
        """From now on it cannot be used, and waits to be removed. Raises `NotFound`;
        `RequestError` while a session uses it (`in_use`) or it is being made anew
        (`under_way`)."""
        owner = self.image(image_id).owner
        with self._changing(owner) as db:
            return images.begin_deletion(db, image_id)

    def note_deletion(self, image_id: str, reason: str) -> None:
        """Notes why an image could not be removed yet. Raises `NotFound`."""
        with self._db.write() as db:
            images.note_deletion(db, image_id, reason)

    def registry_remains(self) -> list[Remains]:
        """What is to go from registries, but for what is being made."""
        with self._db.read() as db:
            return remains.all_of(db)

    def note_remains(self, reference: str, digest: str, now: datetime) -> None:
        """Notes what a reference names in its registry, and is about to lose that name; unless it
        is what the image of that reference is."""
        with self._db.write() as db:
            remains.note(db, reference, digest, now)

    def drop_remains(self, remains_id: str) -> None:
        """Forgets what is gone; what is not there is fine."""
        with self._db.write() as db:
            remains.drop(db, remains_id)

    def drop_image(self, image_id: str) -> None:
        """Forgets an image that is removed; what is not there is fine."""
        with self._db.write() as db:
            images.drop(db, image_id)
