"""What every part of the check of a request works with: the spec, the context, the errors."""

from __future__ import annotations

from .catalog import ResourceGroup
from .errors import FieldError, Kind
from .request import AgentFacts, Context
from .slots import Slots
from .spec import SessionSpec


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

    def agents(self, group: ResourceGroup | None) -> list[AgentFacts]:
        """The agents that the session may be placed on."""
        return [
            agent
            for agent in self.context.agents
            if group is not None and agent.group == group.name
            if self.spec.agent in {"auto", agent.name}
        ]

    def machines(self, group: ResourceGroup | None) -> list[AgentFacts]:
        """Those of them that ever answered. What the others have could not be compared."""
        return [agent for agent in self.agents(group) if agent.capacity != Slots()]
