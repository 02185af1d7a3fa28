"""Writes the parts of the reference that the code itself says: configuration, statuses, calls.

    python docs/generate_reference.py [FOLDER]

The build of the docs runs it. What has no words here, a new key for instance, fails it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import dedent

from pydantic import BaseModel
from traitlets import TraitType

from jupyterhub_backendai.configuration import BackendAI
from jupyterhub_backendai.engine.entries import AgentEntry
from jupyterhub_backendai.model.catalog import (
    Amounts,
    App,
    Environment,
    Preset,
    ResourceGroup,
    Version,
)
from jupyterhub_backendai.model.gpus import Enforcement, GpuRule, Unit
from jupyterhub_backendai.model.hibernation import Hibernating
from jupyterhub_backendai.model.idle import (
    IdleMinimum,
    IdleRules,
    Keep,
    Network,
    Utilization,
)
from jupyterhub_backendai.model.notices import Mail, Webhook
from jupyterhub_backendai.model.policy import Policy, Quota
from jupyterhub_backendai.model.registry import ImageRegistry
from jupyterhub_backendai.model.status import HOLDING, TRANSITIONS, Phase, Result, Status
from jupyterhub_backendai.model.steps import Step
from jupyterhub_backendai.service.metrics.catalogue import CATALOGUE
from jupyterhub_backendai.service.table import CALLS, Call
from jupyterhub_backendai.site import rules

AMOUNTS = "amounts: `cpu`, `mem`, `shm`, `fgpu`, `gpu`, `mig`"
TOTAL = "amounts: `cpu`, `mem`, `fgpu`, `gpu`, `mig` (shared memory is a part of memory)"
HOLD = (
    '`"hard"`: by hardware or driver, from outside the container; `"soft"`: of programs that '
    'behave; `"none"`: not at all'
)
EVERYBODY = "everybody, where neither `users` nor `groups` is there"

# What each key of a dict is; (words, default in words or None for the one in the code).
KEYS: dict[type[BaseModel], dict[str, str | tuple[str, str]]] = {
    Environment: {
        "name": "what requests say",
        "title": ("what people read", "the name"),
        "description": "a line under the title",
        "icon": "a Font Awesome *solid* icon, such as `fire`",
        "versions": "list of versions, at least one; the first is the default. "
        "`image` instead of `versions` is short for one version named `default`",
        "minimum": (f"the least that a session of it needs; {AMOUNTS}", "nothing"),
        "apps": "list of apps, or of their names (pages to open them come with a later version)",
        "command": ("what to run, as a list of words", "the image's own command"),
        "idle_minimum": ("the least that idle checks may ask of its sessions", "nothing"),
    },
    IdleMinimum: {
        "lifetime": ("the shortest lifetime", "as the checks say"),
        "network": ("the shortest timeout of the network check", "as the checks say"),
        "utilization": ("the shortest window of the utilization check", "as the checks say"),
    },
    IdleRules: {
        "lifetime": ("how old a session may become", "no limit"),
        "network": ("how long nobody may have used it; or a dict", "no limit"),
        "utilization": ("how little it may use; a dict", "no limit"),
        "then": (
            '`"end"` or `"hibernate"`: what becomes of a session that is not used; one that is too '
            "old is ended",
            '`"end"`',
        ),
    },
    Network: {
        "timeout": "how long nobody may have used it",
        "grace": ("the time after its start in which it is not looked at", "none"),
        "polling": "whether a page that only asks by itself is use",
    },
    Utilization: {
        "window": "the time over which averages are taken",
        "grace": ("the time after its start in which nothing is counted", "none"),
        "operator": '`"and"`: all metrics have to be below their thresholds; `"or"`: any',
        "thresholds": "percent of what was granted, by metric: `cpu`, `mem`, `gpu`, `gpu_mem`; "
        "`None` leaves a metric out",
    },
    Hibernating: {
        "most": ("hibernated sessions that the user may have at once; with 0 none", "3"),
        "retention": ("how long one is kept; `None`: until it is ended", '`"14d"`'),
    },
    Keep: {
        "each": ("how much longer at once, at most", '`"2h"`'),
        "total": ("how much longer one session may be kept in all", '`"8h"`'),
        "lifetime": "whether it may be kept beyond its lifetime, too",
    },
    Mail: {
        "host": "the mail server",
        "port": ("its port", "587, 465 or 25, by `security`"),
        "security": '`"starttls"`: the connection is upgraded, or nothing is sent; `"tls"`: it '
        'begins so; `"none"`',
        "user": ("who signs in there, with `password_file`", "nobody"),
        "password_file": (
            "a file with the password; nobody but the Hub's user may read it",
            "none",
        ),
        "ca_file": ("certificates by which the server is known (PEM)", "those of the system"),
        "sender": "the address that mails come from",
        "domain": ('what is put after a user\'s name and an `@`; `""`: names are addresses', "–"),
        "address": ("`module:function` that says a user's address, instead of `domain`", "–"),
        "timeout": "how long one mail may take: seconds, or a text such as `30s`; at most 300",
    },
    Webhook: {
        "url": "where to: `https://` or `http://`",
        "secret_file": (
            "a file with the secret to sign by; nobody but the Hub's user may read it",
            "not signed",
        ),
        "timeout": "how long one may take: seconds, or a text such as `30s`; at most 300",
    },
    Version: {
        "name": "what requests say",
        "image": "reference of the image, such as `quay.io/jupyter/scipy-notebook:latest`",
        "description": "is shown after the name",
        "shm": ("shared memory where nobody asks for any", "by the size of memory"),
    },
    App: {
        "name": "letters, digits, `-` and `_`, not digits alone",
        "title": ("what people read", "the name"),
        "category": ("the heading that it stands under", "as sessions know it, else `Other`"),
        "icon": ("a Font Awesome name", "as sessions know it"),
        "protocol": ("`http` has a page; `tcp`, `vnc` and `rdp` are plain connections", "`http`"),
        "ports": (
            "its ports inside the session (or `port`, for one), 1024 to 65535; cannot be preopened",
            "none: one that sessions know by its name",
        ),
        "command": (
            "a list that starts it on first use, `{port}` in it is its port; it is to listen at "
            "127.0.0.1",
            "its user starts it",
        ),
        "path": ("where in it a browser begins", "its root"),
        "shareable": ("whether it may be public, where a policy allows that", "`True`"),
    },
    Preset: {
        "name": "what requests say",
        "description": "a line under the name",
        "cpu": "cores",
        "mem": "memory",
        "shm": ("shared memory, at most `mem`", "by the size of memory"),
        "fgpu": "shares of a GPU",
        "gpu": "whole GPUs, instead of shares",
        "mig": "MIG devices, instead of shares or whole GPUs",
        "mig_profile": ("which MIG devices, as `1g.10gb`", "the one that there is"),
        "resource_group": ("the one group that it is for", "all groups"),
    },
    ResourceGroup: {
        "name": "what requests say",
        "title": ("what people read", "the name"),
        "description": "a line under the title",
        "users": ("names of users who may launch here", EVERYBODY),
        "groups": ("names of Hub groups whose members may launch here", EVERYBODY),
        "queue": '`"backfill"`: a smaller session may pass a larger one that waits; '
        '`"strict"`: none passes',
        "max_bypass": "seconds after which a waiting session is passed by nothing that needs "
        "what it waits for",
        "selection": '`"concentrated"`: machines are filled one after the other; `"dispersed"`: '
        "the one with the most room is next",
        "pending_timeout": "seconds after which a session is taken out of line; 0 is never. "
        "`queue_timeout` holds besides",
        "gpu_spread": '`"packed"`: more than one GPU is whole ones and one share at most; '
        '`"even"`: equal shares of as few as can be',
        "gpu_placement": '`"tightest"`: where least is left of a GPU; `"fragments"`: where fewest '
        "pieces arise that sessions of the usual sizes cannot use, for sites with fine shares",
        "per_session": (f"the most that one session may have; {AMOUNTS}", "no limit"),
        "choose_agent": "whether people may pick the machine, where their policy allows it too",
        "idle": ("idle checks of sessions in it, as in `idle`, besides all others", "none"),
    },
    AgentEntry: {
        "name": "name of the machine, as people see it",
        "resource_group": ("the group that it belongs to", "the first group"),
        "base_url": (
            "its Docker engine: `unix://`, `tcp://`, `ssh://`",
            "what DockerSpawner finds",
        ),
        "tls": ("`True`, or arguments of `docker.tls.TLSConfig`", "none"),
        "use_ssh_client": ("for `ssh://`: the system's own `ssh`", "off"),
        "timeout": ("seconds of one call that is not a download", "60"),
        "capacity": ("what it has, with `cpu` and `mem`", "what its engine reports"),
        "reserved": ("kept for the system, taken off what the engine reports", "nothing"),
        "address": ("where its published ports answer", "each container's own address"),
        "hub_connect_url": ("the Hub's API as its containers reach it", "the Hub's own"),
    },
    Policy: {
        "total": (f"all live sessions of the user together; {TOTAL}. More waits", "no limit"),
        "max_sessions": (
            "sessions at a time. More waits; 0 refuses every session",
            "no limit",
        ),
        "max_pending": "sessions that wait at a time. More is refused; `None` is no limit; with 0 "
        "only what has room at once starts",
        "per_session": (f"one session; {AMOUNTS}. More is refused", "no limit"),
        "environments": ("names of the environments to choose from", "all"),
        "resource_groups": ("names of the resource groups to launch on", "all"),
        "manual_image": ("whether an image may be named by hand", "`allow_manual_image`"),
        "choose_agent": "whether the machine may be picked",
        "max_preopen_ports": "ports of one session, 0 to 100",
        "max_folders": "folders of the user's own",
        "max_images": "images of their sessions that the user may have; with 0 they make none",
        "max_image_size": (
            "how much one image may add to the one below it; with `None` there is no limit",
            '`"20g"`',
        ),
        "priority": "0 to 100; higher is first in line",
        "max_priority": ("the highest that a request may say", "as `priority`"),
        "public_apps": "whether apps of their sessions may be opened to everybody",
        "preferred_port": "whether a certain port of `app_ports` may be asked for",
        "idle": ("idle checks of the user's sessions, as in `idle`, besides all others", "none"),
        "keep": (
            "how long the user may keep a session that idle checks would end; `None`: not at all",
            "2 hours at once, 8 hours in all",
        ),
        "hibernate": (
            "how many sessions the user may have hibernated, and for how long one is kept",
            "3, each for 14 days",
        ),
    },
    ImageRegistry: {
        "prefix": "the registry's address, and a place in it",
        "user": ("who signs in", "nobody"),
        "password_file": ("the absolute path of a file with the password", "none"),
    },
    Quota: {
        "total": (f"all live sessions for the project together; {TOTAL}. More waits", "no limit"),
        "max_sessions": (
            "sessions for the project at a time. More waits; 0 refuses every session",
            "no limit",
        ),
    },
    Amounts: {
        "cpu": ("cores, to three decimals: `2`, `0.5`", "not said"),
        "mem": ('memory: `"4g"`, `"4GiB"`, `"512m"`, or a number of bytes', "not said"),
        "shm": ("shared memory, written the same way; a part of `mem`", "not said"),
        "fgpu": ("shares of a GPU, to three decimals: `0.5`", "not said"),
        "gpu": ("whole GPUs: `1`", "not said"),
        "mig": ("MIG devices, of any profile: `1`", "not said"),
    },
    GpuRule: {
        "model": "a pattern of the driver's name: `*` is anything",
        "devices": ("UUIDs of the GPUs, or how they begin", "all"),
        "resource_group": ("the group of the machine", "any"),
        "shares_per_gpu": ("how many shares each has", "offered as a whole, or by MIG parts"),
        "unit": ("how large a share is, instead of how many there are", "none"),
        "quantum": ("the step of an amount; at least a hundredth of the GPU", "`0.1`"),
        "provider": '`"mps"`, `"memory"` (limits by cgroup) or `"advisory"` (nothing is held); '
        '`"auto"` is the strongest that the machine can do',
        "least": ("what is acceptable; a GPU that falls short is not offered", "anything"),
    },
    Unit: {
        "mem": ("memory of one share", '`"2g"`'),
        "multiprocessors": "multiprocessors of one share",
    },
    Enforcement: {
        "memory": HOLD,
        "compute": HOLD,
        "faults": "whether one session's crash on the GPU leaves the others alone; the same words",
    },
}  # fmt: skip

# What is in the values of a trait.
PARTS: dict[str, list[tuple[str, type[BaseModel]]]] = {
    "environments": [
        ("An environment", Environment),
        ("A version", Version),
        ("An app", App),
        ("What idle checks may ask at least", IdleMinimum),
    ],
    "presets": [("A preset", Preset)],
    "resource_groups": [("A resource group", ResourceGroup)],
    "agents": [("An agent", AgentEntry)],
    "gpus": [("A rule", GpuRule), ("A unit", Unit), ("What must be held", Enforcement)],
    "default_policy": [
        ("A policy", Policy),
        ("Keeping a session", Keep),
        ("Hibernated sessions", Hibernating),
    ],
    "idle": [
        ("All checks", IdleRules),
        ("The network check", Network),
        ("The utilization check", Utilization),
    ],
    "image_registry": [("A registry", ImageRegistry)],
    "project_quotas": [("A quota", Quota)],
    "notices_mail": [("Mail", Mail)],
    "notices_webhook": [("A webhook", Webhook)],
}

MEANING: dict[Status, str] = {
    Status.PENDING: "It waits for its place. Its reason and its position say why.",
    Status.SCHEDULED: "It has a place: an allocation on an agent is its own.",
    Status.PREPARING: "The agent's image is looked at, new folders are made.",
    Status.PULLING: "The image is downloaded to the agent.",
    Status.CREATING: "The container is made and its server starts.",
    Status.RUNNING: "The server answers.",
    Status.TERMINATING: "Its container is removed, and its home unless it is hibernated.",
    Status.HIBERNATED: "It rests: its home and an image of it are kept, and it may be resumed.",
    Status.TERMINATED: "It is over: somebody ended it, or its server ended by itself.",
    Status.CANCELLED: "It is over, and never had a container.",
    Status.ERROR: "It is over, and nobody wanted that: its start failed.",
}
RESULTS: dict[Result, str] = {
    Result.SUCCESS: "It was done.",
    Result.FAILURE: "It failed, and the session with it.",
    Result.STALE: "What was found is not what was written down; it was put right.",
    Result.NEED_RETRY: "Not now; it is tried again.",
    Result.EXPIRED: "The time for it was over.",
    Result.GIVE_UP: "It was tried often enough.",
    Result.SKIPPED: "Its turn has not come, though there may be room.",
}
PHASES: dict[Phase, str] = {
    Phase.SUBMIT: "The request was taken in.",
    Phase.SCHEDULE: "A schedule pass looked at it.",
    Phase.PREPARE: "Image and folders, up to a download.",
    Phase.PULL: "The download of the image, and what is left of the folders.",
    Phase.CREATE: "The container, until the server inside answers.",
    Phase.START: "The Hub took it over, to start it on its machine.",
    Phase.TERMINATE: "Its end.",
    Phase.CANCEL: "Its end before it had a container.",
    Phase.RECONCILE: "Something that had died was found and put right.",
    Phase.KEEP: "Its owner keeps it, though idle checks would end it.",
    Phase.COMMIT: "An image is made of it.",
    Phase.HIBERNATE: "It is put to rest.",
    Phase.RESUME: "It is to run again.",
}
STEPS: dict[Step, str] = {
    Step.LIMITS: "`schedule`: quotas and machines could hold it if nothing else ran.",
    Step.DEPENDENCIES: "`schedule`: what it depends on has ended in success.",
    Step.START_TIME: "`schedule`: its start time has come.",
    Step.AGENTS: "`schedule`: a machine that can hold it answers.",
    Step.OWNER_QUOTA: "`schedule`: its owner's quota has room for it.",
    Step.PROJECT_QUOTA: "`schedule`: its project's quota has room for it.",
    Step.TURN: "`schedule`: nobody before it holds up the line of its resource group.",
    Step.PENDING_TIMEOUT: "`schedule`: it has not waited longer than its resource group allows.",
    Step.SELECT_AGENT: "`schedule`: a machine has room. The message says how it was chosen "
    "(`concentrated`, `dispersed`, `asked for`), and which.",
    Step.ALLOCATE: "`schedule`: its amounts were noted as its own.",
    Step.CLEAR_EARLIER: "`prepare`: what an earlier try left on this machine was removed.",
    Step.CHECK_IMAGE: "`prepare`: it was looked whether the image is there.",
    Step.PULL_IMAGE: "`pull`: the image was downloaded.",
    Step.MAKE_FOLDERS: "`prepare`, `pull`: new folders were made.",
    Step.PREPARE_GPUS: "`create`: its GPUs were made ready on the machine.",
    Step.CHOOSE_CORES: "`create`: cores of its own were chosen (`pin_cores`).",
    Step.CREATE_CONTAINER: "`create`: the container was made.",
    Step.COPY_FILES: "`create`: what it needs inside was put there.",
    Step.START_CONTAINER: "`create`: the container was started.",
    Step.POST_START: "`create`: `c.DockerSpawner.post_start_cmd` was run.",
    Step.SERVER_ANSWERS: "`create`: its Jupyter server came up and answered.",
    Step.STOP_CONTAINER: "`terminate`: what ran was asked to end, and killed where it did not.",
    Step.SAVE_OUTCOME: "`terminate`: what came of a batch session's command was noted.",
    Step.SAVE_LOG: "`terminate`: the log was kept.",
    Step.REMOVE_CONTAINER: "`terminate`: container and home were removed.",
}


def configuration() -> str:
    """All traits, in the order of the code."""
    traits = BackendAI.class_traits(config=True)
    order = [name for name in vars(BackendAI) if name in traits]
    order += sorted(set(traits) - set(order) - {"log"})
    parts = [_trait(name, traits[name]) for name in order]
    parts.append(
        "## Amounts\n\nWherever amounts are written, they are a dict with some of these keys.\n\n"
        + _keys(Amounts)
    )
    return "\n".join(parts)


def _trait(name: str, trait: TraitType) -> str:
    default = trait.default_value_repr()
    if name == "log":
        default = ""
    text = [f"## {name}", "", f"`c.BackendAI.{name}`: {_kind(trait)}, default `{default}`", ""]
    text.append(_markdown(dedent(str(trait.help)).strip()))
    for title, model in PARTS.get(name, []):
        text += ["", f"**{title}**", "", _keys(model)]
    return "\n".join(text) + "\n"


def _kind(trait: TraitType) -> str:
    names = {"Unicode": "text", "Int": "a whole number", "Bool": "`True` or `False`"}
    kind = type(trait).__name__
    return names.get(kind, f"a {kind.lower()}")


def _markdown(text: str) -> str:
    """A help text: a paragraph that ends in two colons begins indented code."""
    head, found, code = text.partition("::\n\n")
    if not found:
        return re.sub(r"Example: (`[^`]+`)\.", r"Example: \1", head)
    return f"{head}:\n\n```python\n{dedent(code).strip()}\n```"


def _keys(model: type[BaseModel]) -> str:
    words = KEYS[model]
    if set(words) != set(model.model_fields):
        odd = sorted(set(words) ^ set(model.model_fields))
        raise KeyError(f"{model.__name__}: say in {__file__} what {odd} is")
    rows = []
    for name, field in model.model_fields.items():
        said = words[name]
        if isinstance(said, tuple):
            said, default = said
        elif field.is_required():
            default = "**needed**"
        else:
            default = _plain(field.get_default(call_default_factory=True))
        rows.append((f"`{name}`", said, default))
    return _table(("key", "what", "default"), rows)


def _plain(value: object) -> str:
    if value in ("", (), None):
        return "–"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value!r}`"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head)]
    lines.append(["---"] * len(lines[0]))
    lines += [list(row) for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def statuses() -> str:
    """Statuses and where each may go."""
    rows = []
    for status in Status:
        after = ", ".join(s.value for s in Status if s in TRANSITIONS[status])
        holds = "yes" if status in HOLDING else "no"
        rows.append((f"`{status.value}`", MEANING[status], after or "–", holds))
    return _table(("status", "what it means", "what may follow", "holds resources"), rows)


def history() -> str:
    """Phases, results and sub-steps of a history row."""
    tables = (("phase", PHASES, Phase), ("result", RESULTS, Result), ("sub-step", STEPS, Step))
    return "\n".join(_named(*one) for one in tables)


def _named(title: str, words: Mapping, members: Iterable) -> str:
    return _table((title, "what"), [(f"`{m.value}`", words[m]) for m in members])


def reconciling() -> str:
    """The rules that are followed."""
    rows = [(rule.database, rule.others, rule.then) for rule in rules.RULES]
    return _table(("the database says", "the Hub or the engine", "then"), rows)


def calls() -> str:
    """The table of calls: the one that the service itself goes by."""
    rows = []
    for call in CALLS:
        rows.append((f"`{call.method} {call.path}`", call.says, _scope(call), call.who.value))
    return _table(("call", "what", "scope", "for whom"), rows)


def _scope(call: Call) -> str:
    return ", ".join(f"`{scope}`" for scope in call.scopes) or "–"


def metrics() -> str:
    """All metrics, under the names that queries have."""
    rows = []
    for one in CATALOGUE:
        name = f"{one.name}_total" if one.kind == "counter" else one.name
        labels = ", ".join(f"`{label}`" for label in one.labels) or "–"
        rows.append((f"`{name}`", one.kind, labels, one.says))
    return _table(("metric", "kind", "labels", "what"), rows)


# Pictures of a page, by the beginnings of their names; what each kind of them is called.
GALLERY = {
    "Sessions": ["sessions", "sessions-of-nobody", "sessions-that-ended"],
    "One session": [
        "session",
        "session-with-apps",
        "session-with-charts",
        "session-that-waits",
        "session-that-failed",
        "over-the-list-a-session",
    ],
    "History and log": ["history", "log"],
    "Launcher": [*(f"launch-{step}" for step in range(1, 6)), "launch-with-an-image"],
    "Notifications": ["over-the-list-notifications", "over-the-launcher-notifications", "notices"],
    "Ending a session": ["over-the-list-the-end", "end", "end-image-under-way"],
    "Making an image": [
        "make-an-image",
        "session-image-under-way",
        "session-image-made",
        "session-image-failed",
    ],
    "Hibernating": [
        "hibernate",
        "session-being-hibernated",
        "session-hibernated",
        "sessions-with-one-hibernated",
        "end-one-that-is-hibernated",
        "end-one-that-is-being-hibernated",
    ],
    "Images": ["images", "images-none", "delete-an-image", "delete-an-image-in-use"],
    "Apps of a session": ["apps"],
    "Agents and line": ["admin", "admin-with-apps-open"],
    "The Hub's form": [
        "form-1",
        "form-2",
        "form-5",
        "form-no-folder",
        *(f"form-with-errors-step-{step}" for step in range(1, 6)),
    ],
    "While a session starts": ["pending", "pending-failed"],
    "A session that does not run": ["not-running", "not-running-failed"],
}
KINDS = {"": "wide", "-dark": "wide, dark", "-phone": "phone", "-phone-dark": "phone, dark"}


def gallery() -> str:
    """Every page, wide and on a phone, light and dark."""
    folder = Path(__file__).parent / "images" / "pages"
    there = {path.stem for path in folder.glob("*.png")}
    told = {f"{page}{kind}" for pages in GALLERY.values() for page in pages for kind in KINDS}
    if there != told:
        raise ValueError(f"pictures that are missing or in no gallery: {sorted(there ^ told)}")
    parts = []
    for title, pages in GALLERY.items():
        parts.append(f"## {title}\n")
        for page in pages:
            for kind, words in KINDS.items():
                width = "20%" if "phone" in kind else "75%"
                parts.append(
                    f"```{{image}} ../images/pages/{page}{kind}.png\n"
                    f":alt: {page.replace('-', ' ')}, {words}\n:width: {width}\n```\n"
                )
    return "\n".join(parts)


PAGES = {
    "gallery.md": gallery,
    "configuration.md": configuration,
    "statuses.md": statuses,
    "history.md": history,
    "reconciling.md": reconciling,
    "calls.md": calls,
    "metrics.md": metrics,
}


def write(folder: Path) -> None:
    """Writes all parts; a file that would not change is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        path, text = folder / name, make()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1] if sys.argv[1:] else Path(__file__).parent / "reference/generated"))
