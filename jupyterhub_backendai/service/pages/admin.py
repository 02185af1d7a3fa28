"""For the admin: agents with what is taken and by whom, resource groups, and the line."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from ...model.catalog import ResourceGroup
from ...model.slots import SLOT_NAMES, Slots
from ...model.status import Status
from ...store import AgentState, Filter, Session
from ..auth import DELETE, READ, START
from ..base import Refused
from ..owners import EVERYBODY
from .base import Page
from .sessions import slot_bar

PARTS = {"site": "backendai/pages/admin_site.html"}
MOST_WAITING = 50  # of one resource group that are shown; the list of sessions has them all
MOST_HELD, LEAST_HELD = 120, 3  # sessions that are shown of all agents, and of each in any case
MOST_AGENTS = 60  # of one resource group


@dataclass(frozen=True)
class AgentView:
    """An agent, what is taken of it, and by which sessions."""

    state: AgentState
    used: Slots
    sessions: list[Session]
    more: int  # sessions there that are not shown

    @property
    def bars(self) -> list[dict[str, Any]]:
        """What is taken, slot by slot."""
        return [
            slot_bar(name, getattr(self.used, name), getattr(self.state.capacity, name), "free")
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


class AdminPage(Page):
    """The site at one look, for whoever may see everybody's sessions."""

    async def get(self) -> None:
        if not self.caller.may_all(READ):
            raise Refused(403, "not_yours", "This page is for admins.")
        db, store, groups = self.site.db, self.site.store, self.site.catalog.resource_groups
        waiting = asyncio.gather(*(self._waiting(group) for group in groups))
        agents, holdings, lines = await asyncio.gather(
            db(store.agents), db(store.holdings), waiting
        )
        there: dict[str, dict[str, None]] = {agent.name: {} for agent in agents}
        used = dict.fromkeys(there, Slots())
        for holding in reversed(holdings):  # the newest first
            if holding.agent in there:
                there[holding.agent][holding.session_id] = None
                used[holding.agent] += holding.slots
        each = max(LEAST_HELD, MOST_HELD // max(1, len(agents)))
        shown = {name: list(ids)[:each] for name, ids in there.items()}
        sessions = await db(store.get_many, [id for ids in shown.values() for id in ids])

        def view(agent: AgentState) -> AgentView:
            known = [sessions[id] for id in shown[agent.name] if id in sessions]
            more = len(there[agent.name]) - len(known)
            return AgentView(agent, used[agent.name], known, more)

        views = []
        for group, (line, in_line) in zip(groups, lines, strict=True):
            mine = [agent for agent in agents if agent.group == group.name]
            first = [view(agent) for agent in mine[:MOST_AGENTS]]
            views.append(GroupView(group, first, len(mine) - len(first), line, in_line))
        self.write_page(
            "backendai/pages/admin.html", PARTS,
            groups=views, events=EVERYBODY,
            may_move=self.caller.may_all(START), can_end=self.caller.may_all(DELETE),
        )  # fmt: skip

    async def _waiting(self, group: ResourceGroup) -> tuple[list[Session], int]:
        """The first of a group's line, and how many are in it."""
        return await self.site.db(
            self.site.store.list_sessions,
            Filter(statuses={Status.PENDING}, resource_group=group.name),
            order="position", descending=False, limit=MOST_WAITING,
        )  # fmt: skip
