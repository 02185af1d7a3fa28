"""What owners are warned of: that idle checks end a session, and that a hibernated one is dropped.

Each knows by itself which warning of it is due, and what it says; how it is sent is one for all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from ...model.hibernation import DROP_WARNINGS, Hibernation
from ...scheduling.idle import earliest
from ...site.runtime import Site
from ...store import Notice, NoticeKey
from ..dropping import Drops
from ..idle.views import keeps_for
from ..idle.watch import Watch
from ..idle.watched import Watched
from ..idle.words import fate, reason_ahead, what_stays
from .message import Message
from .rule import Due, due

PageOf = Callable[[str], str]


class Subject(Protocol):
    """Something that comes to an end. Its times are seconds of a clock of its own."""

    @property
    def id(self) -> str:
        """Of its session."""

    @property
    def owner(self) -> str:
        """Who is told."""

    @property
    def ends_at(self) -> float | None:
        """When; None where no end is in sight any more."""

    def look(self) -> None:
        """Has it be as it is now."""

    def due(self, notices: Collection[Notice]) -> Due | None:
        """The warning that is to be sent now; `notices` are those of it by the same channel."""

    def message(self, key: NoticeKey) -> Message | None:
        """What is told; None where there is nothing to warn of any more."""


class Ending:
    """A session that idle checks end."""

    def __init__(self, site: Site, watch: Watch, watched: Watched, page_of: PageOf) -> None:
        self._site, self._watch, self._watched, self._page_of = site, watch, watched, page_of

    @property
    def id(self) -> str:
        return self._watched.session.id

    @property
    def owner(self) -> str:
        return self._watched.session.owner

    @property
    def ends_at(self) -> float | None:
        return self._watched.ends_at

    def look(self) -> None:
        self._watch.judge(self._watched)

    def due(self, notices: Collection[Notice]) -> Due | None:
        first, now = earliest(self._watched.verdicts), self._watch.clock.now()
        if self.ends_at is None or first is None or not self._is_there:
            return None
        warnings = self._site.idle.warnings
        return due(warnings, self.ends_at, first.check.reach, now, notices)

    def message(self, key: NoticeKey) -> Message | None:
        watch, watched = self._watch, self._watched
        first, ends_at, now = earliest(watched.verdicts), watched.ends_at, watch.clock.now()
        again = self.due(())
        if ends_at is None or first is None or again is None or again.warning != key.warning:
            return None
        return Message(
            key, watched.session.name, watched.session.owner, watch.told(ends_at), ends_at - now,
            first.check.name, reason_ahead(first, watched.why_not),
            keeps_for(self._site, watched, now), self._page_of(key.session_id),
            fate(first.check, watched.why_not), what_stays(first.check, watched.why_not),
        )  # fmt: skip

    @property
    def _is_there(self) -> bool:
        return self._watch.sessions.get(self.id) is self._watched


class Dropping:
    """A hibernated session that is not kept much longer, as people are told of it."""

    def __init__(self, rest: Hibernation, name: str, drops: Drops, page_of: PageOf) -> None:
        self._rest, self._name, self._drops, self._page_of = rest, name, drops, page_of

    @property
    def id(self) -> str:
        return self._rest.session_id

    @property
    def owner(self) -> str:
        return self._rest.owner

    @property
    def ends_at(self) -> float | None:
        return None if self._rest.drop_at is None else self._rest.drop_at.timestamp()

    def look(self) -> None:
        """It changes by its owner only, who knows then."""

    def due(self, notices: Collection[Notice]) -> Due | None:
        if self.ends_at is None:
            return None
        kept = self.ends_at - self._rest.made_at.timestamp()
        return due(DROP_WARNINGS, self.ends_at, kept, self._drops.now.timestamp(), notices)

    def message(self, key: NoticeKey) -> Message | None:
        if self._rest.drop_at is None:
            return None
        left = (self._rest.drop_at - self._drops.now).total_seconds()
        return Message(
            key, self._name, self.owner, self._rest.drop_at, left, "retention",
            "It is hibernated, and is not kept any longer then.", 0.0, self._page_of(self.id),
            "dropped",
        )  # fmt: skip
