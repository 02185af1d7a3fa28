"""What estimates are made from: how long sessions ran, and what is known of those that run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from sqlalchemy import Connection, select, text

from ..model.catalog import Catalog
from ..model.policy import Policies
from ..model.request import SessionRequest
from ..model.slots import Limits
from ..model.status import Status
from ..scheduling.estimate import Forecast, Outlook, estimate, expected_length, forecast
from ..scheduling.snapshot import Pending
from . import passes
from .tables import LIVE, SESSIONS

LATELY = timedelta(days=30)
MOST_ENDED = 5000  # sessions that are looked back at
MOST_LENGTHS = 50  # newest lengths of one kind of session that are kept

Kind = tuple[str, str, str | None]
"""Owner ("" for anybody), type, environment."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long sessions ran that ended lately, in seconds, the newest first, by kind."""

    by_kind: Mapping[Kind, tuple[float, ...]]

    def of(self, owner: str, type: str, environment: str | None) -> tuple[float, ...]:
        """Those of this owner, or of anybody where the owner had none."""
        own = self.by_kind.get((owner, type, environment))
        return own or self.by_kind.get(("", type, environment), ())


@dataclass(frozen=True, slots=True)
class Ahead:
    """What estimates are made from, as it was at `made_at`. They need no database."""

    outlook: Outlook
    past: Lengths
    made_at: datetime

    def waits(self, session_id: str) -> bool:
        """Whether this session waited then."""
        return any(one.id == session_id for one in self.outlook.snapshot.pending)

    def start_of(self, session_id: str) -> datetime | None:
        """When a session that waits may start; None: unknown, or it does not wait."""
        start = estimate(self.outlook, session_id)
        try:
            return None if start is None else datetime.fromtimestamp(start, timezone.utc)
        except (OverflowError, ValueError):  # after the end of the calendar
            return None

    def forecast(self, request: SessionRequest, candidate: Pending, limits: Limits) -> Forecast:
        """What would happen to `candidate`, which is this request of an owner with these limits."""
        snapshot = self.outlook.snapshot
        # The limits in it are of those who hold or wait; this owner may do neither yet.
        known = {**snapshot.owner_limits, candidate.owner: limits}
        outlook = replace(self.outlook, snapshot=replace(snapshot, owner_limits=known))
        timeout = request.batch.timeout if request.batch else None
        past = self.past.of(candidate.owner, request.type, request.environment)
        return forecast(outlook, candidate, expected_length(timeout, past))


_ENVIRONMENT = SESSIONS.c.spec["environment"].as_string()
_TIMEOUT = SESSIONS.c.spec[("batch", "timeout")].as_integer()


def lengths(db: Connection, now: datetime) -> Lengths:
    """How long sessions ran that ended in the last 30 days."""
    of = SESSIONS.c
    rows = db.execute(
        select(of.owner, of.type, _ENVIRONMENT.label("environment"), of.running_at, of.ended_at)
        .where(of.ended_at > now - LATELY, of.running_at.is_not(None))
        .order_by(of.ended_at.desc())
        .limit(MOST_ENDED)
    )
    found: dict[Kind, list[float]] = defaultdict(list)
    for row in rows:
        seconds = (row.ended_at - row.running_at).total_seconds()
        for owner in (row.owner, ""):
            some = found[(owner, row.type, row.environment)]
            if len(some) < MOST_LENGTHS:
                some.append(seconds)
    return Lengths({kind: tuple(some) for kind, some in found.items()})


def ahead(db: Connection, policies: Policies, catalog: Catalog, now: datetime) -> Ahead:
    """The snapshot of a pass, with when what runs may end and how long what waits may run."""
    past = lengths(db, now)
    return Ahead(_outlook(db, past, policies, catalog, now), past, now)


def _outlook(
    db: Connection, past: Lengths, policies: Policies, catalog: Catalog, now: datetime
) -> Outlook:
    of = SESSIONS.c
    rows = db.execute(
        select(
            of.id, of.owner, of.type, of.status, of.running_at, of.batch_started_at,
            _ENVIRONMENT.label("environment"), _TIMEOUT.label("timeout"),
        ).where(text(LIVE))
    )  # fmt: skip
    ends: dict[str, float] = {}
    lasts: dict[str, float] = {}
    for row in rows:
        began = row.batch_started_at or row.running_at or now
        elapsed = max(0.0, (now - began).total_seconds())
        length = expected_length(
            row.timeout, past.of(row.owner, row.type, row.environment), elapsed
        )
        if length is None:
            continue
        if row.status == Status.PENDING.value:
            lasts[row.id] = length
        else:
            ends[row.id] = began.timestamp() + length
    return Outlook(passes.snapshot(db, policies, catalog, now), ends, lasts)
