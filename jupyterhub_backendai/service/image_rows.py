"""What the API says of images that users make, and of the making of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from pydantic import Field

from ..model.catalog import Catalog
from ..model.hibernation import Hibernation
from ..model.images import CommitStatus, CustomImage, ImageStatus
from ..model.status import LIVE
from ..site.runtime import Site
from ..store import Commit, Filter
from .schemas import Part

MOST_SESSIONS = 1000  # live ones of one owner that are looked at
STEPS = {
    CommitStatus.WAITING: "It waits for its turn.",
    CommitStatus.COMMITTING: "The session's files are read.",
    CommitStatus.PUSHING: "It is sent to the registry.",
    CommitStatus.DONE: "It is made.",
    CommitStatus.FAILED: "It could not be made.",
    CommitStatus.CANCELLED: "It was cancelled.",
}


class CommitBody(Part):
    """What an image is to be called."""

    name: str = Field(
        description="4 to 32 letters, digits, `-` and `_`. One's own image of this name and "
        "environment is replaced.",
        examples=["with-lightgbm"],
    )


class CommitRow(Part):
    """The making of an image of a session."""

    id: str
    session_id: str
    owner: str
    name: str
    reference: str = Field(description="The image's full name.")
    status: CommitStatus
    step: str = Field(description="What is done now, or how it ended; for a person.")
    size: int | None = Field(description="Bytes that are in it; null: not known.")
    done: int | None = Field(description="Bytes that the registry has; null: not known.")
    error_code: str = Field(description="Why it was not made, for programs; else empty.")
    message: str = Field(description="Why it was not made, for a person; else empty.")
    began_at: datetime
    ended_at: datetime | None
    can_cancel: bool = Field(description="Whether it is under way, and nobody cancels it yet.")
    hibernates: bool = Field(description="Whether the session is hibernated when it is made.")

    @classmethod
    def of(cls, commit: Commit) -> CommitRow:
        """The row of one."""
        under_way = not commit.status.is_final
        leaving = under_way and commit.cancel_asked
        return cls(
            id=commit.id, session_id=commit.session_id, owner=commit.owner, name=commit.name,
            reference=commit.reference, status=commit.status,
            step="It is being cancelled." if leaving else STEPS[commit.status],
            size=commit.size, done=commit.done,
            error_code=commit.error_code, message=commit.message,
            began_at=commit.began_at, ended_at=commit.ended_at,
            can_cancel=under_way and not leaving, hibernates=commit.hibernates,
        )  # fmt: skip


class HibernationRow(Part):
    """What is kept of a session that is hibernated."""

    session_id: str
    agent: str = Field(description="Where its home and image are, and where it is resumed.")
    size: int = Field(description="Bytes of its image with all that is below it.")
    own: int = Field(description="Bytes of the image's own layers.")
    made_at: datetime
    drop_at: datetime | None = Field(description="Until when it is kept; null: for good.")

    @classmethod
    def of(cls, rest: Hibernation) -> HibernationRow:
        """The row of one."""
        return cls(
            session_id=rest.session_id, agent=rest.agent, size=rest.size, own=rest.own,
            made_at=rest.made_at, drop_at=rest.drop_at,
        )  # fmt: skip


class ImageRow(Part):
    """An image that a user made of a session."""

    id: str
    owner: str
    name: str
    version_name: str = Field(description="What it is called among the environment's versions.")
    reference: str = Field(description="Its full name.")
    environment: str | None = Field(description="Null: its base was named by hand.")
    environment_label: str | None = Field(description="The same, for a person.")
    version: str | None = Field(description="Of the environment, which it was made from.")
    base: str = Field(description="The image that it was made from.")
    withdrawn: bool = Field(description="Whether what it was made from is not offered any more.")
    withdrawn_text: str = Field(description="What that means; empty where it is offered.")
    agent: str | None = Field(description="The only one that has it; null: it is in a registry.")
    size: int = Field(description="Bytes with all that is below it.")
    own: int = Field(description="Bytes of its own layers.")
    made_at: datetime
    used_at: datetime | None = Field(description="When a session was launched from it last.")
    used_by: list[str] = Field(description="Names of sessions that use it, or wait to.")
    status: ImageStatus
    reason: str = Field(description="Why it could not be deleted yet.")

    @classmethod
    def of(cls, image: CustomImage, catalog: Catalog, used_by: Collection[str] = ()) -> ImageRow:
        """The row of one, at a site that offers this catalog."""
        environment = catalog.environment(image.environment or "")
        text = withdrawn_text(image, catalog)
        return cls(
            id=image.id, owner=image.owner, name=image.name, version_name=image.version_name,
            reference=image.reference, environment=image.environment,
            environment_label=environment.label if environment else image.environment,
            version=image.version, base=image.base,
            withdrawn=bool(text), withdrawn_text=text,
            agent=image.agent, size=image.size, own=image.own,
            made_at=image.made_at, used_at=image.used_at, used_by=list(used_by),
            status=image.status, reason=image.reason,
        )  # fmt: skip


class ImageList(Part):
    """Images, by owner and name."""

    items: list[ImageRow]


def withdrawn_text(image: CustomImage, catalog: Catalog) -> str:
    """What it means for an image that its base is not offered any more; empty where it is."""
    if image.environment is None:
        return ""
    environment = catalog.environment(image.environment)
    if environment is None:
        return f"{image.environment} is not offered any more, so no session can be started from it."
    version = environment.version(image.version or "")
    if version is None or version.image != image.base:
        shown = f"{environment.label} {image.version}".strip()
        return f"What it was made from, {shown}, is not offered any more. It can still be used."
    return ""


async def image_rows(site: Site, images: Sequence[CustomImage]) -> list[ImageRow]:
    """The rows of images, with who uses them now."""
    owners = {image.owner for image in images}
    if len(owners) == 1:
        wanted = Filter(owner=owners.pop(), statuses=LIVE)
        find = site.store.list_sessions
        live, _ = await site.db(find, wanted, limit=MOST_SESSIONS, offset=0)
    else:
        live = await site.db(site.store.live) if owners else []
    users: dict[tuple[str, str], list[str]] = {}
    for session in live:
        users.setdefault((session.owner, session.request.image), []).append(session.name)
    return [
        ImageRow.of(image, site.catalog, users.get((image.owner, image.reference), ()))
        for image in images
    ]
