"""The GPUs of a resource group as the options form and the API tell them: each kind, in which
steps, how much of it, and how hard a share is held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

from ..model import gpu_words
from ..model.catalog import Preset, ResourceGroup, Spread
from ..model.gpus import STRENGTH, Enforcement, GpuDevice, GpuKind, Hold, even_parts
from ..model.request import AgentFacts
from ..model.slots import GPU_SLOTS, Slots, format_thousandths
from ..scheduling.fgpu import grant
from ..scheduling.gpu_room import most_packed

Json = dict[str, Any]
FreeOf = Mapping[str, Mapping[str, int]]
"""By agent, by UUID: what nobody holds of a device, in thousandths of its slot. A device that is
not named has all that it has."""

Best = tuple[GpuKind, int]
"""A kind, and the most of it that one session could be given now."""

MOST_TYPES = 3  # of devices of one kind, whose memory is told


@dataclass(frozen=True)
class GroupGpus:
    """The GPUs of some agents. `free`: what is free on those that take sessions now; `free_of`:
    the same device by device, None where that is not known."""

    group: ResourceGroup
    agents: Sequence[AgentFacts]
    free: Mapping[str, Slots]
    free_of: FreeOf | None = None

    @cached_property
    def kinds(self) -> dict[GpuKind, list[GpuDevice]]:
        """The devices of each kind; none where only their number is known."""
        found: defaultdict[GpuKind, list[GpuDevice]] = defaultdict(list)
        for agent in self.agents:
            for device in agent.devices:
                if device.capacity:  # else its size is not known
                    found[device.kind].append(device)
            for slot in GPU_SLOTS:
                if getattr(agent.capacity, slot) and not agent.devices:
                    found[GpuKind(slot)]
        order = sorted(found, key=lambda kind: (GPU_SLOTS.index(kind.slot), kind.profile or ""))
        return {kind: found[kind] for kind in order}

    def best(self, name: str | None = None) -> list[Best]:
        """The most of each kind that one session could be given now, on one machine, or on the
        agent of that name; where only sums are known by those."""
        agents = [a for a in self.agents if a.name in self.free and name in (None, a.name)]
        return [(kind, max((self._now(a, kind) for a in agents), default=0)) for kind in self.kinds]

    def _now(self, agent: AgentFacts, kind: GpuKind) -> int:
        if self.free_of is None or not agent.devices:
            return int(getattr(self.free[agent.name], kind.slot))
        free = self.free_of.get(agent.name, {})
        alike: defaultdict[tuple[object, int, int], list[int]] = defaultdict(list)
        for d in agent.devices:
            if d.available and kind.admits(d):
                left = free.get(d.uuid, d.capacity)
                alike[d.type, d.capacity, d.quantum].append(left - left % d.quantum)
        found = (
            most_now(parts, capacity, self.group.gpu_spread, quantum)
            for (_, capacity, quantum), parts in alike.items()
        )
        return max(found, default=0)

    def _free(self, kind: GpuKind) -> tuple[int | None, int | None]:
        """What is free of a kind in all, and the most on one device; None where not known."""
        if self.free_of is None:
            known = kind.profile is None
            total = sum(int(getattr(free, kind.slot)) for free in self.free.values())
            return (total if known else None), None
        parts = [
            self.free_of.get(agent.name, {}).get(device.uuid, device.capacity)
            for agent in self.agents
            if agent.name in self.free
            for device in agent.devices
            if device.available and kind.admits(device)
        ]
        return sum(parts), max(parts, default=0)

    def told(
        self, most: Mapping[GpuKind, int], left: Mapping[str, int | None], presets: Iterable[Preset]
    ) -> list[Json]:
        """Each kind, for the form and the API. `most` of one session, `left` to the user by slot;
        what an amount means is told of one unit and of what presets have."""
        best = dict(self.best())
        amounts: defaultdict[str, set[int]] = defaultdict(lambda: {1000})
        for preset in presets:
            for slot in GPU_SLOTS:
                amounts[slot].add(getattr(preset, slot))
        found = []
        for kind, devices in self.kinds.items():
            total, largest = self._free(kind)
            found.append(
                {
                    "slot": kind.slot,
                    "profile": kind.profile,
                    "title": gpu_words.title([kind]),
                    "limits": {"most": most[kind], "left": left[kind.slot], "free": best[kind]},
                    "capacity": self._capacity(kind, devices),
                    "free": total,
                    "largest_free": largest,
                    **_steps(kind, devices),
                    **_held(devices),
                    "means": _means(devices, amounts[kind.slot]),
                    "types": _types(devices),
                }
            )
        return found

    def _capacity(self, kind: GpuKind, devices: Sequence[GpuDevice]) -> int:
        if devices:
            return sum(device.capacity for device in devices)
        return sum(int(getattr(agent.capacity, kind.slot)) for agent in self.agents)


def most_now(free: Sequence[int], capacity: int, spread: Spread, quantum: int = 1) -> int:
    """The most that one session could have of devices that are alike, with so much free of each.
    In equal shares: as much as that whatever is less can be had as well."""
    if spread == "packed":
        return most_packed(sorted(free), capacity)
    parts = sorted(free, reverse=True)
    best = parts[0] if parts else 0
    if best < capacity:
        return best
    for amount in range(capacity + quantum, capacity * len(parts) + 1, quantum):
        ways = list(even_parts(amount, capacity, quantum, len(parts)))
        if any(parts[number - 1] >= part for number, part in ways):
            best = amount
        elif ways:
            break
    return best


def weakest(devices: Iterable[GpuDevice]) -> Enforcement:
    """What can be relied on whichever of these a session gets."""

    def least(of: str) -> Hold:
        return min((getattr(d.enforcement, of) for d in devices), key=STRENGTH.__getitem__)

    devices = list(devices)
    return Enforcement(memory=least("memory"), compute=least("compute"), faults=least("faults"))


def _steps(kind: GpuKind, devices: Sequence[GpuDevice]) -> Json:
    if not devices:
        return {"quantum": None, "steps": ""}
    step = gcd(*(device.quantum for device in devices))
    text = (
        f"{gpu_words.title([GpuKind(kind.slot)])} here: a multiple of {format_thousandths(step)}."
    )
    return {"quantum": step, "steps": text}


def _held(devices: Sequence[GpuDevice]) -> Json:
    if not devices:
        return {
            "enforcement": None, "verified": False, "label": "", "providers": [],
            "simulated": False,
        }  # fmt: skip
    enforcement, verified = weakest(devices), all(device.verified for device in devices)
    return {
        "enforcement": enforcement.model_dump(),
        "verified": verified,
        "label": gpu_words.held(enforcement, verified, all(d.simulated for d in devices)),
        "providers": sorted({device.provider for device in devices}),
        "simulated": any(device.simulated for device in devices),
    }


def _types(devices: Sequence[GpuDevice]) -> list[Json]:
    """Devices that are alike in all that a user is told, and how many of them there are."""
    alike: dict[tuple[object, ...], Json] = {}
    for device in devices:
        told: Json = {
            "name": device.name,
            "provider": device.provider,
            "capacity": device.capacity,
            "quantum": device.quantum,
            "memory": device.memory,
            "enforcement": device.enforcement.model_dump(),
            "verified": device.verified,
            "simulated": device.simulated,
        }
        key = (*device.type, device.quantum, device.memory, device.enforcement, device.verified)
        alike.setdefault(tuple(map(str, key)), told | {"count": 0})["count"] += 1
    return list(alike.values())


def _means(devices: Sequence[GpuDevice], amounts: Iterable[int]) -> dict[str, str]:
    """What an amount on one device is, by the amount (as text, for JSON has no other keys); of each
    type that there is."""
    one_each = {(device.type, device.memory): device for device in devices}
    found = {}
    for amount in sorted(filter(None, amounts)):
        texts = [
            gpu_words.means(grant(device, amount))
            for device in list(one_each.values())[:MOST_TYPES]
            if amount <= device.capacity
        ]
        if text := "; ".join(dict.fromkeys(filter(None, texts))):
            found[str(amount)] = f"{text}."
    return found
