"""For the admin: agents with what is taken and by whom, resource groups, and the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...model.catalog import ResourceGroup
from ...model.slots import SLOT_NAMES, Slots
from ...model.status import Status
from ...scheduling.snapshot import Snapshot
from ...site.clock import utcnow
from ...store import AgentState, Filter, Session
from ..auth import DELETE, READ, START
from ..base import Refused
from ..owners import EVERYBODY
from .base import Page
from .sessions import environment_of, slot_bar

PARTS = {"site": "backendai/pages/admin_site.html"}
MOST_WAITING = 100  # of one resource group that are shown; the list of sessions has them all


@dataclass(frozen=True)
class AgentView:
    """An agent, what is taken of it, and by which sessions."""

    state: AgentState
    used: Slots
    sessions: list[Session]

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
    waiting: list[Session]
    in_line: int


class AdminPage(Page):
    """The site at one look, for whoever may see everybody's sessions."""

    async def get(self) -> None:
        if not self.caller.may_all(READ):
            raise Refused(403, "not_yours", "This page is for admins.")
        site = self.site
        snapshot = await site.db(site.store.snapshot, site.policies, site.catalog, utcnow())
        agents = await site.db(site.store.agents)
        held = {holding.session_id for holding in snapshot.holdings}
        sessions = await site.db(site.store.get_many, sorted(held))
        groups = [
            await self._group(group, agents, snapshot, sessions)
            for group in site.catalog.resource_groups
        ]
        self.write_page(
            "backendai/pages/admin.html", PARTS,
            groups=groups, events=EVERYBODY, environment_of=environment_of(site),
            may_move=self.caller.may_all(START), can_end=self.caller.may_all(DELETE),
        )  # fmt: skip

    async def _group(
        self,
        group: ResourceGroup,
        agents: list[AgentState],
        snapshot: Snapshot,
        sessions: Mapping[str, Session],
    ) -> GroupView:
        wanted = Filter(statuses={Status.PENDING}, resource_group=group.name)
        waiting, in_line = await self.site.db(
            self.site.store.list_sessions, wanted, order="position", descending=False,
            limit=MOST_WAITING,
        )  # fmt: skip
        views = [_agent(agent, snapshot, sessions) for agent in agents if agent.group == group.name]
        return GroupView(group, views, waiting, in_line)


def _agent(state: AgentState, snapshot: Snapshot, sessions: Mapping[str, Session]) -> AgentView:
    there = [holding for holding in snapshot.holdings if holding.agent == state.name]
    used = sum((holding.slots for holding in there), Slots())
    ids = dict.fromkeys(holding.session_id for holding in there)
    return AgentView(state, used, [sessions[each] for each in ids if each in sessions])
