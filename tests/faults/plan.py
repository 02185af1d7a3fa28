"""What happens in a schedule of faults that runs for real: all of it comes from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from .schedule import FAULTS, KILLS, OWNERS, SESSIONS

# Status changes between two faults, at most. A start is six of them, eight go on at once, and most
# of them begin anew where the Hub is killed: with less between two, nothing would come to an end.
APART = 18
# In the environment of a session's container: a folder of the machine that all sessions see.
WITNESS = '"/witness/$BACKENDAI_SESSION_ID"'


@dataclass(frozen=True)
class Wish:
    """What one person does: a launch, by the service or a page of the Hub, and maybe an end.

    `exit_code` is that of its command. `ends`: "call", "force" or "page", or "" where it is left
    alone; `when`: at once, or when it runs.
    """

    name: str
    owner: str
    options: dict[str, Any]
    exit_code: int | None = None
    by_page: bool = False
    ends: str = ""
    when: str = "at once"

    @property
    def names(self) -> list[str]:
        """Of its sessions."""
        count = self.options.get("count", 1)
        return [self.name] if count == 1 else [f"{self.name}-{n}" for n in range(1, count + 1)]


@dataclass(frozen=True)
class Fault:
    """`kills` are killed once sessions have changed their status so many times in all, or when
    nobody does anything any more."""

    at: int
    kills: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """One schedule."""

    wishes: list[Wish]
    faults: list[Fault]


def plan(seed: int) -> Plan:
    """The schedule of a seed."""
    dice = random.Random(seed)
    wishes: list[Wish] = []
    while (number := sum(len(wish.names) for wish in wishes)) < SESSIONS:
        wishes.append(_wish(dice, f"{seed}-{number}", wishes, SESSIONS - number))
    faults: list[Fault] = []
    for _ in range(FAULTS):
        at = (faults[-1].at if faults else 0) + dice.randint(1, APART)
        faults.append(Fault(at, dice.choice(KILLS)))
    return Plan(wishes, faults)


def _wish(dice: random.Random, number: str, before: list[Wish], left: int) -> Wish:
    owner, name = dice.choice(OWNERS), f"work-{number}"
    options: dict[str, Any] = {"name": name}
    options["resources"] = {"cpu": dice.choice((0.4, 0.5)), "mem": "256m"}
    if dice.random() < 0.25:
        ends, when = dice.choice(("", "call", "call", "page", "force")), dice.choice(WHEN)
        return Wish(name, owner, options, by_page=dice.random() < 0.5, ends=ends, when=when)
    code, seconds = dice.choice((0, 0, 0, 3, 127)), round(dice.uniform(0, 3), 1)
    command = f"echo began >>{WITNESS}; sleep {seconds}; echo once; echo ended >>{WITNESS}"
    options |= {"type": "batch", "batch": {"command": f"{command}; exit {code}"}}
    if dice.random() < 0.15 and left > 2:
        options["count"] = dice.randint(2, 3)
    earlier = [wish.names[0] for wish in before if wish.owner == owner and wish.exit_code == 0]
    if earlier and dice.random() < 0.25:
        options["depends_on"] = [dice.choice(earlier)]
    ends = dice.choice(("", "", "", "call", "force"))
    return Wish(name, owner, options, code, ends=ends, when=dice.choice(WHEN))


WHEN = ("at once", "running", "running")
