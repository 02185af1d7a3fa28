"""What people typed into a form and have not launched, kept so that an error loses nothing.

A draft belongs to whoever typed it, and to one server. The Hub makes both hard to know: it names
who looks when a form is asked for and not when one is posted, and after an error it asks the
user's default server for the form, whatever server it was for. So each form carries a signed note
of whom it was made for, and what belongs to a request is kept in that request's own context.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from ..model.errors import FieldError
from ..site.runtime import Site

KEPT = 15 * 60  # seconds that what was typed is offered again
MAX_TYPED = 256 * 1024  # characters of one form that are kept
MAX_DRAFTS = 200  # of a site; the oldest gives way
MAX_OF_ONE = 10  # of one viewer, so that nobody pushes the others' out

_WORD = secrets.token_bytes(32)  # signs what a form carries, for as long as this process lives


@dataclass(frozen=True)
class FormPage:
    """Who looks at the form of which server."""

    viewer: str
    owner: str
    server: str

    @property
    def ticket(self) -> str:
        """What the form carries, so that its post is known to be this viewer's."""
        text = "\0".join((self.viewer, self.owner, self.server))
        return hmac.new(_WORD, _bytes(text), "sha256").hexdigest() + self.viewer

    @classmethod
    def of_ticket(cls, ticket: str, owner: str, server: str) -> FormPage | None:
        """The page that a form of this server was made for; None where nothing says so."""
        page = cls(ticket[64:], owner, server)
        return page if hmac.compare_digest(_bytes(ticket), _bytes(page.ticket)) else None


def _bytes(text: str) -> bytes:
    """Any text there can be, half a character included."""
    return text.encode("utf-8", "surrogatepass")


@dataclass
class Draft:
    """A form as typed, as a spec, and what is wrong with it."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    spec: dict[str, Any] | None = None
    errors: tuple[FieldError, ...] = ()
    from_link: bool = False
    at: float = field(default_factory=time.monotonic)

    @classmethod
    def of(
        cls, form: Mapping[str, list[Any]], spec: dict[str, Any], *, from_link: bool = False
    ) -> Draft:
        """A form that was sent, or proposed by a link; too much text is not kept as typed."""
        fields = {
            str(name): [value for value in values if isinstance(value, str)]
            for name, values in form.items()
        }
        size = sum(len(v) for values in fields.values() for v in values)
        return cls(fields if size <= MAX_TYPED else {}, spec, from_link=from_link)


class Drafts:
    """The drafts of one site, the oldest first."""

    _all: WeakKeyDictionary[Site, Drafts] = WeakKeyDictionary()

    @classmethod
    def of(cls, site: Site) -> Drafts:
        """The drafts of this site."""
        return cls._all.setdefault(site, cls())

    def __init__(self) -> None:
        self._kept: dict[FormPage, Draft] = {}

    def get(self, page: FormPage) -> Draft | None:
        """What this viewer typed for this server, while it is worth showing."""
        self._drop(self._old())
        return self._kept.get(page)

    def keep(self, page: FormPage, draft: Draft) -> None:
        """Keeps `draft` in place of an earlier one of the same page."""
        self._kept.pop(page, None)
        self._kept[page] = draft
        self._drop(self._old())
        self._drop([p for p in self._kept if p.viewer == page.viewer][:-MAX_OF_ONE])
        self._drop(list(self._kept)[:-MAX_DRAFTS])

    def launched(self, owner: str, server: str) -> None:
        """This server runs: nothing to keep of it, whoever typed it."""
        self._drop([p for p in self._kept if (p.owner, p.server) == (owner, server)])

    def _old(self) -> list[FormPage]:
        since = time.monotonic() - KEPT
        return [page for page, draft in self._kept.items() if draft.at < since]

    def _drop(self, pages: list[FormPage]) -> None:
        for page in pages:
            del self._kept[page]


@dataclass
class Visit:
    """One request for, or with, the form of a spawner. A post without a good ticket has no page."""

    spawner: Any
    page: FormPage | None
    draft: Draft | None = None


VISIT: ContextVar[Visit | None] = ContextVar("backendai_visit", default=None)
