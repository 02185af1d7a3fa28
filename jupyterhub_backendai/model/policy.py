"""What a user may ask for, and what users and projects may hold together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from .catalog import Amounts, Bytes
from .configured import Model
from .hibernation import Hibernating
from .idle import IdleRules, Keep
from .slots import GIB, SLOT_NAMES, Limits


def _no_shm(total: Amounts) -> Amounts:
    if total.shm is not None:
        raise ValueError("shm is part of mem: bound it in per_session, or leave it out here")
    return total


def _limits(total: Amounts, sessions: int | None) -> Limits:
    return Limits(**{name: getattr(total, name) for name in SLOT_NAMES}, sessions=sessions)


Total = Annotated[Amounts, AfterValidator(_no_shm)]


class Policy(Model):
    """What one user may use. `total` and `max_sessions` bound all of the user's live sessions
    together (more waits); the rest bounds one request (more is refused)."""

    total: Total = Amounts()
    max_sessions: int | None = Field(default=None, ge=0)
    max_pending: int | None = Field(default=20, ge=0)
    per_session: Amounts = Amounts()
    environments: frozenset[str] | None = None
    resource_groups: frozenset[str] | None = None
    manual_image: bool = False
    choose_agent: bool = True
    max_preopen_ports: int = Field(default=10, ge=0, le=100)
    max_folders: int = Field(default=20, ge=0)
    max_images: int = Field(default=3, ge=0)
    max_image_size: Bytes | None = 20 * GIB
    priority: int = Field(default=10, ge=0, le=100)
    max_priority: int | None = Field(default=None, ge=0, le=100)
    public_apps: bool = False
    preferred_port: bool = False
    idle: IdleRules = IdleRules()
    keep: Keep | None = Keep()
    hibernate: Hibernating = Hibernating()

    @model_validator(mode="after")
    def _priority_is_within(self) -> Policy:
        if self.max_priority is not None and self.max_priority < self.priority:
            raise ValueError("max_priority cannot be less than priority, which is 10 by itself")
        return self

    @property
    def highest_priority(self) -> int:
        """The most that a user may ask for: `priority` itself unless `max_priority` is more."""
        return self.priority if self.max_priority is None else self.max_priority

    @property
    def limits(self) -> Limits:
        """The user's quota, as the schedule pass knows it."""
        return _limits(self.total, self.max_sessions)


class Quota(Model):
    """What all members of a project together may hold."""

    total: Total = Amounts()
    max_sessions: int | None = Field(default=None, ge=0)

    @property
    def limits(self) -> Limits:
        """The quota, as the schedule pass knows it."""
        return _limits(self.total, self.max_sessions)


class Policies(Model):
    """All policies of a site and which of them is a given user's."""

    default: Policy = Policy()
    users: Mapping[str, Policy] = {}
    groups: Mapping[str, Policy] = {}
    projects: Mapping[str, Quota] = {}

    def of(self, user: str, groups: Iterable[str]) -> Policy:
        """The user's own policy; else that of the first group (in the order of the configuration)
        that has one and that the user is in; else the default."""
        if user in self.users:
            return self.users[user]
        member_of = set(groups)
        for group, policy in self.groups.items():
            if group in member_of:
                return policy
        return self.default

    def project_of(self, groups: Iterable[str]) -> str | None:
        """The project a session counts for when none is named: the user's first one with a quota,
        in the order of the configuration."""
        member_of = set(groups)
        return next((p for p in self.projects if p in member_of), None)
