"""What the API says of the idle checks of a session."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from ...model.idle import CheckName, Metric, Span
from ..schemas import Part

Level = Literal["ok", "warn", "bad"]


class MetricView(Part):
    """What a utilization check compares."""

    metric: Metric
    average: float | None = Field(description="Percent of what was granted; null: not known.")
    threshold: float = Field(description="Percent; less is too little.")
    level: Level | None = Field(description="How near it is; null: not known.")


class CheckView(Part):
    """One check on a session."""

    check: CheckName
    source: Literal["site", "policy", "group"] = Field(description="Who asks for it.")
    state: Literal["counting", "used", "unknown"] = Field(
        description="`counting`: it ends the session at `ends_at` if nothing changes; `used`: no "
        "end is in sight; `unknown`: what it asks about is not known, which ends nothing."
    )
    limit: float = Field(description="Seconds: the lifetime, the timeout, or the window.")
    grace: float = Field(description="Seconds after the start in which it does nothing.")
    ends_at: datetime | None
    level: Level | None = Field(description="How near the end is; null where none is in sight.")
    operator: Literal["and", "or"] | None = Field(
        description="Whether all metrics, or any, have to be too little."
    )
    metrics: list[MetricView]
    explained: str
    text: str = Field(description="What it says where it is not a time.")


class KeepView(Part):
    """How long the owner may keep it."""

    each: float = Field(description="Seconds at once, at most.")
    left: float = Field(description="Seconds that are left of what this session may be kept in all")
    now: float = Field(description="Seconds that it is kept by asking now; 0: that is refused.")


class IdleView(Part):
    """The idle checks of a session."""

    now: datetime = Field(description="The service's time, to count down from.")
    ends_at: datetime | None = Field(description="When it is ended if nothing changes.")
    level: Level | None
    by: CheckName | None = Field(description="The check that ends it first.")
    then: Literal["ended", "hibernated"] | None = Field(description="What becomes of it then.")
    why_not: str = Field(
        description="Why it is not hibernated where it should be, for its owner to read; empty "
        "where it is, or where nothing would have it hibernated."
    )
    warn: bool = Field(description="Whether its owner is to be warned: the end is near.")
    kept_until: datetime | None
    keep: KeepView | None = Field(description="Null: it may not be kept.")
    checks: list[CheckView]


class KeepBody(Part):
    """For how long a session is to be kept."""

    seconds: Span | None = Field(
        default=None,
        description="How much later it is to be ended: seconds, or a text such as `2h`. Null: as "
        "much as may be. A minute is the least, if as much is left.",
        examples=["2h"],
    )
