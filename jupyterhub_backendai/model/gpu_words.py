"""How GPUs are told to people, in one place for the form, the API and the pages of sessions."""

from __future__ import annotations

from collections.abc import Iterable

from .gpus import Enforcement, GpuKind, Granted, Hold
from .slots import format_bytes, format_slot

TITLES: dict[str, str] = {"fgpu": "FGPU", "gpu": "whole GPUs", "mig": "MIG devices"}
SIMULATED = "simulated"  # what stands wherever there is no such GPU

_MEMORY: dict[Hold, str] = {
    "hard": "enforced",
    "soft": "limited, a program can get round it",
    "none": "not enforced",
}
_COMPUTE: dict[Hold, str] = {**_MEMORY, "none": "shared, not enforced"}
_FAULTS: dict[Hold, str] = {
    "hard": "stay in the session",
    "soft": "mostly stay in the session",
    "none": "can stop others on the GPU",
}
HELP = (
    "Enforced: no program gets more than its session has. Not enforced: all who share the GPU "
    "are asked to keep to theirs. Not verified: nobody has tried it on this GPU yet."
)


def held(enforcement: Enforcement, verified: bool, simulated: bool = False) -> str:
    """How hard a share of a GPU is held, in words that a student understands."""
    if simulated:
        return "There is no such GPU: it is for trying things out."
    parts = [
        f"Memory: {_MEMORY[enforcement.memory]}",
        f"Computing time: {_COMPUTE[enforcement.compute]}",
        f"Crashes: {_FAULTS[enforcement.faults]}",
        f"{'' if verified else 'not '}verified on this GPU",
    ]
    return f"{' · '.join(parts)}."


def one_of(names: Iterable[str], last: str = "or") -> str:
    """Names in a sentence: `a`, `a or b`, `a, b or c`."""
    *first, end = names
    return f"{', '.join(first)} {last} {end}" if first else end


def kinds(offered: Iterable[GpuKind]) -> str:
    """Kinds of GPUs in a sentence: `FGPU and MIG devices (1g.10gb)`."""
    profiles: dict[str, list[str]] = {}
    for kind in offered:
        profiles.setdefault(kind.slot, []).extend([kind.profile] if kind.profile else [])
    parts = [
        TITLES[slot] + (f" ({', '.join(named)})" if named else "")
        for slot, named in profiles.items()
    ]
    return one_of(parts, "and")


def title(offered: Iterable[GpuKind]) -> str:
    """The same at the beginning of a line."""
    text = kinds(offered)
    return f"{text[0].upper()}{text[1:]}"


def amount_of(slot: str, amount: int, profile: str | None = None) -> str:
    """An amount of a slot of GPUs: `0.5 FGPU`, `2 whole GPUs`, `1 MIG device (1g.10gb)`."""
    return format_slot(slot, amount) + (f" ({profile})" if profile else "")


def granted(part: Granted) -> str:
    """What a session holds of one device: how much, of which, and what that is."""
    what = amount_of(part.slot, part.amount, part.profile)
    facts = [f"{format_bytes(part.memory)} of GPU memory"] if part.memory else []
    if part.slot == "fgpu":
        facts.append(f"{part.percent} % of its computing time")
    return ", ".join([f"{what} of {part.name} ({short(part.uuid)})", *facts])


def short(uuid: str) -> str:
    """As much of a device's UUID as tells it from others."""
    return uuid if len(uuid) <= 16 else f"{uuid[:12]}…"


def means(part: Granted) -> str:
    """What an amount on one device is: `0.5 FGPU: 4.5 GB of GPU memory, 10 % of the computing time
    of an NVIDIA L40S`; empty where nothing is known."""
    if not part.memory:
        return ""
    what = f"{amount_of(part.slot, part.amount, part.profile)}: {format_bytes(part.memory)}"
    time = f", {part.percent} % of the computing time" if part.slot == "fgpu" else ""
    return f"{what} of GPU memory{time} ({part.name})"


def used(memory: int, memory_used: int | None, busy: int | None) -> str:
    """What is used of a device now: `3.1 GB of 9 GB of GPU memory, busy 40 % of the time`."""
    now = "not known how much" if memory_used is None else format_bytes(memory_used)
    of = f" of {format_bytes(memory)}" if memory else ""
    time = "not known how busy" if busy is None else f"busy {busy} % of the time"
    return f"{now}{of} of GPU memory, {time}"
