"""What a driver answers to one question: a value, that it cannot be asked, or an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """The driver's answer."""

    value: T


@dataclass(frozen=True, slots=True)
class NotSupported:
    """This device, driver or kernel has no such thing. `reason` is an error's name, or a phrase."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """There should be an answer and there was none. `error` is NVML's name, as `NoPermission`."""

    error: str


Answer: TypeAlias = Known[T] | NotSupported | Failed


def known(answer: Answer[T]) -> T | None:
    """The value, None for both kinds of no value."""
    return answer.value if isinstance(answer, Known) else None


def mapped(answer: Answer[T], convert: Callable[[T], R]) -> Answer[R]:
    """The same answer, of another type."""
    return Known(convert(answer.value)) if isinstance(answer, Known) else answer


def either(answer: Answer[T], other: Callable[[], Answer[T]]) -> Answer[T]:
    """`answer`, or what `other` says where it is not supported."""
    return other() if isinstance(answer, NotSupported) else answer
