"""The one place where a request is checked against what the site offers and the user may use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict

from . import rules
from .catalog import Amounts, Catalog, Environment, Preset, ResourceGroup, Version
from .errors import FieldError, Kind, Problem, RequestError
from .policy import Policies, Policy
from .slots import GIB, MIB, SLOT_NAMES, Slots, format_bytes, format_slot
from .spec import SessionSpec, read_spec

SMALL_SHM, LARGE_SHM = 64 * MIB, 1 * GIB


class Folder(BaseModel):
    """A folder that the user may mount. `project` is None for the user's own."""

    model_config = ConfigDict(frozen=True)

    name: str
    permission: Literal["ro", "rw"] = "rw"
    project: str | None = None


class MountPoint(BaseModel):
    """A folder at its place in the container."""

    model_config = ConfigDict(frozen=True)

    folder: str
    project: str | None
    target: str
    permission: Literal["ro", "rw"]
    create: bool = False


class SessionRequest(BaseModel):
    """A spec with every choice made: what is queued and, later, run.

    Units: `cpu` and `fgpu` in thousandths, `mem` and `shm` in bytes.
    """

    model_config = ConfigDict(frozen=True)

    name: str | None
    type: Literal["interactive", "batch"]
    environment: str | None
    version: str | None
    image: str
    env: dict[str, str]
    resource_group: str
    agent: str | None
    preset: str | None
    preset_changed: bool
    cpu: int
    mem: int
    shm: int
    fgpu: int
    omp_threads: int
    openblas_threads: int
    mounts: tuple[MountPoint, ...]
    preopen_ports: tuple[int, ...]
    project: str | None
    priority: int

    @property
    def slots(self) -> Slots:
        """What the session takes of an agent."""
        return Slots(self.cpu, self.mem, self.fgpu)


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """As much of an agent as a request is checked against."""

    name: str
    group: str
    capacity: Slots


@dataclass(frozen=True)
class Context:
    """Who asks, and all that the answer depends on."""

    user: str
    groups: frozenset[str]
    admin: bool
    catalog: Catalog
    policies: Policies
    folders: Mapping[str, Folder] = field(default_factory=dict)
    names_in_use: frozenset[str] = frozenset()
    agents: tuple[AgentFacts, ...] = ()

    @property
    def policy(self) -> Policy:
        """The policy of the user who asks."""
        return self.policies.of(self.user, self.groups)

    def allowed_environments(self) -> tuple[Environment, ...]:
        """Environments this user may choose, in the order of the configuration."""
        allowed = self.policy.environments
        return tuple(e for e in self.catalog.environments if allowed is None or e.name in allowed)

    def allowed_groups(self) -> tuple[ResourceGroup, ...]:
        """Resource groups this user may launch on, in the order of the configuration."""
        allowed = self.policy.resource_groups
        return tuple(
            g
            for g in self.catalog.resource_groups
            if g.admits(self.user, self.groups) and (allowed is None or g.name in allowed)
        )


def resolve(options: object, context: Context) -> SessionRequest:
    """Options from any door as a request ready for the queue.

    Raises `RequestError` with every error found, each with its field.
    """
    spec, errors = read_spec(options)
    return _Resolution(spec, errors, context).result()


def auto_shm(mem: int, minimum: int) -> int:
    """Shared memory where nobody names it, in bytes: 1 GiB if memory is plenty, else 64 MiB.

    Source: the launcher's automatic setting (semantics of the product, resource form).
    """
    plenty = mem >= 4 * GIB and mem >= minimum + GIB
    return min(LARGE_SHM if plenty else SMALL_SHM, mem)


class _Resolution:
    """One request on its way. Each step returns its part or notes errors and returns a stand-in."""

    def __init__(self, spec: SessionSpec, errors: list[FieldError], context: Context) -> None:
        self.spec, self.errors, self.context = spec, errors, context
        self.policy = context.policy

    def fail(self, field: str, code: str, message: str, kind: Kind = Kind.INVALID) -> None:
        self.errors.append(FieldError(field, code, message, kind))

    def forbid(self, field: str, code: str, message: str) -> None:
        self.fail(field, code, message, Kind.FORBIDDEN)

    def result(self) -> SessionRequest:
        self.check_kind()
        self.check_name()
        project = self.project()
        environment, version, image = self.image()
        group = self.group()
        agent = self.agent(group)
        preset, slots, shm = self.amounts(environment, version, group)
        mounts = self.mounts()
        ports = self.ports(environment)
        if self.errors:
            raise RequestError(self.errors)
        threads = max(1, math.ceil(slots.cpu / 1000))
        changed = preset is not None and (
            slots != preset.slots or (self.spec.resources.shm not in (None, preset.shm))
        )
        return SessionRequest(
            name=self.spec.name,
            type=self.spec.type,
            environment=environment.name if environment else None,
            version=version.name if version else None,
            image=image,
            env=self.spec.env,
            resource_group=group.name if group else "",
            agent=agent,
            preset=preset.name if preset else None,
            preset_changed=changed,
            cpu=slots.cpu,
            mem=slots.mem,
            shm=shm,
            fgpu=slots.fgpu,
            omp_threads=self.spec.threads.omp or threads,
            openblas_threads=self.spec.threads.openblas or threads,
            mounts=mounts,
            preopen_ports=ports,
            project=project,
            priority=self.policy.priority,
        )

    def check_kind(self) -> None:
        """What a later part of the product brings is refused by name, never half done."""
        spec = self.spec
        if spec.type == "batch":
            self.fail("type", "not_available", "Batch sessions come soon. Choose interactive.")
        elif spec.batch is not None:
            self.fail("batch", "not_batch", "Only a batch session has a command. Remove it.")
        if spec.count > 1:
            self.fail("count", "not_available", "Start one session at a time for now.")
        if spec.cluster.size > 1:
            self.fail("cluster.size", "not_available", "A session has one container for now.")
        if spec.owner not in (None, self.context.user):
            self.forbid("owner", "not_owner", "You can start sessions for yourself only.")

    def check_name(self) -> None:
        name = self.spec.name
        if name is not None and name in self.context.names_in_use:
            self.fail(
                "name",
                "in_use",
                f"You already have a session named {name}. Choose another name, or leave it empty.",
                Kind.CONFLICT,
            )

    def project(self) -> str | None:
        wanted = self.spec.project
        if wanted is None:
            return self.context.policies.project_of(self.context.groups)
        if wanted not in self.context.groups:
            self.forbid("project", "not_member", f"You are not a member of {wanted}.")
        return wanted

    def image(self) -> tuple[Environment | None, Version | None, str]:
        """Environment, version and image; an image by hand only where policy allows it."""
        spec, allowed = self.spec, self.context.allowed_environments()
        if spec.image is not None:
            known = self.context.catalog.by_image(spec.image)
            if known and known[0] in allowed:
                return known[0], known[1], spec.image
            if not self.policy.manual_image:
                self.forbid("image", "not_allowed", "You cannot name an image. Choose one.")
            return None, None, spec.image
        if spec.environment is None:
            if not allowed:
                self.forbid("environment", "none_allowed", "There is no environment for you.")
                return None, None, ""
            environment = allowed[0]
        else:
            found = next((e for e in allowed if e.name == spec.environment), None)
            if found is None:
                self.fail("environment", "unknown", _choose(spec.environment, allowed))
                return None, None, ""
            environment = found
        version = environment.versions[0]
        if spec.version is not None:
            asked = environment.version(spec.version)
            if asked is None:
                self.fail("version", "unknown", _choose(spec.version, environment.versions))
                return environment, None, ""
            version = asked
        return environment, version, version.image

    def group(self) -> ResourceGroup | None:
        allowed, wanted = self.context.allowed_groups(), self.spec.resource_group
        if not allowed:
            self.forbid("resource_group", "none_allowed", "There is no resource group for you.")
            return None
        if wanted is None:
            return allowed[0]
        found = next((g for g in allowed if g.name == wanted), None)
        if found is None:
            # One answer for a group that is not there and one that is not theirs.
            self.fail("resource_group", "unknown", _choose(wanted, allowed))
        return found

    def agent(self, group: ResourceGroup | None) -> str | None:
        wanted = self.spec.agent
        if wanted == "auto" or group is None:
            return None
        if not (self.policy.choose_agent and group.choose_agent):
            self.forbid("agent", "not_allowed", "The agent is chosen for you. Leave it at auto.")
        elif not any(a.name == wanted and a.group == group.name for a in self.context.agents):
            self.fail("agent", "unknown", f"{group.name} has no agent named {wanted}.")
        return wanted

    def amounts(
        self, environment: Environment | None, version: Version | None, group: ResourceGroup | None
    ) -> tuple[Preset | None, Slots, int]:
        """Preset, slots and shared memory (bytes), within every bound that can be told now."""
        minimum = environment.minimum if environment else Amounts()
        preset = self.preset(minimum, group)
        asked = self.spec.resources
        base = preset.slots if preset else Slots(minimum.cpu or 1000, minimum.mem or GIB)
        slots = Slots(
            base.cpu if asked.cpu is None else asked.cpu,
            base.mem if asked.mem is None else asked.mem,
            base.fgpu if asked.fgpu is None else asked.fgpu,
        )
        shm = next(
            (
                amount
                for amount in (
                    asked.shm,
                    preset.shm if preset else None,
                    version.shm if version else None,
                    minimum.shm,
                )
                if amount is not None
            ),
            None,
        )
        if shm is None or (asked.shm is None and shm > slots.mem):
            shm = auto_shm(slots.mem, minimum.mem or 0)
        self.check_least(slots, minimum, environment)
        self.check_most(slots, shm, group)
        return preset, slots, shm

    def preset(self, minimum: Amounts, group: ResourceGroup | None) -> Preset | None:
        presets = self.context.catalog.presets_of(group.name if group else "")
        wanted = self.spec.preset
        if wanted is None:
            fitting = (p for p in presets if self.preset_fits(p, minimum, group))
            return next(fitting, None)
        found = next((p for p in presets if p.name == wanted), None)
        if found is None and group is not None:
            self.fail("preset", "unknown", _choose(wanted, presets))
        return found

    def preset_fits(self, preset: Preset, minimum: Amounts, group: ResourceGroup | None) -> bool:
        """Whether this preset could ever be granted to this user for this environment."""
        if preset.cpu < (minimum.cpu or 0) or preset.mem < (minimum.mem or 0):
            return False
        return not self.too_much(preset.slots, group)

    def check_least(self, slots: Slots, minimum: Amounts, environment: Environment | None) -> None:
        for name in SLOT_NAMES:
            least = getattr(minimum, name) or 0
            if name != "fgpu" and getattr(slots, name) <= 0 and least <= 0:
                self.fail(f"resources.{name}", "too_little", "This is more than 0.")
            elif getattr(slots, name) < least:
                label = environment.label if environment else "This image"
                self.fail(
                    f"resources.{name}",
                    "too_little",
                    f"{label} needs at least {format_slot(name, least)}.",
                )
        if slots.mem and 0 < slots.mem < 64 * MIB:
            # No Jupyter server starts in less; Docker itself refuses below 6 MB.
            self.fail("resources.mem", "too_little", "A session needs at least 64 MB of memory.")

    def check_most(self, slots: Slots, shm: int, group: ResourceGroup | None) -> None:
        for name, message, kind in self.too_much(slots, group):
            self.fail(f"resources.{name}", "too_much", message, kind)
        if shm > slots.mem:
            self.fail(
                "resources.shm",
                "too_much",
                "Shared memory is part of memory, so it cannot be more than "
                f"{format_bytes(slots.mem)}.",
            )
        for bounds in (self.policy.per_session, group.per_session if group else Amounts()):
            if bounds.shm is not None and shm > bounds.shm:
                self.forbid("resources.shm", "too_much", f"The most is {format_bytes(bounds.shm)}.")
                return

    def too_much(self, slots: Slots, group: ResourceGroup | None) -> list[tuple[str, str, Kind]]:
        """Slots that can never be granted, with a sentence that says what would be."""
        found: list[tuple[str, str, Kind]] = []
        bounds: list[tuple[Callable[[str], int | None], str, Kind]] = [
            (
                lambda n: getattr(self.policy.per_session, n),
                "Your limit for one session is {most}.",
                Kind.FORBIDDEN,
            ),
            (
                lambda n: getattr(self.policy.total, n),
                "Never fits: your limit is {most}.",
                Kind.FORBIDDEN,
            ),
        ]
        if group is not None:
            bounds.append(
                (
                    lambda n: getattr(group.per_session, n),
                    f"The limit of {group.name} for one session is {{most}}.",
                    Kind.FORBIDDEN,
                )
            )
            machines = [a.capacity for a in self.context.agents if a.group == group.name]
            if machines:
                bounds.append(
                    (
                        lambda n: max(getattr(m, n) for m in machines),
                        f"Never fits: the largest machine of {group.name} has {{most}}.",
                        Kind.INVALID,
                    )
                )
        for name in SLOT_NAMES:
            for bound, sentence, kind in bounds:
                most = bound(name)
                if most is not None and getattr(slots, name) > most:
                    if name == "fgpu" and most == 0 and kind is Kind.INVALID:
                        sentence = f"{group.name if group else 'This group'} has no GPUs."
                    found.append((name, sentence.replace("{most}", format_slot(name, most)), kind))
                    break
        return found

    def mounts(self) -> tuple[MountPoint, ...]:
        """Folders asked for, then the user's dot-folders, which come with every session."""
        places: list[MountPoint] = []
        fields: list[str] = []
        asked = {mount.folder for mount in self.spec.mounts}
        for index in range(len(self.spec.mounts)):
            place = self.mount(f"mounts.{index}", index)
            if place is not None:
                places.append(place)
                fields.append(f"mounts.{index}.path")
        for name, folder in sorted(self.context.folders.items()):
            if name.startswith(".") and folder.project is None and name not in asked:
                target = f"{rules.HOME}/{name}"
                if all(p.target != target for p in places):
                    places.append(self.place(folder, target, folder.permission))
        seen: set[str] = set()
        for index, mount in enumerate(self.spec.mounts):
            if mount.folder in seen:
                self.fail(f"mounts.{index}.folder", "duplicate", f"{mount.folder} is there twice.")
            seen.add(mount.folder)
        for index in rules.overlapping([p.target for p in places]):
            if index < len(fields):
                target = places[index].target
                self.fail(fields[index], "overlap", f"Another folder is at {target} or above it.")
        return tuple(places)

    @staticmethod
    def place(folder: Folder, target: str, permission: Literal["ro", "rw"]) -> MountPoint:
        return MountPoint(
            folder=folder.name, project=folder.project, target=target, permission=permission
        )

    def mount(self, field: str, index: int) -> MountPoint | None:
        mount = self.spec.mounts[index]
        folder = self.context.folders.get(mount.folder)
        new = folder is None and mount.create
        if new:
            folder = self.new_folder(f"{field}.folder", mount.folder)
            if folder is None:
                return None
        if folder is None:
            self.fail(
                f"{field}.folder",
                "unknown",
                f"You have no folder named {mount.folder}. Create it or choose another.",
            )
            return None
        if mount.permission == "rw" and folder.permission == "ro":
            self.forbid(f"{field}.permission", "read_only", f"{folder.name} is read-only for you.")
        others = {m.folder for m in self.spec.mounts} - {mount.folder}
        if mount.path in others:
            self.fail(f"{field}.path", "taken", f"{mount.path} is the name of another folder.")
            return None
        try:
            target = rules.mount_target(mount.path or folder.name.rsplit("/", 1)[-1])
        except Problem as problem:
            self.errors.append(problem.at(f"{field}.path"))
            return None
        place = self.place(folder, target, mount.permission)
        return place.model_copy(update={"create": True}) if new else place

    def new_folder(self, field: str, name: str) -> Folder | None:
        """The folder that will be made under this name, if it may be."""
        try:
            rules.check_folder_name(name)
        except Problem as problem:
            self.errors.append(problem.at(field))
            return None
        own = sum(1 for f in self.context.folders.values() if f.project is None)
        wanted = {
            m.folder for m in self.spec.mounts if m.create and m.folder not in self.context.folders
        }
        if own + len(wanted) > self.policy.max_folders:
            self.forbid(
                field,
                "too_many",
                f"You have {own} of {self.policy.max_folders} folders. Remove one first.",
            )
            return None
        return Folder(name=name)

    def ports(self, environment: Environment | None) -> tuple[int, ...]:
        ports, most = self.spec.preopen_ports, self.policy.max_preopen_ports
        if len(ports) > most:
            self.forbid("preopen_ports", "too_many", f"You can open at most {most} ports.")
        taken = {a.port: a for a in environment.apps if a.port} if environment else {}
        for index, port in enumerate(ports):
            if port in taken:
                app = taken[port]
                name = app.title or app.name
                self.fail(f"preopen_ports.{index}", "taken", f"Port {port} is used by {name}.")
        return ports


def _choose(
    wanted: str, offered: tuple[Environment | Version | ResourceGroup | Preset, ...]
) -> str:
    names = ", ".join(item.name for item in offered[:12])
    return f"{wanted} is not offered. Choose one of: {names}."
