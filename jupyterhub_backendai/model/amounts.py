"""How much a session gets: preset, single amounts, shared memory, and every bound on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from . import gpu_words
from .catalog import Amounts, Environment, Preset, ResourceGroup, Version
from .errors import Kind, shown
from .gpu_rules import GpuChecks, least_gpus, most_of_machine
from .slots import GIB, GPU_SLOTS, MAX_AMOUNT, MIB, SLOT_NAMES, Slots, format_bytes, format_slot

SMALL_SHM, LARGE_SHM = 64 * MIB, 1 * GIB
LEAST_CPU = 10  # thousandths of a core; the kernel gives out no smaller share of time
LEAST_MEM = 64 * MIB  # no Jupyter server starts in less
LEAST_SHM = MIB  # 0 would be the engine's own default instead

SHM_IN_MEMORY = "Shared memory is part of memory, so it cannot be more than {mem}."

# A bound on a slot: how much is the most, the sentence that says so, and what breaking it means.
Bound = tuple[Callable[[str], int | None], str, Kind]


def auto_shm(mem: int, minimum: int) -> int:
    """Shared memory where nobody names it, in bytes: 1 GiB if memory is plenty, else 64 MiB.

    Source: the launcher's automatic setting (semantics of the product, resource form).
    """
    plenty = mem >= 4 * GIB and mem >= minimum + GIB
    return min(LARGE_SHM if plenty else SMALL_SHM, mem)


def least_amounts(minimum: Amounts, label: str) -> list[tuple[str, int, str]]:
    """By slot the least that a session may have, and the sentence for less; of GPUs see
    `least_gpus`."""
    found = []
    for name, own in (("cpu", LEAST_CPU), ("mem", LEAST_MEM)):
        needed = getattr(minimum, name) or 0
        who, least = (label, needed) if needed > own else ("A session", own)
        found.append((name, least, f"{who} needs at least {format_slot(name, least)}."))
    return found


def too_little(slots: Slots, minimum: Amounts, label: str) -> list[tuple[str, str]]:
    """Slots of which there is less than `label` needs, with the sentence that says so."""
    found = []
    for name, least, sentence in least_amounts(minimum, label):
        if getattr(slots, name) < least:
            found.append((name, sentence))
    needed = least_gpus(minimum, label)
    if slots.gpu_slot is None:  # one of those would do: say so once
        found += [(name, sentence) for name, _, sentence in needed[:1]]
    else:
        found += [
            (name, sentence)
            for name, least, sentence in needed
            if name == slots.gpu_slot and getattr(slots, name) < least
        ]
    return found


@dataclass(frozen=True, slots=True)
class Chosen:
    """How much a session gets: `shm` in bytes, `mig_profile` of its MIG devices."""

    preset: Preset | None
    slots: Slots
    shm: int
    mig_profile: str | None


class AmountChecks(GpuChecks):
    """The part of a request that is amounts."""

    def amounts(
        self, environment: Environment | None, version: Version | None, group: ResourceGroup | None
    ) -> Chosen:
        """Preset and amounts, within every bound that can be told now."""
        minimum = environment.minimum if environment else Amounts()
        preset = self.preset(minimum, group)
        asked = self.spec.resources
        base = preset.slots if preset else self.without_preset(minimum, group)
        cpu = base.cpu if asked.cpu is None else asked.cpu
        mem = base.mem if asked.mem is None else asked.mem
        slots = self.with_gpus(replace(base, cpu=cpu, mem=mem))
        profile = self.mig_profile(slots, preset, group)
        if preset is not None or (self.spec.preset is None and self.readable("preset")):
            self.check_least(slots, minimum, environment)
            self.check_most(slots, profile, group)
        shm = self.shm(slots.mem, minimum, preset, version, group)
        return Chosen(preset, slots, shm, profile)

    def without_preset(self, minimum: Amounts, group: ResourceGroup | None) -> Slots:
        """Where no preset is chosen: what the environment needs, else a core and 1 GB, or as much
        of that as the user may have."""

        def amount(name: str, usual: int) -> int:
            least = getattr(minimum, name) or 0
            bounds = [bound(name) for bound, _, _ in self.bounds(group)]
            return max(least, min([least or usual, *(most for most in bounds if most is not None)]))

        gpus = self.usual_gpus(minimum, group)
        return replace(Slots(amount("cpu", 1000), amount("mem", GIB)), **gpus)

    def shm(
        self,
        mem: int,
        minimum: Amounts,
        preset: Preset | None,
        version: Version | None,
        group: ResourceGroup | None,
    ) -> int:
        """Shared memory in bytes: as asked, else as the site says, else by the size of memory."""
        bounds = [(self.policy.per_session.shm, "Your limit")]
        if group is not None:
            bounds.append((group.per_session.shm, f"The limit of {group.name}"))
        known = [(most, whose) for most, whose in bounds if most is not None]
        most, whose = min(known, default=(MAX_AMOUNT, ""))
        asked = self.spec.resources.shm
        if asked is None and preset is not None and preset.shm is not None and preset.shm <= mem:
            asked = preset.shm
        if asked is None:
            usual = (version.shm if version else None) or minimum.shm
            if usual is None or usual > mem:
                usual = auto_shm(mem, minimum.mem or 0)
            return min(usual, most)
        if asked > mem and self.readable("resources.mem"):
            message = SHM_IN_MEMORY.replace("{mem}", format_bytes(mem))
            self.fail("resources.shm", "too_much", message)
        elif asked > most:
            message = f"{whose} for shared memory is {format_bytes(most)}."
            self.forbid("resources.shm", "too_much", message)
        elif asked < LEAST_SHM:
            message = "Shared memory is at least 1 MB. Leave it empty to have it chosen for you."
            self.fail("resources.shm", "too_little", message)
        return asked

    def preset(self, minimum: Amounts, group: ResourceGroup | None) -> Preset | None:
        presets = self.context.catalog.presets_of(group.name if group else "")
        wanted = self.spec.preset
        if wanted is None:
            fitting = (p for p in presets if self.preset_fits(p, minimum, group))
            return next(fitting, None)
        found = next((p for p in presets if p.name == wanted), None)
        if found is None and group is not None:
            self.fail("preset", "unknown", choose_from(wanted, presets))
        return found

    def preset_fits(self, preset: Preset, minimum: Amounts, group: ResourceGroup | None) -> bool:
        """Whether this preset could ever be granted to this user for this environment."""
        return not too_little(preset.slots, minimum, "") and not self.preset_problem(preset, group)

    def preset_problem(self, preset: Preset, group: ResourceGroup | None) -> str:
        """Why this preset can never be granted to this user; empty where it can."""
        profile = None
        if preset.mig:
            profile, problem = self.profile(preset.mig_profile, group)
            if problem:
                return problem
        limits = [self.policy.per_session.shm, group.per_session.shm if group else None]
        for most in limits:
            if most is not None and (preset.shm or 0) > most:
                return f"The limit for shared memory is {format_bytes(most)}."
        return next((e[2] for e in self.too_much(preset.slots, profile, group)), "")

    def check_least(self, slots: Slots, minimum: Amounts, environment: Environment | None) -> None:
        label = environment.label if environment else "This image"
        for name, sentence in too_little(slots, minimum, label):
            self.fail(f"resources.{name}", "too_little", sentence)

    def check_most(self, slots: Slots, profile: str | None, group: ResourceGroup | None) -> None:
        whole = not any(field.startswith("resources") for field in self.unread)
        for name, code, message, kind in self.too_much(slots, profile, group):
            if name or whole:
                self.fail(f"resources.{name}" if name else "resources", code, message, kind)

    def bounds(self, group: ResourceGroup | None, profile: str | None = None) -> list[Bound]:
        """All that bounds each slot of one session, whatever else runs now; MIG devices are those
        of a profile."""

        def of(amounts: Amounts) -> Callable[[str], int | None]:
            return lambda name: getattr(amounts, name)

        policy, quota = self.policy, self.context.policies.projects.get(self.project_name or "")
        found: list[Bound] = [
            (of(policy.per_session), "Your limit for one session is {most}.", Kind.FORBIDDEN),
            (of(policy.total), "Never fits: your limit is {most}.", Kind.FORBIDDEN),
        ]
        if quota is not None:
            whose = f"the limit of {self.project_name} as a whole"
            found.append((of(quota.total), f"Never fits: {whose} is {{most}}.", Kind.FORBIDDEN))
        if group is not None:
            sentence = f"The limit of {group.name} for one session is {{most}}."
            found.append((of(group.per_session), sentence, Kind.FORBIDDEN))
        return found + self.no_gpus(group) + self.largest(profile, group)

    def no_gpus(self, group: ResourceGroup | None) -> list[Bound]:
        """That there is nothing of a slot of GPUs, where no machine has any."""
        machines = self.machines(group)
        # Where none of them ever answered nobody knows: then it waits.
        if group is None or (not machines and self.agents(group)):
            return []
        where = group.name if self.spec.agent == "auto" else self.spec.agent
        there = self.kinds(group)
        missing = set(GPU_SLOTS) - {kind.slot for kind in there}
        found: list[Bound] = []
        for slot in GPU_SLOTS:
            sentence = f"{where} has no GPUs."
            if there:
                has = gpu_words.kinds(there)
                sentence = f"{where} has no {gpu_words.TITLES[slot]}. It has {has}."
            if slot in missing:
                found.append(
                    (lambda name, slot=slot: 0 if name == slot else None, sentence, Kind.INVALID)  # type: ignore[misc]
                )
        return found

    def largest(self, profile: str | None, group: ResourceGroup | None) -> list[Bound]:
        """What the largest machine has; of GPUs what one session could have of them there."""
        machines = self.machines(group)
        if group is None or not machines:
            return []
        which = f"the largest machine of {group.name}"
        if self.spec.agent != "auto":
            which = self.spec.agent

        def has(name: str) -> int:
            return max(int(getattr(machine.capacity, name)) for machine in machines)

        def most(name: str) -> int:
            return max(most_of_machine(machine, name, profile) for machine in machines)

        return [
            (has, f"Never fits: {which} has {{most}}.", Kind.INVALID),
            (most, f"Never fits: {which} has {{most}} of one type.", Kind.INVALID),
        ]

    def most(
        self, group: ResourceGroup | None, profile: str | None = None
    ) -> list[tuple[str, int, str, Kind]]:
        """Every end there is: the slot, the most of it, the sentence for more, what that means."""
        found = []
        bounds = self.bounds(group, profile)
        for name in SLOT_NAMES:
            for bound, sentence, kind in bounds:
                if (most := bound(name)) is None:
                    continue
                told = gpu_words.amount_of(name, most, profile if name == "mig" else None)
                found.append((name, most, sentence.replace("{most}", told), kind))
        return found

    def too_much(
        self, slots: Slots, profile: str | None, group: ResourceGroup | None
    ) -> list[tuple[str, str, str, Kind]]:
        """Slots that can never be granted, each with a code and a sentence that says what would be;
        a slot `""` where each fits a machine and all together fit none."""
        found: list[tuple[str, str, str, Kind]] = []
        most = self.most(group, profile)
        for name, amount in slots:
            over = (e for e in most if e[0] == name and amount > e[1])
            if first := next(over, None):
                found.append((name, "too_much", *first[2:]))
            elif name == slots.gpu_slot and (why := self.steps_problem(slots, profile, group)):
                found.append((name, "not_in_steps", why, Kind.INVALID))
        machines = self.machines(group)
        fits = any(self.holds(machine, slots, profile, group) for machine in machines)
        if machines and not found and not fits:
            parts = [
                gpu_words.amount_of(name, amount, profile if name == "mig" else None)
                for name, amount in slots
                if amount
            ]
            sentence = f"Never fits: no machine has {', '.join(parts)} together."
            found.append(("", "too_much", sentence, Kind.INVALID))
        return found


Offered = Iterable[Environment | Version | ResourceGroup | Preset]


def choose_from(wanted: str, offered: Offered) -> str:
    """The sentence for a name that is not among what is offered."""
    return f"{shown(wanted)} is not offered.{offered_names(offered)}"


def offered_names(offered: Offered) -> str:
    """The end of such a sentence; empty where there is nothing to choose from."""
    names = [item.name for item in offered]
    more = ", …" if len(names) > 12 else ""
    return f" Choose one of: {', '.join(names[:12])}{more}." if names else ""
