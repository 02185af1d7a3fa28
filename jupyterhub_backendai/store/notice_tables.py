"""The table of notices: which warnings of an end were told to whom, and by what."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from .tables import SESSION_ID, Base, UtcTime, table


class NoticeRow(Base):
    """One warning of one end of a session, by one channel. `warning`: seconds ahead, as the admin
    says. `ends_at`: seconds of the service's own clock (see `idle_tables`)."""

    __tablename__ = "notices"

    session_id: Mapped[str] = mapped_column(
        String(32), ForeignKey(SESSION_ID, ondelete="CASCADE"), primary_key=True
    )
    channel: Mapped[str] = mapped_column(String(16), primary_key=True)
    warning: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    ends_at: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    state: Mapped[str] = mapped_column(String(16))
    attempts: Mapped[int] = mapped_column(Integer)
    sender: Mapped[str] = mapped_column(String(32))
    """The run of the process that sent it last."""
    changed_at: Mapped[datetime] = mapped_column(UtcTime())


NOTICES = table(NoticeRow)
