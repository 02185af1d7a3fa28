"""The table of what is kept of hibernated sessions. Sizes in bytes, times in UTC."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from .tables import Base, UtcTime, table


class HibernationRow(Base):
    """See `model.hibernation.Hibernation`. It outlives its session while its image is there."""

    __tablename__ = "hibernations"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    session_id: Mapped[str] = mapped_column(String(32))
    owner: Mapped[str] = mapped_column(String(255))
    agent: Mapped[str] = mapped_column(String(255))
    reference: Mapped[str] = mapped_column(String(255))
    engine_id: Mapped[str] = mapped_column(String(128))
    size: Mapped[int] = mapped_column(BigInteger)
    own: Mapped[int] = mapped_column(BigInteger)
    made_at: Mapped[datetime] = mapped_column(UtcTime)
    drop_at: Mapped[datetime | None] = mapped_column(UtcTime)
    current: Mapped[bool] = mapped_column(Boolean(create_constraint=False))
    extended: Mapped[bool] = mapped_column(Boolean(create_constraint=False))
    vouched_at: Mapped[datetime | None] = mapped_column(UtcTime)

    __table_args__ = (Index(None, "session_id"), Index(None, "owner"))


HIBERNATIONS = table(HibernationRow)
