"""What is done where database, Hub and engine say different things of a session: a rule for each.

The first rule that applies is followed; where none does, they agree. The table of the docs is made
from this one. Only what carries our hub's label is ever looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ..model.status import IN_LINE, ON_THE_WAY, Status


class Driver(Enum):
    """Who works on a session."""

    NOBODY = "nobody"
    START = "a start of this Hub"
    FORGOTTEN = "this Hub, but no start of it"
    DEAD = "a Hub that is gone"


class Action(Enum):
    """What a rule does. RELEASE: it is nobody's, and goes on waiting. RETRY: what is there of it is
    removed, and it is in line again. END: it is ended. FINISH: its end is gone on with. REMOVE:
    what the engine has is removed. STOP: the Hub is to stop the server. REST: it is hibernated.
    EXPIRE: it is not kept for ever. LEAVE: nothing."""

    RELEASE = "release"
    RETRY = "retry"
    END = "end"
    FINISH = "finish"
    REMOVE = "remove"
    STOP = "stop"
    REST = "rest"
    EXPIRE = "expire"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Sight:
    """A session as it is seen; None where nobody looked. `status` None: there is no live one.

    `settled`: its status is half a minute old, so that no step is just being taken. `first`: the
    first look of this Hub, at what another left. `queue`: the service is on. `answers`, `known`:
    its agent does, is. `container`: one of it runs (or, of no live one, is there). `server`: the
    Hub has it active. `owner`: the Hub knows its owner. `kept`: its home and image are to stay.
    `to_rest`: it is being hibernated, or that came to nothing.
    """

    status: Status | None
    driver: Driver = Driver.NOBODY
    settled: bool = True
    first: bool = False
    queue: bool = True
    answers: bool = True
    known: bool = True
    container: bool | None = None
    server: bool | None = None
    owner: bool | None = None
    kept: bool | None = None
    to_rest: bool | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One disagreement. `database`, `others`, `then` are the words of the table; `code` and
    `reason` go to the history, and to the owner where it ends."""

    database: str
    others: str
    then: str
    action: Action
    applies: Callable[[Sight], bool]
    code: str = ""
    reason: str = ""


OTHER_OWNER = (
    "It was hibernated before there was this account, so it may be of somebody else of that name. "
    "It rests again. An admin can resume it for its owner."
)
OWNER_GONE = "The Hub does not know its owner any more."
GONE_MACHINE = "Its machine is not part of this site any more. Start it again elsewhere."
_MAKING = ON_THE_WAY - IN_LINE


def _abandoned(seen: Sight) -> bool:
    """Nobody starts it any more who should."""
    dead = seen.driver in {Driver.DEAD, Driver.NOBODY}
    return dead or (seen.driver is Driver.FORGOTTEN and seen.settled)


RULES: tuple[Rule, ...] = (
    Rule(
        "PENDING, SCHEDULED, nobody's", "the Hub does not know its owner any more",
        "CANCELLED: an account of that name that is made later has no part in it", Action.END,
        lambda s: s.status in IN_LINE and s.driver is Driver.NOBODY and s.owner is False,
        "owner_gone", OWNER_GONE,
    ),
    Rule(
        "PENDING, SCHEDULED, nobody's", "service on", "left as it is: the service starts it",
        Action.LEAVE,
        lambda s: s.status in IN_LINE and s.queue and s.driver is Driver.NOBODY,
    ),
    Rule(
        "PENDING, SCHEDULED, of a start that is gone", "service on",
        "nobody's: it keeps its place, and the service starts it", Action.RELEASE,
        lambda s: s.status in IN_LINE and s.queue and _abandoned(s),
        "hub_restarted", "The Hub was restarted. It stays in line and starts by itself.",
    ),
    Rule(
        "PENDING, SCHEDULED, of a start that is gone", "service off",
        "CANCELLED: it must be started again", Action.END,
        lambda s: s.status in IN_LINE and _abandoned(s),
        "hub_restarted", "The Hub was restarted while this session was in line. Start it again.",
    ),
    Rule(
        "PREPARING … TERMINATING", "its agent does not answer", "left as it is, tried again",
        Action.LEAVE,
        lambda s: s.status is not None and s.status not in IN_LINE and s.known and not s.answers,
    ),
    Rule(
        "PREPARING … CREATING, of a start that is gone", "service on; anything on its agent",
        "removed, and PENDING again; after five tries ERROR", Action.RETRY,
        lambda s: s.status in _MAKING and s.queue and _abandoned(s),
        "hub_restarted", "The Hub was restarted while it started. It is tried again.",
    ),
    Rule(
        "PREPARING … CREATING, of a start that is gone", "service off; anything on its agent",
        "removed, ERROR", Action.END,
        lambda s: s.status in _MAKING and _abandoned(s),
        "hub_restarted",
        "The Hub was restarted while this session was starting. Start it again.",
    ),
    Rule(
        "RUNNING", "its agent is not configured any more", "removed wherever it is, TERMINATED",
        Action.END,
        lambda s: s.status is Status.RUNNING and not s.known,
        "container_gone", GONE_MACHINE,
    ),
    Rule(
        # Not at once: what the engine says may be older than the session's container.
        "RUNNING for half a minute, or since before this Hub", "no running container",
        "its outcome and log are saved; removed, TERMINATED", Action.END,
        lambda s: s.status is Status.RUNNING and s.container is False and (s.settled or s.first),
        "container_gone", "Its container was not running any more. Start it again.",
    ),
    Rule(
        # Its server may have been stopped, also by a culler, while it stood still for its image.
        "RUNNING for half a minute, and hibernating it came to nothing",
        "the Hub has no such server", "hibernated, again every ten minutes until it is",
        Action.REST,
        lambda s: s.status is Status.RUNNING and s.server is False and s.settled
        and s.to_rest is True,
        "not_in_hub", "The Hub does not know its server any more, so it was hibernated.",
    ),
    Rule(
        "RUNNING for half a minute", "the Hub has no such server (service off: for a minute)",
        "its log is saved; removed, TERMINATED", Action.END,
        lambda s: s.status is Status.RUNNING and s.server is False and s.settled,
        "not_in_hub", "The Hub does not know its server any more. Start it again.",
    ),
    Rule(
        "TERMINATING for half a minute, or since before this Hub", "anything",
        "saved and removed, TERMINATED or ERROR by its reason", Action.FINISH,
        lambda s: s.status is Status.TERMINATING and (s.settled or s.first),
    ),
    Rule(
        "HIBERNATED, and not kept any more", "its home", "removed, TERMINATED", Action.FINISH,
        lambda s: s.status is Status.HIBERNATED and s.kept is False,
    ),
    Rule(
        "HIBERNATED, without an end", "the Hub does not know its owner any more",
        "dropped in 14 days, unless the Hub knows them by then", Action.EXPIRE,
        lambda s: s.status is Status.HIBERNATED and s.owner is False,
        "owner_gone", f"{OWNER_GONE} It is dropped in 14 days.",
    ),
    Rule(
        "no live session", "a container or a home (volume) with our hub's label", "removed",
        Action.REMOVE,
        lambda s: s.status is None and s.container is True,
    ),
    Rule(
        "no live session, but one that is over", "the Hub has its server active",
        "the Hub is told to stop it", Action.STOP,
        lambda s: s.status is None and s.server is True and s.settled,
    ),
)  # fmt: skip


def rule_for(seen: Sight) -> Rule | None:
    """What is to be done; None where all agree."""
    return next((rule for rule in RULES if rule.applies(seen)), None)
