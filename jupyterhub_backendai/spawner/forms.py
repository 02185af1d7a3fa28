"""What a user typed, kept until it is launched, so that an error loses nothing.

The Hub renders the form of the user's default server after an error, whatever server it was for;
so this belongs to the user, not to one server.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from ..model.errors import FieldError
from ..site.runtime import Site

KEPT = 15 * 60  # seconds that what was typed is offered again
MAX_TYPED = 256 * 1024  # characters of one form that are kept


class FormState:
    """The last form of one user: as typed, as a spec, and what is wrong with it."""

    _states: WeakKeyDictionary[Site, dict[str, FormState]] = WeakKeyDictionary()

    @classmethod
    def of(cls, site: Site, user: str) -> FormState:
        """The state of this user; made on first use."""
        states = cls._states.setdefault(site, {})
        for name in [n for n, s in states.items() if s.is_old]:
            del states[name]
        return states.setdefault(user, cls())

    def __init__(self) -> None:
        self.fields: dict[str, list[str]] = {}
        self.spec: dict[str, Any] | None = None
        self.errors: tuple[FieldError, ...] = ()
        self.from_link = False
        self._at = time.monotonic()

    @property
    def is_old(self) -> bool:
        """Whether it is too long ago to be shown again."""
        return time.monotonic() - self._at > KEPT

    def typed(self, form: Mapping[str, list[Any]], spec: dict[str, Any]) -> None:
        """A form was sent."""
        fields = {
            str(name): [value for value in values if isinstance(value, str)]
            for name, values in form.items()
        }
        size = sum(len(v) for values in fields.values() for v in values)
        self.fields = fields if size <= MAX_TYPED else {}
        self.spec, self.errors, self.from_link = spec, (), False
        self._at = time.monotonic()

    def proposed(self, form: Mapping[str, list[Any]], spec: dict[str, Any]) -> None:
        """A link was followed."""
        self.typed(form, spec)
        self.from_link = True

    def refused(self, errors: Iterable[FieldError]) -> None:
        """What was typed has these errors."""
        self.errors = tuple(errors)

    def launched(self) -> None:
        """It runs: nothing to keep."""
        self.__init__()  # type: ignore[misc]
