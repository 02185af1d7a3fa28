"""What the options form judges by while it is filled in: bounds, patterns and sentences, as data.

The rules are the model's. The page compares what is typed with these, shows the sentence of what it
finds, and knows no rule of its own; what it cannot tell, the server tells when the form is sent.
In a sentence `{asked}`, `{mem}`, `{text}` and `{ahead}` are what the page puts in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..model import gpu_words
from ..model.amounts import SHM_IN_MEMORY, AmountChecks, least_amounts
from ..model.catalog import Amounts, Environment, Preset, ResourceGroup
from ..model.gpu_rules import least_gpus
from ..model.resolve import Context
from ..model.rules import (
    ENV_NAME,
    FOLDER_NAME,
    MAX_PORT,
    MAX_THREADS,
    MIN_PORT,
    MOUNT_PATH,
    NOT_A_PORT,
    PORT_WORD,
    SESSION_NAME,
    closed_ports,
    used_by,
)
from ..model.secrets import SECRET_WORDS
from ..model.slots import GPU_SLOTS, SLOT_NAMES, Slots, format_slot
from ..model.spec import MAX_COMMAND, MAX_COUNT, SessionSpec
from .gpus import Best

Json = dict[str, Any]

# What a link may propose, as a query or behind the # of an address. Who follows it is one click
# from a launch, so nothing with a side effect is in it: no command, no variables, no new folder,
# no image by hand.
LINK_FIELDS = frozenset(
    {"name", "environment", "version", "resource_group", "preset", "cpu", "mem", "shm", "fgpu",
     "gpu", "mig", "mig_profile", "project", "ports", "mount"}
)  # fmt: skip
LINK_PREFIXES = ("version.", "mount_path.")
# What else has a field in the form, by the name before its first dot.
FORM_FIELDS = LINK_FIELDS | frozenset(
    {"type", "image", "agent", "env_name", "env_value", "new_folder", "mount_path",
     "mount_permission", "omp", "openblas", "command", "starts_at", "timeout", "timeout_unit",
     "count", "priority", "owner", "depends_on", "depends_on_names"}
)  # fmt: skip

AHEAD = "Waits, {ahead} ahead of you."
IN_LINE = "Waits in the queue."
NOW = {"code": "now", "text": "Starts now.", "why": ""}


def field_rules() -> Json:
    """Patterns, limits and sentences of single fields, the same for everybody."""
    return {
        "name": asdict(SESSION_NAME),
        "env": asdict(ENV_NAME),
        "folder": asdict(FOLDER_NAME),
        "path": asdict(MOUNT_PATH),
        "link": {"fields": sorted(LINK_FIELDS), "prefixes": LINK_PREFIXES},
        "secrets": SECRET_WORDS,
        "count": {"least": 1, "most": MAX_COUNT},
        "command": {"most": MAX_COMMAND},
        "threads": {
            "least": 1,
            "most": MAX_THREADS,
            "text": f"A whole number from 1 to {MAX_THREADS}.",
        },
        "shm": {"within": "mem", "text": SHM_IN_MEMORY},
        "simulated": gpu_words.SIMULATED,
        "held": gpu_words.HELP,
        "ahead": AHEAD,
        "in_line": IN_LINE,
        "nowhere": {"code": "never", "text": "There is no resource group for you.", "why": ""},
    }


def port_rules(most: int) -> Json:
    """What a preopen port may be, beside those that the environment's own apps have."""
    return {
        "most": most,
        "from": MIN_PORT,
        "to": MAX_PORT,
        "pattern": PORT_WORD,
        "text": "{text} " + NOT_A_PORT,
        "closed": closed_ports(),
    }


def ports_of_apps(environment: Environment) -> list[tuple[int, int, str]]:
    """Ports that the environment's apps have, as `closed_ports` gives them."""
    return [(port, port, used_by(app.label)) for app in environment.apps for port in app.ports]


def needs(environment: Environment) -> list[Json]:
    """The least that this environment runs with. Of GPUs: what counts is the need of the kind that
    is asked for, and the first where none is (`unless`, `given`)."""
    minimum, label = environment.minimum, environment.label
    found: list[Json] = [
        {"slot": slot, "least": least, "text": text}
        for slot, least, text in least_amounts(minimum, label)
        if least
    ]
    for number, (slot, least, text) in enumerate(least_gpus(minimum, label)):
        others = [other for other in GPU_SLOTS if other != slot]
        found.append(
            {"slot": slot, "least": least, "text": text, "unless": others, "given": number > 0}
        )
    return found


def usual(context: Context, group: ResourceGroup) -> dict[str, Json]:
    """What a session gets of each slot where nothing is asked and no preset can be had: by the
    environment, `""` for an image by hand."""
    minimums = {e.name: e.minimum for e in context.allowed_environments()} | {"": Amounts()}
    checks = _checks(context)
    return {name: checks.without_preset(m, group).as_dict() for name, m in minimums.items()}


def ends(context: Context, group: ResourceGroup, agent: str = "auto") -> list[Json]:
    """What can never be had in this group, or on this agent of it."""
    checks = _checks(context, agent)
    found = [bound(slot, most, "never", text) for slot, most, text, _ in checks.most(group)]
    for kind in checks.kinds(group):
        if kind.profile is not None:
            found += [
                bound(slot, most, "never", text, profile=kind.profile)
                for slot, most, text, _ in checks.most(group, kind.profile)
                if slot == kind.slot
            ]
    return found


def never_fits(context: Context, group: ResourceGroup, preset: Preset) -> str:
    """Why a preset can never be granted there; empty where it can."""
    return _checks(context).preset_problem(preset, group)


def _checks(context: Context, agent: str = "auto") -> AmountChecks:
    checks = AmountChecks(SessionSpec(agent=agent), [], context)
    checks.project_name = context.policies.project_of(context.groups)
    return checks


def judged(
    never: list[Json],
    left: Mapping[str, int | None],
    free: Sequence[Slots],
    waiting: int,
    where: str,
    agent: str = "",
    gpus: Sequence[Best] = (),
) -> Json:
    """How amounts are judged in a group, or on one agent of it: the first bound that they are over
    says what happens, in the order of what can be done about it.

    `left` is what is left to the user by slot, `free` what each machine has free, `gpus` the most
    of each kind that one session could have now, `waiting` how many wait in the group.
    """
    ahead = AHEAD.replace("{ahead}", str(waiting)) if waiting else IN_LINE
    lacks = f"{agent} does not have" if agent else f"No machine of {where} has"
    bounds = list(never)
    for slot in SLOT_NAMES:
        if (rest := left[slot]) is not None:
            verb = "are" if slot == "cpu" and rest != 1000 else "is"
            text = f"Not now: {format_slot(slot, rest)} {verb} left to you."
            bounds.append(bound(slot, rest, "waits", text, "End a session or ask for less."))
    most: list[tuple[str, str | None, int]] = [
        (slot, None, max((getattr(amounts, slot) for amounts in free), default=0))
        for slot in SLOT_NAMES
    ]
    most += [(kind.slot, kind.profile, best) for kind, best in gpus]
    for slot, profile, best in most:
        why = f"{lacks} {{asked}} free; the most is {gpu_words.amount_of(slot, best, profile)}."
        bounds.append(bound(slot, best, "waits", ahead, why, profile))
    queue = f"Others wait in {where}, and who came first goes first."
    return {
        "bounds": _that_count(bounds),
        "apart": {"code": "never", "text": "Never fits: no machine has all of it.", "why": ""},
        "together": {"code": "waits", "text": ahead, "why": f"{lacks} all of it free at once."},
        "otherwise": {"code": "waits", "text": ahead, "why": queue} if waiting else NOW,
    }


def _that_count(bounds: Sequence[Json]) -> list[Json]:
    """Bounds less those that nothing is over without being over an earlier one of its slot."""
    least: dict[tuple[str, str | None], int] = {}
    found = []
    for one in bounds:
        slot, profile, over = one["slot"], one.get("profile"), one["over"]
        earlier = (least.get((slot, p), over + 1) for p in {None, profile})
        if over < min(earlier):
            found.append(one)
            least[slot, profile] = over
    return found


def bound(
    slot: str, over: int, code: str, text: str, why: str = "", profile: str | None = None
) -> Json:
    """A bound: more than `over` of the slot means `code`, said as `text` and `why`. Of MIG devices
    it may be of those of one profile."""
    found: Json = {"slot": slot, "over": over, "code": code, "text": text, "why": why}
    return found if profile is None else found | {"profile": profile}
