"""How things read on a page: statuses as tags, amounts, lengths of time, moments."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from markupsafe import Markup

from ...model import gpu_words
from ...model.hibernation import hibernated_by, not_resumed_by
from ...model.slots import format_bytes, format_thousandths
from ...model.status import IN_LINE, Phase, Result, Status
from ...model.steps import Step
from ...site.clock import utcnow
from ...site.ending import ended_by
from ...site.options import amounts
from ...store import HistoryEntry, Session, SessionResult
from ..ending import rests_again
from ..usage import GpuUse


@dataclass(frozen=True, slots=True)
class Tag:
    """A word with its icon and its colour: never one without the others."""

    word: str
    icon: str
    kind: str  # "ok", "wait", "move", "warn", "bad", or "" for what is over, or rests
    turns: bool = False


_MOVES = ("circle-notch", "move", True)
_STATUS: dict[Status, Tag] = {
    Status.PENDING: Tag("Pending", "hourglass-half", "wait"),
    Status.SCHEDULED: Tag("Scheduled", *_MOVES),
    Status.PREPARING: Tag("Preparing", *_MOVES),
    Status.PULLING: Tag("Pulling", *_MOVES),
    Status.CREATING: Tag("Creating", *_MOVES),
    Status.RUNNING: Tag("Running", "circle-check", "ok"),
    Status.TERMINATING: Tag("Terminating", *_MOVES),
    Status.HIBERNATED: Tag("Hibernated", "moon", ""),
    Status.TERMINATED: Tag("Terminated", "circle-stop", ""),
    Status.CANCELLED: Tag("Cancelled", "ban", ""),
    Status.ERROR: Tag("Error", "circle-xmark", "bad"),
}
_OUTCOME: dict[Result, Tag] = {
    Result.SUCCESS: Tag("Success", "circle-check", "ok"),
    Result.FAILURE: Tag("Failure", "circle-xmark", "bad"),
    Result.STALE: Tag("Stale", "clock", ""),
    Result.NEED_RETRY: Tag("Need retry", "rotate-right", "warn"),
    Result.EXPIRED: Tag("Expired", "hourglass-end", "bad"),
    Result.GIVE_UP: Tag("Give up", "circle-xmark", "bad"),
    Result.SKIPPED: Tag("Skipped", "forward", ""),
}

# What a check says to an owner once it is passed; one that is not says why by itself.
_PASSED: dict[str, str] = {
    Step.LIMITS: "The limits of the resource group allow it.",
    Step.DEPENDENCIES: "Nothing else has to end before it.",
    Step.START_TIME: "Its start time has come.",
    Step.AGENTS: "The resource group has agents.",
    Step.OWNER_QUOTA: "Its owner is within the limits.",
    Step.PROJECT_QUOTA: "Its project is within the limits.",
    Step.TURN: "It is its turn.",
    Step.SELECT_AGENT: "An agent has room.",
}


def passed(step: str) -> str:
    """A step that went well, as a sentence; its name where there is none to say."""
    return _PASSED.get(step, step)


def status_tag(status: Status) -> Tag:
    """The tag of a session's status."""
    return _STATUS[Status(status)]


def result_tag(result: Result) -> Tag:
    """The tag of how a phase went."""
    return _OUTCOME[Result(result)]


def word(of: Status | Result | Phase) -> str:
    """What a status, a result or a phase is called, in lists and where one is chosen."""
    if isinstance(of, Phase):
        return of.value.capitalize()
    return (_STATUS[of] if isinstance(of, Status) else _OUTCOME[of]).word


# What is said to an owner, as it is said of them. A sentence may have names in it, of sessions and
# of resource groups, that have such a word with a hyphen.
_OF_OTHERS = [
    (re.compile(rf"(?<![\w-]){said}(?![\w-])"), other)
    for said, other in (
        ("You have", "{owner} has"), ("You hold", "{owner} holds"),
        ("You cannot", "{owner} cannot"),
        ("you are next", "it is next"), ("before you", "before it"),
        ("which you chose", "which was chosen"),
        ("Your", "Their"), ("your", "their"), ("yours", "theirs"),
    )
]  # fmt: skip


def said_to(reader: str, sentence: str, owner: str) -> str:
    """A session's reason, or a message of its history, as it reads to whoever reads it."""
    for did in (ended_by, hibernated_by, not_resumed_by):
        if sentence.startswith(own := did(reader)):
            return did("You") + sentence[len(own) :]
    if reader == owner:
        return sentence
    if sentence.startswith(you := ended_by("You")):  # as it was kept once: the owner did
        return ended_by(owner) + sentence[len(you) :]
    for said, other in _OF_OTHERS:
        sentence = said.sub(lambda _, other=other: other.format(owner=owner), sentence)  # type: ignore[misc]
    return sentence


def session_to(reader: str, session: Session) -> Session:
    """A session with its reason as it reads to `reader`."""
    if session.reason is None:
        return session
    return replace(session, reason=said_to(reader, session.reason, session.owner))


def entry_to(reader: str, entry: HistoryEntry, owner: str) -> HistoryEntry:
    """A row of the history of a session of `owner` as it reads to `reader`."""
    steps = (replace(s, message=said_to(reader, s.message, owner)) for s in entry.sub_steps)
    message = said_to(reader, entry.message, owner)
    return replace(entry, message=message, sub_steps=tuple(steps))


def ending_tag(session: Session) -> Tag | None:
    """How a session ended, where a command says so."""
    if session.result is SessionResult.SUCCESS:
        return Tag("Success", "circle-check", "ok")
    if session.result is SessionResult.FAILURE:
        return Tag("Failure", "circle-xmark", "bad")
    return None


def short_reason(session: Session) -> str:
    """A session's reason in two or three words; empty where there is none to add."""
    if session.position and session.status is Status.PENDING:
        return f"#{session.position} in line"
    if session.exit_code is not None and session.type == "batch":
        return exit_words(session.exit_code)
    return ""


def exit_words(code: int) -> str:
    """An exit code as it is told; one below zero is no exit code of a program's."""
    return f"exit code {code}" if code >= 0 else "no exit code"


def span(seconds: float) -> str:
    """A length of time in words: "12 s", "2 min", "1 h 05 min", "3 days 4 h"."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if hours == 0:
        return f"{minutes} min"
    if hours < 48:
        return f"{hours} h {minutes % 60:02} min" if minutes % 60 else f"{hours} h"
    rest = f" {hours % 24} h" if hours % 24 else ""
    return f"{hours // 24} days{rest}"


def brief(seconds: float) -> str:
    """A length of time that may be short: with tenths of a second below ten."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 10 else span(seconds)


def moment(at: datetime | None, shows: str = "when") -> Markup:
    """A moment, in UTC until the page's script tells it in the reader's own zone and words.

    `shows`: "when" it was, to the second with "exact", or how long "ago"; for how long something
    "lasts" that began then; how much is "left" until then.
    """
    if at is None:
        return Markup("–")
    at = at.astimezone(timezone.utc)
    away = (utcnow() - at).total_seconds()
    told = {
        "when": f"{at:%d %b %Y, %H:%M} UTC",
        "exact": f"{at:%d %b %Y, %H:%M:%S} UTC",
        "ago": f"{span(away)} ago" if away >= 0 else f"in {span(-away)}",
        "lasts": span(away),
        "left": span(-away),
    }[shows]
    return Markup('<time datetime="{}" data-shows="{}">{}</time>').format(
        at.isoformat(), shows, told
    )


def in_line(session: Session) -> bool:
    """Whether ending a session is to cancel it: nothing of it has started."""
    return session.status in IN_LINE


def rests_at_end(session: Session) -> str:
    """What ending a session means for what is kept of it: "again", it rests again, since it is
    just being resumed; "over", that is deleted; empty where nothing is kept."""
    if session.status is Status.HIBERNATED:
        return "over"
    return "again" if rests_again(session) else ""


def began_at(session: Session) -> datetime:
    """Since when a session is what it is: waits, runs, or rests."""
    if session.status is Status.HIBERNATED:
        return session.status_changed_at
    # One that is resumed has run before.
    runs = session.status in (Status.RUNNING, Status.TERMINATING) or session.status.is_final
    return (session.running_at if runs else None) or session.submitted_at


def took(session: Session) -> str:
    """How long a session that is over ran; empty where it never did."""
    if session.running_at is None or session.ended_at is None:
        return ""
    return span((session.ended_at - session.running_at).total_seconds())


def deadline(session: Session) -> datetime | None:
    """When the time limit of a session ends it; None without one, and before it runs."""
    batch = session.request.batch
    if batch is None or batch.timeout is None or session.batch_started_at is None:
        return None
    return session.batch_started_at + timedelta(seconds=batch.timeout)


def urgency(at: datetime) -> str:
    """How near a deadline is, as the kind of a tag: under an hour, under four, or not near."""
    left = (at - utcnow()).total_seconds()
    return "bad" if left < 3600 else "warn" if left < 4 * 3600 else "ok"


def resources(session: Session) -> str:
    """What a session has, in a line."""
    return amounts(session.slots, session.request.mig_profile)


def gpu_use(use: GpuUse) -> str:
    """What a session uses of one GPU now."""
    return gpu_words.used(use.memory, use.memory_used, use.busy)


FILTERS: dict[str, Callable[..., Any]] = {
    "span": span, "brief": brief, "moment": moment, "bytes": format_bytes,
    "thousandths": format_thousandths, "resources": resources, "word": word,
    "granted": gpu_words.granted, "gpu_use": gpu_use,
}  # fmt: skip
GLOBALS: dict[str, Any] = {
    "status_tag": status_tag, "result_tag": result_tag, "ending_tag": ending_tag,
    "short_reason": short_reason, "began_at": began_at, "took": took, "deadline": deadline,
    "urgency": urgency, "in_line": in_line, "rests_at_end": rests_at_end, "passed": passed,
    "exit_words": exit_words,
    "held": gpu_words.held, "SIMULATED": gpu_words.SIMULATED,
    "now_iso": lambda: utcnow().isoformat(timespec="milliseconds"),
}  # fmt: skip
