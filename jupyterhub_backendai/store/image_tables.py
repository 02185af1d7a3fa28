"""The tables of images that users make, and of the making of them. Sizes in bytes, times in UTC."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, Index, Integer, String, Text, false, text
from sqlalchemy.orm import Mapped, mapped_column

from .tables import Base, UtcTime, table

# See `tables.LIVE` on why queries repeat this word for word.
UNDER_WAY = "status NOT IN ('DONE', 'FAILED', 'CANCELLED')"


class ImageRow(Base):
    """An image that a user made; see `model.images.CustomImage`."""

    __tablename__ = "images"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(255))
    name: Mapped[str] = mapped_column(String(32))
    reference: Mapped[str] = mapped_column(String(255))
    environment: Mapped[str | None] = mapped_column(String(64))
    version: Mapped[str | None] = mapped_column(String(64))
    base: Mapped[str] = mapped_column(String(255))
    base_id: Mapped[str] = mapped_column(String(128))
    engine_id: Mapped[str] = mapped_column(String(128))
    agent: Mapped[str | None] = mapped_column(String(255))
    digest: Mapped[str | None] = mapped_column(String(128))
    size: Mapped[int] = mapped_column(BigInteger)
    own: Mapped[int] = mapped_column(BigInteger)
    status: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(Text, default="")
    made_at: Mapped[datetime] = mapped_column(UtcTime)
    used_at: Mapped[datetime | None] = mapped_column(UtcTime)

    __table_args__ = (
        Index("uq_images_reference", "reference", unique=True),
        Index(None, "owner", "name"),
    )


class CommitRow(Base):
    """The making of an image. It is kept for a while when it is over, also where its session is
    forgotten before, so that nothing of it is left on an agent."""

    __tablename__ = "commits"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    session_id: Mapped[str] = mapped_column(String(32))
    owner: Mapped[str] = mapped_column(String(255))
    asked_by: Mapped[str] = mapped_column(String(255))
    image_id: Mapped[str] = mapped_column(String(32))
    is_new: Mapped[bool] = mapped_column(Boolean(create_constraint=False))
    name: Mapped[str] = mapped_column(String(32))
    reference: Mapped[str] = mapped_column(String(255))
    environment: Mapped[str | None] = mapped_column(String(64))
    version: Mapped[str | None] = mapped_column(String(64))
    base: Mapped[str] = mapped_column(String(255))
    agent: Mapped[str] = mapped_column(String(255))
    container_id: Mapped[str] = mapped_column(String(128))
    status: Mapped[str] = mapped_column(String(16))
    cancel_asked: Mapped[bool] = mapped_column(Boolean(create_constraint=False))
    tries: Mapped[int] = mapped_column(Integer)
    error_code: Mapped[str] = mapped_column(String(64))
    message: Mapped[str] = mapped_column(Text)
    size: Mapped[int | None] = mapped_column(BigInteger)
    done: Mapped[int | None] = mapped_column(BigInteger)
    began_at: Mapped[datetime] = mapped_column(UtcTime)
    status_changed_at: Mapped[datetime] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)
    hibernates: Mapped[bool] = mapped_column(
        Boolean(create_constraint=False), server_default=false()
    )
    reason_code: Mapped[str] = mapped_column(String(64), server_default=text("''"))
    reason: Mapped[str] = mapped_column(Text, server_default=text("''"))

    __table_args__ = (
        Index("uq_commits_session", "session_id", unique=True,
              sqlite_where=text(UNDER_WAY), postgresql_where=text(UNDER_WAY)),
        Index("uq_commits_image", "image_id", unique=True,
              sqlite_where=text(UNDER_WAY), postgresql_where=text(UNDER_WAY)),
        Index(None, "session_id", "began_at"),
        Index(None, "owner", "began_at"),
        Index(None, "ended_at"),
    )  # fmt: skip


class RemainsRow(Base):
    """What is to go from a registry; see `image_records.Remains`."""

    __tablename__ = "registry_remains"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    reference: Mapped[str] = mapped_column(String(255))
    digest: Mapped[str | None] = mapped_column(String(128))
    noted_at: Mapped[datetime] = mapped_column(UtcTime)


IMAGES, COMMITS, REMAINS = table(ImageRow), table(CommitRow), table(RemainsRow)
