"""How much a session gets: preset, single amounts, shared memory, and every bound on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .catalog import Amounts, Environment, Preset, ResourceGroup, Version
from .errors import FieldError, Kind, shown
from .request import AgentFacts, Context
from .slots import GIB, MAX_AMOUNT, MIB, SLOT_NAMES, Slots, format_bytes, format_slot
from .spec import SessionSpec

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
    """By slot the least that a session may have, and the sentence for less."""
    found = []
    for name, own in (("cpu", LEAST_CPU), ("mem", LEAST_MEM), ("fgpu", 0)):
        needed = getattr(minimum, name) or 0
        who, least = (label, needed) if needed > own else ("A session", own)
        found.append((name, least, f"{who} needs at least {format_slot(name, least)}."))
    return found


class Checks:
    """What has been read of a request, and the errors noted so far."""

    def __init__(self, spec: SessionSpec, errors: list[FieldError], context: Context) -> None:
        self.spec, self.errors, self.context = spec, errors, context
        self.policy = context.policy
        self.unread = frozenset(error.field for error in errors)
        self.project_name: str | None = None

    def readable(self, field: str) -> bool:
        """Whether what was written for `field` could be read; else its default stands there."""
        return not any(field == bad or field.startswith(f"{bad}.") for bad in self.unread)

    def fail(self, field: str, code: str, message: str, kind: Kind = Kind.INVALID) -> None:
        # A default in place of what could not be read is nothing to complain about.
        if self.readable(field):
            self.errors.append(FieldError(field, code, message, kind))

    def forbid(self, field: str, code: str, message: str) -> None:
        self.fail(field, code, message, Kind.FORBIDDEN)


class AmountChecks(Checks):
    """The part of a request that is amounts."""

    def amounts(
        self, environment: Environment | None, version: Version | None, group: ResourceGroup | None
    ) -> tuple[Preset | None, Slots, int]:
        """Preset, slots and shared memory (bytes), within every bound that can be told now."""
        minimum = environment.minimum if environment else Amounts()
        preset = self.preset(minimum, group)
        asked = self.spec.resources
        base = preset.slots if preset else self.without_preset(minimum, group)
        slots = Slots(
            base.cpu if asked.cpu is None else asked.cpu,
            base.mem if asked.mem is None else asked.mem,
            base.fgpu if asked.fgpu is None else asked.fgpu,
        )
        if preset is not None or (self.spec.preset is None and self.readable("preset")):
            self.check_least(slots, minimum, environment)
            self.check_most(slots, group)
        return preset, slots, self.shm(slots.mem, minimum, preset, version, group)

    def without_preset(self, minimum: Amounts, group: ResourceGroup | None) -> Slots:
        """Where no preset is chosen: what the environment needs, else a core and 1 GB, or as much
        of that as the user may have."""

        def amount(name: str, usual: int) -> int:
            least = getattr(minimum, name) or 0
            bounds = [bound(name) for bound, _, _ in self.bounds(group)]
            return max(least, min([least or usual, *(most for most in bounds if most is not None)]))

        return Slots(amount("cpu", 1000), amount("mem", GIB), amount("fgpu", 0))

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
        if any(amount < (getattr(minimum, name) or 0) for name, amount in preset.slots):
            return False
        limits = [self.policy.per_session.shm, group.per_session.shm if group else None]
        if any(most is not None and (preset.shm or 0) > most for most in limits):
            return False
        return not self.too_much(preset.slots, group)

    def check_least(self, slots: Slots, minimum: Amounts, environment: Environment | None) -> None:
        label = environment.label if environment else "This image"
        for name, least, sentence in least_amounts(minimum, label):
            if getattr(slots, name) < least:
                self.fail(f"resources.{name}", "too_little", sentence)

    def check_most(self, slots: Slots, group: ResourceGroup | None) -> None:
        whole = not any(field.startswith("resources") for field in self.unread)
        for name, message, kind in self.too_much(slots, group):
            if name or whole:
                self.fail(f"resources.{name}" if name else "resources", "too_much", message, kind)

    def agents(self, group: ResourceGroup | None) -> list[AgentFacts]:
        """The agents that the session may be placed on."""
        return [
            agent
            for agent in self.context.agents
            if group is not None and agent.group == group.name
            if self.spec.agent in {"auto", agent.name}
        ]

    def machines(self, group: ResourceGroup | None) -> list[Slots]:
        """What they have. An agent that never answered has nothing that could be compared."""
        return [a.capacity for a in self.agents(group) if a.capacity != Slots()]

    def bounds(self, group: ResourceGroup | None) -> list[Bound]:
        """All that bounds each slot of one session, whatever else runs now."""

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
        machines = self.machines(group)
        # Where none of them ever answered nobody knows: then it waits.
        known = bool(machines) or not self.agents(group)
        if group is not None and known and not any(machine.fgpu for machine in machines):
            where = group.name if self.spec.agent == "auto" else self.spec.agent
            sentence = f"{where} has no GPUs."
            found.append((lambda name: 0 if name == "fgpu" else None, sentence, Kind.INVALID))
        if group is not None and machines:
            which = f"the largest machine of {group.name}"
            if self.spec.agent != "auto":
                which = self.spec.agent
            found.append(
                (
                    lambda name: max(getattr(machine, name) for machine in machines),
                    f"Never fits: {which} has {{most}}.",
                    Kind.INVALID,
                )
            )
        return found

    def most(self, group: ResourceGroup | None) -> list[tuple[str, int, str, Kind]]:
        """Every end there is: the slot, the most of it, the sentence for more, what that means."""
        found = []
        for name in SLOT_NAMES:
            for bound, sentence, kind in self.bounds(group):
                if (most := bound(name)) is None:
                    continue
                sentence = sentence.replace("{most}", format_slot(name, most))
                found.append((name, most, sentence, kind))
        return found

    def too_much(self, slots: Slots, group: ResourceGroup | None) -> list[tuple[str, str, Kind]]:
        """Slots that can never be granted, with a sentence that says what would be; a slot `""`
        where each fits a machine and all together fit none."""
        found: list[tuple[str, str, Kind]] = []
        most = self.most(group)
        for name, amount in slots:
            over = (e for e in most if e[0] == name and amount > e[1])
            if first := next(over, None):
                found.append((name, *first[2:]))
        machines = self.machines(group)
        if not found and machines and not any(slots.fits(machine) for machine in machines):
            all_of_it = ", ".join(format_slot(name, amount) for name, amount in slots if amount)
            sentence = f"Never fits: no machine has {all_of_it} together."
            found.append(("", sentence, Kind.INVALID))
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
