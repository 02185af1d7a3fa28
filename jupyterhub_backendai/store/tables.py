"""The tables. Units: `cpu`, `fgpu`, `gpu`, `mig` in thousandths, `mem` and `shm` in bytes, times in
UTC."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from datetime import datetime, timezone
from functools import lru_cache, partial
from typing import Any

from pydantic import BaseModel
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    ColumnElement,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    literal,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from ..model.gpus import GpuDevice, Granted
from ..model.request import SessionRequest

# The indexes' conditions. SQLite uses a partial index only for a query that repeats its condition
# word for word, so queries use these constants too.
LIVE = "status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR')"
HELD = "freed_at IS NULL"
OPEN = "closed_at IS NULL"

UNNUMBERED = 0  # `seq` of a row that the transaction under way has changed; see `feed`

# Names that Alembic can find again on both databases.
_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcTime(TypeDecorator[datetime]):
    """A moment, to the microsecond. Goes in and comes out with its zone, on every database.

    SQLite has no zones: there it is kept as text of one width, so that it sorts as time does.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else _in_utc(value)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(timezone.utc)

    def bind_processor(self, dialect: Dialect) -> Any:
        """What the driver is given for a time: in one step where that is text."""
        return _text_of if dialect.name == "sqlite" else super().bind_processor(dialect)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        """What makes a time of what the driver gives: in one step where that is the text."""
        if dialect.name == "sqlite":
            return _time_of
        return super().result_processor(dialect, coltype)


def _in_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(f"a time without its zone cannot be stored: {value}")
    return value.astimezone(timezone.utc)


@lru_cache(2000)
def _time_of(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(f"{text}+00:00")


def _text_of(value: datetime | None) -> str | None:
    if value is None:
        return None
    return _in_utc(value).replace(tzinfo=None).isoformat(" ", "microseconds")


class Request(TypeDecorator[SessionRequest]):
    """A session's request: goes in as its JSON, comes out as what it is.

    A row that is read time and again has the same text each time. What SQLite gives is that text,
    and it is read once; requests do not change, so that all may have the same one.
    """

    impl = JSON
    cache_ok = True

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        """Parts of it are compared as those of any JSON."""
        return self.impl_instance.coerce_compared_value(op, value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        """What makes a request of what the driver gives."""
        if dialect.name == "sqlite":
            return _request_of
        read = self.impl_instance.result_processor(dialect, coltype)
        return lambda found: SessionRequest.model_validate(read(found) if read else found)


@lru_cache(2000)
def _request_of(text: str) -> SessionRequest:
    return SessionRequest.model_validate(json.loads(text))


class Names(TypeDecorator[tuple[str, ...]]):
    """Names in their order, as a JSON list; read once for each text of one, as with requests."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Collection[str] | None, dialect: Dialect) -> Any:
        return None if value is None else list(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        """What makes names of what the driver gives."""
        if dialect.name == "sqlite":
            return _names_of
        read = self.impl_instance.result_processor(dialect, coltype)
        return lambda found: tuple(read(found) or () if read else found)


@lru_cache(2000)
def _names_of(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


class Gpus(TypeDecorator[tuple[BaseModel, ...]]):
    """Devices, or what is granted of them, as a JSON list; read once for each text of one. None, of
    rows that are older than this, comes out as nothing."""

    impl = JSON
    cache_ok = True

    def __init__(self, model: type[BaseModel]) -> None:
        super().__init__()
        self.model = model

    def process_bind_param(
        self, value: Collection[BaseModel] | None, dialect: Dialect
    ) -> list[dict[str, Any]] | None:
        return None if value is None else [one.model_dump(mode="json") for one in value]

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        """What makes records of what the driver gives."""
        if dialect.name == "sqlite":
            return partial(_gpus_of, self.model)
        read = self.impl_instance.result_processor(dialect, coltype)
        return lambda found: _gpus(self.model, read(found) if read else found)


def _gpus(model: type[BaseModel], found: list[Any] | None) -> tuple[BaseModel, ...]:
    return tuple(model.model_validate(one) for one in found or ())


@lru_cache(2000)
def _gpus_of(model: type[BaseModel], text: str | None) -> tuple[BaseModel, ...]:
    return _gpus(model, json.loads(text) if text else None)


class Base(DeclarativeBase):
    """What all tables share."""

    metadata = MetaData(naming_convention=_NAMES)


# SQLite counts up by itself only in a column of exactly the type INTEGER.
_Serial = BigInteger().with_variant(Integer(), "sqlite")
SESSION_ID = "sessions.id"


class SessionRow(Base):
    """One session, from its submission on. It stays after its end, until `forget`."""

    __tablename__ = "sessions"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(255))
    server_name: Mapped[str] = mapped_column(String(255))
    owner: Mapped[str] = mapped_column(String(255))
    owner_groups: Mapped[tuple[str, ...]] = mapped_column(Names)
    project: Mapped[str | None] = mapped_column(String(255))
    type: Mapped[str] = mapped_column(String(16))
    status: Mapped[str] = mapped_column(String(16))
    reason_code: Mapped[str] = mapped_column(String(128), default="")
    reason: Mapped[str] = mapped_column(Text, default="")
    position: Mapped[int | None] = mapped_column(Integer)
    resource_group: Mapped[str] = mapped_column(String(255))
    agent_wanted: Mapped[str | None] = mapped_column(String(255))
    agent: Mapped[str | None] = mapped_column(String(255))
    priority: Mapped[int] = mapped_column(Integer)
    spec: Mapped[SessionRequest] = mapped_column(Request)
    cpu: Mapped[int] = mapped_column(BigInteger)
    mem: Mapped[int] = mapped_column(BigInteger)
    shm: Mapped[int] = mapped_column(BigInteger)
    fgpu: Mapped[int] = mapped_column(BigInteger)
    gpu: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    mig: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    result: Mapped[str] = mapped_column(String(16))
    exit_code: Mapped[int | None] = mapped_column(Integer)
    driver: Mapped[str | None] = mapped_column(String(64))
    submitted_at: Mapped[datetime] = mapped_column(UtcTime)
    status_changed_at: Mapped[datetime] = mapped_column(UtcTime)
    placed_at: Mapped[datetime | None] = mapped_column(UtcTime)
    running_at: Mapped[datetime | None] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)
    not_before: Mapped[datetime | None] = mapped_column(UtcTime)
    version: Mapped[int] = mapped_column(Integer, default=1)
    asked: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    batch_started_at: Mapped[datetime | None] = mapped_column(UtcTime)
    seq: Mapped[int] = mapped_column(
        BigInteger, default=UNNUMBERED, onupdate=UNNUMBERED, server_default=text("0")
    )

    __table_args__ = (
        Index("uq_sessions_live_name", "owner", "name", unique=True,
              sqlite_where=text(LIVE), postgresql_where=text(LIVE)),
        Index("uq_sessions_live_server", "owner", "server_name", unique=True,
              sqlite_where=text(LIVE), postgresql_where=text(LIVE)),
        Index("ix_sessions_live_status", "status", "submitted_at",
              sqlite_where=text(LIVE), postgresql_where=text(LIVE)),
        Index(None, "owner", "submitted_at"),
        Index(None, "submitted_at"),
        Index(None, "seq"),
        Index(None, "ended_at"),
    )  # fmt: skip


class KernelRow(Base):
    """One container of a session."""

    __tablename__ = "kernels"

    session_id: Mapped[str] = mapped_column(
        ForeignKey(SESSION_ID, ondelete="CASCADE"), primary_key=True
    )
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    role: Mapped[str] = mapped_column(String(16), default="main")
    status: Mapped[str | None] = mapped_column(String(16))
    agent: Mapped[str | None] = mapped_column(String(255))
    container_id: Mapped[str | None] = mapped_column(String(128))
    container_name: Mapped[str | None] = mapped_column(String(255))
    image: Mapped[str | None] = mapped_column(Text)
    started_at: Mapped[datetime | None] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)
    exit_code: Mapped[int | None] = mapped_column(Integer)
    address: Mapped[str | None] = mapped_column(String(255))
    apps_key: Mapped[str | None] = mapped_column(String(255))


class AllocationRow(Base):
    """What a kernel was granted on an agent. It is held until `freed_at`; the row stays, so that
    what was used can be accounted for."""

    __tablename__ = "allocations"

    id: Mapped[int] = mapped_column(_Serial, primary_key=True, autoincrement=True)
    session_id: Mapped[str] = mapped_column(ForeignKey(SESSION_ID, ondelete="CASCADE"))
    kernel: Mapped[str] = mapped_column(String(32))
    agent: Mapped[str] = mapped_column(String(255))
    cpu: Mapped[int] = mapped_column(BigInteger)
    mem: Mapped[int] = mapped_column(BigInteger)
    fgpu: Mapped[int] = mapped_column(BigInteger)
    gpu: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    mig: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    devices: Mapped[tuple[Granted, ...]] = mapped_column(Gpus(Granted), default=(), nullable=True)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    freed_at: Mapped[datetime | None] = mapped_column(UtcTime)

    __table_args__ = (
        Index("uq_allocations_held", "session_id", "kernel", unique=True,
              sqlite_where=text(HELD), postgresql_where=text(HELD)),
        Index(None, "session_id"),
        Index(None, "freed_at"),
    )  # fmt: skip


class HistoryRow(Base):
    """One phase of a session's way and how it went; repeats are counted in `attempts`."""

    __tablename__ = "history"

    id: Mapped[int] = mapped_column(_Serial, primary_key=True, autoincrement=True)
    session_id: Mapped[str] = mapped_column(ForeignKey(SESSION_ID, ondelete="CASCADE"))
    phase: Mapped[str] = mapped_column(String(64))
    from_status: Mapped[str | None] = mapped_column(String(16))
    to_status: Mapped[str | None] = mapped_column(String(16))
    result: Mapped[str] = mapped_column(String(32))
    error_code: Mapped[str | None] = mapped_column(String(128))
    message: Mapped[str] = mapped_column(Text)
    sub_steps: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    attempts: Mapped[int] = mapped_column(Integer, default=1)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)

    __table_args__ = (Index(None, "session_id", "id"),)


class DependencyRow(Base):
    """A session that starts only after another one has ended in success."""

    __tablename__ = "dependencies"

    session_id: Mapped[str] = mapped_column(
        ForeignKey(SESSION_ID, ondelete="CASCADE"), primary_key=True
    )
    depends_on: Mapped[str] = mapped_column(
        ForeignKey(SESSION_ID, ondelete="CASCADE"), primary_key=True
    )

    __table_args__ = (Index(None, "depends_on"),)


class LaunchRow(Base):
    """Options that a user started a session with, to be started again."""

    __tablename__ = "launches"

    id: Mapped[int] = mapped_column(_Serial, primary_key=True, autoincrement=True)
    owner: Mapped[str] = mapped_column(String(255))
    name: Mapped[str] = mapped_column(String(255))
    asked: Mapped[dict[str, Any]] = mapped_column(JSON)
    pinned: Mapped[bool] = mapped_column(Boolean(create_constraint=False))
    created_at: Mapped[datetime] = mapped_column(UtcTime)

    __table_args__ = (Index(None, "owner", "id"),)


class AgentRow(Base):
    """A machine that runs containers, as it was last reported; and what its admin says of it, which
    no report changes."""

    __tablename__ = "agents"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    reporter: Mapped[str] = mapped_column(String(64))
    resource_group: Mapped[str] = mapped_column(String(255))
    cpu: Mapped[int] = mapped_column(BigInteger)
    mem: Mapped[int] = mapped_column(BigInteger)
    fgpu: Mapped[int] = mapped_column(BigInteger)
    gpu: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    mig: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    devices: Mapped[tuple[GpuDevice, ...]] = mapped_column(
        Gpus(GpuDevice), default=(), nullable=True
    )
    available: Mapped[bool] = mapped_column(Boolean(create_constraint=False))
    reason: Mapped[str] = mapped_column(Text, default="")
    seen_at: Mapped[datetime] = mapped_column(UtcTime)
    drained_at: Mapped[datetime | None] = mapped_column(UtcTime)
    drained_by: Mapped[str | None] = mapped_column(String(255))
    seq: Mapped[int] = mapped_column(BigInteger, default=0, server_default=text("0"))


class SshKeysRow(Base):
    """A user's key pair, and that of the SSH servers in the user's sessions."""

    __tablename__ = "ssh_keys"

    owner: Mapped[str] = mapped_column(String(255), primary_key=True)
    private: Mapped[str] = mapped_column(Text)
    public: Mapped[str] = mapped_column(Text)
    host_private: Mapped[str] = mapped_column(Text)
    host_public: Mapped[str] = mapped_column(Text)
    made_at: Mapped[datetime] = mapped_column(UtcTime)


class WayRow(Base):
    """An app of a session that is open beyond its owner's own sign-in, until `closed_at`; the row
    stays, so that its port is not given away at once."""

    __tablename__ = "ways"

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    session_id: Mapped[str] = mapped_column(ForeignKey(SESSION_ID, ondelete="CASCADE"))
    app: Mapped[str] = mapped_column(String(255))
    kind: Mapped[str] = mapped_column(String(16))
    protocol: Mapped[str] = mapped_column(String(16))
    number: Mapped[int | None] = mapped_column(Integer)
    wanted: Mapped[int | None] = mapped_column(Integer)
    opened_by: Mapped[str] = mapped_column(String(255))
    opened_at: Mapped[datetime] = mapped_column(UtcTime)
    closed_at: Mapped[datetime | None] = mapped_column(UtcTime)
    closed_by: Mapped[str | None] = mapped_column(String(255))
    reason: Mapped[str] = mapped_column(Text, default="")

    __table_args__ = (
        Index("uq_ways_open_number", "number", unique=True,
              sqlite_where=text(OPEN), postgresql_where=text(OPEN)),
        Index(None, "session_id"),
        Index(None, "closed_at"),
    )  # fmt: skip


class MetaRow(Base):
    """Single facts about this database, such as the id of the Hub that it belongs to."""

    __tablename__ = "meta"

    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


def table(row: type[Base]) -> Table:
    """The table behind a row class."""
    found = row.__table__
    assert isinstance(found, Table)
    return found


# For statements. Those that run often are made once, by their modules: to build one takes as long
# as to run it.
AGENTS, ALLOCATIONS, DEPENDENCIES = table(AgentRow), table(AllocationRow), table(DependencyRow)
HISTORY, KERNELS, LAUNCHES = table(HistoryRow), table(KernelRow), table(LaunchRow)
META, SESSIONS, WAYS = table(MetaRow), table(SessionRow), table(WayRow)
SSH_KEYS = table(SshKeysRow)


def among(column: ColumnElement[Any], values: Iterable[str]) -> ColumnElement[bool]:
    """That a column has one of these constants; with those of plain `in_` a statement's text would
    be made anew each time that it runs."""
    return column.in_([literal(value) for value in sorted(values)])
