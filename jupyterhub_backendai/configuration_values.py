"""Reads configured values, and names the trait, the value and the remedy where one is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from .engine.docker import AgentConfig
from .engine.entries import AgentEntry
from .model.catalog import Catalog, Environment, Preset, ResourceGroup
from .model.errors import ConfigurationError
from .model.policy import Policies, Policy, Quota

T = TypeVar("T")


def wrong(trait: str, value: object, problem: str, remedy: str) -> ConfigurationError:
    """The error of a trait of `c.BackendAI`, or of a place inside one."""
    return ConfigurationError(f"BackendAI.{trait}", value, problem, remedy)


def read_as(trait: str, value: Any, shape: type[T]) -> T:
    """`value` as `shape`. Raises `ConfigurationError` with the very place that is wrong."""
    try:
        adapter: TypeAdapter[T] = _adapter(cast(Any, shape))
        return adapter.validate_python(value)
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        place = trait
        for step in first["loc"]:
            place += f"[{step}]" if isinstance(step, int) else f".{step}"
        given = first.get("input")
        problem = str(first["msg"]).removeprefix("Value error, ")
        problem = f"{problem[:1].upper()}{problem[1:].rstrip('.')}."
        if first["type"] == "missing":
            given, problem = value, f"{first['loc'][-1]!r} is missing."
        elif first["type"] == "extra_forbidden":
            problem = f"There is no key {first['loc'][-1]!r} here."
        raise wrong(
            place, given, problem, f"See the example of {trait.split('[')[0]} in the docs."
        ) from None


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    """Made once: this takes longer than what is done with it."""
    return TypeAdapter(shape)


def check_names(trait: str, names: Sequence[object]) -> None:
    """Raises `ConfigurationError` for a name that is there twice."""
    for name in names:
        if names.count(name) > 1:
            raise wrong(trait, name, "This name is there twice.", "Give each its own name.")


def check_known(trait: str, names: Iterable[str] | None, known: Sequence[str]) -> None:
    """Raises `ConfigurationError` for a name that is not among the known ones."""
    for name in sorted(names or ()):
        if name not in known:
            what = trait.rsplit(".", 1)[-1].rstrip("s").replace("_", " ")
            raise wrong(
                trait, name, f"There is no such {what}.", f"Use one of: {', '.join(known)}."
            )


def check_group(trait: str, name: str | None, groups: Sequence[ResourceGroup]) -> None:
    """Raises `ConfigurationError` for a resource group that is not configured."""
    if name is not None:
        check_known(trait, [name], [group.name for group in groups])


def read_catalog(environments: Any, presets: Any, resource_groups: Any) -> Catalog:
    """What the site offers. Raises `ConfigurationError`."""
    groups = read_as("resource_groups", resource_groups, list[ResourceGroup])
    catalog = Catalog(
        environments=tuple(read_as("environments", environments, list[Environment])),
        presets=tuple(read_as("presets", presets, list[Preset])),
        resource_groups=tuple(groups or [ResourceGroup(name="default")]),
    )
    groups = list(catalog.resource_groups)
    check_names("environments", [e.name for e in catalog.environments])
    check_names("resource_groups", [g.name for g in groups])
    check_names("presets", [(p.name, p.resource_group) for p in catalog.presets])
    for index, environment in enumerate(catalog.environments):
        check_names(f"environments[{index}].versions", [v.name for v in environment.versions])
    for index, preset in enumerate(catalog.presets):
        check_group(f"presets[{index}].resource_group", preset.resource_group, groups)
    for group in groups:
        # A request names a preset by its name alone, so inside a group it must say which.
        check_names("presets", [p.name for p in catalog.presets_of(group.name)])
    return catalog


def read_policies(
    usual: Mapping[str, Any],
    default: Mapping[str, Any],
    users: Mapping[str, Any],
    groups: Mapping[str, Any],
    projects: Mapping[str, Any],
) -> Policies:
    """All policies; `usual` is what one that does not name it has. Raises `ConfigurationError`."""

    def policy(trait: str, key: str | None, value: Any) -> Policy:
        if not isinstance(value, Mapping):
            raise wrong(trait, value, "A policy is a dict.", "Write a dict.")
        place = trait if key is None else f"{trait}[{key!r}]"
        return read_as(place, {**usual, **value}, Policy)

    return Policies(
        default=policy("default_policy", None, default),
        users={name: policy("user_policies", name, value) for name, value in users.items()},
        groups={name: policy("group_policies", name, value) for name, value in groups.items()},
        projects={
            name: read_as(f"project_quotas[{name!r}]", value, Quota)
            for name, value in projects.items()
        },
    )


def check_policies(policies: Policies, catalog: Catalog) -> None:
    """A policy that names what is not there would forbid everything without a word.

    Raises `ConfigurationError`.
    """
    environments = [e.name for e in catalog.environments] or ["default"]
    groups = [g.name for g in catalog.resource_groups]
    named = [("default_policy", policies.default)]
    named += [(f"user_policies[{name!r}]", p) for name, p in policies.users.items()]
    named += [(f"group_policies[{name!r}]", p) for name, p in policies.groups.items()]
    for trait, policy in named:
        check_known(f"{trait}.environments", policy.environments, environments)
        check_known(f"{trait}.resource_groups", policy.resource_groups, groups)


def read_agents(
    agents: Sequence[Mapping[str, Any]],
    groups: Sequence[ResourceGroup],
    local_client: Mapping[str, Any],
) -> list[AgentConfig]:
    """The agents; `local_client` reaches the one that needs no configuration.

    Raises `ConfigurationError`.
    """
    if not agents:
        return [AgentConfig("local", groups[0].name, client=local_client)]
    found = [
        _agent(f"agents[{index}]", entry, groups, local_client)
        for index, entry in enumerate(agents)
    ]
    check_names("agents", [a.name for a in found])
    return found


def _agent(
    place: str,
    given: Mapping[str, Any],
    groups: Sequence[ResourceGroup],
    local_client: Mapping[str, Any],
) -> AgentConfig:
    unknown = sorted(str(key) for key in set(given) - set(AgentEntry.model_fields))
    if unknown:
        raise wrong(
            place, given, f"There is no key {unknown[0]!r}.",
            f"Use only: {', '.join(sorted(AgentEntry.model_fields))}.",
        )  # fmt: skip
    entry = read_as(place, given, AgentEntry)
    for key in ("capacity", "reserved"):
        amounts = getattr(entry, key)
        slot = amounts.slots.gpu_slot if amounts is not None else None
        if slot is not None:
            raise wrong(
                f"{place}.{key}.{slot}", getattr(amounts, slot) / 1000,
                "GPUs are found on the machine, and are not said here.",
                "Leave it out, and say in c.BackendAI.gpus how they are offered.",
            )  # fmt: skip
    group = groups[0].name if entry.resource_group is None else entry.resource_group
    check_group(f"{place}.resource_group", group, groups)
    return entry.config(group, local_client)
