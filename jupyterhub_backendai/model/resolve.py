"""The one place where a request is checked against what the site offers and the user may use."""

from __future__ import annotations

from typing import Literal

from . import rules
from .amounts import auto_shm, choose_from, offered_names
from .batch import BatchChecks
from .catalog import Environment, ResourceGroup, Version
from .errors import Kind, Problem, RequestError, shown
from .images import CustomImage, is_customized
from .request import AgentFacts, Context, Folder, KnownSession, MountPoint, SessionRequest
from .spec import read_spec

__all__ = [
    "AgentFacts",
    "Context",
    "Folder",
    "KnownSession",
    "MountPoint",
    "SessionRequest",
    "auto_shm",
    "resolve",
]


def resolve(options: object, context: Context) -> SessionRequest:
    """Options from any door as a request ready for the queue.

    Raises `RequestError` with every error found, each with its field.
    """
    spec, errors = read_spec(options)
    return _Resolution(spec, errors, context).result()


class _Resolution(BatchChecks):
    """One request on its way. Each step returns its part or notes errors and returns a stand-in."""

    def result(self) -> SessionRequest:
        self.check_kind()
        self.check_name()
        self.project_name = project = self.project()
        self.check_number()
        environment, version, image = self.image()
        own = self.context.image(image)
        group = self.group(own)
        agent = self.agent(group, own)
        chosen = self.amounts(environment, version, group)
        preset, slots = chosen.preset, chosen.slots
        mounts = self.mounts()
        ports = self.ports(environment)
        work, start = self.work(), self.start()
        priority, earlier = self.priority(), self.earlier()
        if self.errors:
            raise RequestError(self.errors)
        threads = max(1, -(-slots.cpu // 1000))
        asked = self.spec.resources
        changed = preset is not None and (
            slots != preset.slots
            or asked.shm not in (None, preset.shm)
            or asked.mig_profile not in (None, preset.mig_profile)
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
            shm=chosen.shm,
            fgpu=slots.fgpu,
            gpu=slots.gpu,
            mig=slots.mig,
            mig_profile=chosen.mig_profile,
            omp_threads=self.spec.threads.omp or threads,
            openblas_threads=self.spec.threads.openblas or threads,
            mounts=mounts,
            preopen_ports=ports,
            project=project,
            priority=priority,
            batch=work,
            not_before=start,
            depends_on=earlier,
            count=self.spec.count,
        )

    def check_kind(self) -> None:
        """What a later part of the product brings is refused by name, never half done."""
        spec = self.spec
        self.check_service()
        if spec.cluster.size > 1:
            self.fail("cluster.size", "not_available", "A session has one container for now.")
        if spec.owner not in (None, self.context.user):
            self.forbid("owner", "not_owner", "You can start sessions for yourself only.")

    def check_name(self) -> None:
        name = self.spec.name
        if name is None:
            return
        for one in rules.numbered(name, self.spec.count):
            if len(one) > rules.SESSION_NAME.most:
                message = f"The last one would be {one}, which is too long. Choose a shorter name."
                self.fail("name", "too_long", message)
                break
            if one in self.context.names_in_use:
                message = f"You already have a session named {one}."
                message += " Choose another name, or leave it empty."
                self.fail("name", "in_use", message, Kind.CONFLICT)
                break

    def check_number(self) -> None:
        """Whether there may be a session at all; what is only too many now waits instead."""
        quota = self.context.policies.projects.get(self.project_name or "")
        if self.policy.max_sessions == 0:
            self.forbid("", "no_sessions", "You cannot start sessions. Ask your admin.")
        elif quota is not None and quota.max_sessions == 0:
            message = f"No sessions can be started for {self.project_name}. Ask your admin."
            self.forbid("project", "no_sessions", message)

    def project(self) -> str | None:
        wanted = self.spec.project
        if wanted is None:
            return self.default_project
        if wanted not in self.context.groups:
            self.forbid("project", "not_member", f"You are not a member of {shown(wanted)}.")
        elif wanted not in self.context.policies.projects and self.default_project is not None:
            # Else a member of a project with a quota could count for a group that has none.
            message = f"{shown(wanted)} is not a project. Leave it empty."
            self.forbid("project", "no_project", message)
        return wanted

    @property
    def default_project(self) -> str | None:
        return self.context.policies.project_of(self.context.groups)

    def image(self) -> tuple[Environment | None, Version | None, str]:
        """Environment, version and image; an image by hand only where policy allows it."""
        spec, allowed = self.spec, self.context.allowed_environments()
        if spec.image is not None:
            return self.named_image(spec.image, allowed)
        if not (self.readable("image") and self.readable("environment")):
            return None, None, ""
        if spec.environment is None:
            if not allowed:
                self.forbid("environment", "none_allowed", "There is no environment for you.")
                return None, None, ""
            environment = allowed[0]
        else:
            found = next((e for e in allowed if e.name == spec.environment), None)
            if found is None:
                self.no_environment(spec.environment, allowed)
                return None, None, ""
            environment = found
        version = environment.versions[0]
        if spec.version is not None:
            asked = environment.version(spec.version)
            if asked is None:
                self.fail("version", "unknown", choose_from(spec.version, environment.versions))
                return environment, None, ""
            version = asked
        return environment, version, version.image

    def named_image(
        self, image: str, allowed: tuple[Environment, ...]
    ) -> tuple[Environment | None, Version | None, str]:
        """An image by its name: one of an environment, or any where policy allows that."""
        known = [(e, v) for e in allowed for v in e.versions if v.image == image]
        if not known and is_customized(image) and not self.is_own(image):
            return None, None, image
        if not known:
            if not self.policy.manual_image:
                message = "You cannot name an image by hand. Choose an environment and a version."
                self.forbid("image", "not_allowed", message)
            elif self.spec.environment is not None or self.spec.version is not None:
                message = "This is no image of that environment. Leave out one or the other."
                self.fail("image", "ambiguous", message)
            return None, None, rules.with_tag(image)
        for environment, version in known:
            if self.spec.environment in (None, environment.name) and self.spec.version in (
                None,
                version.name,
            ):
                return environment, version, image
        environment, version = known[0]
        message = f"This image is {environment.name} {version.name}. Leave out one or the other."
        self.fail("image", "ambiguous", message)
        return environment, version, image

    def is_own(self, image: str) -> bool:
        """Whether an image that somebody made, and no environment has, is this user's to name. One
        answer for what is not there and what is somebody else's."""
        own = self.context.image(image)
        if own is None:
            message = "You have no image of this name. Choose one of yours, or an environment."
            self.fail("image", "unknown", message)
        elif own.environment is not None:
            message = f"It was made from {own.environment}, which is not offered to you any more."
            self.forbid("image", "withdrawn", f"{message} Choose an environment.")
            return False
        return own is not None

    def no_environment(self, wanted: str, allowed: tuple[Environment, ...]) -> None:
        if self.context.catalog.environment(wanted) is None:
            self.fail("environment", "unknown", choose_from(wanted, allowed))
        else:
            message = f"{wanted} is not for you.{offered_names(allowed)}"
            self.forbid("environment", "not_allowed", message)

    def group(self, own: CustomImage | None) -> ResourceGroup | None:
        allowed, wanted = self.context.allowed_groups(), self.spec.resource_group
        if not allowed:
            self.forbid("resource_group", "none_allowed", "There is no resource group for you.")
            return None
        if not self.readable("resource_group"):
            return None
        if own is not None and own.agent is not None:
            return self.group_of(own, allowed)
        if wanted is None:
            return allowed[0]
        found = next((g for g in allowed if g.name == wanted), None)
        if found is None:
            # One answer for a group that is not there and one that is not theirs.
            self.fail("resource_group", "unknown", choose_from(wanted, allowed))
        return found

    def group_of(
        self, own: CustomImage, allowed: tuple[ResourceGroup, ...]
    ) -> ResourceGroup | None:
        """The group of the one agent that has an image of the user's."""
        wanted = self.spec.resource_group
        agent = next((a for a in self.context.agents if a.name == own.agent), None)
        group = next((g for g in allowed if agent is not None and g.name == agent.group), None)
        if group is None:
            message = f"This image is on the agent {own.agent}, which is not there for you"
            self.fail("image", "no_agent", f"{message} any more. Choose another.")
        elif wanted not in (None, group.name):
            message = f"This image is on the agent {own.agent} of {group.name}. Choose that group."
            self.fail("resource_group", "not_there", message)
        return group

    def agent(self, group: ResourceGroup | None, own: CustomImage | None) -> str | None:
        wanted = self.spec.agent
        if own is not None and own.agent is not None:
            if wanted not in ("auto", own.agent):
                message = f"This image is on the agent {own.agent} only. Choose that, or auto."
                self.fail("agent", "not_there", message)
            return own.agent
        if wanted == "auto" or group is None:
            return None
        if not (self.policy.choose_agent and group.choose_agent):
            self.forbid("agent", "not_allowed", "The agent is chosen for you. Leave it at auto.")
        elif not any(a.name == wanted and a.group == group.name for a in self.context.agents):
            self.fail("agent", "unknown", f"{group.name} has no agent named {shown(wanted)}.")
        return wanted

    def mounts(self) -> tuple[MountPoint, ...]:
        """Folders asked for, then the user's dot-folders, which come with every session."""
        places: list[MountPoint] = []
        indices: list[int] = []  # of the places in what was asked
        seen: set[str] = set()
        for index, mount in enumerate(self.spec.mounts):
            if mount.folder and mount.folder in seen:
                message = f"{shown(mount.folder)} is there twice. Remove one."
                self.fail(f"mounts.{index}.folder", "duplicate", message)
            elif mount.folder and (place := self.mount(f"mounts.{index}", index)) is not None:
                places.append(place)
                indices.append(index)
            seen.add(mount.folder)
        own = [
            self.place(folder, rules.default_target(name), folder.permission)
            for name, folder in sorted(self.context.folders.items())
            if name.startswith(".") and folder.project is None and name not in seen
        ]
        # Those that come by themselves are first, so that a clash is an error of what was asked.
        targets = [place.target for place in (*own, *places)]
        for clash in sorted(rules.overlapping(targets)):
            if clash >= len(own):
                message = f"Another folder is at {targets[clash]} or above it. Choose another path."
                self.fail(f"mounts.{indices[clash - len(own)]}.path", "overlap", message)
        return (*places, *own)

    @staticmethod
    def place(folder: Folder, target: str, permission: Literal["ro", "rw"]) -> MountPoint:
        return MountPoint(
            folder=folder.name, project=folder.project, target=target, permission=permission
        )

    def mount(self, field: str, index: int) -> MountPoint | None:
        mount = self.spec.mounts[index]
        folder = self.context.folders.get(mount.folder)
        if not self.context.folders_enabled:
            self.fail(f"{field}.folder", "no_folders", "This Hub has no folders. Remove this.")
            return None
        new = folder is None and mount.create
        if new:
            folder = self.new_folder(f"{field}.folder", mount.folder)
            if folder is None:
                return None
        if folder is None:
            self.fail(
                f"{field}.folder",
                "unknown",
                f"You have no folder named {shown(mount.folder)}. Create it or choose another.",
            )
            return None
        if mount.permission == "rw" and folder.permission == "ro":
            self.forbid(f"{field}.permission", "read_only", f"{folder.name} is read-only for you.")
        target = rules.default_target(folder.name)
        if mount.path is not None:
            try:
                target = rules.mount_target(mount.path)
            except Problem as problem:
                self.errors.append(problem.at(f"{field}.path"))
                return None
            others = {m.folder for m in self.spec.mounts if m.folder} - {mount.folder}
            if target in {f"{rules.HOME}/{name}" for name in others}:
                message = f"{shown(mount.path)} is the name of another folder. Choose another path."
                self.fail(f"{field}.path", "taken", message)
                return None
        place = self.place(folder, target, mount.permission or folder.permission)
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
            most = self.policy.max_folders
            self.forbid(field, "too_many", f"You have {own} folders, and your limit is {most}.")
            return None
        return Folder(name=name)

    def ports(self, environment: Environment | None) -> tuple[int, ...]:
        ports, most = self.spec.preopen_ports, self.policy.max_preopen_ports
        if len(ports) > most:
            self.forbid("preopen_ports", "too_many", f"You can open at most {most} ports.")
        apps = environment.apps if environment else ()
        taken = {port: app for app in apps for port in app.ports}
        for index, port in enumerate(ports):
            if port in taken:
                message = f"Port {port} {rules.used_by(taken[port].label)}"
                self.fail(f"preopen_ports.{index}", "taken", message)
        return ports
