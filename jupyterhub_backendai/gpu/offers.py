"""What sessions are offered of a machine's GPUs: pure, from what there is and what the admin says.

Each GPU belongs to exactly one provider. What cannot be offered as its rule wants it is listed all
the same, not available and with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..model.gpus import Enforcement, GpuDevice, GpuRule, ProviderName
from ..model.slots import GIB, MIB, format_bytes, format_thousandths
from ..scheduling.fgpu import GRAIN, memory_of, shares_of, usable_memory
from .devices import ComputeMode, Device, Inventory, LostDevice, MigDevice
from .enforcement import ENFORCEMENT, LABELS, MPS_LIMITED, is_verified
from .facts import HostFacts
from .listing import NOT_LISTED
from .state import known

SIMULATED_NAME = "Simulated GPU"
SIMULATED_MEMORY = 16 * GIB
SIMULATED_MULTIPROCESSORS = 64
UNKNOWN_NAME = "GPU"
FINEST = 100  # parts of a device: compute shares are whole percents
# A program's context alone takes 256 to 512 MiB, and where memory is held it counts as its own.
LEAST_MEMORY = 512 * MIB
WHOLE = "Offer it as a whole."


@dataclass(frozen=True, slots=True)
class Choice:
    """The provider of a shared GPU. `reason`: why it cannot be had; `missing`: why no stronger."""

    provider: ProviderName
    enforcement: Enforcement
    reason: str = ""
    missing: str = ""


def offers(
    inventory: Inventory,
    rules: Sequence[GpuRule],
    group: str,
    facts: HostFacts,
    before: Iterable[GpuDevice] = (),
) -> tuple[GpuDevice, ...]:
    """The devices of a machine in resource group `group`; those that no rule is about are not
    among them. `before`: what it offered earlier, by which a lost device is known again."""
    found: list[GpuDevice] = []
    for device in inventory.devices:
        rule = rule_of(device, rules, group)
        if rule is not None:
            found += [
                one.model_copy(
                    update={"verified": is_verified(one, known(inventory.driver_version))}
                )
                for one in _offered(device, rule, facts)
            ]
    present = {device.uuid for device in found}
    seen = {device.uuid: device for device in before}
    return (*found, *_lost(inventory, seen, present))


def rule_of(device: Device, rules: Iterable[GpuRule], group: str) -> GpuRule | None:
    """The first rule that a GPU matches."""
    name = known(device.name) or UNKNOWN_NAME
    return next((rule for rule in rules if rule.matches(name, device.uuid, group)), None)


def simulated(count: int, rule: GpuRule) -> tuple[GpuDevice, ...]:
    """GPUs that do not exist, divided as `rule` divides real ones."""
    return tuple(
        _checked(_divided(_simulated(number), rule, SIMULATED_MEMORY), rule)
        for number in range(count)
    )


def _simulated(number: int) -> GpuDevice:
    return GpuDevice(
        uuid=f"SIM-{number}",
        name=SIMULATED_NAME,
        slot="gpu",
        memory=SIMULATED_MEMORY,
        multiprocessors=SIMULATED_MULTIPROCESSORS,
        provider="simulated",
        enforcement=ENFORCEMENT["simulated"],
    )


def _offered(device: Device, rule: GpuRule, facts: HostFacts) -> list[GpuDevice]:
    mode = known(device.mig)
    if mode is not None and mode.current:
        parts = [_part(part, device) for part in device.mig_devices]
        return parts or [_empty(device)]
    whole = GpuDevice(
        uuid=device.uuid,
        name=known(device.name) or UNKNOWN_NAME,
        slot="gpu",
        memory=known(device.total_bytes) or 0,
        multiprocessors=known(device.multiprocessors),
        provider="whole",
        enforcement=ENFORCEMENT["whole"],
    )
    if not rule.shared:
        return [_usable(whole, device, facts)]
    choice = choose(rule.provider, device, facts)
    shared = _divided(whole, rule, known(device.total_bytes)).model_copy(
        update={"provider": choice.provider, "enforcement": choice.enforcement}
    )
    if choice.reason:
        shared = _not(shared, choice.reason)
    clients = facts.mps_clients if choice.provider in {"mps", "mps2"} else FINEST
    return [_usable(_enough(_checked(shared, rule, clients), rule, choice), device, facts)]


def choose(wanted: str, device: Device, facts: HostFacts) -> Choice:
    """The provider of a GPU's shares, for a rule's `provider`: with `auto` the strongest of those
    that leave sessions' other memory their own."""
    no_limits, no_mps = facts.why_no_limits(device), facts.why_no_mps(device)
    newest: ProviderName = "mps" if facts.mps == 3 else "mps2"
    limited = newest == "mps" and not no_limits
    not_by_itself = no_mps or (facts.why_open_memory() if newest == "mps2" else "")
    with_mps = Choice(
        newest,
        MPS_LIMITED if limited else ENFORCEMENT[newest],
        f"MPS cannot be used here: {no_mps}." if no_mps else "",
        no_limits,
    )
    with_limits = Choice(
        "memory",
        ENFORCEMENT["memory"],
        f"GPU memory cannot be limited here: {no_limits}." if no_limits else "",
        no_mps,
    )
    if wanted == "mps" or (wanted == "auto" and not not_by_itself and (limited or no_limits)):
        return with_mps
    if wanted == "memory" or (wanted == "auto" and not no_limits):
        return with_limits
    missing = ", and ".join(dict.fromkeys(filter(None, (no_limits, not_by_itself))))
    return Choice("advisory", ENFORCEMENT["advisory"], missing=missing)


def _divided(device: GpuDevice, rule: GpuRule, total: int | None) -> GpuDevice:
    """The device in shares as the rule says; with no capacity where its size is not known."""
    if not rule.shared:
        return device
    memory = usable_memory(total or 0)
    capacity = (rule.shares_per_gpu or 0) * 1000
    if rule.unit is not None:
        capacity = shares_of(rule.unit, memory, device.multiprocessors or 0, rule.quantum)
        # What is over is nobody's: a share has the size that the rule gives it on every GPU.
        memory = -(-rule.unit.mem * capacity // 1000)
    return device.model_copy(
        update={
            "slot": "fgpu",
            "memory": memory,
            "capacity": capacity,
            "quantum": rule.quantum,
        }
    )


def _checked(device: GpuDevice, rule: GpuRule, clients: int = FINEST) -> GpuDevice:
    """Not available where it cannot be divided so. `clients`: how many programs it may have."""
    if device.slot != "fgpu":
        return device
    if rule.unit is not None and device.multiprocessors is None:
        return _not(
            device,
            "The driver does not tell how many multiprocessors this GPU has, so that `unit` says "
            "nothing of its shares. Give its rule `shares_per_gpu`.",
        )
    if rule.shares_per_gpu is not None and not device.memory:
        return _not(
            device,
            "The driver does not tell how much memory this GPU has, so that it has no shares. "
            f"{WHOLE}",
        )
    if device.capacity == 0:
        return _not(
            device,
            "This GPU is smaller than one step of `quantum`. Give its rule a smaller `unit`.",
        )
    shares = format_thousandths(device.capacity)
    step = format_thousandths(device.quantum)
    if small := _too_small(device, clients):
        least = _least_step(device, rule, clients)
        do = f"Set `quantum` to {format_thousandths(least)} or more." if least else WHOLE
        return _not(device, f"A step of {step} {small}. {do}")
    if device.quantum > device.capacity or not memory_of(device, device.quantum):
        return _not(
            device,
            f"A step of {step} does not go into this GPU, which has {shares} shares. Choose "
            "another `quantum`.",
        )
    return device


def _too_small(device: GpuDevice, clients: int) -> str:
    """What a step of this GPU is, where it is too small for a session; "" where it is not."""
    if device.quantum * FINEST < device.capacity:
        shares = format_thousandths(device.capacity)
        return f"is less than 1 % of this GPU, which has {shares} shares"
    if (steps := device.capacity // device.quantum) > clients:
        return f"is one of {steps} of this GPU, and MPS has at most {clients} programs on one"
    memory = memory_of(device, device.quantum)
    if _holds_memory(device) and memory < LEAST_MEMORY:
        least = format_bytes(LEAST_MEMORY)
        return f"has {format_bytes(memory)} of this GPU's memory, and a program needs {least}"
    return ""


def _least_step(device: GpuDevice, rule: GpuRule, clients: int) -> int:
    """The smallest `quantum` that is not too small for this GPU, 0 where there is none."""
    # A coarser one may leave less over of a GPU in units.
    most = device.capacity + (device.quantum - 1 if rule.unit is not None else 0)
    memory = LEAST_MEMORY if _holds_memory(device) else GRAIN
    if not (share := memory_of(device, 1000)):
        return 0
    least = max(-(-most // FINEST), most // (clients + 1) + 1, -(-memory * 1000 // share))
    while rule.unit is None and least < device.capacity and device.capacity % least:
        least += 1
    return least if least <= device.capacity else 0


def _holds_memory(device: GpuDevice) -> bool:
    return device.enforcement.memory != "none"


def _enough(device: GpuDevice, rule: GpuRule, choice: Choice) -> GpuDevice:
    """Not available where its provider holds less than the rule's `least`."""
    lacking = device.enforcement.lacking(rule.least)
    if not lacking or not device.available:
        return device
    short = "; ".join(
        f"{name} is held `{getattr(device.enforcement, name)}`, and its rule asks for at least "
        f"`{getattr(rule.least, name)}`"
        for name in lacking
    )
    why = f" Nothing stronger can be had: {choice.missing}." if choice.missing else ""
    return _not(
        device,
        f"By {LABELS[device.provider]}, {short}.{why} Lower `least`, or offer this GPU as a whole "
        "or by MIG.",
    )


def _usable(device: GpuDevice, found: Device, facts: HostFacts) -> GpuDevice:
    """Not available where its compute mode keeps programs out and nobody here may change it."""
    mode = known(found.compute_mode)
    if mode in {None, ComputeMode.DEFAULT} or facts.root or not device.available:
        return device
    assert mode is not None
    return _not(
        device,
        f"Its compute mode is {mode.name}, so that a session could not run two programs on it. Set "
        f"it with `nvidia-smi -i {device.uuid} -c DEFAULT`.",
    )


def _part(part: MigDevice, device: Device) -> GpuDevice:
    return GpuDevice(
        uuid=part.uuid,
        name=known(device.name) or UNKNOWN_NAME,
        slot="mig",
        profile=known(part.profile),
        parent=part.parent,
        memory=known(part.total_bytes) or 0,
        multiprocessors=known(part.multiprocessors),
        provider="mig",
        enforcement=ENFORCEMENT["mig"],
    )


def _empty(device: Device) -> GpuDevice:
    return GpuDevice(
        uuid=device.uuid,
        name=known(device.name) or UNKNOWN_NAME,
        slot="mig",
        provider="mig",
        enforcement=ENFORCEMENT["mig"],
        available=False,
        reason=(
            "MIG is on and this GPU has no MIG devices. Make some with `nvidia-smi mig -cgi … -C`, "
            "or switch MIG off."
        ),
    )


def _lost(
    inventory: Inventory, before: Mapping[str, GpuDevice], present: set[str]
) -> list[GpuDevice]:
    """Those that were offered and cannot be used now. One that was never seen has no rule."""
    gone: list[GpuDevice] = []
    for lost in inventory.lost:
        for device in before.values():
            part = device.parent is not None and device.parent in {lost.uuid, lost.parent}
            if device.uuid not in present and (part or device.uuid == lost.uuid):
                present.add(device.uuid)
                gone.append(_not(device, _why_lost(lost, inventory)))
    return gone


def _why_lost(lost: LostDevice, inventory: Inventory) -> str:
    if inventory.absence is not None and not inventory.devices and lost.error == NOT_LISTED:
        return inventory.absence.reason
    return (
        f"The driver has lost this GPU ({lost.error}). The machine's kernel log says more; a reset "
        "of the GPU or a restart of the machine may bring it back."
    )


def _not(device: GpuDevice, reason: str) -> GpuDevice:
    return device.model_copy(update={"available": False, "reason": reason})
