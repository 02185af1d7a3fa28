"""Why a session waits, as sentences for the person who waits.

They give numbers, say "you", and never name another user. Amounts are in the units of `Slots`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from ..model.moments import span_words
from ..model.slots import Limits, Slots, format_bytes, format_slot, format_thousandths

_WORDS = (
    "no", "one", "two", "three", "four", "five", "six",
    "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_NOTHING = {
    "cpu": "no CPU core", "mem": "no memory", "fgpu": "no FGPU", "gpu": "no whole GPU",
    "mig": "no MIG device",
}  # fmt: skip
_GPUS = {"fgpu": "FGPU", "gpu": "whole GPUs", "mig": "MIG devices"}
STARTS_NOW = "Starts now."
_DRAINING = "the admin is draining"
_LATER = "This session waits until that is over."


@dataclass(frozen=True, slots=True)
class Machines:
    """What the machines of a resource group that take sessions have together, and the most of each
    slot that one session could have on one of them. `gpus`: only those with GPUs of this slot are
    meant, and there are others. `on_one`: the most on one GPU. `even`: several are given in equal
    shares."""

    group: str
    count: int
    total: Slots
    most: Slots
    gpus: str | None = None
    on_one: Slots = Slots()
    even: bool = False

    def __str__(self) -> str:
        noun = "the machine" if self.count == 1 else f"the {number(self.count)} machines"
        with_or_have = "with" if self.count == 1 else "that have"
        which = "" if self.gpus is None else f" {with_or_have} {_GPUS[self.gpus]}"
        return f"{noun} of {self.group}{which}"


def number(count: int) -> str:
    """Up to twelve as a word, more as digits."""
    return _WORDS[count] if count < len(_WORDS) else str(count)


def before(position: int) -> str:
    """Who comes first, for a session at this position (from 1) in the line."""
    ahead = position - 1
    if ahead == 0:
        return "you are next"
    return "1 session is before you" if ahead == 1 else f"{ahead} sessions are before you"


def _all(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _asked(wanted: Slots) -> list[str]:
    return [name for name, amount in wanted if amount > 0]


def _list(slots: Slots, names: Sequence[str], profile: str | None = None) -> str:
    """`1 CPU core and no memory`; MIG devices with their profile."""
    told = []
    for name in names:
        amount = getattr(slots, name)
        text = format_slot(name, amount) if amount > 0 else _NOTHING[name]
        told.append(f"{text} {profile}" if name == "mig" and profile else text)
    return _all(told)


def _short(name: str, amount: int) -> str:
    """An amount after its slot was named: `2`, `4 GB`."""
    return format_bytes(amount) if name == "mem" else format_thousandths(amount)


def _free(name: str, amount: int, asked: int) -> str:
    """`none is free`, `1.5 are free`; never the very figure that was asked when it is less."""
    if amount <= 0:
        return "none is free"
    text = _short(name, amount)
    if amount < asked and text == _short(name, asked):
        return "a little less is free"
    return f"{text} {'is' if name == 'mem' or amount <= 1000 else 'are'} free"


def no_room(wanted: Slots, machines: Machines, profile: str | None = None) -> str:
    """No machine has room now. Without its end; `waiting` adds that."""
    lacking = wanted.lacking(machines.most)
    if not lacking:
        return (
            f"Waiting for {_list(wanted, _asked(wanted), profile)} on one machine: "
            f"no machine of {machines.group} has them free together"
        )
    split = not set(lacking) <= set(wanted.lacking(machines.total))
    if len(lacking) == 1:
        name = lacking[0]
        ask, total, most = (getattr(s, name) for s in (wanted, machines.total, machines.most))
        told = _free(name, total, ask)
        best = "none" if most <= 0 else _short(name, most)
    else:
        told = f"{_list(machines.total, lacking)} are free"
        best = _list(machines.most, lacking)
    text = f"Waiting for {_list(wanted, lacking, profile)}: {told} on {machines}"
    if not split:
        return text
    if machines.even and lacking == tuple(name for name in lacking if name in _GPUS):
        return f"{text}, but not in equal shares: the most that can be had so is {best}"
    if lacking[-1] in _GPUS and machines.most == replace(
        machines.most, **{lacking[-1]: getattr(machines.on_one, lacking[-1])}
    ):
        # With several GPUs in a machine: what is free of them adds up to nothing.
        return f"{text}, but not on one GPU: the most on one GPU is {best}"
    return f"{text}, but not on one machine: the most on one machine is {best}"


def agent_full(wanted: Slots, agent: str, free: Slots, profile: str | None = None) -> str:
    """The machine that the user picked has no room now. Without its end."""
    lacking = wanted.lacking(free)
    head = f"Waiting for {_list(wanted, lacking, profile)} on {agent}, which you chose: "
    if len(lacking) == 1:
        name = lacking[0]
        return head + f"{_free(name, getattr(free, name), getattr(wanted, name))} there"
    return head + f"{_list(free, lacking)} are free there"


def waiting(sentence: str, position: int) -> str:
    """A sentence about room with its end: who is before you."""
    return f"{sentence}; {before(position)}."


def kept_room(position: int) -> str:
    """There is room, but it belongs to a session that has waited too long to be passed."""
    return f"There is room, but it is kept for a session before this one; {before(position)}."


def in_order(group: str, position: int) -> str:
    """A strict queue: the one before waits, so this one does."""
    return f"{group} starts sessions strictly in order; {before(position)}."


def sessions_full(held: int, limit: int, project: str | None = None) -> str:
    """The owner, or the owner's project, has as many sessions as it may."""
    who = "You have" if project is None else f"Your project {project} has"
    noun = "session" if limit == 1 else "sessions"
    text = f"{who} {held} of {limit} {noun}. This one starts when "
    ending = held - limit + 1
    if ending > 1:
        return f"{text}{number(ending)} of them end."
    return f"{text}{'it ends' if held == 1 else 'one of them ends'}."


def quota_full(
    wanted: Slots, over: Sequence[str], used: Slots, limits: Limits, project: str | None = None
) -> str:
    """The owner, or the owner's project, would hold more than its limit of the slots in `over`."""
    who = "You hold" if project is None else f"Your project {project} uses"
    whose, rest = ("your", "yours") if project is None else ("its", "its sessions")
    parts = []
    for name in over:
        limit, held = getattr(limits, name), getattr(used, name)
        parts.append(f"{_short(name, held)} of {whose} {format_slot(name, limit)}")
    ask = _short(over[0], getattr(wanted, over[0])) if len(over) == 1 else _list(wanted, over)
    text = f"{who} {_all(parts)}; this session asks {ask}."
    return f"{text} It starts when enough of {rest} end."


def quota_kept(over: Sequence[str], limits: Limits, project: str | None = None) -> str:
    """What is left of a limit belongs to a session that has waited too long to be passed."""
    parts = []
    for name in over:
        limit = getattr(limits, name)
        noun = "session" if limit == 1 else "sessions"
        parts.append(f"{limit} {noun}" if name == "sessions" else format_slot(name, limit))
    if project is None:
        return f"What is left of your {_all(parts)} is kept for a session of yours before this one."
    return (
        f"What is left of the {_all(parts)} of your project {project} "
        "is kept for a session before this one."
    )


def not_before(start: float) -> str:
    """A start time (seconds since the epoch) that has not come."""
    moment = datetime.fromtimestamp(start, timezone.utc)
    return f"Starts at {moment:%Y-%m-%d %H:%M} UTC or later, when there is room."


def dependency(names: Sequence[str]) -> str:
    """Sessions that it depends on have not ended."""
    if len(names) == 1:
        return f"Starts when {names[0]} has ended in success."
    named = list(names) if len(names) <= 3 else [*names[:2], f"{number(len(names) - 2)} others"]
    return f"Starts when {_all(named)} have ended in success."


def dependency_failed(name: str) -> str:
    """A session that it depends on will never end in success."""
    return f"{name} has not ended in success, and this session was to start only after that."


def pending_timeout(group: str, timeout: float) -> str:
    """It waited for as long as a session may wait there; `timeout` in seconds."""
    return (
        f"It did not start within {span_words(timeout)}, the longest that a session waits in "
        f"{group}. Ask for less, or start it again later."
    )


def no_machine(group: str, silent: int = 1, drained: int = 0) -> str:
    """No machine of the resource group takes sessions: of those that could hold this one so many
    do not answer, and so many are drained."""
    if not drained:
        return f"{group} has no machine that answers. The admin has been told."
    head = f"{group} takes no sessions now: {_DRAINING}"
    if silent:
        return (
            f"{head} some of its machines, and the others do not answer. The admin has been told."
        )
    return f"{head} {'its machine' if drained == 1 else 'its machines'}. {_LATER}"


def machine_silent(agent: str) -> str:
    """The machine that the user picked does not answer."""
    return f"{agent}, which you chose, does not answer. The admin has been told."


def machine_drained(agent: str) -> str:
    """The machine that the user picked takes no sessions, by its admin's will."""
    return (
        f"{agent}, which you chose, takes no sessions now: {_DRAINING} it. {_LATER} "
        "To start sooner, cancel it and choose another machine."
    )


def machine_gone(agent: str, group: str) -> str:
    """The machine that the user picked is not in the resource group (any more)."""
    return (
        f"{agent}, which you chose, is not a machine of {group}. "
        "Cancel this session and choose another."
    )


def gpu_lost(
    wanted: Slots, group: str, profile: str | None = None, agent: str | None = None
) -> str:
    """Only GPUs that cannot be used now would do, on machines that take sessions."""
    asked = _list(wanted, [name for name in _asked(wanted) if name in _GPUS], profile)
    where = agent or group
    return (
        f"No GPU of {where} that works now has {asked}; one that does not work may. "
        "The admin has been told."
    )


def too_small_now(
    wanted: Slots,
    group: str,
    largest: Slots,
    silent: int = 1,
    drained: int = 0,
    profile: str | None = None,
) -> str:
    """Only machines that take no sessions now may be large enough: so many do not answer, so many
    are drained; `largest` is of the others."""
    amounts = _list(wanted, wanted.lacking(largest) or _asked(wanted), profile)
    if not drained:
        return (
            f"No machine of {group} that answers has {amounts}; "
            "one that does not answer may. The admin has been told."
        )
    head = f"No machine of {group} that takes sessions now has {amounts}"
    if silent:
        told = "one that does not answer may, and one that the admin is draining"
        return f"{head}; {told}. The admin has been told."
    return f"{head}: {_DRAINING} {'one that does' if drained == 1 else 'those that do'}. {_LATER}"


def never_fits(
    wanted: Slots,
    largest: Slots,
    group: str,
    agent: str | None = None,
    profile: str | None = None,
) -> str:
    """No machine could ever hold it, or not the one that the user picked."""
    lacking = wanted.lacking(largest)
    if not lacking:
        together = _list(wanted, _asked(wanted), profile)
        return f"Never fits: no machine of {group} has {together} together."
    where = agent or f"the largest machine of {group}"
    if len(lacking) == 1:
        has = getattr(largest, lacking[0])
        told = f"{where} has {_short(lacking[0], has) if has > 0 else 'none'}"
        if has <= 0 and agent is None:
            told = f"no machine of {group} has any"
    elif agent is None:
        told = f"the most on one machine of {group} is {_list(largest, lacking)}"
    else:
        told = f"{agent} has {_list(largest, lacking)}"
    return f"Never fits: asks {_list(wanted, lacking, profile)}, {told}."


def never_allowed(
    wanted: Slots, over: Sequence[str], limits: Limits, project: str | None = None
) -> str:
    """More than the owner or the project may hold, even with nothing else held."""
    whose = "your limit" if project is None else f"the limit of your project {project}"
    if tuple(over) == ("sessions",):
        return f"Never starts: {whose} is 0 sessions."
    most = Slots(**{name: getattr(limits, name) for name in over})
    has = _short(over[0], getattr(most, over[0])) if len(over) == 1 else _list(most, over)
    return f"Never fits: asks {_list(wanted, over)}, {whose} is {has}."
