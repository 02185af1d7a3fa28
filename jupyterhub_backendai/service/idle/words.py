"""What people read of idle checks."""

from __future__ import annotations

from typing import Literal

from ...model.moments import limit_words
from ...scheduling.idle import Check, State, Verdict

Fate = Literal["ended", "hibernated"]
TITLES = {"lifetime": "Lifetime", "network": "Network", "utilization": "Utilization"}
METRIC_TITLES = {"cpu": "CPU", "mem": "memory", "gpu": "GPU", "gpu_mem": "GPU memory"}
PLACES = {"site": "This site", "policy": "Your policy", "group": "This resource group"}


def fate(check: Check, why_not: str) -> Fate:
    """What a session will be, by a check; `why_not`: why it cannot be hibernated, if that is known
    of it."""
    return "hibernated" if check.rests and not why_not else "ended"


def what_stays(check: Check, why_not: str) -> str:
    """What there is of a session afterwards, in sentences."""
    if check.rests and not why_not:
        return "Its home and what was installed are kept then, and it can be resumed."
    return f"{instead(check, why_not)} What you saved in a folder stays.".lstrip()


def instead(check: Check, why_not: str) -> str:
    """Of a session that should be hibernated, and will be ended: why. Else empty."""
    if not check.rests or not why_not:
        return ""
    return f"It cannot be hibernated, so its home and what was installed go: {why_not}"


def kept_in_short(check: Check, why_not: str) -> str:
    """What is kept of a session that is not just ended, where there is room for few words."""
    return "its home is kept" if fate(check, why_not) == "hibernated" else ""


def explained(check: Check) -> str:
    """What a check does, and on whose behalf."""
    limit, ends = limit_words(check.limit), "hibernates" if check.rests else "ends"
    if check.name == "lifetime":
        return f"{PLACES[check.source]} ends sessions {limit} after their start, used or not."
    if check.name == "network":
        what = (
            "A page that is open counts as use, even if it only asks by itself."
            if check.polling
            else "A page that is open but only asks by itself does not count, nor does a "
            "computation that runs."
        )
        return f"{PLACES[check.source]} {ends} sessions that nobody has used for {limit}. {what}"
    parts = [f"{number(limit)}% of its {METRIC_TITLES[name]}" for name, limit in check.thresholds]
    joined = (" and " if check.operator == "and" else " or ").join(parts)
    each = "" if len(parts) == 1 else " all of" if check.operator == "and" else " any of"
    return (
        f"{PLACES[check.source]} {ends} a session that used less than{each} {joined}, on average "
        f"over {limit}."
    )


def reason(verdict: Verdict) -> str:
    """Why a session was ended, for its history and its owner."""
    check, limit = verdict.check, limit_words(verdict.check.limit)
    if check.name == "lifetime":
        return f"It reached its lifetime of {limit}."
    if check.name == "network":
        return f"Nobody had used it for {limit}."
    parts = [
        f"{number(average)}% of its {METRIC_TITLES[name]} (less than {number(threshold)}%)"
        for (name, threshold), average in zip(check.thresholds, verdict.averages, strict=True)
        if average is not None and average < threshold
    ]
    return f"It was little used for {limit}: {' and '.join(parts)}."


def reason_ahead(verdict: Verdict, why_not: str) -> str:
    """Why a session will be ended, as its owner is told ahead; `why_not` as above."""
    check, limit = verdict.check, limit_words(verdict.check.limit)
    if check.name == "lifetime":
        return f"Its lifetime of {limit} is over then."
    if check.name == "network":
        ends = "is hibernated" if fate(check, why_not) == "hibernated" else "ends"
        return (
            f"Nobody has used it, and after {limit} of that it {ends}. A running computation does "
            "not keep it."
        )
    parts = [
        f"{number(average)}% of its {METRIC_TITLES[name]} ({number(threshold)}% is asked)"
        for (name, threshold), average in zip(check.thresholds, verdict.averages, strict=True)
        if average is not None
    ]
    return f"In the last {limit} it used {' and '.join(parts)}."


def state_text(verdict: Verdict) -> str:
    """What a check says now, where it is not a time."""
    if verdict.state is State.UNKNOWN and verdict.check.name == "network":
        return "When it was used last is not known. Nothing ends it for that."
    if verdict.state is State.UNKNOWN:
        return "How much it uses is not known. Nothing ends it for that."
    return "It is used." if verdict.state is State.USED else ""


def number(value: float) -> str:
    """A percentage as people read it: with a digit more where it is small."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if value < 10 else f"{value:.0f}"
