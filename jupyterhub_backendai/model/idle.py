"""When a session that is not used, or is too old, is ended: what an admin may say of it.

There are three checks. *Lifetime*: the session is older than that. *Network*: nobody has used it
for so long, by a browser or an app; a computation that runs is not use. *Utilization*: over a
window of time its containers have used less of what was granted than a threshold asks. The words
and the meaning are those of Backend.AI's idle checkers; where its implementation differs from what
its documents promise, the documents are followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from .configured import Model
from .errors import Problem
from .moments import parse_span

CheckName = Literal["lifetime", "network", "utilization"]
CHECKS: tuple[CheckName, ...] = ("lifetime", "network", "utilization")
Metric = Literal["cpu", "mem", "gpu", "gpu_mem"]
METRICS: tuple[Metric, ...] = ("cpu", "mem", "gpu", "gpu_mem")
Then = Literal["end", "hibernate"]
GPU_METRICS = frozenset({"gpu", "gpu_mem"})


def _seconds(value: Any) -> Any:
    """A length of time as people write it, in seconds."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError('write a length of time, such as "30m", "2h" or "1d"')
    try:
        return parse_span(format(value, "f") if isinstance(value, float) else str(value))
    except Problem as problem:
        raise ValueError(problem.message) from None


def _span(value: Any) -> Any:
    seconds = _seconds(value)
    if seconds <= 0:
        raise ValueError("it must be more than no time at all; leave it out to turn it off")
    return seconds


Span = Annotated[int, BeforeValidator(_span)]
Grace = Annotated[int, BeforeValidator(_seconds)]
Threshold = Annotated[float, Field(gt=0, le=100, strict=True)]  # percent


class Network(Model):
    """Nobody has used the session for `timeout` seconds; `grace` seconds after its start at the
    earliest. `polling`: a page that is open and only asks by itself is use, too."""

    timeout: Span
    grace: Grace = 0
    polling: bool = False


class Utilization(Model):
    """Averages over `window` seconds, in percent of what was granted, below `thresholds`: of all
    metrics (`and`) or of any (`or`). A metric with no threshold (None) is left out, as are those
    of GPUs where a session has none. Nothing is counted in the first `grace` seconds."""

    window: Span
    grace: Grace = 0
    operator: Literal["and", "or"] = "and"
    thresholds: Mapping[Metric, Threshold | None] = Field(min_length=1)

    @model_validator(mode="after")
    def _asks_something(self) -> Utilization:
        if all(value is None for value in self.thresholds.values()):
            raise ValueError('thresholds names no number; write one, such as {"cpu": 5}')
        return self


class IdleRules(Model):
    """The checks of one place: of the site, of a policy or of a resource group. `then`: what
    becomes of a session that is not used; a lifetime always ends it."""

    lifetime: Span | None = None
    network: Network | None = None
    utilization: Utilization | None = None
    then: Then = "end"

    @field_validator("network", mode="before")
    @classmethod
    def _timeout_alone(cls, value: Any) -> Any:
        """`network="2h"`, where there is nothing else to say."""
        is_whole = value is None or isinstance(value, (Mapping, Network))
        return value if is_whole else {"timeout": value}


class IdleMinimum(Model):
    """The least that checks may ask of sessions of an environment: lifetime, timeout of the
    network check, and window of the utilization check, in seconds."""

    lifetime: Span | None = None
    network: Span | None = None
    utilization: Span | None = None


class Keep(Model):
    """How long an owner may keep a session that would be ended: `each` seconds at once, and
    `total` seconds of one session. `lifetime`: beyond its lifetime, too."""

    each: Span = 2 * 3600
    total: Span = 8 * 3600
    lifetime: bool = False

    @model_validator(mode="after")
    def _once_is_within_all(self) -> Keep:
        if self.each > self.total:
            raise ValueError("each cannot be more than total, which is 8 h by itself")
        return self
