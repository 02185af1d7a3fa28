"""Reads configured values, and names the trait, the value and the remedy where one is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from .model.catalog import ResourceGroup
from .model.errors import ConfigurationError

T = TypeVar("T")


def wrong(trait: str, value: object, problem: str, remedy: str) -> ConfigurationError:
    """The error of a trait of `c.BackendAI`, or of a place inside one."""
    return ConfigurationError(f"BackendAI.{trait}", value, problem, remedy)


def read_as(trait: str, value: Any, shape: type[T]) -> T:
    """`value` as `shape`. Raises `ConfigurationError` with the very place that is wrong."""
    try:
        return TypeAdapter(shape).validate_python(value)
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
