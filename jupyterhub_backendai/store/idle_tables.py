"""The table of idle checks. Times are seconds of the service's own clock, which only goes forward
(`service.idle.clock`); its state is in `meta`."""

from __future__ import annotations

from sqlalchemy import Float, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from .tables import SESSION_ID, Base, table


class IdleRow(Base):
    """What idle checks know of a session."""

    __tablename__ = "idle"

    session_id: Mapped[str] = mapped_column(
        String(32), ForeignKey(SESSION_ID, ondelete="CASCADE"), primary_key=True
    )
    started: Mapped[float] = mapped_column(Float(53))
    used: Mapped[float | None] = mapped_column(Float(53))
    asked: Mapped[float | None] = mapped_column(Float(53))
    heard: Mapped[float | None] = mapped_column(Float(53))
    kept_until: Mapped[float | None] = mapped_column(Float(53))
    kept: Mapped[float] = mapped_column(Float(53))
    not_before: Mapped[float | None] = mapped_column(Float(53))


IDLE = table(IdleRow)
