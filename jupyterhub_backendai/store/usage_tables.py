"""The tables of what sessions used: steps of several lengths, and totals. Times are milliseconds
since 1970 in UTC, so that both databases can group by them; other units are as in `model.usage`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, String, Table

from ..model.usage import METRICS
from .tables import Base

_SESSION = "sessions.id"

USAGE_STEPS = Table(
    "usage_steps",
    Base.metadata,
    Column("session_id", String(32), ForeignKey(_SESSION, ondelete="CASCADE"), primary_key=True),
    Column("size", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("seconds", Float, nullable=False),
    *(Column(metric, Float) for metric in METRICS),
    *(Column(f"{metric}_peak", Float) for metric in METRICS),
    Index("ix_usage_steps_size", "size", "at"),
)
"""`at`: the end of a step; of those that were made of finer ones, a whole number of `size`."""

USAGE_TOTALS = Table(
    "usage_totals",
    Base.metadata,
    Column("session_id", String(32), ForeignKey(_SESSION, ondelete="CASCADE"), primary_key=True),
    *(Column(f"{metric}_sum", Float) for metric in METRICS),
    *(Column(f"{metric}_seconds", Float) for metric in METRICS),
    *(Column(f"{metric}_peak", Float) for metric in METRICS),
)
