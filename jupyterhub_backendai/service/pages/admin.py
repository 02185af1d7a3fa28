"""For the admin: agents with what is taken and by whom, resource groups, and the line."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import ConfigDict, Field

from ...model.catalog import ResourceGroup
from ...model.slots import SLOT_NAMES
from ...model.status import Status
from ...site.clock import utcnow
from ...store import AgentState, Filter, Session
from ..agents import DeviceRow, Load, device_rows, loads
from ..apps import OpenWayRow
from ..auth import DELETE, READ, START
from ..base import Refused
from ..holders import holders
from ..opening import addresses_for
from ..owners import EVERYBODY
from ..schemas import Part
from .base import Page
from .sessions import slot_bar
from .words import Tag, session_to

PARTS = {"site": "backendai/pages/admin_site.html"}
# What is shown of all lines together, and of what is held on all agents together; the list of
# sessions has them all. The more agents there are the less it is, so that the page stays light.
MOST_WAITING, LEAST_WAITING = 35, 10
MOST_HELD = 60
MOST_OWNERS = 3  # that are named of those whose sessions are not shown
MOST_WAYS = 50  # apps that are open to others, oldest first
MOST_AGENTS = 60  # of one resource group
RULES = {  # of a group's line, and of where what is in it goes
    "backfill": "Who fits may go before who does not fit yet.",
    "strict": "Nobody goes before the first in line.",
    "concentrated": "One agent is filled after the other.",
    "dispersed": "Sessions are spread over the agents.",
}
STALE = timedelta(minutes=1)  # since an agent was seen; less than that is now


@dataclass(frozen=True)
class AgentView:
    """An agent, what is taken of it, and by which sessions."""

    state: AgentState
    load: Load
    sessions: list[Session]
    last: bool  # whether no other of its group takes sessions

    @property
    def left(self) -> int:
        """How many sessions have something there."""
        return len(self.load.sessions)

    @property
    def devices(self) -> list[DeviceRow]:
        """Its GPUs and MIG devices."""
        return device_rows(self.state, self.load)

    @property
    def stale(self) -> bool:
        """Whether what is told of it may be over."""
        return not self.state.available or utcnow() - self.state.seen_at > STALE

    @property
    def others(self) -> list[tuple[str, int]]:
        """Whose sessions there are not shown, and how many: those who have most, and what the
        rest have, of nobody's name."""
        owners = Counter(self.load.sessions.values())
        owners.subtract(session.owner for session in self.sessions)
        most = [(owner, count) for owner, count in owners.most_common() if count > 0]
        rest = sum(count for _, count in most[MOST_OWNERS:])
        return [*most[:MOST_OWNERS], *([("", rest)] if rest else [])]

    @property
    def drained(self) -> Tag | None:
        """How far it is drained; None where it takes sessions."""
        if self.state.schedulable:
            return None
        if not self.left:
            return Tag("Drained — nothing runs here", "circle-pause", "")
        left = "1 session left" if self.left == 1 else f"{self.left} sessions left"
        return Tag(f"Draining — {left}", "arrow-right-from-bracket", "warn")

    @property
    def bars(self) -> list[dict[str, Any]]:
        """What is taken, slot by slot."""
        return [
            slot_bar(
                name, getattr(self.load.used, name), getattr(self.state.capacity, name), "free"
            )
            for name in SLOT_NAMES
            if getattr(self.state.capacity, name)
        ]


@dataclass(frozen=True)
class GroupView:
    """A resource group with its agents and its line."""

    group: ResourceGroup
    agents: list[AgentView]
    more: int  # agents that are not shown
    waiting: list[Session]
    in_line: int

    @property
    def rules(self) -> str:
        """How its line goes, and where."""
        return f"{RULES[self.group.queue]} {RULES[self.group.selection]}"


class AdminQuery(Part):
    """Which agents the page shows."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # the Hub may add what it likes

    agent: str = Field(default="", max_length=255)  # a part of their names


class AdminPage(Page):
    """The site at one look, for whoever may see everybody's sessions."""

    async def get(self) -> None:
        if not self.caller.may_all(READ):
            raise Refused(403, "not_yours", "This page is for admins.")
        wanted = self.read_query(AdminQuery).agent
        db, store, groups = self.site.db, self.site.store, self.site.catalog.resource_groups
        waiting = asyncio.gather(*(self._waiting(group) for group in groups))
        agents, holdings, lines, ways, who = await asyncio.gather(
            db(store.agents), db(store.holdings), waiting, db(store.open_ways),
            holders(self.service),
        )  # fmt: skip
        named = [agent for agent in agents if wanted in agent.name]
        rows = fair(
            [len(line) for line, _ in lines],
            max(LEAST_WAITING, MOST_WAITING - len(named) // 2),
        )
        there = loads(agents, holdings, who)
        each = max(0, MOST_HELD // max(1, len(named)) - 1)
        shown = {agent.name: list(there[agent.name].sessions)[:each] for agent in named}
        sessions = await db(store.get_many, [id for ids in shown.values() for id in ids])
        taking = Counter(agent.group for agent in agents if agent.available and agent.schedulable)

        def view(agent: AgentState) -> AgentView:
            known = [sessions[id] for id in shown[agent.name] if id in sessions]
            last = taking[agent.group] == (agent.available and agent.schedulable)
            return AgentView(agent, there[agent.name], known, last)

        views = []
        for group, (line, in_line), some in zip(groups, lines, rows, strict=True):
            mine = [agent for agent in named if agent.group == group.name]
            first = [view(agent) for agent in mine[:MOST_AGENTS]]
            views.append(GroupView(group, first, len(mine) - len(first), line[:some], in_line))
        self.write_page(
            "backendai/pages/admin.html", PARTS,
            groups=views, events=EVERYBODY, wanted=wanted,
            finds=bool(wanted) or any(view.more for view in views),
            ways=[OpenWayRow.of_all(one, addresses_for(self)) for one in ways[:MOST_WAYS]],
            more_ways=max(0, len(ways) - MOST_WAYS),
            may_order=self.caller.may_all(START), can_end=self.caller.may_all(DELETE),
        )  # fmt: skip

    async def _waiting(self, group: ResourceGroup) -> tuple[list[Session], int]:
        """The first of a group's line, and how many are in it."""
        line, in_line = await self.site.db(
            self.site.store.list_sessions,
            Filter(statuses={Status.PENDING}, resource_group=group.name),
            order="position", descending=False, limit=MOST_WAITING,
        )  # fmt: skip
        return [session_to(self.caller.name, session) for session in line], in_line


def fair(wanted: Sequence[int], most: int) -> list[int]:
    """How much of `most` each gets who wants so much: alike, but that nobody gets more than wanted
    and what one does not want is for the others."""
    given = [0] * len(wanted)
    smallest_first = sorted(range(len(wanted)), key=wanted.__getitem__)
    for number, place in enumerate(smallest_first):
        given[place] = min(wanted[place], (most - sum(given)) // (len(wanted) - number))
    return given
