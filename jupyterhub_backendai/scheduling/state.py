"""What a pass keeps track of while it decides: room by group, quotas by owner and project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Literal

from ..model.slots import Limits, Slots
from .placement import Amounts, Room, Skyline, amounts, machines_in_order, slots_of
from .quotas import Account, count
from .reasons import Machines
from .snapshot import Agent, GroupRule, Holding, Pending, Snapshot

Cause = Literal[
    "never", "dependency", "not_before", "no_agent", "owner", "project", "closed", "agent", "room",
]  # fmt: skip
"""What stopped a session, at the moment when its turn came."""


class Group:
    """One resource group during a pass. `closed`: nothing more starts here in this pass."""

    def __init__(self, rule: GroupRule, agents: list[Agent], taken: dict[str, Amounts]) -> None:
        self.rule = rule
        self.known = {agent.name: agent for agent in agents}
        if len(self.known) < len(agents):
            raise ValueError(f"two agents of {rule.name} have the same name")
        taking = [(agent.name, agent.capacity) for agent in agents if agent.takes_sessions]
        self.room = Room(machines_in_order(taking, taken, rule.selection))
        self.capacities = Skyline(m.capacity for m in self.room.machines.values())
        # Of an agent that never answered nobody knows what it has.
        self.all_known = all(agent.capacity != Slots() for agent in agents)
        self.all_capacities = Skyline(amounts(agent.capacity) for agent in agents)
        self.closed = False

    @cached_property
    def left_over(self) -> Skyline:
        """What is free on the machines. Ask only after the last decision of a pass."""
        machines = self.room.machines.values()
        return Skyline(_positive(machine.free) for machine in machines)

    @cached_property
    def summary(self) -> Machines:
        """All machines that take sessions, with what is free on them. After the last decision
        only."""
        return self._summary(with_fgpu=False)

    @cached_property
    def fgpu_summary(self) -> Machines:
        """The same of the machines that have FGPU."""
        return self._summary(with_fgpu=True)

    def _summary(self, with_fgpu: bool) -> Machines:
        machines = self.room.machines.values()
        some = [m for m in machines if m.capacity[0] > 0] if with_fgpu else list(machines)
        free = [_positive(machine.free) for machine in some]
        total = (sum(f[0] for f in free), sum(f[1] for f in free), sum(f[2] for f in free))
        most = Skyline(free).largest
        special = len(some) < len(machines)
        return Machines(self.rule.name, len(some), slots_of(total), slots_of(most), special)


class State:
    """Groups and accounts of one snapshot; built once, changed as sessions are placed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = snapshot.now
        self.groups = _groups(snapshot)
        self._owners = _accounts(
            snapshot, snapshot.owner_limits, lambda p: p.owner, lambda h: h.owner
        )
        self._projects = _accounts(
            snapshot, snapshot.project_limits, lambda p: p.project, lambda h: h.project
        )

    def owner(self, pending: Pending) -> Account | None:
        """The account of its owner; None without limits."""
        return self._owners.get(pending.owner)

    def project(self, pending: Pending) -> Account | None:
        """The account of its project; None without a project or without limits."""
        return None if pending.project is None else self._projects.get(pending.project)


def _positive(free: Amounts) -> Amounts:
    return (max(0, free[0]), max(0, free[1]), max(0, free[2]))


def _groups(snapshot: Snapshot) -> dict[str, Group]:
    taken: dict[str, Amounts] = {}
    for holding in snapshot.holdings:
        had, more = taken.get(holding.agent, (0, 0, 0)), amounts(holding.slots)
        taken[holding.agent] = (had[0] + more[0], had[1] + more[1], had[2] + more[2])
    agents: dict[str, list[Agent]] = {pending.group: [] for pending in snapshot.pending}
    for agent in snapshot.agents:
        if agent.group in agents:
            agents[agent.group].append(agent)
    return {
        name: Group(snapshot.rules.get(name) or GroupRule(name), some, taken)
        for name, some in agents.items()
    }


def _accounts(
    snapshot: Snapshot,
    limits: Mapping[str, Limits],
    of_pending: Callable[[Pending], str | None],
    of_holding: Callable[[Holding], str | None],
) -> dict[str, Account]:
    """Accounts of all who have limits and something pending, with what they hold entered."""
    held: dict[str, list[tuple[str, Slots]]] = {}
    for pending in snapshot.pending:
        name = of_pending(pending)
        if name is not None and name in limits:
            held[name] = []
    for holding in snapshot.holdings:
        name = of_holding(holding)
        if name is not None and name in held:
            held[name].append((holding.session_id, holding.slots))
    accounts = {}
    for name, allocations in held.items():
        accounts[name] = account = Account(limits[name])
        count(account, allocations)
    return accounts
