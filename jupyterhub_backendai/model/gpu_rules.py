"""What a session may ask of GPUs: one kind, in the steps of the devices, of a profile there is.

What is accepted could be granted to the thousandth by at least one machine that may be chosen, if
nothing else were there; nothing is rounded.
"""

from __future__ import annotations

from dataclasses import replace

from . import gpu_words
from .catalog import Amounts, Preset, ResourceGroup
from .checks import Checks
from .errors import shown
from .gpus import GpuKind, Pool, pools
from .request import AgentFacts
from .slots import GPU_SLOTS, GpuSlot, Slots, format_slot, format_thousandths

_SLOTS: tuple[GpuSlot, ...] = ("fgpu", "gpu", "mig")


def kind_of(slot: GpuSlot, profile: str | None) -> GpuKind:
    """The kind that an amount of a slot is of; a profile is of MIG devices only."""
    return GpuKind(slot, profile if slot == "mig" else None)


def most_of_machine(agent: AgentFacts, slot: str, profile: str | None = None) -> int:
    """The most of a slot that one session could have there, if nothing else were there."""
    if slot not in _SLOTS or not agent.devices:
        return int(getattr(agent.capacity, slot))
    found = pools(kind_of(slot, profile), agent.devices)
    return max((pool.most for pool in found), default=0)


def least_gpus(minimum: Amounts, label: str) -> list[tuple[str, int, str]]:
    """The least of each kind of GPUs that is enough, and the sentence for less. Each is enough by
    itself, and so is any amount of a kind that is not named."""
    named = [(slot, getattr(minimum, slot)) for slot in GPU_SLOTS if getattr(minimum, slot)]
    if not named:
        return []
    enough = gpu_words.one_of(format_slot(slot, least) for slot, least in named)
    return [(slot, least, f"{label} needs at least {enough}.") for slot, least in named]


class GpuChecks(Checks):
    """The part of a request that is about GPUs."""

    def with_gpus(self, base: Slots) -> Slots:
        """`base` with the GPUs that are asked for: one kind takes the place of another."""
        asked = self.spec.resources
        given = {s: getattr(asked, s) for s in _SLOTS if getattr(asked, s) is not None}
        some = [slot for slot, amount in given.items() if amount]
        for slot in some[1:]:
            both = f"{gpu_words.TITLES[some[0]]} or {gpu_words.TITLES[slot]}"
            message = f"A session has GPUs of one kind: {both}. Leave one of them out."
            self.fail(f"resources.{slot}", "two_kinds", message)
        if some:
            given = dict.fromkeys(_SLOTS, 0) | {some[0]: given[some[0]]}
        return replace(base, **given)

    def mig_profile(
        self, slots: Slots, preset: Preset | None, group: ResourceGroup | None
    ) -> str | None:
        """Which MIG devices: those asked for, else the preset's, else the only ones there are."""
        asked, field = self.spec.resources, "resources.mig_profile"
        if not slots.mig:
            if asked.mig_profile and not asked.mig and self.readable("resources.mig"):
                message = "This says which MIG devices. Say in mig how many, such as 1."
                self.fail(field, "without_mig", message)
            return None
        wanted = asked.mig_profile or (preset.mig_profile if preset else None)
        found, problem = self.profile(wanted, group)
        if problem:
            self.fail(field, "unknown" if wanted else "missing", problem)
            return None  # then what there is of any
        return found

    def profile(self, wanted: str | None, group: ResourceGroup | None) -> tuple[str | None, str]:
        """A profile that there is, and what is wrong with what was asked for; empty: nothing."""
        there = [kind.profile for kind in self.kinds(group) if kind.profile is not None]
        if wanted is None:
            if len(there) > 1:
                return None, f"Say which MIG devices: {gpu_words.one_of(there)}."
            return next(iter(there), None), ""
        if there and wanted not in there:
            return wanted, f"There are no {shown(wanted)} here. Choose {gpu_words.one_of(there)}."
        return wanted, ""

    def kinds(self, group: ResourceGroup | None) -> list[GpuKind]:
        """The kinds of GPUs that the machines have which may be chosen."""
        machines = self.machines(group)
        found = {d.kind for agent in machines for d in agent.devices if d.capacity}
        found |= {
            GpuKind(slot)
            for agent in machines
            for slot in _SLOTS
            if getattr(agent.capacity, slot) and not agent.devices
        }
        return sorted(found, key=lambda kind: (_SLOTS.index(kind.slot), kind.profile or ""))

    def pools(self, kind: GpuKind, group: ResourceGroup | None) -> list[Pool] | None:
        """Devices of a kind that a session may have together; None where nobody knows."""
        machines = self.machines(group)
        if any(getattr(agent.capacity, kind.slot) and not agent.devices for agent in machines):
            return None
        return [pool for agent in machines for pool in pools(kind, agent.devices)]

    def steps_problem(self, slots: Slots, profile: str | None, group: ResourceGroup | None) -> str:
        """Why just this amount of GPUs can never be had, with what can; empty where it can, or
        where it is not for its steps that it cannot."""
        slot = next((slot for slot in _SLOTS if getattr(slots, slot)), None)
        if slot is None:
            return ""
        amount = int(getattr(slots, slot))
        spread = group.gpu_spread if group else "packed"
        there = self.pools(kind_of(slot, profile), group)
        if not there or any(pool.gives(amount, spread) for pool in there):
            return ""
        near = {other for pool in there for other in pool.nearest(amount, spread)}
        around = (
            max((n for n in near if n < amount), default=None),
            min((n for n in near if n > amount), default=None),
        )
        accepted = [format_thousandths(n) for n in around if n is not None]
        instead = f"ask for {gpu_words.one_of(accepted)}."
        steps = {pool.quantum for pool in there}
        title = gpu_words.TITLES[slot]
        if len(steps) == 1 and amount % (step := min(steps)):
            return f"{title} here comes in steps of {format_thousandths(step)}: {instead}"
        told = format_thousandths(amount)
        if spread == "even":
            return f"{told} {title} cannot be divided evenly among the GPUs here: {instead}"
        return f"{told} {title} is not in the steps of the GPUs here: {instead}"

    def usual_gpus(self, minimum: Amounts, group: ResourceGroup | None) -> dict[str, int]:
        """The GPUs of a session for which nothing is asked: the least that its environment needs,
        of the first kind that is there, and never less than that for the steps."""
        needed = [slot for slot in _SLOTS if getattr(minimum, slot)]
        there = {kind.slot for kind in self.kinds(group)}
        slot = next((slot for slot in needed if slot in there), next(iter(needed), None))
        if slot is None:
            return {}
        least = int(getattr(minimum, slot))
        spread = group.gpu_spread if group else "packed"
        found = self.pools(GpuKind(slot), group) or []
        if any(pool.gives(least, spread) for pool in found):
            return {slot: least}
        more = (n for pool in found for n in pool.nearest(least, spread) if n > least)
        return {slot: min(more, default=least)}

    def holds(
        self, agent: AgentFacts, slots: Slots, profile: str | None, group: ResourceGroup | None
    ) -> bool:
        """Whether this machine could run it with nothing else on it."""
        if not slots.fits(agent.capacity):
            return False
        slot = next((slot for slot in _SLOTS if getattr(slots, slot)), None)
        if slot is None or not agent.devices:
            return True
        spread = group.gpu_spread if group else "packed"
        amount = int(getattr(slots, slot))
        found = pools(kind_of(slot, profile), agent.devices)
        return any(pool.gives(amount, spread) for pool in found)
