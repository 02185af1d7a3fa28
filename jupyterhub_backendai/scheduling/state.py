"""What a pass keeps track of while it decides: room by group, quotas by owner and project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

from ..model.gpus import GpuKind
from ..model.slots import Limits, Slots
from .gpu_room import Pool, Wanted, pools_of, slots_of, wanted_of
from .packing import Wish
from .placement import Amounts, Machine, Room, Skyline, amounts, machines_in_order
from .quotas import Account, count
from .reasons import Machines
from .snapshot import Agent, GroupRule, Holding, Pending, Snapshot

Cause = Literal[
    "never", "dependency", "not_before", "no_agent", "owner", "project", "closed", "agent", "room",
]  # fmt: skip
"""What stopped a session, at the moment when its turn came."""


class Taken:
    """What is held on machines: amounts by agent; of single GPUs by UUID, whichever agent offered
    them then; and by agent and slot where only amounts are known."""

    def __init__(self, holdings: Iterable[Holding]) -> None:
        self.amounts: dict[str, Amounts] = {}
        self._gpus: dict[str, int] = {}
        self._slots: dict[str, dict[str, int]] = {}
        for holding in holdings:
            had, more = self.amounts.get(holding.agent, (0, 0, 0)), amounts(holding.slots)
            self.amounts[holding.agent] = (had[0] + more[0], had[1] + more[1], had[2] + more[2])
            for uuid, amount in holding.devices:
                self._gpus[uuid] = self._gpus.get(uuid, 0) + amount
            if more[0] and not holding.devices:
                slots, slot = self._slots.setdefault(holding.agent, {}), holding.slots.gpu_slot
                slots[str(slot)] = slots.get(str(slot), 0) + more[0]

    def gpus_of(self, agent: str) -> Mapping[str, int]:
        """What is held of GPUs that this agent may offer."""
        slots = self._slots.get(agent)
        return self._gpus if slots is None else {**self._gpus, **slots}


class Group:
    """One resource group during a pass. `closed`: nothing more starts here in this pass."""

    def __init__(
        self,
        rule: GroupRule,
        agents: list[Agent],
        taken: Taken,
        wishes: Callable[[GpuKind], Sequence[Wish]],
    ) -> None:
        self.rule = rule
        self.known = {agent.name: agent for agent in agents}
        if len(self.known) < len(agents):
            raise ValueError(f"two agents of {rule.name} have the same name")
        self._pools = {a.name: pools_of(a, taken.gpus_of(a.name)) for a in agents}
        self._quanta = sorted({p.quantum for pools in self._pools.values() for p in pools})
        taking = [agent for agent in agents if agent.takes_sessions]
        machines = machines_in_order(taking, taken.amounts, self._pools, rule.selection)
        self.room = Room(machines, rule, wishes)
        # Of an agent that never answered nobody knows what it has.
        self.all_known = all(agent.capacity != Slots() for agent in agents)
        self._even = rule.gpu_spread == "even"
        self._capacities: dict[tuple[object, bool], Skyline] = {}
        self._left_over: dict[object, Skyline] = {}
        self._summaries: dict[object, Machines] = {}
        self.closed = False

    def capacities(self, wanted: Wanted, *, taking: bool) -> Skyline:
        """What such a session could have at most on each machine, if nothing else were there: of
        machines that take sessions now, or of all with all of their GPUs."""
        key = (self._alike(wanted), taking)
        found = self._capacities.get(key)
        if found is None:
            agents = [a for a in self.known.values() if a.takes_sessions or not taking]
            found = self._capacities[key] = Skyline(
                (gpu, agent.capacity.cpu, agent.capacity.mem)
                for agent in agents
                for gpu in self._mosts(agent.name, wanted, taking)
            )
        return found

    def _alike(self, wanted: Wanted) -> object:
        """Sessions for which one answer about GPUs holds: those whose amounts are in the steps of
        the same GPUs. Equal shares of several are there or not for each amount by itself: 1.5 may
        be had of two, and 1.4 not."""
        if self._even:
            return (wanted.kind, wanted.gpu)
        return (wanted.kind, *(wanted.gpu % quantum == 0 for quantum in self._quanta))

    def _mosts(self, agent: str, wanted: Wanted, taking: bool) -> Iterable[int]:
        kind = wanted.kind
        if kind is None:
            return (0,)
        some = [
            (pool, (pool.whole,) * (len(pool.free) if taking else pool.count))
            for pool in self._pools[agent]
            if pool.admits(kind)
        ]
        return [pool.most(wanted.gpu, self._even, free) for pool, free in some] or (0,)

    def could_hold(self, agent: Agent, wanted: Wanted) -> bool:
        """Whether this machine could hold it with nothing else on it, and all of its GPUs there."""
        if wanted.cpu > agent.capacity.cpu or wanted.mem > agent.capacity.mem:
            return False
        return any(gpu >= wanted.gpu for gpu in self._mosts(agent.name, wanted, taking=False))

    def free_on(self, machine: Machine, wanted: Wanted) -> Amounts:
        """What such a session could have there now, at most."""
        return _positive((max(self._frees(machine, wanted)), machine.free[1], machine.free[2]))

    def left_over(self, wanted: Wanted) -> Skyline:
        """What such a session could have of what is free on the machines. Ask only after the last
        decision of a pass."""
        found = self._left_over.get(self._alike(wanted))
        if found is None:
            found = self._left_over[self._alike(wanted)] = Skyline(
                _positive((gpu, machine.free[1], machine.free[2]))
                for machine in self.room.machines.values()
                for gpu in self._frees(machine, wanted)
            )
        return found

    def _frees(self, machine: Machine, wanted: Wanted) -> Iterable[int]:
        some = [pool for pool in machine.pools if _is_of(pool, wanted.kind)]
        return [pool.most(wanted.gpu, self._even, pool.all_free) for pool in some] or (0,)

    def summary(self, wanted: Wanted) -> Machines:
        """All machines that take sessions, or those of them with GPUs of that kind, and what is
        free on them. After the last decision only."""
        found = self._summaries.get(self._alike(wanted))
        if found is None:
            found = self._summaries[self._alike(wanted)] = self._summary(wanted)
        return found

    def _summary(self, wanted: Wanted) -> Machines:
        machines, kind = list(self.room.machines.values()), wanted.kind
        some = machines
        if kind is not None:
            some = [m for m in machines if any(_is_of(pool, kind) for pool in m.pools)]
        free = [_positive(machine.free) for machine in some]
        gpus = [
            [has for pool in machine.pools if _is_of(pool, kind) for has in pool.free.values()]
            for machine in some
        ]
        total = (
            sum(max(0, has) for of_one in gpus for has in of_one),
            sum(f[1] for f in free), sum(f[2] for f in free),
        )  # fmt: skip
        best = max((has for of_one in gpus for has in of_one), default=0)
        most = Skyline(
            (gpu, f[1], f[2])
            for machine, f in zip(some, free, strict=True)
            for gpu in self._frees(machine, wanted)
        ).largest
        return Machines(
            group=self.rule.name,
            count=len(some),
            total=slots_of(Wanted(*total, kind)),
            most=slots_of(Wanted(*most, kind)),
            gpus=kind.slot if kind is not None and len(some) < len(machines) else None,
            on_one=slots_of(Wanted(max(0, best), 0, 0, kind)),
            even=self._even,
        )


def _is_of(pool: Pool, kind: GpuKind | None) -> bool:
    return kind is not None and bool(pool.free) and pool.admits(kind)


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
    taken = Taken(snapshot.holdings)
    agents: dict[str, list[Agent]] = {pending.group: [] for pending in snapshot.pending}
    for agent in snapshot.agents:
        if agent.group in agents:
            agents[agent.group].append(agent)
    return {
        name: Group(
            snapshot.rules.get(name) or GroupRule(name),
            some,
            taken,
            partial(_wishes, snapshot, name),
        )
        for name, some in agents.items()
    }


def _wishes(snapshot: Snapshot, group: str, kind: GpuKind) -> list[Wish]:
    """What sessions of this kind ask that run or wait in the group."""
    some = [
        *(wanted_of(one.slots, one.profile) for one in snapshot.pending if one.group == group),
        *(wanted_of(one.slots, one.profile) for one in snapshot.holdings if one.group == group),
    ]
    return [Wish(w.cpu, w.mem, w.gpu) for w in some if w.kind == kind]


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
