"""The errors whose text a person sees: each says what happened, in which field, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


def shown(text: object, most: int = 60) -> str:
    """What somebody typed, fit to stand in a sentence or a log: short, and nothing unprintable."""
    plain = "".join(c if c.isprintable() else "?" for c in str(text)[: most + 1])
    return plain if len(plain) <= most else plain[: most - 1] + "…"


class Kind(Enum):
    """What a field error means to a client; the value is its HTTP status."""

    INVALID = 400
    FORBIDDEN = 403
    CONFLICT = 409


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing to put right: `field` is a dotted path (`resources.mem`, `mounts.0.path`),
    `code` a stable word for programs, `message` a sentence for the person who asked."""

    field: str
    code: str
    message: str
    kind: Kind = Kind.INVALID

    def as_dict(self) -> dict[str, str]:
        """The shape of one entry of `{"errors": [...]}` in our API."""
        return {"field": self.field, "code": self.code, "message": self.message}


class Problem(ValueError):
    """A value breaks one rule; whoever knows the field turns it into a `FieldError`."""

    def __init__(self, code: str, message: str, kind: Kind = Kind.INVALID) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.kind = kind

    def at(self, field: str) -> FieldError:
        """This problem as the error of `field`."""
        return FieldError(field, self.code, self.message, self.kind)


class RequestError(Exception):
    """What was asked cannot be done. Carries every error at once, never only the first."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(f"{e.field}: {e.message}" for e in self.errors))

    @property
    def status(self) -> int:
        """HTTP status: a malformed request before a conflict before what policy forbids."""
        kinds = {error.kind for error in self.errors}
        for kind in (Kind.INVALID, Kind.CONFLICT):
            if kind in kinds:
                return int(kind.value)
        return int(Kind.FORBIDDEN.value)

    def as_dict(self) -> dict[str, list[dict[str, str]]]:
        """The body that our API answers with."""
        return {"errors": [error.as_dict() for error in self.errors]}


class LaunchError(Exception):
    """A session that was accepted could not be started, or was ended before it ran.

    `reason` is one short word of a bounded set (it becomes a metrics label), `message` is
    written for the session's owner.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class ConfigurationError(Exception):
    """The configuration cannot work: names the trait, the value and the remedy."""

    def __init__(self, trait: str, value: object, problem: str, remedy: str) -> None:
        self.trait = trait
        self.value = value
        self.problem = problem
        self.remedy = remedy
        shown = repr(value)
        if len(shown) > 200:
            shown = shown[:197] + "..."
        super().__init__(f"c.{trait} = {shown}\n  {problem}\n  {remedy}")
