"""What estimates are made from: how long sessions ran, and what is known of those that run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, select, text

from ..model.catalog import Catalog
from ..model.policy import Policies
from ..model.request import SessionRequest
from ..model.status import Status
from ..scheduling.estimate import Outlook, expected_length
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


def outlook(db: Connection, policies: Policies, catalog: Catalog, now: datetime) -> Outlook:
    """The snapshot of a pass, with when what runs may end and how long what waits may run."""
    return _outlook(db, lengths(db, now), policies, catalog, now)


def with_candidate(
    db: Connection,
    request: SessionRequest,
    owner: str,
    owner_groups: Collection[str],
    policies: Policies,
    catalog: Catalog,
    now: datetime,
) -> tuple[Outlook, Pending, float | None]:
    """The same, with a session that is not submitted yet, and how long that may run."""
    past = lengths(db, now)
    found = _outlook(db, past, policies, catalog, now)
    # The limits in it are of those who hold or wait; this owner may do neither yet.
    limits = {**found.snapshot.owner_limits, owner: policies.of(owner, owner_groups).limits}
    found = replace(found, snapshot=replace(found.snapshot, owner_limits=limits))
    limit = request.batch.timeout if request.batch else None
    length = expected_length(limit, past.of(owner, request.type, request.environment))
    return found, passes.candidate(db, request, owner, now), length


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
