"""Which idle checks a session has, by all that has a say in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.idle import IdleMinimum, Keep
from ..scheduling.idle import Check, checks_of
from ..store import Session

if TYPE_CHECKING:
    from .runtime import Site


class IdleSettings:
    """What the configuration says of idle checks. `warnings`: seconds before an end, the longest
    first."""

    def __init__(self, site: Site) -> None:
        self.rules = site.configuration.idle_rules()
        self.warnings = site.configuration.warnings()
        self._catalog, self._policies = site.catalog, site.policies

    @property
    def notice(self) -> float:
        """Seconds of notice that there is at least before a session is ended."""
        return min(self.warnings, default=0.0)

    def keep(self, session: Session) -> Keep | None:
        """How long the session's owner may keep it; None: not at all."""
        return self._policies.of(session.owner, session.owner_groups).keep

    def checks(self, session: Session) -> tuple[Check, ...]:
        """All checks of a session; each is judged by itself."""
        policy = self._policies.of(session.owner, session.owner_groups)
        group = self._catalog.group(session.resource_group)
        environment = self._catalog.environment(session.request.environment or "")
        rules = [("site", self.rules), ("policy", policy.idle)]
        if group is not None:
            rules.append(("group", group.idle))
        return checks_of(
            rules,
            environment.idle_minimum if environment is not None else IdleMinimum(),
            batch=session.type == "batch",
            gpus=session.slots.gpu_slot is not None,
            keep=policy.keep,
            may_rest=policy.hibernate.most > 0,
        )
