"""What one user may choose now, as plain JSON: the options form and `GET api/options` show it.

Amounts are raw integers: cpu, fgpu, gpu and mig in thousandths, mem and shm in bytes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..model import gpu_words
from ..model.catalog import Catalog, Environment, Preset, ResourceGroup, Version
from ..model.errors import RequestError
from ..model.gpus import GpuKind
from ..model.resolve import Context, SessionRequest, resolve
from ..model.rules import HOME
from ..model.slots import SLOT_NAMES, Limits, Slots, format_bytes, format_thousandths
from ..scheduling.queue import verdicts
from ..scheduling.snapshot import Agent, Pending, Snapshot
from . import form_rules
from .gpus import FreeOf, GroupGpus

if TYPE_CHECKING:
    from .runtime import Site


async def options_view(site: Site, context: Context) -> dict[str, Any]:
    """Everything the form needs to know about what `context.user` may choose."""
    snapshot = await site.looks.now()
    return await asyncio.get_running_loop().run_in_executor(
        None, lambda: _View(context, snapshot, site.folders.enabled).as_dict()
    )


def environment_name(request: SessionRequest, catalog: Catalog) -> str:
    """The environment and its version, or the image, as a person knows them."""
    environment = catalog.environment(request.environment or "")
    name = environment.label if environment else request.environment or request.image
    if request.version and request.version != "default":
        name += f" {request.version}"
    return name


def amounts(slots: Slots, mig_profile: str | None = None) -> str:
    """Cores, memory and GPUs in a line."""
    cores = f"{format_thousandths(slots.cpu)} {'core' if slots.cpu == 1000 else 'cores'}"
    parts = [cores, format_bytes(slots.mem)]
    if (slot := slots.gpu_slot) is not None:
        profile = mig_profile if slot == "mig" else None
        parts.append(gpu_words.amount_of(slot, getattr(slots, slot), profile))
    return ", ".join(parts)


def summary(request: SessionRequest, catalog: Catalog) -> str:
    """A request in a line: what a person recognises it by."""
    parts = [environment_name(request, catalog), amounts(request.slots, request.mig_profile)]
    folders = [mount.folder for mount in request.mounts if not mount.folder.startswith(".")]
    if folders:
        parts.append(f"folder {folders[0]}" if len(folders) == 1 else f"{len(folders)} folders")
    return ", ".join(parts)


Place = tuple[str, Slots, str | None]
"""A resource group, what is asked of it, and the profile of its MIG devices."""


def _place(group: str, asked: Preset | SessionRequest) -> Place:
    return group, asked.slots, asked.mig_profile


@dataclass
class _View:
    context: Context
    snapshot: Snapshot
    folders_enabled: bool

    def as_dict(self) -> dict[str, Any]:
        context, policy = self.context, self.context.policy
        own = [f for f in context.folders.values() if f.project is None]
        return {
            "made_at": self.snapshot.now,
            "user": {
                "name": context.user,
                "admin": context.admin,
                "projects": sorted(context.groups & set(context.policies.projects)),
            },
            "environments": [_environment(e, context) for e in context.allowed_environments()],
            "manual_image": policy.manual_image,
            "resource_groups": [self.group(g) for g in context.allowed_groups()],
            "folders": [
                {
                    "name": f.name,
                    "permission": f.permission,
                    "project": f.project,
                    "auto": f.project is None and f.name.startswith("."),
                }
                for f in context.folders.values()
            ],
            "folders_enabled": self.folders_enabled,
            "folder_limit": {"most": policy.max_folders, "used": len(own)},
            "rules": form_rules.field_rules(),
            "ports": form_rules.port_rules(policy.max_preopen_ports),
            "home": HOME,
            "default": self.default(),
        }

    def used(self) -> tuple[Slots, int]:
        """What the user's live sessions hold, and how many of them there are."""
        mine = [h for h in self.snapshot.holdings if h.owner == self.context.user]
        return sum((h.slots for h in mine), Slots()), len({h.session_id for h in mine})

    def group(self, group: ResourceGroup) -> dict[str, Any]:
        agents = [a for a in self.snapshot.agents if a.group == group.name]
        free = {a.name: a.capacity for a in agents if a.takes_sessions}
        for holding in self.snapshot.holdings:
            if holding.agent in free:
                free[holding.agent] = (free[holding.agent] - holding.slots).floor()
        capacity = sum((a.capacity for a in agents if a.takes_sessions), Slots())
        policy, label = self.context.policy, group.title or group.name
        waiting = sum(1 for p in self.snapshot.pending if p.group == group.name)
        left = self.left()
        never = form_rules.ends(self.context, group)
        choose = policy.choose_agent and group.choose_agent and len(agents) > 1
        facts = [a for a in self.context.agents if a.group == group.name]
        gpus = GroupGpus(group, facts, free, self.free_of)
        has = {a.name: a.capacity for a in facts}  # what is lost now included
        presets = self.context.catalog.presets_of(group.name)

        def agent(row: Agent) -> dict[str, Any]:
            told = {
                "name": row.name,
                "available": row.available,
                "schedulable": row.schedulable,
                "capacity": has.get(row.name, row.capacity).as_dict(),
                "free": free.get(row.name, Slots()).as_dict(),
            }
            best = gpus.best(row.name)
            if best:
                told["gpus"] = {kind.profile or kind.slot: amount for kind, amount in best}
            if choose:
                own = form_rules.ends(self.context, group, row.name)
                rest = [free[row.name]] if row.name in free else []
                told |= form_rules.judged(own, left, rest, waiting, label, row.name, best)
            return told

        return {
            "name": group.name,
            "title": label,
            "description": group.description,
            "choose_agent": choose,
            "waiting": waiting,
            "agents": [agent(a) for a in agents],
            "capacity": capacity.as_dict(),
            "free": sum(free.values(), Slots()).as_dict(),
            "limits": self.limits(group, never, list(free.values())),
            "gpus": gpus.told(_ends_of(gpus.kinds, never), left, presets),
            "presets": [self.preset(p, group) for p in presets],
            "usual": form_rules.usual(self.context, group),
            **form_rules.judged(never, left, list(free.values()), waiting, label, gpus=gpus.best()),
        }

    @cached_property
    def free_of(self) -> FreeOf | None:
        """What nobody holds of each device; None where no device is known."""
        held: Counter[str] = Counter()
        for holding in self.snapshot.holdings:
            held.update(dict(holding.devices))
        return {
            agent.name: {d.uuid: max(0, d.capacity - held[d.uuid]) for d in agent.devices}
            for agent in self.snapshot.agents
            if agent.devices
        } or None

    def left(self) -> dict[str, int | None]:
        """What is left to the user of each slot; None where nothing limits it."""
        used, _ = self.used()
        limits = self.context.policy.limits.left(used)
        return {name: getattr(limits, name) for name in SLOT_NAMES}

    def limits(
        self, group: ResourceGroup, never: list[dict[str, Any]], free: list[Slots]
    ) -> dict[str, dict[str, Any]]:
        """By slot: the hard end of its slider, what is left to the user, what is free."""
        policy, left = self.context.policy, self.left()
        limits: dict[str, dict[str, Any]] = {
            name: {
                "most": _end_of(name, None, never),
                "left": left[name],
                "free": max((getattr(f, name) for f in free), default=0),
            }
            for name in SLOT_NAMES
        }
        shm = [b.shm for b in (policy.per_session, group.per_session) if b.shm is not None]
        memory = limits["mem"]["most"]
        limits["shm"] = {
            "most": min([memory, *shm]),
            "left": None,
            "free": limits["mem"]["free"],
        }
        return limits

    def preset(self, preset: Preset, group: ResourceGroup) -> dict[str, Any]:
        verdict = self.verdicts[_place(group.name, preset)]
        never = form_rules.never_fits(self.context, group, preset)
        if never and verdict["code"] != "never":
            verdict = {"code": "never", "text": never, "ahead": 0}
        return {
            "name": preset.name,
            "description": preset.description,
            **preset.slots.as_dict(),
            "mig_profile": preset.mig_profile,
            "shm": preset.shm,
            "verdict": verdict,
        }

    def default(self) -> dict[str, Any]:
        """The admin's default session for this user, and what would happen to it now."""
        request = self.default_request
        if isinstance(request, RequestError):
            text = request.errors[0].message
            return {"summary": "", "verdict": {"code": "never", "text": text, "ahead": 0}}
        return {
            "summary": summary(request, self.context.catalog),
            "verdict": self.verdicts[_place(request.resource_group, request)],
        }

    @cached_property
    def default_request(self) -> SessionRequest | RequestError:
        try:
            return resolve({}, self.context)
        except RequestError as error:
            return error

    @cached_property
    def verdicts(self) -> dict[Place, dict[str, Any]]:
        """What would happen now if the user asked, in that group, for a preset or the default."""
        asked = {
            _place(group.name, preset): None
            for group in self.context.allowed_groups()
            for preset in self.context.catalog.presets_of(group.name)
        }
        if isinstance(self.default_request, SessionRequest):
            asked[_place(self.default_request.resource_group, self.default_request)] = None
        told = verdicts(self._with_my_limits(), [self._candidate(place) for place in asked])
        return {
            place: {"code": v.code, "text": v.reason, "ahead": v.ahead}
            for place, v in zip(asked, told, strict=True)
        }

    def _candidate(self, place: Place) -> Pending:
        context, (group, slots, profile) = self.context, place
        return Pending(
            id="\uffff",  # behind everything that was submitted at the same time
            owner=context.user,
            project=context.policies.project_of(context.groups),
            group=group,
            slots=slots,
            priority=context.policy.priority,
            submitted_at=self.snapshot.now,
            profile=profile,
        )

    def _with_my_limits(self) -> Snapshot:
        """The snapshot has limits of those who hold or wait; this user may do neither yet."""
        context = self.context
        owners: Mapping[str, Limits] = {
            **self.snapshot.owner_limits,
            context.user: context.policy.limits,
        }
        projects = {
            **{name: quota.limits for name, quota in context.policies.projects.items()},
            **self.snapshot.project_limits,
        }
        return replace(self.snapshot, owner_limits=owners, project_limits=projects)


def _end_of(slot: str, profile: str | None, never: Iterable[Mapping[str, Any]]) -> int:
    ends = (e for e in never if e["slot"] == slot and e.get("profile") in {None, profile})
    return min((int(end["over"]) for end in ends), default=0)


def _ends_of(kinds: Iterable[GpuKind], never: Sequence[Mapping[str, Any]]) -> dict[GpuKind, int]:
    return {kind: _end_of(kind.slot, kind.profile, never) for kind in kinds}


def _version(version: Version, context: Context) -> dict[str, Any]:
    """A version, and of one that the user made where it is."""
    told: dict[str, Any] = {
        "name": version.name, "image": version.image, "description": version.description,
    }  # fmt: skip
    if (own := context.image(version.image)) is None:
        return told
    group = next((a.group for a in context.agents if a.name == own.agent), None)
    return {**told, "own": True, "agent": own.agent, "resource_group": group}


def _environment(environment: Environment, context: Context) -> dict[str, Any]:
    return {
        "name": environment.name,
        "title": environment.label,
        "description": environment.description,
        "icon": environment.icon,
        "versions": [_version(v, context) for v in environment.versions],
        "needs": form_rules.needs(environment),
        "apps": [{"name": a.name, "title": a.label, "ports": a.ports} for a in environment.apps],
        "closed_ports": form_rules.ports_of_apps(environment),
    }
